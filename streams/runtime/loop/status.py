"""Shows a worker's readiness, lag and commits in telemetry, health and log."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.streams.runtime.kafka.client import Connection
from ragweir.streams.runtime.loop.batches import BatchReader
from ragweir.streams.runtime.loop.rebalance import RebalanceListener
from ragweir.streams.runtime.loop.transactions import CALL_TIMEOUT_SECONDS
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Measurements, Outcome, TopicPartition
from ragweir.streams.runtime.recovery.offsets import OffsetTracker
from ragweir.streams.runtime.serving.dead_letter_log import DeadLetterLog
from ragweir.streams.runtime.serving.health import Health
from ragweir.streams.runtime.serving.telemetry import Telemetry

_LAG_SECONDS = 5.0
"""Time between two updates of the lag."""


def show_broker(connection: Connection, telemetry: Telemetry, health: Health, not_ready: str) -> None:
    """Show whether the broker is connected; `not_ready` is the reason why a connected worker is not ready."""
    lost = connection.lost_reason or connection.auth_error
    telemetry.set("ragweir_broker_up", 0 if lost else 1)
    health.not_ready = f"the broker is lost: {lost}" if lost else not_ready


class Status:
    """Keeps readiness and lag up to date; a lost broker is back once it describes `topic`.

    The lag counts from the last record that was settled, or, with `lag_from_read`, that was read.
    """

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        connection: Connection,
        rebalance: RebalanceListener,
        offsets: OffsetTracker,
        reader: BatchReader,
        telemetry: Telemetry,
        health: Health,
        *,
        lag_from_read: bool,
    ) -> None:
        self._lag_from_read = lag_from_read
        self._consumer, self._topic, self._connection = consumer, topic, connection
        self._rebalance, self._offsets, self._reader = rebalance, offsets, reader
        self._telemetry, self._health = telemetry, health
        self._dead_letters = DeadLetterLog()
        self._lag_at = 0.0

    def tick(self) -> None:
        """Detect that a lost broker is back, and show everything; the lag every few seconds."""
        self._dead_letters.tick()
        if self._connection.lost_reason:
            with suppress(KafkaException):
                self._consumer.list_topics(self._topic, timeout=CALL_TIMEOUT_SECONDS)
                self._connection.on_answer()
        self.show()
        if machine.monotonic() >= self._lag_at:
            self._lag_at = machine.monotonic() + _LAG_SECONDS
            self._show_lag()

    def show(self) -> None:
        """Record a heartbeat and show the readiness."""
        self._health.alive()
        not_ready = "" if self._rebalance.joined else "waiting for partitions"
        show_broker(self._connection, self._telemetry, self._health, not_ready)

    def on_batch(self, records: int, handle_s: float, commit_s: float) -> None:
        """Observe a committed batch."""
        self._telemetry.observe("ragweir_batch_events", records)
        self._telemetry.observe("ragweir_handle_seconds", handle_s)
        self._telemetry.observe("ragweir_commit_seconds", commit_s)
        self._telemetry.set("ragweir_last_commit_timestamp_seconds", machine.time())

    def on_commit(self, outcome: Outcome) -> None:
        """Add the counts and gauges of a committed outcome."""
        self._telemetry.add(Measurements(outcome.counts, outcome.levels))
        self._dead_letters.on_commit(outcome)

    def end(self) -> None:
        """Show that the worker has stopped."""
        self._health.not_ready = "stopped"
        self._dead_letters.flush()

    def _show_lag(self) -> None:
        # The client has the ends of partitions that it fetches; those of paused ones have to be asked for.
        paused: Mapping[TopicPartition, int] = {}
        if not self._connection.lost_reason:
            with suppress(KafkaException):
                paused = self._reader.ends_of_paused(CALL_TIMEOUT_SECONDS)
        for partition, committed in self._offsets.committed.items():
            low, high = self._consumer.get_watermark_offsets(PartitionOffset(*partition), cached=True)
            high = max(high, paused.get(partition, high))
            if low <= high:  # Before the first fetch there are no ends.
                # At the end, what is left are commit markers of other transactions.
                consumed = self._offsets.consumed[partition]
                position = consumed if self._lag_from_read else committed
                is_done = partition in self._reader.at_end and position == consumed
                self._telemetry.set(
                    "ragweir_lag", 0 if is_done else max(0, high - position), partition[0], str(partition[1])
                )
