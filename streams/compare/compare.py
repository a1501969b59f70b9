"""Two evaluations of the same events compared: what changed, by how much, where, and on which events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from ragweir.metrics.aggregation.comparison import RATE, Difference, Flags, Floats, Ints, adjusted, differences
from ragweir.metrics.aggregation.estimate import estimate_name
from ragweir.metrics.metric import Better, Metric, Unit
from ragweir.streams.compare.pairing import Pairing, Side

Verdict = Literal["better", "worse", "changed", "unchanged"]

SHOWN_EVENTS = 5
"""The most changed events that are kept of each metric."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a metric changed by on all pairs, or on those of one slice."""

    metric: str
    dimension: str | None
    """None for all pairs."""
    value: str | None
    """Of the dimension."""
    difference: Difference
    better: float | None
    """The share of the pairs whose value is better on the second side; None where neither direction is better."""
    worse: float | None
    verdict: Verdict = "unchanged"
    """What a significant change is."""
    q: float | None = None
    """The p-value adjusted over all metrics and slices."""

    @property
    def significant(self) -> bool:
        """Whether it is a discovery at a false discovery rate of 5 %."""
        return self.verdict != "unchanged"


@dataclass(frozen=True, slots=True)
class ChangedEvent:
    """An event, and a metric's values on both sides."""

    event_id: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class MetricChange:
    """All about one metric, or about the share of one label of a category (`answer_class=WRONG`)."""

    metric: str
    unit: Unit | None
    """None, like a direction of "neither", of what the catalogue does not have."""
    direction: Better
    only_a: int
    """Pairs that have a value on the first side only."""
    only_b: int
    whole: Change
    slices: tuple[Change, ...]
    events: tuple[ChangedEvent, ...]
    """The most changed ones."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that was found."""

    a: Side
    b: Side
    pairs: int
    tests: int
    """How many p-values were adjusted together."""
    metrics: tuple[MetricChange, ...]

    @property
    def changes(self) -> list[Change]:
        """Of all metrics and slices, the significant ones first, then those with the largest effect."""
        every = [change for metric in self.metrics for change in (metric.whole, *metric.slices)]
        return sorted(every, key=_rank)

    @property
    def versions(self) -> str:
        """What is to be said of catalogue versions; empty if both sides have one and the same."""
        first, second = (sorted(side.catalogue_versions) for side in (self.a, self.b))
        if first == second and len(first) <= 1:
            return ""
        told = f"{self.a.name} has catalogue version {' and '.join(first)}, {self.b.name} {' and '.join(second)}"
        return f"{told}: metrics may differ because they are computed differently"


def _rank(change: Change) -> tuple[bool, float, str, str, str]:
    effect = change.difference.effect
    size = float("inf") if effect is None and change.difference.mean else abs(effect or 0.0)
    return not change.significant, -size, change.metric, change.dimension or "", change.value or ""


@dataclass(frozen=True, slots=True)
class _Slices:
    """Which pairs are in which slice. Pairs that agree in all dimensions share a cell."""

    names: Sequence[tuple[str | None, str | None]]
    cells: Ints
    members: Flags


def compare(
    files: tuple[Path, Path],
    names: tuple[str, str],
    by: Sequence[str],
    metrics: Mapping[str, Metric],
    moved: Callable[[float, str], None] = lambda _, __: None,
) -> Comparison:
    """Compare two files of evaluations.

    Args:
        files: baseline first; of several records with the same id the last one counts.
        names: of both sides, for people.
        by: the dimensions whose values are looked at by themselves.
        metrics: the catalogue's, for units and directions.
        moved: is told the share of the work that is done, and what comes now.

    Raises:
        PermanentError: if a file is not one of evaluations.
    """
    moved(0.0, "reading both sides")
    with TemporaryDirectory(prefix="ragweir-compare-") as folder:
        pairing = Pairing(files, names, by, Path(folder))
        try:
            slices = _slices(pairing, by)
            total = len(pairing.metrics) + len(pairing.categories)
            found: list[MetricChange] = []
            for done, each in enumerate((*pairing.metrics, *pairing.categories)):
                moved(0.5 + done / total / 2, each)
                found += _metric(pairing, slices, each, metrics.get(each))
            return _adjusted(Comparison(*pairing.sides(), len(pairing), 0, tuple(found)))
        finally:
            pairing.close()


def _slices(pairing: Pairing, by: Sequence[str]) -> _Slices:
    """All pairs, and each value of each dimension unless it is that of all pairs."""
    size = len(pairing)
    dimensions = {name: pairing.dimension(name) for name in by}
    codes = np.zeros(size, dtype=np.int64)
    for known, numbers in dimensions.values():
        codes = codes * len(known) + numbers
        codes = np.unique(codes, return_inverse=True)[1]
    firsts = np.unique(codes, return_index=True)[1]
    names: list[tuple[str | None, str | None]] = [(None, None)]
    members = [np.ones(len(firsts), dtype=np.bool_)]
    for name, (known, numbers) in dimensions.items():
        for number, value in enumerate(known if len(known) > 1 else ()):
            names.append((name, value))
            members.append(numbers[firsts] == number)
    return _Slices(names, codes, np.array(members))


def _metric(pairing: Pairing, slices: _Slices, name: str, metric: Metric | None) -> Iterator[MetricChange]:
    direction: Better = "neither" if metric is None else metric.better
    unit = None if metric is None else metric.unit
    if name in pairing.metrics:
        yield _changed(pairing, slices, name, (unit, direction), pairing.values(name))
        return
    labels, before, after = pairing.labels(name)
    for number, label in enumerate(labels):
        one, other = (np.where(side < 0, np.nan, side == number) for side in (before, after))
        yield _changed(pairing, slices, estimate_name(name, label), (unit, "neither"), (one, other))


def _changed(
    pairing: Pairing,
    slices: _Slices,
    name: str,
    kind: tuple[Unit | None, Better],
    values: tuple[Floats, Floats],
) -> MetricChange:
    unit, direction = kind
    before, after = values
    found = [
        _change(name, *slice_name, difference, direction)
        for slice_name, difference in zip(
            slices.names, differences(before, after, slices.cells, slices.members), strict=True
        )
    ]
    had, has = ~np.isnan(before), ~np.isnan(after)
    return MetricChange(
        metric=name,
        unit=unit,
        direction=direction,
        only_a=int((had & ~has).sum()),
        only_b=int((has & ~had).sum()),
        whole=found[0],
        slices=tuple(change for change in found[1:] if change.difference.pairs),
        events=_most_changed(pairing, before, after),
    )


def _change(name: str, dimension: str | None, value: str | None, difference: Difference, direction: Better) -> Change:
    shares: tuple[float | None, float | None] = (None, None)
    if direction != "neither" and difference.pairs:
        rose, fell = difference.rose / difference.pairs, difference.fell / difference.pairs
        shares = (rose, fell) if direction == "higher" else (fell, rose)
    return Change(name, dimension, value, difference, *shares)


def _most_changed(pairing: Pairing, before: Floats, after: Floats) -> tuple[ChangedEvent, ...]:
    """The events with the largest differences; of equal ones those whose ids come first."""
    size = np.nan_to_num(np.abs(after - before))
    if not size.any():
        return ()
    least = np.partition(size, -SHOWN_EVENTS)[-SHOWN_EVENTS] if size.size > SHOWN_EVENTS else 0.0
    near = np.flatnonzero((size >= least) & (size > 0))
    places = near[np.argsort(-size[near], kind="stable")][:SHOWN_EVENTS].tolist()
    return tuple(
        ChangedEvent(event_id, float(before[place]), float(after[place]))
        for event_id, place in zip(pairing.event_ids(places), places, strict=True)
    )


def _adjusted(comparison: Comparison) -> Comparison:
    """With the p-values adjusted over all metrics and slices together, and what comes of them."""
    every = [(metric, change) for metric in comparison.metrics for change in (metric.whole, *metric.slices)]
    q_values = adjusted([change.difference.p for _, change in every])
    told = iter(
        [
            replace(change, q=q, verdict=_verdict(change, metric.direction, q))
            for (metric, change), q in zip(every, q_values, strict=True)
        ]
    )
    metrics = tuple(
        replace(metric, whole=next(told), slices=tuple(next(told) for _ in metric.slices))
        for metric in comparison.metrics
    )
    return replace(comparison, tests=sum(q is not None for q in q_values), metrics=metrics)


def _verdict(change: Change, direction: Better, q: float | None) -> Verdict:
    if q is None or q > RATE:
        return "unchanged"
    if direction == "neither":
        return "changed"
    return "better" if ((change.difference.mean or 0.0) > 0) == (direction == "higher") else "worse"
