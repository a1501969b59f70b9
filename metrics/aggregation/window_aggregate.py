"""What a window holds: mergeable over parts, partitions and smaller windows, in any order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ragweir.metrics.aggregation import estimate
from ragweir.metrics.aggregation.estimate import Chance, Estimate, metric_and_label
from ragweir.metrics.aggregation.summary import DEFAULT_SCHEME, Scheme, Summary, counts_since, growth, read, written
from ragweir.schemas.window import EstimateResult, EstimateSums, Window

Counts = dict[str, dict[str, int]]
T = TypeVar("T", Chance, Estimate, Summary)


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


def _estimate(name: str, record: EstimateSums, schemes: Mapping[str, Scheme]) -> Estimate:
    metric, label = metric_and_label(name)
    own = schemes.get(metric, DEFAULT_SCHEME)
    if label or own.low is None or own.high is None:
        return estimate.read(record, 0.0, 1.0)
    return estimate.read(record, own.low, own.high)


@dataclass(slots=True)
class WindowAggregate:
    """Totals of a set of evaluations. Empty contents are the identity of `merge`.

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
    """By suite."""
    estimates: dict[str, Estimate] = field(default_factory=dict)
    """By judged metric, and by label of the judged categories."""

    def merge(self, other: WindowAggregate) -> None:
        """Take other contents in.

        Raises:
            ValueError: if a metric was summarised by another scheme, or estimated by another suite.
        """
        self.events += other.events
        self.late += other.late
        for name, summary in other.metrics.items():
            own = self.metrics.get(name)
            if own is None:
                self.metrics[name] = summary.copy()
            else:
                own.merge(summary)
        _add(self.categories, other.categories)
        _add(self.decisions, other.decisions)
        self.versions |= other.versions
        for suite, chance in other.chances.items():
            self.chances[suite] = chance.merged(self.chances.get(suite, Chance()))
        for name, part in other.estimates.items():
            whole = self.estimates.get(name)
            if whole is None:
                self.estimates[name] = part.copy()
            else:
                whole.merge(part)

    def since(self, earlier: WindowAggregate) -> WindowAggregate:
        """Return the growth of these contents over an earlier state of them.

        Merged into whatever holds that earlier state, it gives what holds these contents.

        >>> before = WindowAggregate(events=2)
        >>> now = WindowAggregate(events=5, categories={"answer_class": {"WRONG": 1}})
        >>> before.merge(now.since(before))
        >>> before == now
        True

        Raises:
            ValueError: if it is not an earlier state of these.
        """
        return WindowAggregate(
            growth(self.events, earlier.events),
            growth(self.late, earlier.late),
            {name: grown for name, grown in _since(self.metrics, earlier.metrics).items() if grown.count},
            _counts_since(self.categories, earlier.categories),
            _counts_since(self.decisions, earlier.decisions),
            set(self.versions),
            _since(self.chances, earlier.chances),
            {name: grown for name, grown in _since(self.estimates, earlier.estimates).items() if grown.count},
        )

    def results(self) -> dict[str, EstimateResult]:
        """What the estimates come to, by their names."""
        return {
            name: own.result(self.decisions.get(own.subject.suite, {}), self.chances.get(own.subject.suite, Chance()))
            for name, own in self.estimates.items()
        }

    def fields(self, *, whole: bool = False) -> dict[str, Any]:
        """The fields of a window's record that these contents give, names sorted so that equal contents look equal.

        Args:
            whole: whether these are all contents of the window, so that what estimates come to can be said.
        """
        results = self.results() if whole else {}
        return {
            "events": self.events,
            "late": self.late,
            "metrics": {name: written(self.metrics[name]) for name in sorted(self.metrics)},
            "categories": {name: dict(sorted(self.categories[name].items())) for name in sorted(self.categories)},
            "decisions": {name: dict(sorted(self.decisions[name].items())) for name in sorted(self.decisions)},
            "chances": {suite: self.chances[suite]._asdict() for suite in sorted(self.chances)},
            "estimates": {
                name: estimate.written(self.estimates[name], results.get(name)) for name in sorted(self.estimates)
            },
            "catalogue_versions": tuple(sorted(self.versions)),
        }


@dataclass(frozen=True, slots=True)
class WindowDecoder:
    """Reads the contents of records, so that all that one of them has read can be merged."""

    schemes: Mapping[str, Scheme]
    """Of metrics; others have the default one."""
    suites: dict[str, str]
    """By estimate; of those that are not in it the suite is the one that is met first."""

    def contents(self, window: Window) -> WindowAggregate:
        """What a record says.

        Raises:
            ValueError: if a metric was summarised by another scheme or estimated by another suite, or sums do not fit
                together.
        """
        for name, sums in window.estimates.items():
            if self.suites.setdefault(name, sums.suite) != sums.suite:
                raise ValueError(f"{name} is estimated by another suite")
        return WindowAggregate(
            window.events,
            window.late,
            {name: read(record, self.schemes.get(name, DEFAULT_SCHEME)) for name, record in window.metrics.items()},
            {name: dict(counts) for name, counts in window.categories.items()},
            {name: dict(counts) for name, counts in window.decisions.items()},
            set(window.catalogue_versions),
            {suite: Chance(chance.least, chance.none) for suite, chance in window.chances.items()},
            {name: _estimate(name, record, self.schemes) for name, record in window.estimates.items()},
        )


def merged(parts: Iterable[WindowAggregate]) -> WindowAggregate:
    """All parts together; they stay as they are."""
    total = WindowAggregate()
    for part in parts:
        total.merge(part)
    return total
