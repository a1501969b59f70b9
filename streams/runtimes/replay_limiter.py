"""Bounds: what of its inputs a worker reads, and how fast, where that is not all there is and as fast as it can."""

from __future__ import annotations

import time

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.streams.records import Record, ReplayBounds, TopicPartition

_SLICE_S = 0.5
"""A worker that is held back reads what it may read in so long at once, and then polls again."""


class ReplayLimiter:
    """Holds a consumer to bounds: a partition that was read to its end is paused.

    Args:
        bounds: what is read; all there is without.
        consumer: whose partitions they are.
    """

    def __init__(self, bounds: ReplayBounds | None, consumer: Consumer) -> None:
        self._ends = None if bounds is None else bounds.ends
        self._rate = None if bounds is None else bounds.rate
        self._consumer = consumer
        self._paused: set[TopicPartition] = set()
        self._next_s = 0.0

    def admits(self, record: Record) -> bool:
        """Whether a record is within the bounds."""
        if self._ends is None:
            return True
        place = record.topic_partition
        if record.offset < self._ends.get(place, 0):
            return True
        if place not in self._paused:
            self._paused.add(place)
            self._consumer.pause([PartitionOffset(*place)])
        return False

    def capacity(self, most: int) -> int:
        """How many records may be read now, at most so many; 0 after a short rest."""
        rate = self._rate
        if rate is None:
            return most
        wait_s = self._next_s - time.monotonic()
        if wait_s > 0:
            time.sleep(min(wait_s, _SLICE_S))
            return 0
        return min(most, max(1, int(rate * _SLICE_S)))

    def count(self, records: int) -> None:
        """So many records were read."""
        if self._rate is not None and records:
            self._next_s = max(self._next_s, time.monotonic() - _SLICE_S) + records / self._rate

    def forget(self) -> None:
        """The partitions are about to be given up: none may come back paused."""
        if self._paused:
            self._consumer.resume([PartitionOffset(*place) for place in self._paused])
        self._paused = set()
