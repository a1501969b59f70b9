"""The windows of one partition that the evaluations of an open transaction fall into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.cardinality import Labels
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.packed_scores import DimensionFields, ScoreRow
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.aggregate.held_windows import LabelSetAdmission, WindowPart
from ragweir.streams.services.aggregate.partition_state import PartitionState
from ragweir.streams.services.aggregate.window_times import EPOCH, WindowTimes, microseconds
from ragweir.streams.services.shared.dimensions import Dimensions

Key = tuple[datetime, Labels]
"""A window of one partition: its start and its dimensions."""

_MOST_ROWS = 10_000
"""Rows that are collected before they are summed: the more, the less each costs, and the more memory they take."""


class OpenWindows:
    """Collects the evaluations of one partition in a transaction of any number of batches, and sums them by window.

    The sums are added to the decoded contents of held windows, which an abort has to release. Nothing else of the state
    is changed.

    Args:
        state: the state of the partition before the transaction.
        dimensions: the dimensions of windows.
        times: the times of windows.
        admission: decides about label sets that the held windows do not have.
        aggregator: adds rows to contents.
        decoded: returns a held part with its contents; None if it cannot be continued.
    """

    def __init__(
        self,
        state: PartitionState,
        dimensions: Dimensions,
        times: WindowTimes,
        admission: LabelSetAdmission,
        aggregator: Aggregator,
        decoded: Callable[[WindowPart], WindowPart | None],
    ) -> None:
        self.state = state
        """The state before the transaction, with the offset after the last record of it."""
        self.admission = admission
        self._dimensions, self._times, self._aggregator, self._decoded = dimensions, times, aggregator, decoded
        self._newest_us = None if state.newest is None else microseconds(state.newest)
        self._size_us = times.size // timedelta(microseconds=1)
        self._found: dict[tuple[int, DimensionFields], int] = {}
        """The numbers of windows by start and origin: the origins of most events are those of others."""
        self._numbers: dict[tuple[int, Labels], int] = {}
        """The numbers of windows by start in microseconds and label set."""
        self._opened: dict[Key, int] = {}
        """The offset of the first evaluation of each window, in the order of the windows' numbers."""
        self._rows: list[ScoreRow] = []
        self._owners: list[int] = []
        """The number of each row's window."""
        self._held: list[WindowPart | None] = []
        """The part that each window continues, by the window's number, as far as rows were summed."""
        self._contents: list[WindowAggregate] = []
        """The contents of each of these."""
        self._late: Counter[int] = Counter()
        """The number of late events, by the number of their window."""
        self.overflows = 0
        """The number of evaluations that count under the overflow set."""

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._opened)

    @property
    def rows(self) -> int:
        """The number of rows that are collected and not summed."""
        return len(self._rows)

    @property
    def newest(self) -> datetime | None:
        """The largest event time up to now."""
        return None if self._newest_us is None else EPOCH + timedelta(microseconds=self._newest_us)

    @property
    def late(self) -> int:
        """The number of late events."""
        return self._late.total()

    def advance(self, next_offset: int) -> None:
        """Set the offset after the last record."""
        self.state = replace(self.state, next_offset=next_offset)

    def add(self, row: ScoreRow, record: Record) -> None:
        """Add the row of a record."""
        time_us = row.time_us
        start_us = time_us - time_us % self._size_us
        number = self._found.get((start_us, row.origin))
        if number is None:
            number = self._number(start_us, row.origin, record.offset)
        # Judgements are later by nature; `late` counts how many of the events themselves are out of order.
        newest_us = self._newest_us
        if newest_us is not None and start_us + self._times.late_after_us <= newest_us and not row.judged:
            self._late[number] += 1
        # Event time reaches at most the record's timestamp, since clocks may be fast.
        stamp_ms = record.timestamp_ms
        if stamp_ms is not None and time_us > stamp_ms * 1000:
            time_us = max(0, stamp_ms) * 1000
        if newest_us is None or time_us > newest_us:
            self._newest_us = time_us
        self._rows.append(row)
        self._owners.append(number)
        if len(self._rows) >= _MOST_ROWS:
            self.sum()

    def sum(self) -> None:
        """Add the collected rows to the contents of their windows."""
        windows = self.state.held.windows
        for start, labels in islice(self._opened, len(self._held), None):
            part = windows.get(start, {}).get(labels)
            held = None if part is None else self._decoded(part)
            self._held.append(held)
            self._contents.append((held and held.contents) or WindowAggregate())
        # The aggregates in memory are changed: copying each takes longer than the sums.
        self._aggregator.add(self._rows, self._owners, self._contents)
        self._rows, self._owners = [], []

    def parts(self) -> Iterator[tuple[Key, WindowPart, WindowAggregate]]:
        """Yield each window with the part that it continues or opens, and its new contents."""
        self.sum()
        newest, base = self.newest, self.state.part_base
        for number, ((key, offset), held, contents) in enumerate(
            zip(self._opened.items(), self._held, self._contents, strict=True)
        ):
            contents.late += self._late[number]
            opened_at = base + offset
            new = WindowPart(opened_at if self._times.is_held(key[0], newest) else -1 - opened_at)
            yield key, held or new, contents

    def _number(self, start_us: int, origin: DimensionFields, offset: int) -> int:
        """Return the number of the window of an event, which is that of the overflow set if it is not admitted."""
        labels, overflow = self._dimensions.of(origin), self._dimensions.overflow
        start = EPOCH + timedelta(microseconds=start_us)
        number = self._numbers.get((start_us, labels))
        if number is None:
            known = labels in self.state.held.windows.get(start, ())
            if known or self.admission.admit(labels, start) or labels == overflow:
                number = self._open(start, start_us, labels, offset)
            else:  # It is asked again for each event, as there may be room later.
                self.overflows += 1
                return self._open(start, start_us, overflow, offset)
        self._found[start_us, origin] = number
        return number

    def _open(self, start: datetime, start_us: int, labels: Labels, offset: int) -> int:
        number = self._numbers.setdefault((start_us, labels), len(self._numbers))
        self._opened.setdefault((start, labels), offset)
        return number
