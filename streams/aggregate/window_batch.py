"""The windows that a batch of evaluations falls into, with the sums that the batch adds to each."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from ragweir.metrics.aggregation.aggregator import Aggregator, WindowEntry
from ragweir.metrics.aggregation.cardinality import Labels
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.aggregate.dimensions import Dimensions
from ragweir.streams.aggregate.held_windows import LabelSetAdmission, Windows
from ragweir.streams.aggregate.window_times import EPOCH, WindowTimes, start_of
from ragweir.streams.records import Record

Key = tuple[datetime, Labels]
"""A window of one partition: its start and its dimensions."""


class WindowBatch:
    """Sums the evaluations of one batch of a partition by window.

    `windows` are those that are held; `admission` decides about label sets that they do not have. `newest` is the
    largest event time before the batch, and afterwards that after it.
    """

    def __init__(
        self,
        aggregator: Aggregator,
        dimensions: Dimensions,
        times: WindowTimes,
        windows: Windows,
        admission: LabelSetAdmission,
        newest: datetime | None,
    ) -> None:
        self._aggregator, self._dimensions, self._times = aggregator, dimensions, times
        self._windows, self._admission = windows, admission
        self.newest, self._watermark = newest, times.watermark(newest)
        self._entries: list[WindowEntry[Key]] = []
        self.opened: dict[Key, int] = {}
        """The offset of the first evaluation of each window."""
        self.late: Counter[Key] = Counter()
        self.overflows = 0
        """The number of evaluations that count under the overflow set."""

    def add(self, evaluation: Evaluation, record: Record) -> WindowEntry[Key]:
        """Add an evaluation, and return the part of it that enters its window."""
        time, start = evaluation.event_time, start_of(evaluation.event_time, self._times.size)
        labels, overflow = self._dimensions.of(evaluation), self._dimensions.overflow
        known = (start, labels) in self.opened or labels in self._windows.get(start, ())
        if not known and not self._admission.admit(labels, start) and labels != overflow:
            self.overflows += 1
            labels = overflow
        key = start, labels
        self.opened.setdefault(key, record.offset)
        # Judgements are later by nature; `late` counts how many of the events themselves are out of order.
        if evaluation.stage == "scored" and self._times.is_closed(start, self._watermark):
            self.late[key] += 1
        reached = _reached(time, record)
        if self.newest is None or reached > self.newest:
            self.newest, self._watermark = reached, self._times.watermark(reached)
        entry = self._aggregator.entry(evaluation, key)
        self._entries.append(entry)
        return entry

    def sums(self) -> dict[Key, WindowAggregate]:
        """Return the contents that the batch adds to each window, in the order in which windows occurred first."""
        sums = self._aggregator.aggregate(self._entries)
        for key, contents in sums.items():
            contents.late = self.late[key]
        return sums


def _reached(time: datetime, record: Record) -> datetime:
    """Return the event time that an event leads to: at most its record's timestamp, since clocks may be fast."""
    stamp_ms = record.timestamp_ms
    if stamp_ms is None or time.timestamp() * 1000 <= stamp_ms:
        return time
    return EPOCH + timedelta(milliseconds=max(0, stamp_ms))
