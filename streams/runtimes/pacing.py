"""Pacing: reads no partition of which a patient agent wants nothing, while its worker goes on polling."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.streams.agents.agent import Patient
from ragweir.streams.records import TopicPartition
from ragweir.streams.runtimes.positions import Positions


class Pacing:
    """Pauses and resumes partitions.

    A paused partition is sought when it is resumed: what was fetched of it is gone, and it may have to go back.

    Args:
        patient: says what it wants.
        consumer: whose partitions they are.
        positions: where reading goes on.
        seek: sets where the consumer goes on.
    """

    def __init__(
        self, patient: Patient, consumer: Consumer, positions: Positions, seek: Callable[[PartitionOffset], None]
    ) -> None:
        self._patient = patient
        self._consumer = consumer
        self._positions = positions
        self._seek = seek
        self.paused: set[TopicPartition] = set()

    def pace(self) -> int:
        """Pause and resume what has to be; gives how many records may be read."""
        room, resting = self._patient.room, self._patient.resting
        for place, offset in resting.items():
            self._positions.back(place, offset)
        wanted = set(resting) if room else set(self._positions.places())
        if pause := wanted - self.paused:
            self._consumer.pause([PartitionOffset(*place) for place in pause])
        resume = self.paused - wanted
        self.paused = wanted
        if resume:
            self._consumer.resume([PartitionOffset(*place) for place in resume])
        for place in resume:
            self._seek(PartitionOffset(*place, self._positions.reached(place)))
        return room

    def forget(self) -> None:
        """The partitions are about to be given up: none may come back paused."""
        if self.paused:
            self._consumer.resume([PartitionOffset(*place) for place in self.paused])
        self.paused = set()
