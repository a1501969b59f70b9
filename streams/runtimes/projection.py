"""The projection runtime: a consumer without a group, from which one process keeps one projection up to date.

It only reads, so any number of processes may run the same projection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import Interrupted, RestartRequired
from ragweir.streams.kafka.client import Connection, build, reader_properties
from ragweir.streams.kafka.messages import record_of, topic_partition_of
from ragweir.streams.projection import Projection
from ragweir.streams.records import TopicPartition
from ragweir.streams.runtimes.offsets import ask_until_answered
from ragweir.streams.serving.health import Health
from ragweir.streams.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_BATCH = 1_000
_WAIT_S = 0.2
_CALL_TIMEOUT_S = 1.0
_REFRESH_EVERY_S = 5.0


class ProjectionRuntime:
    """Reads a projection's topics and calls its lifecycle; sets the lag, the broker's state and the health.

    Args:
        settings: all of them.
        projection: the projection to drive.
        partitions: the number of partitions of each of its topics, by full name.
        telemetry: the service's own instruments.
        health: ready while the broker answers and every partition was read to its end once.
        stopped: returns true once the runtime is to stop.
    """

    def __init__(
        self,
        settings: Settings,
        projection: Projection,
        partitions: Mapping[str, int],
        telemetry: Telemetry,
        health: Health,
        stopped: Callable[[], bool],
    ) -> None:
        self._projection = projection
        self._partitions = partitions
        self._telemetry = telemetry
        self._health = health
        self._stopped = stopped
        self._unread = {(topic, each) for topic, number in partitions.items() for each in range(number)}
        """The partitions that have not been read to their end once."""
        self._reached: dict[TopicPartition, int] = {}
        """The next offset to read of each partition."""
        self._refresh_at = 0.0
        self._connection = Connection()
        self._consumer = build(
            Consumer,
            {
                "queued.max.messages.kbytes": 32 * 1024,
                **reader_properties(settings),
                "error_cb": self._connection.on_error,
            },
        )

    def run(self) -> None:
        """Drive the projection until told to stop.

        Raises:
            RestartRequired: if a new process has to go on.
        """
        try:
            self._projection.open()
            self._consumer.assign(self._starts())
            while not self._stopped():
                self._turn()
        except Interrupted:
            log.info("ended while waiting for the broker")
        except KafkaException as error:
            raise RestartRequired(f"Kafka: {error.args[0].str()}") from None
        finally:
            self._health.not_ready = "stopped"
            try:
                self._projection.close()
            finally:
                self._consumer.close()

    def _starts(self) -> list[PartitionOffset]:
        since_ms = round(max(0.0, time.time() - self._projection.since_s) * 1000)
        wanted = [PartitionOffset(*place, since_ms) for place in sorted(self._unread)]
        return ask_until_answered(
            lambda timeout: self._consumer.offsets_for_times(wanted, timeout=timeout), self._stopped
        )

    def _turn(self) -> None:
        self._health.alive()
        for message in self._consumer.consume(_BATCH, _WAIT_S):
            self._receive(message)
        if not self._unread:
            self._projection.flush(time.time())
        self._telemetry.measure(self._projection.drain_metrics())
        self._report()
        if time.monotonic() >= self._refresh_at:
            self._refresh_at = time.monotonic() + _REFRESH_EVERY_S
            self._refresh()

    def _receive(self, message: Message) -> None:
        error = message.error()
        if error is None:
            record = record_of(message)
            self._projection.take(record)
            self._reached[record.topic, record.partition] = record.offset + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            # Behind the last record there may be a transaction's end, which is not lag.
            place = topic_partition_of(message)
            self._reached[place] = message.offset() or 0
            self._unread.discard(place)
        elif error.fatal():
            raise RestartRequired(f"Kafka: {error.str()}")
        else:
            log.warning("the consumer reports", reason=error.str(), code=error.name())

    def _report(self) -> None:
        """Update the broker's gauge and the health."""
        lost = self._connection.lost_because or self._connection.refused_because
        self._telemetry.set("ragweir_broker_up", 0 if lost else 1)
        reading = f"reading {len(self._unread)} partitions" if self._unread else ""
        self._health.not_ready = f"the broker is lost: {lost}" if lost else reading

    def _refresh(self) -> None:
        """Detect that a lost broker is back and that a topic has grown; update the lag."""
        for topic, number in self._partitions.items():
            try:
                found = self._consumer.list_topics(topic, timeout=_CALL_TIMEOUT_S).topics
            except KafkaException:
                return
            self._connection.back()
            if len(found[topic].partitions) > number:
                raise RestartRequired(f"{topic} has more partitions than before; starting anew to read them all")
        for place, reached in self._reached.items():
            _, high = self._consumer.get_watermark_offsets(PartitionOffset(*place), cached=True)
            self._telemetry.set("ragweir_lag", max(0, high - reached), place[0], str(place[1]))
