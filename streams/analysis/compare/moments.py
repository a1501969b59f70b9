"""The moment from which one side of a comparison differs from the other, and both means over the time of the events.

Pairs are compared in the order of their event times by the e-detector of `ragweir.metrics.shift`, against "the second
side has the first one's mean". Patterns of the day are on both sides, and cancel out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from ragweir.metrics.aggregation.clusters import Floats, Ints
from ragweir.metrics.shift.baseline import HOURS, Baseline, Sums
from ragweir.metrics.shift.detector import ShiftDetector

NO_TIME = -(2**63)
"""Time of an event without one."""
MAX_POINTS = 120
_FEWEST_POINTS = 4
_MOST_WINDOWS = 2_000
_CHANCE = 0.05
"""Chance of a moment where there is none."""


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """The means of one part of the time."""

    start: datetime
    pairs: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class ChangeTimeline:
    """A metric on both sides over the time of the events."""

    began: datetime | None
    """Most probable begin of the difference; None if no begin is certain."""
    from_start: bool
    """True if the sides differ from the first events on."""
    points: tuple[TimelinePoint, ...]
    """The means of equally long parts of the time, without those that have no pairs."""


def timeline(times_ms: Ints, before: Floats, after: Floats) -> ChangeTimeline | None:
    """Return the timeline of a metric; None if the pairs with both values have no times, or are of one moment.

    Args:
        times_ms: event time of each pair, `NO_TIME` for none.
        before: value of each pair on the first side, NaN for none.
        after: value on the second side.

    >>> times = np.arange(2000) * 60_000
    >>> before = np.tile([0.6, 0.8], 1000)
    >>> found = timeline(times, before, np.where(times < 72_000_000, before, before - 0.05))
    >>> found.began.isoformat(), found.from_start, len(found.points)
    ('1970-01-01T20:00:00+00:00', False, 120)
    """
    known = np.flatnonzero((times_ms != NO_TIME) & ~np.isnan(before) & ~np.isnan(after))
    order = known[np.argsort(times_ms[known], kind="stable")]
    times, one, other = times_ms[order], before[order], after[order]
    if not len(times) or times[0] == times[-1]:
        return None
    points = tuple(_points(times, one, other))
    if len(points) < _FEWEST_POINTS:
        return None
    first = _first(one, other)
    began = None if first is None else _time(int(times[first]))
    return ChangeTimeline(began, first is not None and int(times[first]) <= _edge(times), points)


def _edge(times: Ints) -> int:
    """Return the end of the first part of the time."""
    return int(times[0] + (times[-1] - times[0]) // MAX_POINTS)


def _first(one: Floats, other: Floats) -> int | None:
    """Return the first pair of the most probable shift of the differences; None if none is certain."""
    apart = other - one
    reach = float(np.abs(apart).max())
    if not reach:
        return None
    # Differences of -reach to reach as values of 0 to 1, in windows of equal numbers of pairs.
    values = (apart / reach + 1) / 2
    starts = np.unique(np.linspace(0, len(values), min(len(values), _MOST_WINDOWS) + 1).astype(np.int64)[:-1])
    counts = np.diff(np.append(starts, len(values))).astype(np.float64)
    sums = Sums(counts, np.add.reduceat(values, starts), np.add.reduceat(values**2, starts))
    if abs(_detector(sums, 0.0).relative(len(starts) / _CHANCE)) < 1:
        return None
    # Half of the mean difference lies between those before and after the moment, and tells them apart.
    return int(starts[_detector(sums, abs(float(values.mean()) - 0.5) / 2).first])


def _detector(sums: Sums, tolerance: float) -> ShiftDetector:
    detector = ShiftDetector(Baseline(0.5, (0.5,) * HOURS, tolerance, 0))
    detector.extend(sums, np.zeros(len(sums.counts), dtype=np.int64))
    return detector


def _points(times: Ints, one: Floats, other: Floats) -> Iterator[TimelinePoint]:
    width = (int(times[-1]) - int(times[0])) // MAX_POINTS + 1
    parts = (times - times[0]) // width
    numbers = np.bincount(parts, minlength=MAX_POINTS)
    sums = [np.bincount(parts, values, MAX_POINTS) for values in (one, other)]
    for part in np.flatnonzero(numbers).tolist():
        number = int(numbers[part])
        start = _time(int(times[0]) + part * width)
        yield TimelinePoint(start, number, float(sums[0][part] / number), float(sums[1][part] / number))


def _time(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)
