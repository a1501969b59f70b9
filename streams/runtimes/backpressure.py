"""Pacing: reads no partition of which the agent takes nothing, while its worker goes on polling."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.streams.agent import Agent
from ragweir.streams.records import TopicPartition
from ragweir.streams.runtimes.offsets import OffsetTracker


class Backpressure:
    """Pauses and resumes partitions.

    A paused partition is sought when it is resumed: what was fetched of it is gone, and it may have to go back.

    Args:
        agent: says what it takes.
        consumer: whose partitions they are.
        positions: where reading goes on.
    """

    def __init__(self, agent: Agent, consumer: Consumer, positions: OffsetTracker) -> None:
        self._agent, self._consumer, self._positions = agent, consumer, positions
        self.paused: set[TopicPartition] = set()

    def capacity(self, seek: Callable[[PartitionOffset], None]) -> int:
        """Pause and resume what has to be; gives how many records may be read.

        Args:
            seek: sets where the consumer goes on.
        """
        capacity, paused = self._agent.capacity, self._agent.paused
        for place, offset in paused.items():
            self._positions.back(place, offset)
        wanted = set(paused) if capacity else set(self._positions.partitions())
        if pause := wanted - self.paused:
            self._consumer.pause([PartitionOffset(*place) for place in pause])
        resume = self.paused - wanted
        self.paused = wanted
        if resume:
            self._consumer.resume([PartitionOffset(*place) for place in resume])
        for place in resume:
            seek(PartitionOffset(*place, self._positions.consumed(place)))
        return capacity

    def forget(self) -> None:
        """Resume all partitions, which are about to be given up: none may come back paused."""
        if self.paused:
            self._consumer.resume([PartitionOffset(*place) for place in self.paused])
        self.paused = set()
