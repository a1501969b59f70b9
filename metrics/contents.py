"""What a window holds: mergeable over parts, partitions and smaller windows, in any order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from metrics.summary import DEFAULT_SCHEME, Scheme, Summary, read, written
from schemas.window import Window

Counts = dict[str, dict[str, int]]


def _add(into: Counts, other: Mapping[str, Mapping[str, int]]) -> None:
    for name, counts in other.items():
        own = into.setdefault(name, {})
        for label, count in counts.items():
            own[label] = own.get(label, 0) + count


@dataclass(slots=True)
class Contents:
    """Totals of a set of evaluations. Empty contents are the identity of `merge`.

    >>> one, other = Contents(events=2), Contents(events=3, categories={"recall_warning": {"HIT_RETRIEVAL_LIMIT": 1}})
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

    def merge(self, other: Contents) -> None:
        """Take other contents in.

        Raises:
            ValueError: if a metric was summarised by another scheme.
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

    @classmethod
    def of_record(cls, window: Window, schemes: Mapping[str, Scheme]) -> Contents:
        """What a record says.

        Raises:
            ValueError: if a metric was summarised by another scheme than ours.
        """
        return cls(
            window.events,
            window.late,
            {name: read(record, schemes.get(name, DEFAULT_SCHEME)) for name, record in window.metrics.items()},
            {name: dict(counts) for name, counts in window.categories.items()},
            {name: dict(counts) for name, counts in window.decisions.items()},
            set(window.catalogue_versions),
        )

    def fields(self) -> dict[str, Any]:
        """The fields of a window's record that these contents give, names sorted so that equal contents look equal."""
        return {
            "events": self.events,
            "late": self.late,
            "metrics": {name: written(self.metrics[name]) for name in sorted(self.metrics)},
            "categories": {name: dict(sorted(self.categories[name].items())) for name in sorted(self.categories)},
            "decisions": {name: dict(sorted(self.decisions[name].items())) for name in sorted(self.decisions)},
            "catalogue_versions": tuple(sorted(self.versions)),
        }


def merged(parts: Iterable[Contents]) -> Contents:
    """All parts together; they stay as they are."""
    total = Contents()
    for part in parts:
        total.merge(part)
    return total
