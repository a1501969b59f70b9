"""Blame: which values carry the excess of bad answers, with examples, from evaluations and their events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragweir.errors import ConfigurationError
from ragweir.metrics.cause.cause import FEWEST, Cause
from ragweir.metrics.cause.causes import FoundCauses, causes
from ragweir.metrics.metric import Metric
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.analysis.blame.facet_rows import FacetRows, servings
from ragweir.streams.analysis.blame.facets import APPLICATION, KINDS, NOT_HELD, OWN, PART
from ragweir.streams.analysis.blame.value_codes import MOST_FACETS, ValueCodes
from ragweir.streams.analysis.labels.criteria import Criterion, criterion
from ragweir.streams.settings import Settings

EXAMPLES = 3
"""Number of bad answers of a cause that are shown, each beside a good one."""
REST = "rest"
_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class NamedCause:
    """A cause with its names, and examples."""

    facets: Mapping[str, str]
    """The values by facet; all of them are of the same events."""
    also: tuple[tuple[str, str], ...]
    """Further values of the same facets that the same events carry."""
    numbers: Cause
    bad_examples: tuple[str, ...]
    """Ids of bad answers that carry it."""
    good_examples: tuple[str, ...]
    """Ids of good answers to compare them with, in the same order."""

    @property
    def title(self) -> str:
        """The names of the cause."""
        return ", ".join(f"{facet} {value}" for facet, value in self.facets.items())

    def data(self) -> dict[str, Any]:
        """Return the cause as JSON has it."""
        found = self.numbers
        return {
            "facets": dict(self.facets),
            **({"also": [{facet: value} for facet, value in self.also]} if self.also else {}),
            "servings": found.servings,
            "bad": found.bad,
            "risk_difference": round(found.difference, _DECIMALS),
            "low": round(found.low, _DECIMALS),
            "high": round(found.high, _DECIMALS),
            "p_adjusted": float(f"{found.p_adjusted:.6g}"),
            "excess_bad": round(found.excess_bad, 3),
            "within": found.within,
            "examples": {"bad": list(self.bad_examples), "good": list(self.good_examples)},
        }


@dataclass(frozen=True, slots=True)
class BlameReport:
    """The causes of the bad answers of a metric."""

    criterion: Criterion
    reference: str
    """`rest`, or the name of the file with which the values are compared."""
    start: datetime
    end: datetime
    """Times of the first and the last event."""
    events: int
    """Number of events on which the metric is not null."""
    bad: int
    causes: tuple[NamedCause, ...]
    enough: bool
    """False if not even a value that made all of its answers bad would be found."""
    notes: tuple[str, ...] = ()
    """Sentences on what was compared, and what was left out."""

    @property
    def words(self) -> str:
        """The difference that a cause makes, in words."""
        return "worse than the rest" if self.reference == REST else "worse than before"

    def sentence(self, place: int) -> str:
        """Return the cause at a place in words."""
        own = self.causes[place]
        holder = own.numbers.within
        within = "" if holder is None else f"within {self.causes[holder].title}, "
        found = own.numbers
        return (
            f"{within}{own.title}: {found.bad:,} of {found.servings:,} answers are bad, {found.excess_bad:,.0f} more "
            f"than expected; {self.words} by {100 * found.difference:.0f} points ({100 * found.low:.0f} to "
            f"{100 * found.high:.0f})"
        )

    def failures(self, most: int) -> list[str]:
        """Return why a check fails that allows causes with fewer bad answers in excess than a number."""
        found = [self.sentence(n) for n, each in enumerate(self.causes) if each.numbers.excess_bad >= most]
        return found if self.enough or found else [f"too little data: {'; '.join(self.notes)}"]

    def data(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "metric": self.criterion.metric,
            "threshold": self.criterion.threshold,
            "reference": self.reference,
            "from": self.start,
            "to": self.end,
            "events": self.events,
            "bad": self.bad,
            "causes": [each.data() for each in self.causes],
            "enough": self.enough,
            "notes": list(self.notes),
        }


def blame_criterion(
    metric: str, threshold: float | None, settings: Settings, catalogue: Mapping[str, Metric]
) -> Criterion:
    """Return the criterion by which answers are bad.

    Args:
        metric: the name of a metric.
        threshold: its threshold; None for that of the first SLO or question on the metric, else half of its bounds.
        settings: all settings.
        catalogue: all metrics.

    Raises:
        ConfigurationError: if there is no such metric, or no threshold follows from it.
    """
    if (found := catalogue.get(metric)) is None:
        raise ConfigurationError(f"there is no metric {metric}{nearest_hint(metric, catalogue)}")
    if threshold is not None:
        return criterion(metric, threshold, catalogue)
    for slo in settings.slo:
        if slo.metric == metric:
            suite = None if found.cost == "free" else found.group
            bound = slo.at_least if slo.at_least is not None else slo.at_most
            return Criterion(metric, float(bound or 0.0), slo.at_least is not None, suite)
    for question in settings.labels.questions:
        own = {question.metric: question.threshold, **question.also}
        if metric in own:
            return criterion(metric, own[metric], catalogue)
    low, high = found.bounds
    own_criterion = criterion(metric, 0.0, catalogue)
    if low is None or high is None:
        raise ConfigurationError(f"{metric} has no upper bound, so that --threshold is needed")
    return Criterion(metric, (low + high) / 2, own_criterion.higher_is_better, own_criterion.suite)


def blame_rows(
    criterion: Criterion, now: FacetRows, codes: ValueCodes, before: FacetRows | None = None, name: str = REST
) -> BlameReport:
    """Return the causes of bad answers.

    Args:
        criterion: the criterion by which answers are bad.
        now: the evaluations.
        codes: the numbers of the values.
        before: the evaluations with which they are compared; None to compare values with the rest.
        name: the name of that which they are compared with.
    """
    rows = servings(now, before, codes)
    held = [name for name in NOT_HELD if before is None or name == APPLICATION]
    fixed = [frozenset(KINDS.index(own) for own in held if each not in NOT_HELD[own]) for each in KINDS]
    fields = frozenset(range(KINDS.index(PART)))
    found = causes(rows, fixed, fields, has_reference=before is not None)
    examples = _Examples(now, criterion)
    named = tuple(_named(each, codes, rows.row, rows.value, examples) for each in found.causes)
    asked = now.asked()
    # Without any verdict the range is that of all events.
    times = np.asarray(now.times)[asked] if len(asked) else np.asarray(now.times)
    start, end = (datetime.fromtimestamp(float(each), UTC) for each in (times.min(), times.max()))
    bad = int(rows.bad[rows.present].sum())
    report = BlameReport(criterion, name, start, end, len(asked), bad, named, found.enough)
    return replace(report, notes=tuple(_notes(report, found, now, before, codes)))


def _named(
    cause: Cause, codes: ValueCodes, row: NDArray[np.int32], value: NDArray[np.int32], examples: _Examples
) -> NamedCause:
    facets: dict[str, str] = {}
    also = []
    for number in cause.values:
        facet, name = codes.facets[codes.facet[number]], codes.names[number] or ""
        if facet in facets:
            also.append((facet, name))
        else:
            facets[facet] = name
    carrying = row[value == cause.values[0]].astype(np.int64)
    bad, good = examples.of(carrying)
    return NamedCause(facets, tuple(also), cause, bad, good)


class _Examples:
    """Chooses bad answers of a cause, and good ones to compare them with."""

    def __init__(self, now: FacetRows, criterion: Criterion) -> None:
        self._asked = now.asked()
        self._ids = list(now.rows)
        column = now.columns()
        self._bad, self._question, self._session = column["bad"], column["text"], column["session"]
        self._stratum = np.stack([column[name] for name in ("hour", *NOT_HELD)], axis=1)
        values = np.asarray(now.values[0])[self._asked]
        self._badness = -values if criterion.higher_is_better else values

    def of(self, carrying: NDArray[np.int64]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return ids of the worst answers that carry a value, and of good ones without it.

        A good one answers the same question, by its id or its words, or else is of the same application, version and
        hour.
        """
        carrying = carrying[carrying < len(self._asked)]
        without = ~self._bad
        without[carrying] = False
        own = carrying[self._bad[carrying]]
        own = own[np.argsort(-self._badness[own], kind="stable")]
        bad: list[int] = []
        good: list[int] = []
        for place in own.tolist():
            if len(bad) == EXAMPLES:
                break
            if self._session[place] >= 0 and any(self._session[place] == self._session[each] for each in bad):
                continue
            bad.append(place)
            if (other := self._beside(place, without)) is not None:
                without[other] = False
                good.append(other)
        return self._named(bad), self._named(good)

    def _beside(self, place: int, without: NDArray[np.bool_]) -> int | None:
        asked = without & (self._question == self._question[place]) & (self._question >= 0)
        if asked.any():
            return int(np.argmax(asked))
        alike = without & (self._stratum == self._stratum[place]).all(axis=1)
        found = alike if alike.any() else without
        return int(np.argmin(np.where(found, self._badness, np.inf))) if found.any() else None

    def _named(self, places: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._ids[self._asked[each]] for each in places)


def _notes(
    report: BlameReport, found: FoundCauses, now: FacetRows, before: FacetRows | None, codes: ValueCodes
) -> list[str]:
    """Return sentences on what was compared, and what was left out."""
    metric, others = report.criterion.metric, len(now) - report.events
    lacking = sorted(before.unknown) if before is not None else []
    differs = 0 < report.bad < report.events
    said = {
        f"{others:,} evaluations have no {metric}, and are left out": others,
        f"no evaluation has {metric}": not report.events,
        "every answer is bad, so that none is worse than the others": report.events and report.bad == report.events,
        "no answer is bad": report.events and not report.bad,
        f"too little data: a value needs {FEWEST} answers, others of the same application, version and hour to compare "
        "them with, and several sessions and questions": (differs or not report.bad) and not report.enough,
        f"{found.tested:,} values with {FEWEST} answers or more were tested, {found.significant:,} of them "
        f"{report.words}": True,
        f"no evaluation of {report.reference} has {metric}": before is not None and not len(before.asked()),
        f"{now.lacking_events:,} evaluations have no event in the file of events": now.with_events
        and now.lacking_events,
        f"the events of {report.reference} are not in the file of events, so that {', '.join(lacking)} is not "
        "compared": now.with_events and lacking,
        f"facets after the first {MOST_FACETS}, such as further labels, are left out": codes.full,
        f"{100 * codes.share:.3g} % of the documents, chunks and labels were tested, chosen by hash "
        "(blame.max_documents)": codes.share < 1,
    }
    return [sentence for sentence, holds in said.items() if holds]


def new_codes(settings: Settings) -> ValueCodes:
    """Return numbers of values, within the limit of the settings."""
    return ValueCodes(settings.blame.max_documents, frozenset(OWN))
