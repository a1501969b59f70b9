"""The projection runtime: drives one projection in one process with a consumer without a group.

It only reads, so any number of processes may run the same projection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import Interrupted, RestartRequired
from ragweir.streams.runtime.kafka.client import Connection, build, reader_properties
from ragweir.streams.runtime.kafka.client_messages import record_of, topic_partition_of
from ragweir.streams.runtime.loop.status import show_broker
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.projection import Projection
from ragweir.streams.runtime.records import TopicPartition
from ragweir.streams.runtime.recovery.offsets import ask_until_answered
from ragweir.streams.runtime.recovery.topic_identity import TopicIdentity
from ragweir.streams.runtime.serving.health import Health
from ragweir.streams.runtime.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_BATCH = 1_000
_BATCH_SECONDS = 0.2
_CALL_SECONDS = 1.0
_FLUSH_SECONDS = 1.0
"""Time between two flushes until all partitions were read to their ends."""
_REFRESH_SECONDS = 5.0
"""Time between two updates of the lag."""


class ProjectionRuntime:
    """Reads a projection's topics and calls its lifecycle; sets the lag, the broker's state and the health.

    Args:
        settings: all settings.
        projection: the projection to drive.
        partitions: the partition count of each of its topics, by full name.
        telemetry: the service's instruments.
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
        self._projection, self._partitions = projection, partitions
        self._telemetry, self._health, self._stopped = telemetry, health, stopped
        self._unread = {(topic, each) for topic, number in partitions.items() for each in range(number)}
        """The partitions that have not been read to their end once."""
        self._consumed: dict[TopicPartition, int] = {}
        """The next offset to read of each partition."""
        self._flush_at = self._refresh_at = 0.0
        self._connection = Connection()
        self._identity = TopicIdentity(settings, tuple(partitions), self._connection, health.alive, stopped)
        self._consumer = build(
            Consumer,
            {
                "queued.max.messages.kbytes": 32 * 1024,
                **reader_properties(settings),
                "error_cb": self._connection.on_error,
            },
        )

    def run(self) -> None:
        """Drive the projection until `stopped` returns true.

        Raises:
            RestartRequired: if a new process has to go on.
        """
        try:
            self._projection.open()
            self._consumer.assign(self._starts())
            while not self._stopped():
                self._process_batch()
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
        """Return where each partition is read from: where the projection resumes, else `since_s` back."""
        versions = self._identity.learn(self._partitions)
        resumed = [
            PartitionOffset(topic, partition, offset)
            for topic, version in versions.items()
            for partition, offset in self._projection.resume(topic, version.id).items()
            if (topic, partition) in self._unread
        ]
        starts = [start for at in resumed if (start := self._resumed(at)) is not None]
        rest = self._unread - {(start.topic, start.partition) for start in starts}
        since_ms = round(max(0.0, machine.time() - self._projection.since_s) * 1000)
        wanted = [PartitionOffset(*partition, since_ms) for partition in sorted(rest)]
        return starts + ask_until_answered(
            lambda timeout: self._consumer.offsets_for_times(wanted, timeout=timeout) if wanted else [], self._stopped
        )

    def _resumed(self, at: PartitionOffset) -> PartitionOffset | None:
        """Return an offset; None if the partition ends before it. Of records that are deleted, the next one is read."""
        _, high = ask_until_answered(
            lambda timeout: self._consumer.get_watermark_offsets(at, timeout=timeout), self._stopped
        )
        if at.offset > high:
            log.warning("a partition is shorter than before", topic=at.topic, partition=at.partition)
            return None
        return at

    def _process_batch(self) -> None:
        self._health.alive()
        for message in self._consumer.consume(_BATCH, _BATCH_SECONDS):
            self._receive(message)
        caught_up = not self._unread
        if caught_up or machine.monotonic() >= self._flush_at:
            self._flush_at = machine.monotonic() + _FLUSH_SECONDS
            self._projection.flush(machine.time(), caught_up=caught_up)
        self._telemetry.add(self._projection.drain_metrics())
        reading = f"reading {len(self._unread)} partitions" if self._unread else ""
        show_broker(self._connection, self._telemetry, self._health, reading)
        if machine.monotonic() >= self._refresh_at:
            self._refresh_at = machine.monotonic() + _REFRESH_SECONDS
            self._refresh()

    def _receive(self, message: Message) -> None:
        error = message.error()
        if error is None:
            record = record_of(message)
            self._projection.take(record)
            self._consumed[record.topic_partition] = record.offset + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            # A commit marker after the last record is not lag.
            partition = topic_partition_of(message)
            self._consumed[partition] = message.offset() or 0
            self._unread.discard(partition)
        elif error.fatal():
            raise RestartRequired(f"Kafka: {error.str()}")
        else:
            log.warning("consumer error", reason=error.str(), code=error.name())

    def _refresh(self) -> None:
        """Detect that a lost broker is back, and that a topic has grown or is another; update the lag."""
        for topic, number in self._partitions.items():
            try:
                found = self._consumer.list_topics(topic, timeout=_CALL_SECONDS).topics
            except KafkaException:
                return
            self._connection.on_answer()
            if len(found[topic].partitions) > number:
                raise RestartRequired(f"{topic} has more partitions than before; starting anew to read them all")
        if changed := self._identity.changed():
            raise RestartRequired(f"{min(changed)} was created again; starting anew to read it from its start")
        for partition, consumed in self._consumed.items():
            _, high = self._consumer.get_watermark_offsets(PartitionOffset(*partition), cached=True)
            self._telemetry.set("ragweir_lag", max(0, high - consumed), partition[0], str(partition[1]))
