"""Shows in telemetry, health and log whether a worker can work, what it has done, and how far behind it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.streams.kafka.client import Connection
from ragweir.streams.records import Measurements, Outcome, TopicPartition
from ragweir.streams.runtimes.batches import BatchReader
from ragweir.streams.runtimes.offsets import OffsetTracker
from ragweir.streams.runtimes.partitions import Partitions
from ragweir.streams.runtimes.transactions import CALL_TIMEOUT_S
from ragweir.streams.serving.dead_letter_log import DeadLetterLog
from ragweir.streams.serving.health import Health
from ragweir.streams.serving.telemetry import Telemetry

_LAG_EVERY_S = 5.0


class Status:
    """Keeps the readiness, the lag and the state of the connection current, and counts what is committed.

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
        positions: OffsetTracker,
        reader: BatchReader,
        telemetry: Telemetry,
        health: Health,
    ) -> None:
        self._consumer, self._topic, self._connection = consumer, topic, connection
        self._partitions, self._positions, self._reader = partitions, positions, reader
        self._telemetry, self._health = telemetry, health
        self._dead_letters = DeadLetterLog()
        self._lag_at = 0.0

    def watch(self) -> None:
        """Look whether a lost broker is back, and show all; the lag every few seconds."""
        self._dead_letters.tick()
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

    @property
    def lost(self) -> bool:
        """True while the broker is out of reach."""
        return bool(self._connection.lost_because)

    def transaction(self, outcome: Literal["committed", "aborted"]) -> None:
        """Count a transaction."""
        self._telemetry.count("ragweir_transactions_total", 1, outcome)

    def batch(self, records: int, handle_s: float, commit_s: float) -> None:
        """Observe a batch that is committed."""
        self._telemetry.observe("ragweir_batch_events", records)
        self._telemetry.observe("ragweir_handle_seconds", handle_s)
        self._telemetry.observe("ragweir_commit_seconds", commit_s)
        self._telemetry.set("ragweir_last_commit_timestamp_seconds", time.time())

    def committed(self, outcome: Outcome) -> None:
        """Add what an outcome counted, and set the gauges that it speaks of."""
        self._telemetry.add(outcome.counts)
        self._telemetry.show(outcome.levels)
        self._dead_letters.committed(outcome)

    def measured(self, measurements: Measurements) -> None:
        """Take what an agent has measured outside of transactions."""
        self._telemetry.measure(measurements)

    def missed(self, place: TopicPartition, number: int) -> None:
        """Count records that retention deleted unread."""
        self._telemetry.count("ragweir_events_missed_total", number, place[0], str(place[1]))

    def end(self) -> None:
        """Show that the worker has stopped."""
        self._health.not_ready = "stopped"
        self._dead_letters.flush()

    def _show_lag(self) -> None:
        # The client knows the end of what it fetches; of a partition that is paused it has to be asked for.
        paused: Mapping[TopicPartition, int] = {}
        if not self._connection.lost_because:
            with suppress(KafkaException):
                paused = self._reader.ends_of_paused(CALL_TIMEOUT_S)
        for place in self._positions.partitions():
            low, high = self._consumer.get_watermark_offsets(PartitionOffset(*place), cached=True)
            high = max(high, paused.get(place, high))
            if low <= high:  # Before the first fetch the cache holds nothing.
                # The marks of others' transactions have offsets too, but are nothing to read.
                settled, read = self._positions.committed_and_consumed(place)
                lag = 0 if place in self._reader.at_end and settled == read else max(0, high - settled)
                self._telemetry.set("ragweir_lag", lag, place[0], str(place[1]))
