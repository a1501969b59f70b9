"""Backpressure: pauses the partitions of which the agent takes no records, while the consumer goes on polling."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.streams.runtime.agent_parts import Holding
from ragweir.streams.runtime.records import TopicPartition
from ragweir.streams.runtime.recovery.offsets import OffsetTracker


class Backpressure:
    """Pauses and resumes partitions as the `capacity` and the `paused` of an agent's holding say.

    A resumed partition is sought: its prefetched records are gone, and it may have to go back.
    """

    def __init__(self, holding: Holding, consumer: Consumer, offsets: OffsetTracker) -> None:
        self._holding, self._consumer, self._offsets = holding, consumer, offsets
        self.paused: set[TopicPartition] = set()

    def capacity(self, seek: Callable[[PartitionOffset], None]) -> int:
        """Pause and resume partitions; return the number of records that the agent takes now."""
        capacity, paused = self._holding.capacity, self._holding.paused
        for partition, offset in paused.items():
            self._offsets.consumed[partition] = offset
        to_pause = set(paused) if capacity else set(self._offsets.committed)
        if pause := to_pause - self.paused:
            self._consumer.pause([PartitionOffset(*partition) for partition in pause])
        resume = self.paused - to_pause
        self.paused = to_pause
        if resume:
            self._consumer.resume([PartitionOffset(*partition) for partition in resume])
        for partition in resume:
            seek(PartitionOffset(*partition, self._offsets.consumed[partition]))
        return capacity

    def resume_all(self) -> None:
        """Resume all partitions before a rebalance: none may come back paused."""
        if self.paused:
            self._consumer.resume([PartitionOffset(*partition) for partition in self.paused])
        self.paused = set()
