"""The windows that a batch of evaluations falls into, and the entries that the batch adds to them."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from ragweir.metrics.aggregation.aggregator import WindowEntry
from ragweir.metrics.aggregation.cardinality import Labels
from ragweir.schemas.packed_scores import Origin, ScoreRow
from ragweir.streams.aggregate.dimensions import Dimensions
from ragweir.streams.aggregate.held_windows import LabelSetAdmission, Windows
from ragweir.streams.aggregate.window_times import EPOCH, WindowTimes, microseconds
from ragweir.streams.records import Record

Key = tuple[datetime, Labels]
"""A window of one partition: its start and its dimensions."""


class WindowBatch:
    """Finds the windows of the evaluations of one batch of a partition.

    `windows` are those that are held; `admission` decides about label sets that they do not have. `newest` is the
    largest event time before the batch.
    """

    def __init__(
        self,
        dimensions: Dimensions,
        times: WindowTimes,
        windows: Windows,
        admission: LabelSetAdmission,
        newest: datetime | None,
    ) -> None:
        self._dimensions, self._times = dimensions, times
        self._windows, self._admission = windows, admission
        self._newest = newest
        self._newest_us = None if newest is None else microseconds(newest)
        self._size_us = times.size // timedelta(microseconds=1)
        self._labels: dict[Origin, Labels] = {}
        self._keys: dict[tuple[int, Labels], Key] = {}
        """The windows that the batch has opened or found, by start in microseconds and label set."""
        self.entries: list[WindowEntry[Key]] = []
        self.opened: dict[Key, int] = {}
        """The offset of the first evaluation of each window, in the order in which windows occurred first."""
        self.late: Counter[Key] = Counter()
        self.overflows = 0
        """The number of evaluations that count under the overflow set."""

    @property
    def newest(self) -> datetime | None:
        """The largest event time after the batch."""
        return None if self._newest_us is None else EPOCH + timedelta(microseconds=self._newest_us)

    def add(self, row: ScoreRow, record: Record) -> None:
        """Add the row of a record."""
        time_us = row.time_us
        start_us = time_us - time_us % self._size_us
        labels = self._labels.get(row.origin)
        if labels is None:
            labels = self._labels[row.origin] = self._dimensions.of(row.origin)
        key = self._keys.get((start_us, labels)) or self._admitted(start_us, labels, record.offset)
        # Judgements are later by nature; `late` counts how many of the events themselves are out of order.
        newest_us = self._newest_us
        if newest_us is not None and not row.judged and start_us + self._times.late_after_us <= newest_us:
            self.late[key] += 1
        # Event time reaches at most the record's timestamp, since clocks may be fast.
        stamp_ms = record.timestamp_ms
        if stamp_ms is not None and time_us > stamp_ms * 1000:
            time_us = max(0, stamp_ms) * 1000
        if newest_us is None or time_us > newest_us:
            self._newest_us = time_us
        self.entries.append(WindowEntry(key, row))

    def _admitted(self, start_us: int, labels: Labels, offset: int) -> Key:
        """Return the window of a label set, which is that of the overflow set if it is not admitted."""
        start = EPOCH + timedelta(microseconds=start_us)
        overflow = self._dimensions.overflow
        if labels not in self._windows.get(start, ()) and not self._admission.admit(labels, start):
            if labels != overflow:
                self.overflows += 1
                key = start, overflow
                self.opened.setdefault(key, offset)
                self._keys[start_us, overflow] = key
                return key
        key = start, labels
        self.opened.setdefault(key, offset)
        self._keys[start_us, labels] = key
        return key
