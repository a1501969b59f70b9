"""The export service: reads the windows topic without a group and shows its last closed windows to Prometheus.

It only reads, so that any number may run. It starts as far back as the last closed window of the largest size can have
been written, and shows nothing before it has read every partition to its end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ragweir.errors import Interrupted, PermanentError, RestartRequired
from ragweir.metrics.closing import Closing
from ragweir.metrics.contents import Reading
from ragweir.schemas.window import duration_s
from ragweir.streams.dimensions import admission_limits
from ragweir.streams.heartbeat import Heartbeat
from ragweir.streams.kafka_client import Connection, Identity, build, missing_topics, reader_properties, wait_for_broker
from ragweir.streams.messages import place_of, received
from ragweir.streams.runtimes.positions import patiently
from ragweir.streams.service import catalogue, totals
from ragweir.streams.serving.exporter import Exposition
from ragweir.streams.serving.health import Health, serve
from ragweir.streams.serving.telemetry import Known, Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

PORT = 200
"""Added to the base of the telemetry ports."""
_SLACK_S = 900
"""How much older than its window's end a record that is needed may be: disorder, grace, and lag of the aggregation."""
_BATCH = 1_000
_WAIT_S = 0.2
_CALL_TIMEOUT_S = 1.0
_LOOK_EVERY_S = 5.0


class Exporter:
    """Keeps an exposition up to date with the windows topic.

    Args:
        settings: all of them.
        reading: of the windows' records.
        exposition: what it keeps up to date.
        partitions: of the windows topic.
        telemetry: the service's own instruments.
        health: says whether the exposition is current.
        stopped: says whether to stop.
    """

    def __init__(
        self,
        settings: Settings,
        reading: Reading,
        exposition: Exposition,
        partitions: int,
        telemetry: Telemetry,
        health: Health,
        stopped: Callable[[], bool],
    ) -> None:
        windows = settings.windows
        self._topic = f"{settings.topics.prefix}windows"
        self._partitions = partitions
        self._back_s = 2 * duration_s(windows.sizes[-1]) + windows.grace_s + _SLACK_S
        limits = admission_limits(windows)
        self._closing = Closing(windows.sizes, windows.dimensions, reading, windows.grace_s, limits)
        self._exposition = exposition
        self._unread = set(range(partitions))
        """The partitions that have not yet been read to their end once."""
        self._reached: dict[int, int] = {}
        self._telemetry = telemetry
        self._health = health
        self._stopped = stopped
        self._connection = Connection()
        self._look_at = 0.0
        self._consumer = build(
            Consumer,
            {
                "queued.max.messages.kbytes": 32 * 1024,
                **reader_properties(settings),
                "error_cb": self._connection.on_error,
            },
        )

    def run(self) -> None:
        """Work until told to stop.

        Raises:
            RestartRequired: if a new process has to go on.
        """
        try:
            self._consumer.assign(self._starts())
            while not self._stopped():
                self._turn()
        except Interrupted:
            log.info("ended while waiting for the broker")
        except KafkaException as error:
            raise RestartRequired(f"Kafka: {error.args[0].str()}") from None
        finally:
            self._health.not_ready = "stopped"
            self._consumer.close()

    def _starts(self) -> list[TopicPartition]:
        since_ms = round((time.time() - self._back_s) * 1000)
        wanted = [TopicPartition(self._topic, partition, since_ms) for partition in range(self._partitions)]
        return patiently(lambda timeout: self._consumer.offsets_for_times(wanted, timeout=timeout), self._stopped)

    def _turn(self) -> None:
        self._health.alive()
        for message in self._consumer.consume(_BATCH, _WAIT_S):
            self._take(message)
        if not self._unread and (closed := self._closing.advance(time.time())):
            self._exposition.show(closed.values())
            for size, window in closed.items():
                name = "ragweir_windows_revised_total" if window.revised else "ragweir_windows_shown_total"
                self._telemetry.count(name, 1, size)
        self._tell()
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_EVERY_S
            self._look()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is None:
            record = received(message)
            written_s = time.time() if record.timestamp_ms is None else record.timestamp_ms / 1000
            self._closing.take(record.key, record.value, written_s)
            self._reached[record.partition] = record.offset + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            # Behind the last record there may be a transaction's end, which is not lag.
            _, partition = place_of(message)
            self._reached[partition] = message.offset() or 0
            self._unread.discard(partition)
        elif error.fatal():
            raise RestartRequired(f"Kafka: {error.str()}")
        else:
            log.warning("the consumer reports", reason=error.str(), code=error.name())

    def _tell(self) -> None:
        """Bring telemetry and health up to date."""
        for fate, number in self._closing.fates.items():
            self._telemetry.count("ragweir_window_records_total", number, fate)
        for size, number in self._closing.folded.items():
            self._telemetry.count("ragweir_label_sets_folded_total", number, size)
        self._closing.fates.clear()
        self._closing.folded.clear()
        self._telemetry.set("ragweir_open_window_bytes", self._closing.held_bytes)
        lost = self._connection.lost_because or self._connection.refused_because
        self._telemetry.set("ragweir_broker_up", 0 if lost else 1)
        reading = f"reading {len(self._unread)} partitions" if self._unread else ""
        self._health.not_ready = f"the broker is lost: {lost}" if lost else reading

    def _look(self) -> None:
        """Notice that a lost broker is back, and that the topic has grown; show how far behind reading is."""
        try:
            topics = self._consumer.list_topics(self._topic, timeout=_CALL_TIMEOUT_S).topics
        except KafkaException:
            return
        self._connection.back()
        if len(topics[self._topic].partitions) > self._partitions:
            raise RestartRequired(f"{self._topic} has more partitions than before; starting anew to read them all")
        for partition, reached in self._reached.items():
            _, high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
            self._telemetry.set("ragweir_lag", max(0, high - reached), self._topic, str(partition))


def known(settings: Settings) -> Known:
    """Return the label values that its telemetry shows from the start."""
    return Known(windows=settings.windows.sizes)


def run_export(settings: Settings, slot: int, stopped: Callable[[], bool]) -> None:
    """Run one exporter until told to stop.

    Raises:
        PermanentError, ConfigurationError: if people have to mend something first.
        RestartRequired: if a new process has to go on.
    """
    service = Identity("export", slot, settings.topics.prefix).service
    structlog.contextvars.bind_contextvars(service=service, slot=slot, pid=os.getpid())
    metrics = catalogue(settings)
    booleans = [name for name, metric in metrics.metrics.items() if metric.unit == "boolean"]
    exposition = Exposition(settings.windows.dimensions, booleans)
    heartbeat = Heartbeat.inherited()
    telemetry, health = Telemetry(service, slot, known(settings)), Health(pulse=heartbeat)
    waiting = health.beating(stopped)
    port = settings.telemetry.port and settings.telemetry.port + PORT + slot
    try:
        with serve(telemetry.registry, health, settings.telemetry.host, port, more=lambda: exposition.content) as bound:
            log.info("started", telemetry=f"http://{settings.telemetry.host}:{bound}")
            heartbeat.announce(service, slot, bound)
            health.not_ready = "waiting for a broker"
            topics = wait_for_broker(settings, waiting)
            if topics is None:
                return
            partitions = _partitions(settings, topics)
            reading = totals(settings).reading()
            Exporter(settings, reading, exposition, partitions, telemetry, health, waiting).run()
            log.info("stopped")
    except OSError as error:
        raise PermanentError(
            f"the telemetry port {port} cannot be opened ({error.strerror}); set telemetry.port"
        ) from None


def _partitions(settings: Settings, present: Mapping[str, int]) -> int:
    topic = f"{settings.topics.prefix}windows"
    if missing_topics([topic], present):
        raise PermanentError(f"there is no topic {topic}; `ragweir topics create` makes ours")
    return present[topic]
