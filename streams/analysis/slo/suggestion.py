"""Suggestion of objectives: how strict an SLO could be on past events, and how often it would have paged.

The share of bad events has an interval that knows clusters: events of one session, or of one question, are alike, so
that they say less than as many independent events. Each cluster belongs to one of 1,024 groups, and the interval rests
on the differences between groups (the method of random groups; Wolter, Introduction to Variance Estimation, 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor, isfinite, log10, sqrt
from zlib import crc32

import numpy as np

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.evaluation_record import EvaluationRecord
from ragweir.streams.analysis.slo.burns import FAST
from ragweir.streams.analysis.slo.counting import SloCounter, minute_of
from ragweir.streams.analysis.slo.minutes import Floats
from ragweir.streams.analysis.slo.periods import ActivePeriod, active_periods
from ragweir.streams.services.aggregate.objectives import Objective
from ragweir.streams.settings import Slo, WindowSettings

OBJECTIVES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
"""Objectives that are tried."""
_GROUPS = 1024
_NORMAL_95 = 1.959964
_DIGITS = 2
"""Digits of a bound that is suggested."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One objective on the past."""

    objective: float
    pages: int
    """Number of times that the page would have begun to fire."""
    paged: float
    """Share of the time from the first event to the last in which it would have fired."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The trials of one SLO."""

    slo: Slo
    """Has the suggested objective, or the lowest one if none is suggested."""
    events: int
    """Good and bad events; of a judged metric the judged ones."""
    share: float
    """Share of bad events; of a judged metric the estimate for all events."""
    low: float
    """Limits of its 95 % interval."""
    high: float
    trials: tuple[Trial, ...]
    is_suggested: bool
    """True if the past would have met some objective without a page."""


@dataclass(slots=True)
class Clusters:
    """Sums of bad events and of all known ones by group of clusters, with their weights."""

    bad: Floats = field(default_factory=lambda: np.zeros(_GROUPS))
    known: Floats = field(default_factory=lambda: np.zeros(_GROUPS))

    def add(self, evaluation: Evaluation | EvaluationRecord, weight: float, *, bad: bool) -> None:
        """Add an event, in the cluster of its session, else of its question, else in one of its own."""
        cluster = evaluation.session_id or evaluation.question_id or evaluation.event_id
        group = crc32(cluster.encode(errors="surrogatepass")) % _GROUPS
        self.known[group] += weight
        self.bad[group] += weight * bad

    def interval(self) -> tuple[float, float, float]:
        """Return the share of bad events and the limits of its 95 % interval.

        They are Wilson's for the number of independent events that say as much.

        >>> one = Clusters(np.array([1.0, 0.0] * 50), np.ones(100))
        >>> [round(each, 3) for each in one.interval()], [round(each, 3) for each in Clusters().interval()]
        ([0.5, 0.403, 0.597], [0.0, 0.0, 1.0])
        """
        total, used = self.known.sum(), int((self.known > 0).sum())
        if not used:
            return 0.0, 0.0, 1.0
        share = float(self.bad.sum() / total)
        residuals = self.bad - share * self.known
        variance = float((residuals**2).sum() / total**2) * used / max(1, used - 1)
        # Where all or none are bad there is no difference between groups, and each counts as one event.
        events = share * (1 - share) / variance if variance > 0 else float(used)
        z2 = _NORMAL_95**2
        middle = (share + z2 / (2 * events)) / (1 + z2 / events)
        half = _NORMAL_95 / (1 + z2 / events) * sqrt(share * (1 - share) / events + z2 / (4 * events**2))
        return share, max(0.0, middle - half), min(1.0, middle + half)


def bound(scores: Sequence[float], objective: float, *, at_least: bool) -> float:
    """Return the bound that so many scores meet, rounded so that no fewer do.

    >>> bound([0.1 * number for number in range(101)], 0.95, at_least=False), bound([0.123], 0.95, at_least=True)
    (9.5, 0.12)
    """
    found = float(np.quantile([each for each in scores if isfinite(each)], 1 - objective if at_least else objective))
    step = 10.0 ** (floor(log10(abs(found))) - _DIGITS + 1) if found else 1.0
    tolerance = 1e-9
    steps = floor(found / step + tolerance) if at_least else -floor(-found / step + tolerance)
    return float(f"{steps * step:.{_DIGITS}g}")


def suggest(counter: SloCounter, clusters: Sequence[Clusters]) -> list[Suggestion]:
    """Try all objectives on the counted events.

    Args:
        counter: has counted the events of SLOs, whose objectives are ignored.
        clusters: the events of each SLO by cluster.
    """
    if counter.first is None or counter.last is None:
        return []
    span = range(minute_of(counter.first), minute_of(counter.last) + 1)
    found = []
    for place, (slo, own) in enumerate(zip(counter.slos, clusters, strict=True)):
        counts = counter.counts(place)
        periods = list(active_periods(counts, counter.weights(place), span.stop))
        share, low, high = own.interval()
        trials = tuple(_trial(objective, periods, len(span)) for objective in OBJECTIVES)
        met = [each.objective for each in trials if not each.pages and high <= 1 - each.objective]
        chosen = slo.model_copy(update={"objective": max(met, default=OBJECTIVES[0])})
        found.append(Suggestion(chosen, int(counts.events.sum()), share, low, high, trials, bool(met)))
    return found


def _trial(objective: float, periods: Sequence[ActivePeriod], minutes: int) -> Trial:
    pages = fired = 0
    for period in periods:
        firing = period.firing(FAST, FAST.threshold(objective))
        pages += int(firing[:1].sum() + (firing[1:] & ~firing[:-1]).sum())
        fired += int(firing.sum())
    return Trial(objective, pages, fired / minutes)


class History:
    """Counts past events for suggestions.

    Args:
        slos: the SLOs, whose objectives are ignored.
        windows: settings that limit label values.
        aggregator: knows which metrics are judged.
    """

    def __init__(self, slos: Sequence[Slo], windows: WindowSettings, aggregator: Aggregator) -> None:
        self.counter = SloCounter(slos, (), windows, aggregator)
        self._objectives = [Objective.of(slo, aggregator) for slo in slos]
        self._clusters = [Clusters() for _ in slos]

    def add(self, evaluation: Evaluation | EvaluationRecord) -> None:
        """Count one evaluation."""
        self.counter.add(evaluation)
        judged = evaluation.stage == "judged"
        decisions = [(each.suite, each.status, each.probability) for each in evaluation.decision.suites]
        for objective, own in zip(self._objectives, self._clusters, strict=True):
            score = evaluation.scores.get(objective.slo.metric)
            found = objective.outcome(score, decisions, judged=judged, undefined=evaluation.undefined)
            if found is not None and found[0] in ("good", "bad") and objective.covers(evaluation):
                own.add(evaluation, found[1], bad=found[0] == "bad")

    def suggestions(self) -> list[Suggestion]:
        """Return the suggestions of all SLOs."""
        return suggest(self.counter, self._clusters)
