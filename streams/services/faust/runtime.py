"""The Faust runtime: the evaluate agent as a Faust agent, at least once, for teams that already run Faust.

No event is lost; after a crash or a rebalance some events are evaluated again, so readers keep the newest record per
key. Faust's defaults do not guarantee that:

- Faust acknowledges an event whose agent raised or was cancelled. Here events are acknowledged explicitly, after their
  outputs are written.
- Faust commits past an unacknowledged event once the next one is acknowledged. Here one event at a time is handled, and
  the process ends if one cannot be finished.
- Faust drops events that it cannot decode. Here it gets bytes.
- Faust's exactly_once is rejected: over four SIGKILLs it wrote 1,924 of 85,623 outputs twice.

A record on which the process dies is read again by each new process; only the Kafka runtime tries such records in a
canary first. Duplicates are detected among the records that this process has read. Counters count an event again when
it is evaluated again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, NoReturn, cast

import faust
import structlog
from aiokafka import AIOKafkaConsumer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from faust.app.base import BootStrategy
from faust.streams import Stream
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from faust.types import TP, Message, ProcessingGuarantee, StreamT
from faust.types.transports import ConsumerT
from typing_extensions import override

from ragweir.errors import DO_NOT_RESTART, ConfigurationError, PermanentError
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.runtime.agent import Agent
from ragweir.streams.runtime.kafka.client import Identity, build, client_properties, wait_for_topics
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.protection.poison import RECORD_FAULTS
from ragweir.streams.runtime.records import Emission, Headers, Measurements, Record
from ragweir.streams.runtime.serving.dead_letter_log import DeadLetterLog
from ragweir.streams.runtime.worker import bind_slot, started
from ragweir.streams.services.faust.connection import connection_options
from ragweir.streams.services.instruments import BY_SERVICE
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

GUARANTEE = "at least once: after a crash some events are evaluated again; readers keep the newest record per key"
STOP_SECONDS = 7.0
"""Time after which a stop that waits for a broker ends the process; well below the supervisor's limit."""
_WATCH_SECONDS = 1.0
_MAX_DELAY_SECONDS = 2.0


class _Thread(AIOKafkaConsumerThread):
    @override
    def _create_worker_consumer(self, transport: Transport) -> AIOKafkaConsumer:
        # Faust has no setting for it, and would evaluate records of aborted transactions.
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
        return consumer


class _Consumer(Consumer):
    @override
    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)


class _FaustTransport(Transport):
    Consumer: ClassVar[type[ConsumerT]] = _Consumer


class _Boot(BootStrategy):
    enable_web = False  # `faust worker` enables it in spite of the settings.


class EvaluateApp(faust.App):
    """One slot of evaluate as a Faust application.

    Args:
        settings: all settings. Of Faust's environment variables only PROCESSING_GUARANTEE is read, to reject it.
        slot: the slot's number on this host.
        stopped: returns true once the slot is to stop; Faust handles signals as well.

    Raises:
        ConfigurationError: if the settings cannot be used, or not with Faust.
    """

    BootStrategy = _Boot

    def __init__(self, settings: Settings, slot: int, stopped: Callable[[], bool] = lambda: False) -> None:
        # Not the group of the Kafka runtime, where some partitions would lose exactly once without an error.
        identity = Identity("evaluate-faust", slot, settings.topics.prefix)
        bind_slot("evaluate", slot)
        if settings.output.registry_format is not None:
            raise ConfigurationError("output.format needs transactions, which the Faust runtime does not have")
        service = SERVICES["evaluate"]
        self._settings, self._slot, self._member, self._stopped_outside = settings, slot, identity.member, stopped
        self._inputs = service.inputs(settings)
        self._agent: Agent = service.agent(settings, 1)
        self._outputs = {name: settings.output_topic(name) for name in self._agent.outputs}
        self._known, self._port = service.known_labels(settings), service.port
        self._dead_letters = DeadLetterLog()
        self._joined = False
        self._consumed: dict[TP, int] = {}
        max_bytes = max_record_bytes(settings.limits.max_event_bytes)
        options: dict[str, Any] = {
            **connection_options(settings.kafka),
            "env": {name: text for name, text in os.environ.items() if name == "PROCESSING_GUARANTEE"},
            "broker_commit_interval": 1.0,
            "broker_max_poll_records": settings.batch.max_events,
            "consumer_auto_offset_reset": settings.input.start_from,
            "consumer_group_instance_id": identity.member,
            "producer_acks": -1,
            "producer_compression_type": "lz4",
            "producer_max_request_size": max_bytes,
            "stream_buffer_maxsize": settings.batch.max_events,
            "stream_wait_empty": False,  # Unacknowledged events are read again.
            "topic_allow_declare": False,
            "topic_disable_leader": True,
            "worker_redirect_stdouts": False,
        }
        try:
            super().__init__(identity.group, **options)
            guarantee = cast("ProcessingGuarantee", self.conf.processing_guarantee)
        except ValueError as error:
            raise ConfigurationError(f"Faust rejects its settings: {error}") from None
        if guarantee is ProcessingGuarantee.EXACTLY_ONCE:
            raise ConfigurationError(
                "Faust's processing_guarantee=exactly_once is rejected: over four SIGKILLs it wrote 1,924 of 85,623 "
                "outputs twice; unset PROCESSING_GUARANTEE to run at least once, or use `--runtime kafka`, which is "
                "exactly once"
            )
        self.transport = _FaustTransport(self.conf.broker_consumer, self, self.loop)
        topic = self.topic(
            *self._inputs, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
        )
        self.agent(topic, name="evaluate", concurrency=1)(self._run)
        self.task(self._watch)
        self.on_partitions_assigned.connect(
            cast("Any", self._assigned)
        )  # Its types have parameters that it never passes.
        self.on_partitions_revoked.connect(cast("Any", self._revoked))

    @override
    def _create_directories(self) -> None:
        """Create none: they are for tables."""

    @override
    async def on_first_start(self) -> None:
        """Start the slot and wait for its topics; end the process after an error that a restart does not remove."""
        settings, needed = self._settings, [*self._inputs, *self._outputs.values(), *self._agent.preparation.reads]
        try:
            slot = started(
                *("evaluate", self._slot, settings, self._port, BY_SERVICE["evaluate"], self._known, self._must_stop),
                member=self._member,
                runtime="faust",
                guarantee=GUARANTEE,
            )
            own = self.add_context(slot)
            self._telemetry, self._health = own.telemetry, own.health
            await asyncio.to_thread(wait_for_topics, settings, needed, own.stopped)
            await asyncio.to_thread(self._agent.preparation.start, own.stopped)
        except (PermanentError, ConfigurationError) as error:
            _exit_for_good(str(error))

    def _must_stop(self) -> bool:
        return self.should_stop or self._stopped_outside()

    @override
    async def stop(self) -> None:
        """Stop in time, even if Faust waits for a broker that does not answer."""
        timer = threading.Timer(STOP_SECONDS, os._exit, (1,))
        timer.daemon = True
        timer.start()
        await super().stop()

    async def _run(self, events: StreamT[bytes]) -> None:
        stream = cast("Stream[bytes]", events).noack()
        async for event in stream.events():
            try:
                await self._settle(event.message)
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError) and self.should_stop:
                    raise
                log.error("an event could not be finished; a restart reads it again", reason=type(error).__name__)
                os._exit(1)
            await stream.ack(event)

    async def _settle(self, message: Message) -> None:
        """Evaluate one event and write its outputs, with retries until that succeeds. Raise only when cancelled."""
        stamp = round(message.timestamp * 1000) if message.timestamp >= 0 else None
        position = message.topic, message.partition, message.offset
        headers = message.headers or ()
        pairs: Headers = tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
        record = Record(*position, message.key, message.value, stamp, pairs)
        began = machine.monotonic()
        outcome = self._agent.handle([record])
        handled = machine.monotonic()
        written = False
        try:
            while rejection := await self._write(outcome.emissions):
                self._agent.on_abort()
                outcome = self._agent.dead_letter(record, f"Kafka rejects the records made from it: {rejection}")
            written = True
        finally:
            if written:
                self._agent.on_commit()
            else:
                self._agent.on_abort()
        self._consumed[message.tp] = message.offset + 1
        self._telemetry.add(Measurements(outcome.counts, outcome.levels))
        self._dead_letters.on_commit(outcome)
        self._telemetry.observe("ragweir_batch_events", 1)
        self._telemetry.observe("ragweir_handle_seconds", handled - began)
        self._telemetry.observe("ragweir_commit_seconds", machine.monotonic() - handled)
        self._telemetry.set("ragweir_last_commit_timestamp_seconds", machine.time())

    async def _write(self, emissions: Sequence[Emission]) -> str:
        """Write with retries until Kafka accepts all emissions; return the name of an error of the record itself."""
        delay = 0.1
        while True:
            sent = [self._send(emission) for emission in emissions]
            failed = [each for each in await asyncio.gather(*sent, return_exceptions=True) if each is not None]
            if not failed:
                return ""
            # Faust wraps errors of the client.
            causes = [error.__cause__ or error for error in failed]
            for cause in causes:
                if getattr(cause, "errno", None) in RECORD_FAULTS:
                    return type(cause).__name__
            log.warning("Kafka does not accept an evaluation; trying again", reason=type(causes[0]).__name__)
            await asyncio.sleep(delay)
            delay = min(2 * delay, _MAX_DELAY_SECONDS)

    async def _send(self, emission: Emission) -> None:
        # No timestamp: Kafka rejects timestamps far ahead, and retention would delete records with old ones.
        to = self._outputs[emission.topic]
        headers = [(name, value or b"") for name, value in emission.headers]  # The client knows no null values.
        partition = None if emission.partition < 0 else emission.partition
        await self.producer.send_and_wait(to, emission.key, emission.value, partition, None, headers)

    async def _assigned(self, _: faust.App, assigned: set[TP], **__: Any) -> None:
        self._joined = True
        self._telemetry.set("ragweir_assigned_partitions", len(assigned))
        log.info("partitions assigned", held=len(assigned))

    async def _revoked(self, _: faust.App, revoked: set[TP], **__: Any) -> None:
        for tp in revoked:
            self._consumed.pop(tp, None)
            self._telemetry.remove("ragweir_lag", tp.topic, str(tp.partition))
        self._agent.on_revoked([(tp.topic, tp.partition) for tp in revoked])

    async def _watch(self) -> None:
        """Keep health and lag up to date, and end with the supervisor."""
        admin = build(AdminClient, client_properties(self._settings))
        while not self.should_stop:
            self._health.alive()
            self._dead_letters.tick()
            if self._stopped_outside():
                os.kill(os.getpid(), signal.SIGTERM)
            try:
                await asyncio.to_thread(admin.list_topics, self._inputs[0], timeout=_WATCH_SECONDS)
                lost = ""
            except KafkaException as error:
                lost = f"the broker is lost: {error.args[0].str()}"
            self._telemetry.set("ragweir_broker_up", 0 if lost else 1)
            self._health.not_ready = lost or ("" if self._joined else "waiting for partitions")
            for tp, consumed in self._consumed.items():
                with suppress(AssertionError):  # The consumer's thread may have revoked it.
                    if (end := self.consumer.highwater(tp)) is not None:
                        self._telemetry.set("ragweir_lag", max(0, end - consumed), tp.topic, str(tp.partition))
            await self.sleep(_WATCH_SECONDS)
        self._health.not_ready = "stopped"
        self._dead_letters.flush()


class _FaustLog(logging.Handler):
    """Writes warnings of Faust and its client to the structured log."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        reason = record.exc_info and record.exc_info[1]
        fields = {"reason": repr(reason)} if reason else {}
        log.warning(record.getMessage().strip(), logger=record.name, **fields)


def _exit_for_good(reason: str) -> NoReturn:
    """Log an error and end the process, since Faust shows exceptions as pages of tracebacks."""
    log.error(reason)
    os._exit(DO_NOT_RESTART)


def run_slot(settings: Settings, slot: int, stopped: Callable[[], bool]) -> None:
    """Run one slot until it is to stop; end the process.

    Raises:
        ConfigurationError: if the settings cannot be used, or not with Faust.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    app = EvaluateApp(settings, slot, stopped)
    worker = faust.Worker(app, loop=loop, quiet=True, override_logging=False)
    worker.spinner = None  # It writes control characters to standard output.
    logging.getLogger().addHandler(_FaustLog(logging.WARNING))
    worker.execute_from_commandline()


def check(settings: Settings) -> None:
    """Check the settings before any slot starts.

    Raises:
        ConfigurationError: if the settings cannot be used, or not with Faust.
    """
    EvaluateApp(settings, 0)
