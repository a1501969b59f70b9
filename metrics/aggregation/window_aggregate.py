"""The aggregate of a window, which can be merged over parts, partitions and smaller windows in any order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ragweir.metrics.aggregation import estimate, selection
from ragweir.metrics.aggregation.estimate import Estimate, parse_estimate_name
from ragweir.metrics.aggregation.selection import Chance
from ragweir.metrics.aggregation.summary import (
    DEFAULT_SCHEME,
    Scheme,
    Summary,
    counts_since,
    from_record,
    growth,
    to_record,
)
from ragweir.schemas.window import EstimateResult
from ragweir.schemas.window_record import EstimateRecord, WindowRecord

Counts = dict[str, dict[str, int]]
T = TypeVar("T", Chance, Estimate, Summary)
M = TypeVar("M", Estimate, Summary)


def _add(into: Counts, other: Mapping[str, Mapping[str, int]]) -> None:
    for name, counts in other.items():
        own = into.setdefault(name, {})
        for label, count in counts.items():
            own[label] = own.get(label, 0) + count


def _counts_since(now: Counts, earlier: Counts) -> Counts:
    grown = {name: counts_since(now.get(name, {}), earlier.get(name, {})) for name in now.keys() | earlier.keys()}
    return {name: counts for name, counts in grown.items() if counts}


def _since(now: Mapping[str, T], earlier: Mapping[str, T]) -> dict[str, T]:
    if gone := earlier.keys() - now.keys():
        raise ValueError(f"{min(gone)} is in an earlier state only")
    return {name: each.since(earlier[name]) if name in earlier else each for name, each in now.items()}


def _merge(into: dict[str, M], other: Mapping[str, M]) -> None:
    for name, part in other.items():
        if name in into:
            into[name].merge(part)
        else:
            into[name] = part.copy()


def _scheme_named(name: str) -> Scheme:
    """Return the scheme of a summary's record; of the logarithmic ones, which differ in resolution, the default one."""
    form, *bounds = name.split(":")
    scale, square_scale = DEFAULT_SCHEME.scale, DEFAULT_SCHEME.square_scale
    return (
        Scheme(float(bounds[0]), float(bounds[1]), scale, square_scale)
        if form == "linear" and len(bounds) > 1
        else DEFAULT_SCHEME
    )


def _estimate(name: str, record: EstimateRecord, schemes: Mapping[str, Scheme]) -> Estimate:
    metric, label = parse_estimate_name(name)
    own = schemes.get(metric, DEFAULT_SCHEME)
    if label or own.low is None or own.high is None:
        return estimate.from_record(record, 0.0, 1.0)
    return estimate.from_record(record, own.low, own.high)


@dataclass(slots=True)
class WindowAggregate:
    """The aggregate of a set of evaluations. The empty one is the identity of `merge`.

    >>> one = WindowAggregate(events=2)
    >>> other = WindowAggregate(events=3, categories={"recall_warning": {"HIT_RETRIEVAL_LIMIT": 1}})
    >>> one.merge(other)
    >>> one.events, one.categories
    (5, {'recall_warning': {'HIT_RETRIEVAL_LIMIT': 1}})
    """

    events: int = 0
    late: int = 0
    metrics: dict[str, Summary] = field(default_factory=dict)
    categories: Counts = field(default_factory=dict)
    decisions: Counts = field(default_factory=dict)
    versions: set[str] = field(default_factory=set)
    chances: dict[str, Chance] = field(default_factory=dict)
    """Selection probabilities by suite."""
    estimates: dict[str, Estimate] = field(default_factory=dict)
    """Estimates by judged metric, and by label of judged categories."""

    def merge(self, other: WindowAggregate) -> None:
        """Add another aggregate.

        Raises:
            ValueError: if a metric was summarised by another scheme, or estimated by another suite.
        """
        self.events += other.events
        self.late += other.late
        _merge(self.metrics, other.metrics)
        _add(self.categories, other.categories)
        _add(self.decisions, other.decisions)
        self.versions |= other.versions
        for suite, chance in other.chances.items():
            self.chances[suite] = chance.merged(self.chances.get(suite, Chance()))
        _merge(self.estimates, other.estimates)

    def since(self, earlier: WindowAggregate) -> WindowAggregate:
        """Return the growth of this aggregate over an earlier state; merged into that state, it gives this aggregate.

        >>> before = WindowAggregate(events=2)
        >>> now = WindowAggregate(events=5, categories={"answer_class": {"WRONG": 1}})
        >>> before.merge(now.since(before))
        >>> before == now
        True

        Raises:
            ValueError: if it is not an earlier state of this one.
        """
        return WindowAggregate(
            growth(self.events, earlier.events),
            growth(self.late, earlier.late),
            {name: grown for name, grown in _since(self.metrics, earlier.metrics).items() if grown.count},
            _counts_since(self.categories, earlier.categories),
            _counts_since(self.decisions, earlier.decisions),
            set(self.versions),
            _since(self.chances, earlier.chances),
            {
                name: grown
                for name, grown in _since(self.estimates, earlier.estimates).items()
                if grown.count or grown.undefined.count or name not in earlier.estimates
            },
        )

    def results(self) -> dict[str, EstimateResult]:
        """Return the results of the estimates, by name, without those of metrics that are defined for no event."""
        found = {
            name: own.result(self.decisions.get(own.subject.suite, {}), self.chances.get(own.subject.suite, Chance()))
            for name, own in self.estimates.items()
        }
        return {name: result for name, result in found.items() if self.estimates[name].count or result.unanswered}

    def fields(self, *, whole: bool = False) -> dict[str, Any]:
        """Return the fields of a window's record, with sorted names, so that equal aggregates give equal records.

        Args:
            whole: True if this is the aggregate of the whole window, whose record has the results of estimates.
        """
        results = self.results() if whole else {}
        return {
            "events": self.events,
            "late": self.late,
            "metrics": {name: to_record(self.metrics[name]) for name in sorted(self.metrics)},
            "categories": {name: dict(sorted(self.categories[name].items())) for name in sorted(self.categories)},
            "decisions": {name: dict(sorted(self.decisions[name].items())) for name in sorted(self.decisions)},
            "chances": {suite: selection.to_record(self.chances[suite]) for suite in sorted(self.chances)},
            "estimates": {
                name: estimate.to_record(self.estimates[name], results.get(name)) for name in sorted(self.estimates)
            },
            "catalogue_versions": tuple(sorted(self.versions)),
        }


@dataclass(frozen=True, slots=True)
class WindowDecoder:
    """Decodes records of windows. All aggregates of one decoder can be merged."""

    schemes: dict[str, Scheme]
    """Schemes by metric; for others, such as those of a pack that is not loaded, the scheme of the first record."""
    suites: dict[str, str]
    """Suites by estimate; for others, the suite of the first record."""

    def decode(self, window: WindowRecord) -> WindowAggregate:
        """Return the aggregate of a record.

        Raises:
            ValueError: if a metric was summarised by another scheme or estimated by another suite, or sums are
                inconsistent.
        """
        for name, sums in window.estimates.items():
            if self.suites.setdefault(name, sums.suite) != sums.suite:
                raise ValueError(f"{name} is estimated by another suite")
        for name, record in window.metrics.items():
            if name not in self.schemes:
                self.schemes[name] = _scheme_named(record.histogram.scheme)
        return WindowAggregate(
            window.events,
            window.late,
            {name: from_record(each, self.schemes[name]) for name, each in window.metrics.items()},
            {name: dict(counts) for name, counts in window.categories.items()},
            {name: dict(counts) for name, counts in window.decisions.items()},
            set(window.catalogue_versions),
            {suite: selection.from_record(chance) for suite, chance in window.chances.items()},
            {name: _estimate(name, record, self.schemes) for name, record in window.estimates.items()},
        )


def merged(parts: Iterable[WindowAggregate]) -> WindowAggregate:
    """Return the aggregate of all parts, which are not changed."""
    total = WindowAggregate()
    for part in parts:
        total.merge(part)
    return total
