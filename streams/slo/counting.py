"""Good and bad events per minute of event time, for SLOs and for the values of dimensions, in memory that is bounded.

What is kept is a count of 16 bytes for each minute, value and outcome that is met, and a few of the worst events for
every ten minutes; nothing grows with the number of events.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.cardinality import Labels
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.window import OVERFLOW
from ragweir.streams.aggregate.dimensions import Dimensions, label
from ragweir.streams.settings import Slo, WindowSettings

MINUTE_S = 60
EXAMPLES = 5
"""The worst events that are kept."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(seconds=MINUTE_S)
_EXAMPLES_M = 10
"""Minutes that share their worst events."""
_VALUE_BITS = 17
"""Enough for `windows.max_series` and the overflow."""
_WAITING = 1 << 16
"""Counting many events at once costs far less than one by one."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Example:
    """A bad event."""

    event_id: str
    event_time: datetime
    score: float


class Counts(NamedTuple):
    """Columns of equal length, ordered by minute: minutes since 1970, and of a value its events and the bad ones."""

    minutes: Ints
    values: Ints
    events: Ints
    bad: Ints


class _Cells:
    """Counts of one SLO by the values of one dimension. A cell's number holds its minute, value and outcome."""

    def __init__(self) -> None:
        self._waiting = array("q")
        self._cells = self._counts = np.zeros(0, dtype=np.int64)

    def add(self, minute: int, value: int, *, bad: bool) -> None:
        """Count an event."""
        self._waiting.append((minute << _VALUE_BITS | value) << 1 | bad)
        if len(self._waiting) >= _WAITING:
            self._settle()

    def _settle(self) -> None:
        cells, counts = np.unique(np.array(self._waiting, dtype=np.int64), return_counts=True)
        every, places = np.unique(np.concatenate((self._cells, cells)), return_inverse=True)
        weights = np.concatenate((self._counts, counts))
        self._cells, self._counts = every, np.bincount(places, weights, len(every)).astype(np.int64)
        self._waiting = array("q")

    def counts(self) -> Counts:
        """What was counted."""
        self._settle()
        keys, places = np.unique(self._cells >> 1, return_inverse=True)
        bad = np.bincount(places, self._counts * (self._cells & 1), len(keys)).astype(np.int64)
        events = np.bincount(places, self._counts, len(keys)).astype(np.int64)
        return Counts(keys >> _VALUE_BITS, keys & ((1 << _VALUE_BITS) - 1), events, bad)


class _Worst:
    """The worst events of every ten minutes. Which ones does not depend on the order in which they come."""

    def __init__(self, slo: Slo) -> None:
        self._sign, self._bound = (1.0, slo.at_least) if slo.at_least is not None else (-1.0, slo.at_most)
        self._events: defaultdict[int, list[tuple[float, str, datetime, float]]] = defaultdict(list)

    def add(self, minute: int, evaluation: Evaluation, score: float) -> None:
        """Take in a bad event."""
        kept = self._events[minute // _EXAMPLES_M]
        rank = self._sign * score
        if len(kept) == EXAMPLES and rank > kept[-1][0]:
            return
        found = rank, evaluation.event_id, evaluation.event_time, score
        if found not in kept:
            insort(kept, found)
            del kept[EXAMPLES:]

    def between(self, start: int, end: int) -> tuple[Example, ...]:
        """The worst events from one minute to before another."""
        blocks = range(start // _EXAMPLES_M, (end - 1) // _EXAMPLES_M + 1)
        near = [each for block in blocks if block in self._events for each in self._events[block]]
        worst: dict[str, Example] = {}
        for _, event_id, time, score in sorted(near):
            if start <= minute_of(time) < end:
                worst.setdefault(event_id, Example(event_id, time, score))
        return tuple(islice(worst.values(), EXAMPLES))


def minute_of(time: datetime) -> int:
    """The minute since 1970 that a time is in.

    >>> minute_of(datetime(1970, 1, 1, 0, 1, 59, tzinfo=UTC)), minute_of(datetime(1969, 12, 31, 23, 59, tzinfo=UTC))
    (1, -1)
    """
    return (time - _EPOCH) // _MINUTE


def time_of(minute: int) -> datetime:
    """When a minute begins."""
    return _EPOCH + timedelta(seconds=MINUTE_S * minute)


class Counting:
    """Takes evaluations in any order, and counts for SLOs as the aggregate service does, but by event time.

    Every record counts: one that was read twice counts twice, as it does there.

    Args:
        slos: what is counted.
        by: the dimensions whose values are counted by themselves.
        windows: which values are admitted, and how many of each dimension; the others count together.
        totals: what of an evaluation counts.
    """

    def __init__(self, slos: Sequence[Slo], by: Sequence[str], windows: WindowSettings, totals: Aggregator) -> None:
        self.slos, self.by = tuple(slos), tuple(by)
        self.first: datetime | None = None
        """When the first of all events happened."""
        self.last: datetime | None = None
        self.evaluations = 0
        self._totals = totals
        self._dimensions = [Dimensions([name], windows.values) for name in by]
        self._most = windows.max_series
        self._numbers: list[dict[Labels, int]] = [{} for _ in by]
        self._whole = [_Cells() for _ in slos]
        self._parts = [[_Cells() for _ in by] for _ in slos]
        self._worst = [_Worst(slo) for slo in slos]

    def add(self, evaluation: Evaluation) -> None:
        """Take one evaluation in."""
        time = evaluation.event_time
        self.evaluations += 1
        self.first = time if self.first is None else min(self.first, time)
        self.last = time if self.last is None else max(self.last, time)
        scores = self._totals.entry(evaluation, None).scores
        minute = minute_of(time)
        values: list[int] | None = None
        for place, slo in enumerate(self.slos):
            score = scores.get(slo.metric)
            if score is None or any(label(name, evaluation) != own for name, own in slo.dimensions.items()):
                continue
            bad = not slo.is_good(score)
            values = self._values(evaluation) if values is None else values
            self._whole[place].add(minute, 0, bad=bad)
            for cells, value in zip(self._parts[place], values, strict=True):
                cells.add(minute, value, bad=bad)
            if bad:
                self._worst[place].add(minute, evaluation, score)

    def _values(self, evaluation: Evaluation) -> list[int]:
        """The numbers of an event's values, one per dimension."""
        return [
            self._number(dimension.of(evaluation), numbers)
            for dimension, numbers in zip(self._dimensions, self._numbers, strict=True)
        ]

    def _number(self, value: Labels, numbers: dict[Labels, int]) -> int:
        """The number of a value; that of the overflow when as many others as may be have one."""
        admitted = value if value in numbers or len(numbers) < self._most else (OVERFLOW,)
        return numbers.setdefault(admitted, len(numbers))

    def whole(self, slo: int) -> Counts:
        """What an SLO's events come to, by its place among the SLOs."""
        return self._whole[slo].counts()

    def parts(self, slo: int) -> Iterator[tuple[str, list[str], Counts]]:
        """The same by each dimension: its name, its values by their numbers, and the counts."""
        for name, numbers, cells in zip(self.by, self._numbers, self._parts[slo], strict=True):
            yield name, [value for (value,) in numbers], cells.counts()

    def worst(self, slo: int, start: int, end: int) -> tuple[Example, ...]:
        """The worst events of an SLO from one minute to before another, at most five, the worst first."""
        return self._worst[slo].between(start, end)
