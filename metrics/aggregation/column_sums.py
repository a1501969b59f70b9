"""Sums of many events at once: their scores as columns, added to the summaries of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.aggregation.summary import Floats, Ints, Scheme, Summary

_FARTHEST = 2**16
"""Upper bound of the absolute value of bin numbers, for all floats."""
_EXACT = 2.0**53


def add_values(into: Sequence[dict[str, Summary]], schemes: Mapping[str, Scheme], values: Floats, groups: Ints) -> None:
    """Add the values of many events to the summaries of their groups, by metric.

    The result is that of merging `Summary.of` into each, in a fraction of the time; a metric that a group did not have
    is added where it has values.

    Args:
        into: the summaries of each group.
        schemes: the metrics, in the order of the columns.
        values: one row per event, one column per metric; NaN for null.
        groups: the group of each event, an index into `into`.

    Raises:
        ValueError: if a group has a metric in another scheme.
    """
    own = list(schemes.values())
    order = np.argsort(groups, kind="stable")
    values, groups = values[order], groups[order]
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    present = ~np.isnan(values)
    filled = np.where(present, values, 0.0)
    with np.errstate(over="ignore"):
        scaled = np.rint(filled * np.array([scheme.scale for scheme in own], dtype=np.float64))
        squared = np.rint(filled * filled * np.array([scheme.square_scale for scheme in own], dtype=np.float64))
        # Beyond this, sums of 64-bit integers could overflow.
        safe = (np.abs(scaled).sum(axis=0) < _EXACT) & (squared.sum(axis=0) < _EXACT)
    counts = np.add.reduceat(present, starts, axis=0, dtype=np.int64)
    counts[:, ~safe] = 0
    numbers, times, firsts = _histograms(own, values, present, np.cumsum(np.r_[False, groups[1:] != groups[:-1]]))
    rows = zip(
        groups[starts].tolist(),
        counts.tolist(),
        np.add.reduceat(np.where(safe, scaled, 0).astype(np.int64), starts, axis=0).tolist(),
        np.add.reduceat(np.where(safe, squared, 0).astype(np.int64), starts, axis=0).tolist(),
        np.fmin.reduceat(values, starts, axis=0).tolist(),
        np.fmax.reduceat(values, starts, axis=0).tolist(),
        strict=True,
    )
    for place, (group, *columns) in enumerate(rows):
        cells = range(place * len(own), (place + 1) * len(own))
        _add_cells(into[group], zip(schemes.items(), cells, *columns, strict=True), numbers, times, firsts)
    for column in np.flatnonzero(~safe).tolist():
        name = list(schemes)[column]
        for group in groups[starts].tolist():
            met = values[(groups == group) & present[:, column], column]
            if met.size:
                into[group].setdefault(name, Summary(schemes[name])).merge(Summary.of(met.tolist(), schemes[name]))


def _add_cells(
    summaries: dict[str, Summary],
    cells: Iterable[tuple[tuple[str, Scheme], int, int, int, int, float, float]],
    numbers: Sequence[int],
    times: Sequence[int],
    firsts: Sequence[int],
) -> None:
    """Add the sums of one group: its cells, and the bins of all cells as `_histograms` returns them."""
    for (name, own), cell, count, total, squares, minimum, maximum in cells:
        if not count:
            continue
        bins = zip(numbers[firsts[cell] : firsts[cell + 1]], times[firsts[cell] : firsts[cell + 1]], strict=True)
        summary = summaries.get(name)
        if summary is None:
            summaries[name] = Summary(own, count, total, squares, minimum, maximum, dict(bins))
            continue
        # As `merge`, whose calls would take longer than the sums.
        if summary.scheme is not own:
            summary.check_scheme(own)
        summary.count += count
        summary.total += total
        summary.squares += squares
        if summary.minimum is None or minimum < summary.minimum:
            summary.minimum = minimum
        if summary.maximum is None or maximum > summary.maximum:
            summary.maximum = maximum
        held = summary.bins
        for number, each in bins:
            held[number] = held.get(number, 0) + each


def _histograms(
    schemes: Sequence[Scheme], values: Floats, present: NDArray[np.bool_], rows: Ints
) -> tuple[list[int], list[int], list[int]]:
    """Return the bins of all cells, the counts of each bin, and the index of each cell's first bin and the end.

    The cells are those of each row and column, in this order. One code per value, its row, its column and its bin, is
    sorted.
    """
    columns = len(schemes)
    cells = (rows[:, np.newaxis] * columns + np.arange(columns)) * (2 * _FARTHEST) + _FARTHEST
    codes = np.concatenate(
        [
            cells[:, own][present[:, own]] + scheme.bins(values[:, own][present[:, own]])
            for scheme in dict.fromkeys(schemes)
            if (own := [column for column, each in enumerate(schemes) if each == scheme])
        ]
    )
    codes, counts = np.unique(codes, return_counts=True)
    cell, numbers = codes // (2 * _FARTHEST), codes % (2 * _FARTHEST) - _FARTHEST
    firsts = np.searchsorted(cell, np.arange((int(rows[-1]) + 1) * columns + 1))
    return numbers.tolist(), counts.tolist(), firsts.tolist()
