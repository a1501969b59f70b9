"""Comparison of two evaluations of the same events: changes per metric and slice, and the most changed events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ragweir.metrics.aggregation.clusters import Floats, Ints, clustered
from ragweir.metrics.aggregation.estimate import estimate_name
from ragweir.metrics.aggregation.paired_differences import RATE, Difference, Flags, adjusted, differences
from ragweir.metrics.metric import Better, Metric, Unit
from ragweir.streams.analysis.compare.comparison import Change, ChangedEvent, Comparison, MetricChange, Verdict
from ragweir.streams.analysis.compare.moments import timeline
from ragweir.streams.analysis.compare.pairing import Pairing

MAX_EVENTS = 5
"""Number of most changed events listed for each metric."""


@dataclass(frozen=True, slots=True)
class _Slices:
    """Membership of pairs in slices and clusters. Pairs that agree in all dimensions share a cell."""

    names: Sequence[tuple[str | None, str | None]]
    cells: Ints
    members: Flags
    clusters: Ints | None


def compare(
    files: tuple[Path, Path],
    names: tuple[str, str],
    by: Sequence[str],
    metrics: Mapping[str, Metric],
    on_progress: Callable[[float, str], None] = lambda _, __: None,
) -> Comparison:
    """Compare two files of evaluations.

    Args:
        files: files of any format that is read, the baseline first; of several records with the same id one counts,
            by `ragweir.schemas.evaluation.supersedes`.
        names: display names of the sides.
        by: dimensions whose values are slices.
        metrics: the catalogue, for units and directions.
        on_progress: called with the part of the work that is done and the name of the next part.

    Raises:
        PermanentError: if a file does not hold evaluations.
    """
    on_progress(0.0, "reading both sides")
    with TemporaryDirectory(prefix="ragweir-compare-") as folder:
        pairing = Pairing(files, names, by, Path(folder), on_progress)
        slices = _slices(pairing, by)
        columns = (*pairing.metrics, *pairing.categories)
        found: list[MetricChange] = []
        for done, name in enumerate(columns):
            on_progress(0.5 + done / len(columns) / 2, name)
            found += _metric_changes(pairing, slices, name, metrics.get(name))
        clusters, effective = _clusters(slices.clusters, len(pairing))
        made = _adjusted(Comparison(*pairing.sides(), len(pairing), clusters, effective, 0, tuple(found)))
        return replace(made, metrics=tuple(_with_timeline(pairing, metric) for metric in made.metrics))


def _with_timeline(pairing: Pairing, metric: MetricChange) -> MetricChange:
    """Return a metric's change with its timeline, if it is significant and no label of a category."""
    if not metric.whole.significant or metric.metric not in pairing.metrics:
        return metric
    return replace(metric, timeline=timeline(pairing.times_ms, *pairing.values(metric.metric)))


def _clusters(clusters: Ints | None, pairs: int) -> tuple[int, float]:
    """Return the number of clusters of all pairs, and the effective one."""
    if clusters is None:
        return pairs, pairs
    found = clustered(np.zeros(pairs), clusters)
    return found.count, found.effective


def _slices(pairing: Pairing, by: Sequence[str]) -> _Slices:
    """Return the slice of all pairs, and one for each value of each dimension that has several values."""
    dimensions = {name: pairing.dimension(name) for name in by}
    cells = np.zeros(len(pairing), dtype=np.int64)
    for known, numbers in dimensions.values():
        cells = np.unique(cells * len(known) + numbers, return_inverse=True)[1]
    firsts = np.unique(cells, return_index=True)[1]
    names: list[tuple[str | None, str | None]] = [(None, None)]
    members = [np.ones(len(firsts), dtype=np.bool_)]
    for name, (known, numbers) in dimensions.items():
        for number, value in enumerate(known if len(known) > 1 else ()):
            names.append((name, value))
            members.append(numbers[firsts] == number)
    return _Slices(names, cells, np.array(members), pairing.clusters())


def _metric_changes(pairing: Pairing, slices: _Slices, name: str, metric: Metric | None) -> Iterator[MetricChange]:
    """Yield the change of a metric, or those of the labels of a category."""
    unit = None if metric is None else metric.unit
    if name in pairing.metrics:
        direction: Better = "neither" if metric is None else metric.better
        yield _metric_change(pairing, slices, name, unit, direction, *pairing.values(name))
        return
    labels, before, after = pairing.labels(name)
    for number, label in enumerate(labels):
        one, other = (np.where(side < 0, np.nan, side == number) for side in (before, after))
        yield _metric_change(pairing, slices, estimate_name(name, label), unit, "neither", one, other)


def _metric_change(
    pairing: Pairing, slices: _Slices, name: str, unit: Unit | None, direction: Better, before: Floats, after: Floats
) -> MetricChange:
    whole, *changes = [
        Change(name, *slice_name, difference, *_better_and_worse(difference, direction))
        for slice_name, difference in zip(
            slices.names, differences(before, after, slices.cells, slices.members, slices.clusters), strict=True
        )
    ]
    in_a, in_b = ~np.isnan(before), ~np.isnan(after)
    return MetricChange(
        metric=name,
        unit=unit,
        direction=direction,
        only_a=int((in_a & ~in_b).sum()),
        only_b=int((in_b & ~in_a).sum()),
        whole=whole,
        slices=tuple(change for change in changes if change.difference.pairs),
        events=_most_changed(pairing, before, after),
    )


def _better_and_worse(difference: Difference, direction: Better) -> tuple[float | None, float | None]:
    if direction == "neither" or not difference.pairs:
        return None, None
    rose, fell = difference.rose / difference.pairs, difference.fell / difference.pairs
    return (rose, fell) if direction == "higher" else (fell, rose)


def _most_changed(pairing: Pairing, before: Floats, after: Floats) -> tuple[ChangedEvent, ...]:
    """Return the events with the largest differences; of equal ones those with the lowest ids."""
    size = np.nan_to_num(np.abs(after - before))
    if not size.any():
        return ()
    least = np.partition(size, -MAX_EVENTS)[-MAX_EVENTS] if size.size > MAX_EVENTS else 0.0
    near = np.flatnonzero((size >= least) & (size > 0))
    places = near[np.argsort(-size[near], kind="stable")][:MAX_EVENTS].tolist()
    return tuple(
        ChangedEvent(event_id, float(before[place]), float(after[place]))
        for event_id, place in zip(pairing.event_ids(places), places, strict=True)
    )


def _adjusted(comparison: Comparison) -> Comparison:
    """Return the comparison with p-values adjusted over all metrics and slices, and with verdicts."""
    every = [(metric, change) for metric in comparison.metrics for change in (metric.whole, *metric.slices)]
    q_values = adjusted([change.difference.p for _, change in every])
    changes = iter(
        [
            replace(change, q=q, verdict=_verdict(change, metric.direction, q))
            for (metric, change), q in zip(every, q_values, strict=True)
        ]
    )
    metrics = tuple(
        replace(metric, whole=next(changes), slices=tuple(next(changes) for _ in metric.slices))
        for metric in comparison.metrics
    )
    return replace(comparison, tests=sum(q is not None for q in q_values), metrics=metrics)


def _verdict(change: Change, direction: Better, q: float | None) -> Verdict:
    if q is None or q > RATE:
        return "unchanged"
    if direction == "neither":
        return "changed"
    return "better" if ((change.difference.mean or 0.0) > 0) == (direction == "higher") else "worse"
