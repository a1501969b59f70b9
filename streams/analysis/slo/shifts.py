"""Rehearsal of the alert on shifts: when `RagweirQualityShifted` would have fired on past events.

Sums, baselines and evidence are those of `export`: each day is tested with the seven days before it, against the three
weeks before these. Metrics of a judge are left out. Evaluations may come in any order; memory grows with the
days, of which the last 400 are kept, not with the evaluations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from ragweir.metrics.shift.baseline import FEWEST_DAYS
from ragweir.metrics.shift.contributions import ShiftMetrics
from ragweir.metrics.shift.history import DAY_S, TESTED_DAYS, PastDay, ShiftHistory
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.evaluation_record import EvaluationRecord

ALERT = "RagweirQualityShifted"
LEAST_DAYS = FEWEST_DAYS + TESTED_DAYS
"""Number of days before the first one that is tested."""
_STEP_S = 60
_TIME = "%Y-%m-%d %H:%M"


@dataclass(frozen=True, slots=True)
class ShiftFiring:
    """A period in which the alert would have fired for one metric."""

    application: str
    metric: str
    start: datetime
    end: datetime
    began: datetime
    """Most probable begin of the shift, as it was known at the end of the first day."""
    rose: bool
    """True if the mean has risen, false if it has fallen."""
    baseline: float
    """Mean of the baseline."""


@dataclass(frozen=True, slots=True)
class ShiftRehearsal:
    """The rehearsal of the alert on the metrics with bounds that are not judged."""

    days: int
    """Number of days with events of the application that has most of them."""
    tested: int
    """Number of days of applications on which a metric was tested."""
    firings: tuple[ShiftFiring, ...]
    """By their starts."""

    @property
    def sentences(self) -> Iterator[str]:
        """Yield the firings as sentences, or why there are none."""
        if not self.tested:
            yield (
                f"{ALERT} was not tried: that takes more than {LEAST_DAYS} days with events of an application, and "
                f"these are {self.days}."
            )
        elif not self.firings:
            yield f"{ALERT} would have been quiet on the last {self.tested} days."
        for each in self.firings:
            of = f" of {each.application}" if each.application else ""
            went = "risen above" if each.rose else "fallen below"
            yield (
                f"{ALERT} for a shift of {each.metric}{of}: {went} {each.baseline:.3g}, from {each.start:{_TIME}} to "
                f"{each.end:{_TIME}}; it began most probably at {each.began:{_TIME}}."
            )


class ShiftCounter:
    """Sums evaluations by minute and application, and tests the sums.

    Args:
        metrics: the metrics that are tested; those of a judge are left out.
        max_applications: maximum number of applications; others are left out.
        now: the present time; events after it have wrong clocks, and are left out.
    """

    def __init__(self, metrics: ShiftMetrics, max_applications: int, now: datetime) -> None:
        self._metrics, self._most, self._now = metrics, max_applications, now
        self._histories: dict[str, ShiftHistory] = {}

    def add(self, evaluation: Evaluation | EvaluationRecord) -> None:
        """Count one evaluation; a judged one repeats the scores of another."""
        if evaluation.stage == "judged" or evaluation.event_time > self._now:
            return
        application = evaluation.application or ""
        if application not in self._histories and len(self._histories) < self._most:
            self._histories[application] = ShiftHistory(self._metrics.bounds, _STEP_S, keeps_all=True)
        if application in self._histories:
            start_s = int(evaluation.event_time.timestamp()) // _STEP_S * _STEP_S
            self._histories[application].add(start_s, *self._metrics.of_event(evaluation.scores))

    def rehearse(self) -> ShiftRehearsal:
        """Test each day that has enough days before it."""
        series = len(self._histories) * len(self._metrics.bounds)
        tested: set[tuple[str, int]] = set()
        firings: list[ShiftFiring] = []
        for application, history in self._histories.items():
            for metric in self._metrics.bounds:
                days = {day: own for day in history.days if (own := history.past_day(metric, day, series))}
                tested.update((application, day) for day in days)
                firings += _firings(application, metric, self._metrics.bounds[metric], days)
        return ShiftRehearsal(
            max((len(history.days) for history in self._histories.values()), default=0),
            len(tested),
            tuple(sorted(firings, key=lambda each: (each.start, each.application, each.metric))),
        )


def _firings(
    application: str, metric: str, bounds: tuple[float, float], days: dict[int, PastDay]
) -> Iterator[ShiftFiring]:
    """Yield the periods with an alarm; one that goes on the next day is one period."""
    if not days:
        return
    first, a_day = min(days), DAY_S // _STEP_S
    steps = (max(days) - first + 1) * a_day
    signs = np.zeros(steps + 2)
    for day, own in days.items():
        place = (day - first) * a_day + 1
        signs[place : place + a_day] = np.where(np.abs(own.relative) >= 1, np.sign(own.relative), 0)
    edges = np.flatnonzero(np.diff(signs))
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if signs[start + 1]:
            own = days[first + start // a_day]
            yield ShiftFiring(
                application,
                metric,
                _time(first * DAY_S + (start + 1) * _STEP_S),
                _time(first * DAY_S + min(end + 1, steps) * _STEP_S),
                _time(own.start_s),
                bool(signs[start + 1] > 0),
                bounds[0] + (bounds[1] - bounds[0]) * own.baseline.mean,
            )


def _time(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)
