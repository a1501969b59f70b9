"""The sums of one application's metrics over the last days, and how certain it is that a mean has shifted.

The detector starts at the midnight (UTC) that begins the seventh day before the present one, and the three weeks before
are its baseline: both move on by a day at midnight. So an alarm of a mean that stays where it is ends after a week,
when its days are in the baseline. The result is a function of the sums and of the time until which they are complete:
it is the same whatever the order in which they came, and whether they are read again after a restart. Sums are
integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.shift.baseline import HOURS, Baseline, Floats, Sums, baseline
from ragweir.metrics.shift.detector import ShiftDetector, one_a_year

TESTED_DAYS = 7
"""Number of whole days before the present one that are tested."""
BASELINE_DAYS = 21
"""Number of days before these that give the baseline, of which `baseline.FEWEST_DAYS` need events."""
KEPT_DAYS = BASELINE_DAYS + TESTED_DAYS + 1
_ALL_DAYS = 400
SCALE = 1_000_000
"""Sums are in millionths."""
DAY_S = 86_400
_HOUR_S = 3_600
_SETTLED_S = 3 * _HOUR_S
"""Age of the windows whose sums seldom change; when they do, their metric is computed anew."""

Ints = NDArray[np.int64]
Places = Sequence[int]
Bounds = tuple[float, float]


class HourSums:
    """The sums of metrics over the hours of the last days that have any.

    Args:
        metrics: number of metrics.
        most_days: number of days that are kept.
    """

    def __init__(self, metrics: int, most_days: int) -> None:
        self._metrics, self._most = metrics, most_days
        self._days: dict[int, Ints] = {}

    def add(self, start_s: int, places: Places, sums: Ints) -> None:
        """Add the sums of a window.

        Args:
            start_s: its start, epoch seconds.
            places: positions of its metrics.
            sums: count, sum and sum of squares of each, in millionths.
        """
        day = start_s // DAY_S
        if day not in self._days:
            self._days[day] = np.zeros((self._metrics, 3, HOURS), dtype=np.int64)
            for old in sorted(self._days)[: -self._most]:
                del self._days[old]
        if day in self._days:
            self._days[day][places, :, start_s % DAY_S // _HOUR_S] += sums

    def of(self, place: int, bounds: Bounds, days: Sequence[int] | None = None) -> Sums:
        """Return the sums of a metric, with a row for each day that is kept, or for each of some days."""
        wanted = [self._days[day][place] for day in (self._days if days is None else days) if day in self._days]
        rows = np.array(wanted, dtype=np.int64).reshape(-1, 3, HOURS)
        return _scaled(rows.transpose(1, 0, 2), bounds)


class ShiftState(NamedTuple):
    """The evidence that a metric's mean has shifted."""

    relative: float
    """Logarithm of M by that of its threshold, with the sign of the direction: from 1 or to -1 it is an alarm."""
    baseline: Baseline
    start_s: int
    """Start of the first window of the most probable shift, epoch seconds."""


class PastDay(NamedTuple):
    """The evidence on one day."""

    relative: Floats
    """`ShiftState.relative` after each step; that of the last step with events, where one has none."""
    baseline: Baseline
    start_s: int
    """`ShiftState.start_s` at the end of the day."""


@dataclass(slots=True)
class _Settled:
    """The detector of one metric after the windows that seldom change."""

    known: Baseline
    first_day: int
    detector: ShiftDetector
    next_step: int


class ShiftHistory:
    """The sums of one application's metrics.

    Args:
        metrics: the bounds of the metrics, by name.
        step_s: length in seconds of the windows that are tested; it divides a day.
        keeps_all: true to keep the last 400 days, for `past_day`; else those that `states` needs are kept.

    >>> history = ShiftHistory({"context_support": (0.0, 1.0)}, step_s=3600)
    >>> one = np.array([[100_000_000, 70_000_000, 50_000_000]])  # 100 events with a mean of 0.7 in each hour.
    >>> for hour in range(24 * 28):
    ...     history.add(hour * 3600, [0], one)
    >>> _, state = next(history.states(until_s=28 * DAY_S, series=1))
    >>> round(state.baseline.mean, 3), state.baseline.days, round(state.relative, 2)
    (0.7, 21, 0.29)
    """

    def __init__(self, metrics: Mapping[str, Bounds], step_s: int, *, keeps_all: bool = False) -> None:
        self._kept_days = _ALL_DAYS if keeps_all else KEPT_DAYS
        self._names, self._bounds, self._step_s = tuple(metrics), tuple(metrics.values()), step_s
        self._hours = HourSums(len(metrics), self._kept_days)
        self._days: dict[int, Ints] = {}
        """Sums of the steps of the tested days; a metric without values takes no memory, since its pages are unused."""
        self._settled: dict[int, _Settled] = {}
        self._settled_step = 0
        self._seen: Ints = np.zeros(len(metrics), dtype=np.int64)
        """Number of millionths of events of each metric."""

    def add(self, start_s: int, places: Places, sums: Ints) -> None:
        """Add the sums of a window, or of late events; see `HourSums.add`."""
        self._hours.add(start_s, places, sums)
        day, step = start_s // DAY_S, start_s // self._step_s
        if day not in self._days:
            self._days[day] = np.zeros((len(self._names), 3, DAY_S // self._step_s), dtype=np.int64)
            for old in sorted(self._days)[: -(self._kept_days - BASELINE_DAYS + 1)]:
                del self._days[old]
        if day in self._days:
            self._days[day][places, :, start_s % DAY_S // self._step_s] += sums
        self._seen[places] += sums[:, 0]
        if step < self._settled_step:
            for place in places:
                self._settled.pop(place, None)

    def states(
        self, until_s: float, series: int, named: HourSums | None = None
    ) -> Iterator[tuple[str, ShiftState | None]]:
        """Yield the state of each metric that has values; None if its baseline is not known yet.

        Args:
            until_s: time until which all windows are closed, epoch seconds.
            series: number of series that are tested.
            named: sums of the events that give the baseline's means instead.
        """
        first_day = int(until_s // DAY_S) - TESTED_DAYS
        for place, (name, bounds) in enumerate(zip(self._names, self._bounds, strict=True)):
            if self._seen[place]:
                days = self._hours.of(place, bounds, range(first_day - BASELINE_DAYS, first_day))
                known = baseline(days, series, None if named is None else named.of(place, bounds))
                yield name, None if known is None else self._state(place, known, until_s, series)

    @property
    def days(self) -> list[int]:
        """The days that have events, since 1970."""
        return sorted(self._days)

    def past_day(self, metric: str, day: int, series: int) -> PastDay | None:
        """Return the evidence on a metric as `states` would have had it at the end of each step of a day.

        Args:
            metric: its name.
            day: number of the day since 1970.
            series: number of series that are tested.

        Returns:
            None if the metric has no values on the day, or no baseline.
        """
        place = self._names.index(metric)
        first_day, a_day = day - TESTED_DAYS, DAY_S // self._step_s
        days = self._hours.of(place, self._bounds[place], range(first_day - BASELINE_DAYS, first_day))
        if day not in self._days or not self._days[day][place, 0].any():
            return None
        known = baseline(days, series)
        if known is None:
            return None
        detector = ShiftDetector(known)
        self._extend(detector, place, first_day * a_day, day * a_day)
        last = detector.relative(one_a_year(self._step_s, series))
        found = detector.extend(*self._steps(place, day, 0, a_day))
        relative = np.full(a_day, np.nan)
        relative[found.windows] = found.relative(one_a_year(self._step_s, series))
        relative[0] = last if np.isnan(relative[0]) else relative[0]
        held = np.maximum.accumulate(np.where(np.isnan(relative), 0, np.arange(a_day)))
        return PastDay(relative[held], known, first_day * DAY_S + detector.first * self._step_s)

    def _state(self, place: int, known: Baseline, until_s: float, series: int) -> ShiftState:
        first_day = int(until_s // DAY_S) - TESTED_DAYS
        last, settled = int(until_s // self._step_s), int((until_s - _SETTLED_S) // self._step_s)
        own = self._settled.get(place)
        if own is None or own.first_day != first_day or own.known != known:
            own = _Settled(known, first_day, ShiftDetector(known), first_day * DAY_S // self._step_s)
            self._settled[place] = own
        self._extend(own.detector, place, own.next_step, settled)
        own.next_step = max(own.next_step, settled)
        self._settled_step = max(self._settled_step, own.next_step)
        present = own.detector.copy()
        self._extend(present, place, own.next_step, last)
        start = first_day * DAY_S + present.first * self._step_s
        return ShiftState(present.relative(one_a_year(self._step_s, series)), known, start)

    def _extend(self, detector: ShiftDetector, place: int, start: int, end: int) -> None:
        """Add the windows of some steps to a detector."""
        a_day = DAY_S // self._step_s
        if start >= end:
            return
        for day in range(start // a_day, -(-end // a_day)):
            detector.extend(*self._steps(place, day, max(start - day * a_day, 0), min(end - day * a_day, a_day)))

    def _steps(self, place: int, day: int, first: int, last: int) -> tuple[Sums, Ints]:
        """Return the sums of some steps of a day, and their hours."""
        hours = np.arange(first, last) * self._step_s // _HOUR_S
        if day in self._days:
            sums = self._days[day][place, :, first:last]
        else:
            sums = np.zeros((3, last - first), dtype=np.int64)
        return _scaled(sums, self._bounds[place]), hours


def _scaled(sums: Ints, bounds: Bounds) -> Sums:
    """Return counts, sums and sums of squares of values that are scaled from their bounds to 0 to 1."""
    low, width = bounds[0], bounds[1] - bounds[0]
    counts, totals, squares = (part / SCALE for part in sums)
    return Sums(counts, (totals - low * counts) / width, (squares - 2 * low * totals + low * low * counts) / width**2)
