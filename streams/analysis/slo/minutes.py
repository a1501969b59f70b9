"""Sums per minute of event time, in memory that grows with the minutes and not with the events."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweir.streams.analysis.slo.certainty import OUTCOMES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_VALUE_BITS = 17
"""Bits of a value's number: enough for `windows.max_series` and the overflow."""
_OUTCOME_BITS = 2
_BUFFERED_EVENTS = 1 << 16
"""Events are counted in batches, which is far faster than one by one."""
MILLION = 1_000_000


class CountColumns(NamedTuple):
    """Columns ordered by minute: minutes since 1970, numbers of values, their events and bad events."""

    minutes: Ints
    values: Ints
    events: Ints
    bad: Ints


class MinuteCounts:
    """Counts of one SLO by the values of one dimension. A key holds minute, value and outcome."""

    def __init__(self) -> None:
        self._buffer = array("q")
        self._keys = self._counts = np.zeros(0, dtype=np.int64)

    def add(self, minute: int, value: int, *, bad: bool) -> None:
        """Count an event."""
        self._buffer.append((minute << _VALUE_BITS | value) << 1 | bad)
        if len(self._buffer) >= _BUFFERED_EVENTS:
            self._flush()

    def _flush(self) -> None:
        keys, counts = np.unique(np.array(self._buffer, dtype=np.int64), return_counts=True)
        merged, places = np.unique(np.concatenate((self._keys, keys)), return_inverse=True)
        weights = np.concatenate((self._counts, counts))
        self._keys, self._counts = merged, np.bincount(places, weights, len(merged)).astype(np.int64)
        self._buffer = array("q")

    def counts(self) -> CountColumns:
        """Return all counts."""
        self._flush()
        keys, places = np.unique(self._keys >> 1, return_inverse=True)
        bad = np.bincount(places, self._counts * (self._keys & 1), len(keys)).astype(np.int64)
        events = np.bincount(places, self._counts, len(keys)).astype(np.int64)
        return CountColumns(keys >> _VALUE_BITS, keys & ((1 << _VALUE_BITS) - 1), events, bad)


class WeightColumns(NamedTuple):
    """Sums of weights, with one row for each of `certainty.OUTCOMES` and one column for each minute, in order."""

    minutes: Ints
    sums: Floats
    """In whole millionths, as the counters of the aggregate service."""
    squares: Floats
    """Sums of the squares of the weights, in whole millionths."""


class MinuteWeights:
    """Sums of the weights of events for one SLO on a judged metric. A key holds minute and outcome."""

    def __init__(self) -> None:
        self._buffer, self._weights = array("q"), array("d")
        self._keys = np.zeros(0, dtype=np.int64)
        self._sums = np.zeros((2, 0))

    def add(self, minute: int, outcome: int, weight: float) -> None:
        """Add an event, by its place in `certainty.OUTCOMES`."""
        self._buffer.append(minute << _OUTCOME_BITS | outcome)
        self._weights.append(weight)
        if len(self._buffer) >= _BUFFERED_EVENTS:
            self._flush()

    def _flush(self) -> None:
        keys, weights = np.array(self._buffer, dtype=np.int64), np.array(self._weights)
        merged, places = np.unique(np.concatenate((self._keys, keys)), return_inverse=True)
        # Whole numbers, whose sums do not depend on the order of the events.
        added = np.rint([weights * MILLION, weights**2 * MILLION])
        sums = np.concatenate((self._sums, added), axis=1)
        self._sums = np.array([np.bincount(places, row, len(merged)) for row in sums])
        self._keys, self._buffer, self._weights = merged, array("q"), array("d")

    def weights(self) -> WeightColumns:
        """Return all sums."""
        self._flush()
        minutes, places = np.unique(self._keys >> _OUTCOME_BITS, return_inverse=True)
        found = np.zeros((2, len(OUTCOMES), len(minutes)))
        found[:, self._keys & (len(OUTCOMES) - 1), places] = self._sums
        return WeightColumns(minutes, found[0], found[1])
