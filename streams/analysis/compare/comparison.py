"""The result of a comparison: its sides, the changes of metrics, and conditions on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from typing_extensions import override

from ragweir.metrics.aggregation.paired_differences import FEW_CLUSTERS, FEWEST_CLUSTERS, Difference
from ragweir.metrics.metric import Better, Unit
from ragweir.streams.analysis.compare.gates import Gate
from ragweir.streams.analysis.compare.moments import ChangeTimeline
from ragweir.streams.runtime.text.terminal import printable

_SHOWN = 10
"""Significant changes that the text of a comparison has."""


@dataclass(frozen=True, slots=True)
class Side:
    """Contents of one side."""

    name: str
    records: int
    events: int
    """Number of distinct ids; the last record of each counts."""
    only: int
    """Events that the other side does not have."""
    catalogue_versions: dict[str, int]
    """Number of events by catalogue version."""


Verdict = Literal["better", "worse", "changed", "unchanged"]


@dataclass(frozen=True, slots=True)
class Change:
    """Change of a metric over all pairs or over one slice."""

    metric: str
    dimension: str | None
    """None for all pairs."""
    value: str | None
    """Value of the dimension."""
    difference: Difference
    better: float | None
    """Share of pairs whose value is better on the second side; None for metrics without a direction."""
    worse: float | None
    verdict: Verdict = "unchanged"
    """Direction of a significant change."""
    q: float | None = None
    """The p-value adjusted over all metrics and slices."""

    @property
    def significant(self) -> bool:
        """True if it is a discovery at a false discovery rate of 5 %."""
        return self.verdict != "unchanged"

    @override
    def __str__(self) -> str:
        found = self.difference
        name = self.metric if self.dimension is None else f"{self.metric}, {self.dimension} {self.value}"
        means = "" if found.before is None or found.after is None else f" {found.before:.4g} -> {found.after:.4g}"
        return f"{name}:{means}, {found.interval} on {found.pairs:,} events, {self.verdict}"


@dataclass(frozen=True, slots=True)
class ChangedEvent:
    """An event with a metric's values on both sides."""

    event_id: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class MetricChange:
    """All changes of a metric, or of the share of one label of a category (`answer_class=WRONG`)."""

    metric: str
    unit: Unit | None
    """None if the metric is not in the catalogue; its direction is then "neither"."""
    direction: Better
    only_a: int
    """Pairs that have a value on the first side only."""
    only_b: int
    whole: Change
    slices: tuple[Change, ...]
    events: tuple[ChangedEvent, ...]
    """The most changed events."""
    timeline: ChangeTimeline | None = None
    """Both means over the time of the events, if all pairs together changed significantly."""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Result of a comparison.

    As text it is the sides, the number of changes, and a line for each of the largest significant ones.
    """

    a: Side
    b: Side
    pairs: int
    clusters: int
    """Number of sessions and questions, and of pairs without them; those that share an event count as one."""
    effective_clusters: float
    """Number of equally large clusters that would tell as much."""
    tests: int
    """Number of p-values that were adjusted together."""
    metrics: tuple[MetricChange, ...]

    @property
    def changes(self) -> list[Change]:
        """Changes of all metrics and slices: significant ones first, then by descending effect."""
        every = [change for metric in self.metrics for change in (metric.whole, *metric.slices)]
        return sorted(every, key=_rank)

    @property
    def headline(self) -> tuple[str, ...]:
        """The sides, a warning about different catalogue versions, and the number of changes, as sentences."""
        a, b, changes = self.a, self.b, self.changes
        whole = [change for change in changes if change.dimension is None and change.difference.pairs]
        slices = [change for change in changes if change.dimension is not None and change.significant]
        changed = sum(change.significant for change in whole)
        only = f"{a.only:,} only in A ({a.name}), {b.only:,} only in B ({b.name})"
        found = f"{changed} of {len(whole)} metrics and {len(slices)} slices changed significantly"
        return (
            f"{self.pairs:,} events on both sides; {only}.",
            *((f"{self.clustering}.",) if self.clustering else ()),
            *((f"{self.versions}.",) if self.versions else ()),
            f"{found} (false discovery rate 5 %, {self.tests} tests).",
        )

    @override
    def __repr__(self) -> str:
        changed = [change for change in self.changes if change.significant]
        more = len(changed) - _SHOWN
        lines = [*self.headline, *map(str, changed[:_SHOWN]), *([f"and {more} more"] if more > 0 else [])]
        return "\n".join(printable(line, None) for line in lines)

    def failures(self, *gates: str) -> tuple[str, ...]:
        """Return why conditions on the change fail, one sentence each; nothing if all hold.

        Args:
            gates: conditions as `ragweir compare --fail-on` takes them, such as `"context_support -0.02"`: a metric and
                the least change of its mean for the worse, with its sign.

        Raises:
            ConfigurationError: if a condition is wrong, or neither side has the metric.
        """
        directions = {metric.metric: metric.direction for metric in self.metrics}
        found = {metric.metric: metric.whole.difference for metric in self.metrics}
        failures = [Gate.read(gate, directions).failure(found) for gate in gates]
        return tuple(failure for failure in failures if failure)

    @property
    def clustering(self) -> str:
        """The number of clusters, with a warning about few; empty if each event is by itself."""
        if self.clusters == self.pairs:
            return ""
        number = f"{self.clusters:,}, effectively {self.effective_clusters:,.3g}"
        told = f"Events share sessions or questions: independent are {number}"
        if self.effective_clusters < FEWEST_CLUSTERS:
            return f"{told}; fewer than {FEWEST_CLUSTERS} give no intervals"
        return f"{told}; so few make intervals uncertain" if self.effective_clusters < FEW_CLUSTERS else told

    @property
    def versions(self) -> str:
        """A warning about different catalogue versions; empty if both sides have the same one."""
        first, second = (sorted(side.catalogue_versions) for side in (self.a, self.b))
        if first == second and len(first) <= 1:
            return ""
        versions = f"{self.a.name} has catalogue version {' and '.join(first)}, {self.b.name} {' and '.join(second)}"
        return f"{versions}: metrics may differ because they are computed differently"


def _rank(change: Change) -> tuple[bool, float, str, str, str]:
    effect = change.difference.effect
    size = float("inf") if effect is None and change.difference.mean else abs(effect or 0.0)
    return not change.significant, -size, change.metric, change.dimension or "", change.value or ""
