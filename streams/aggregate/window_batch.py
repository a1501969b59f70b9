"""The windows that the evaluations of a batch fall into."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

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
        self._dimensions, self._late_after_us = dimensions, times.late_after_us
        self._windows, self._admission = windows, admission
        self._newest_us = None if newest is None else microseconds(newest)
        self._size_us = times.size // timedelta(microseconds=1)
        self._found: dict[tuple[int, Origin], int] = {}
        """The numbers of windows by start and origin: the origins of most events are those of others."""
        self._numbers: dict[tuple[int, Labels], int] = {}
        """The numbers of windows by start in microseconds and label set."""
        self.rows: list[ScoreRow] = []
        self.owners: list[int] = []
        """The number of each row's window."""
        self.opened: dict[Key, int] = {}
        """The offset of the first evaluation of each window, in the order of the windows' numbers."""
        self.late: Counter[int] = Counter()
        """The number of late events, by the number of their window."""
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
        number = self._found.get((start_us, row.origin))
        if number is None:
            number = self._number(start_us, row.origin, record.offset)
        # Judgements are later by nature; `late` counts how many of the events themselves are out of order.
        newest_us = self._newest_us
        if newest_us is not None and start_us + self._late_after_us <= newest_us and not row.judged:
            self.late[number] += 1
        # Event time reaches at most the record's timestamp, since clocks may be fast.
        stamp_ms = record.timestamp_ms
        if stamp_ms is not None and time_us > stamp_ms * 1000:
            time_us = max(0, stamp_ms) * 1000
        if newest_us is None or time_us > newest_us:
            self._newest_us = time_us
        self.rows.append(row)
        self.owners.append(number)

    def _number(self, start_us: int, origin: Origin, offset: int) -> int:
        """Return the number of the window of an event, which is that of the overflow set if it is not admitted."""
        labels, overflow = self._dimensions.of(origin), self._dimensions.overflow
        start = EPOCH + timedelta(microseconds=start_us)
        number = self._numbers.get((start_us, labels))
        if number is None:
            if labels in self._windows.get(start, ()) or self._admission.admit(labels, start) or labels == overflow:
                number = self._opened(start, start_us, labels, offset)
            else:  # It is asked again for each event, as there may be room later.
                self.overflows += 1
                return self._opened(start, start_us, overflow, offset)
        self._found[start_us, origin] = number
        return number

    def _opened(self, start: datetime, start_us: int, labels: Labels, offset: int) -> int:
        number = self._numbers.setdefault((start_us, labels), len(self._numbers))
        self.opened.setdefault((start, labels), offset)
        return number
