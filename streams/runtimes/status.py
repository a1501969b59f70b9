"""Shows in telemetry and health whether a worker can work, and how far behind it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.streams.kafka_client import Connection
from ragweir.streams.records import TopicPartition
from ragweir.streams.runtimes.batches import BatchReader
from ragweir.streams.runtimes.partitions import Partitions
from ragweir.streams.runtimes.positions import Positions
from ragweir.streams.runtimes.transactions import CALL_TIMEOUT_S
from ragweir.streams.serving.health import Health
from ragweir.streams.serving.telemetry import Telemetry

_LAG_EVERY_S = 5.0


class Status:
    """Keeps the readiness, the lag and the state of the connection current.

    Args:
        consumer: asked for the ends of partitions.
        topic: any topic that the consumer may see; asked for to learn whether a lost broker is back.
        connection: the state of the connection.
        partitions: says whether the worker is in its group.
        positions: the offsets of the partitions.
        reader: says what was read to its end.
        telemetry: shows the lag.
        health: shows the readiness.
    """

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        connection: Connection,
        partitions: Partitions,
        positions: Positions,
        reader: BatchReader,
        telemetry: Telemetry,
        health: Health,
    ) -> None:
        self._consumer, self._topic, self._connection = consumer, topic, connection
        self._partitions, self._positions, self._reader = partitions, positions, reader
        self._telemetry, self._health = telemetry, health
        self._lag_at = 0.0

    def watch(self) -> None:
        """Look whether a lost broker is back, and show all; the lag every few seconds."""
        if self._connection.lost_because:
            with suppress(KafkaException):
                self._consumer.list_topics(self._topic, timeout=CALL_TIMEOUT_S)
                self._connection.back()
        self.show()
        if time.monotonic() >= self._lag_at:
            self._lag_at = time.monotonic() + _LAG_EVERY_S
            self._show_lag()

    def show(self) -> None:
        """Show whether the worker can work, and that it is alive."""
        self._health.alive()
        lost = self._connection.lost_because or self._connection.refused_because
        self._telemetry.set("ragweir_broker_up", 0 if lost else 1)
        if lost:
            self._health.not_ready = f"the broker is lost: {lost}"
        else:
            self._health.not_ready = "" if self._partitions.joined else "waiting for partitions"

    def _show_lag(self) -> None:
        # The client knows the end of what it fetches; of a partition that is paused it has to be asked for.
        paused: Mapping[TopicPartition, int] = {}
        if not self._connection.lost_because:
            with suppress(KafkaException):
                paused = self._reader.ends_of_paused(CALL_TIMEOUT_S)
        for place in self._positions.places():
            low, high = self._consumer.get_watermark_offsets(PartitionOffset(*place), cached=True)
            high = max(high, paused.get(place, high))
            if low <= high:  # Before the first fetch the cache holds nothing.
                # The marks of others' transactions have offsets too, but are nothing to read.
                settled, read = self._positions.standing(place)
                lag = 0 if place in self._reader.at_end and settled == read else max(0, high - settled)
                self._telemetry.set("ragweir_lag", lag, place[0], str(place[1]))
