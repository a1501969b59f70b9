"""The limits of a replay: the offsets that a worker reads, and its rate."""

from __future__ import annotations

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record, ReplayBounds, TopicPartition

_SLICE_SECONDS = 0.5
"""Duration whose records a rate-limited worker reads in one batch."""


class ReplayLimiter:
    """Pauses partitions at the end of the replay, and limits the rate. Without bounds it does nothing."""

    def __init__(self, bounds: ReplayBounds | None, consumer: Consumer) -> None:
        self._ends = None if bounds is None else bounds.ends
        self._rate = None if bounds is None else bounds.rate
        self._consumer = consumer
        self._paused: set[TopicPartition] = set()
        self._next_s = 0.0

    def admits(self, record: Record) -> bool:
        """Return whether a record is within the bounds; pause its partition if not."""
        if self._ends is None or record.offset < self._ends.get(record.topic_partition, 0):
            return True
        if record.topic_partition not in self._paused:
            self._paused.add(record.topic_partition)
            self._consumer.pause([PartitionOffset(*record.topic_partition)])
        return False

    def capacity(self, limit: int) -> int:
        """Return how many records may be read now, at most `limit`; sleep and return 0 if the rate is used up."""
        if self._rate is None:
            return limit
        wait_s = self._next_s - machine.monotonic()
        if wait_s > 0:
            machine.sleep(min(wait_s, _SLICE_SECONDS))
            return 0
        return min(limit, max(1, int(self._rate * _SLICE_SECONDS)))

    def count(self, records: int) -> None:
        """Count records that were read against the rate."""
        if self._rate is not None and records:
            self._next_s = max(self._next_s, machine.monotonic() - _SLICE_SECONDS) + records / self._rate

    def resume_all(self) -> None:
        """Resume all partitions before a rebalance or a rewind: none may come back paused."""
        if self._paused:
            self._consumer.resume([PartitionOffset(*partition) for partition in self._paused])
        self._paused = set()
