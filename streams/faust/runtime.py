"""The Faust runtime: the evaluate agent as a Faust agent, at least once, for teams that already run Faust.

Nothing is lost; after a crash or a rebalance some events are evaluated again, so readers keep the newest record per
key. That rests on what is done here against Faust's own ways. It acknowledges an event whose agent raised or was
cancelled, so events are acknowledged by hand, once everything that they came to is written. It commits past an event
that is not acknowledged as soon as the next one is, so one event at a time is worked on, and the process ends where
one cannot be finished. It would drop what it cannot decode, so it is given bytes. Its exactly_once is refused: over
four SIGKILLs it wrote 1,924 of 85,623 outputs twice.

A record on which the process dies is read again by the next one, over and over: only the kafka runtime tries such
records in a child first.

What counts as a duplicate is only what this process has read: what stood before its start is not looked at. Counters
count what was written, and so an event that is evaluated again, again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
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
from ragweir.streams.agent import Agent
from ragweir.streams.faust.connection import connection_options
from ragweir.streams.kafka.client import Identity, build, client_properties
from ragweir.streams.records import Emission, Measurements, Record
from ragweir.streams.runtimes.poison import RECORD_FAULTS
from ragweir.streams.service import SERVICES
from ragweir.streams.serving.dead_letter_log import DeadLetterLog
from ragweir.streams.settings import Settings
from ragweir.streams.slot import started, wait_for_topics

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

GUARANTEE = "at least once: after a crash some events are evaluated again; readers keep the newest record per key"
STOP_SECONDS = 7.0
"""When a stop that waits for a broker is cut short; well under what the supervisor grants, and nothing is lost."""
_WATCH_EVERY_SECONDS = 1.0
_LAST_DELAY_SECONDS = 2.0


class _Thread(AIOKafkaConsumerThread):
    @override
    def _create_worker_consumer(self, transport: Transport) -> AIOKafkaConsumer:
        # Faust has no setting for it, and would evaluate what an aborted transaction wrote.
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
    enable_web = False  # Against `faust worker`, which switches it on whatever the settings say.


class EvaluateApp(faust.App):
    """One slot of evaluate as a Faust application.

    Args:
        settings: ragweir's; of Faust's environment variables only PROCESSING_GUARANTEE is looked at, to be refused.
        slot: its number on this host.
        stopped: says whether to stop, beside the signals that Faust listens to.

    Raises:
        ConfigurationError: if the settings cannot be used, or not with Faust.
    """

    BootStrategy = _Boot

    def __init__(self, settings: Settings, slot: int, stopped: Callable[[], bool] = lambda: False) -> None:
        # A group of its own. In the kafka runtime's, part of its partitions would silently lose exactly once.
        identity = Identity("evaluate-faust", slot, settings.topics.prefix)
        structlog.contextvars.bind_contextvars(service="evaluate", slot=slot, pid=os.getpid())
        service = SERVICES["evaluate"]
        self._settings, self._slot, self._member, self._stopped_outside = settings, slot, identity.member, stopped
        self._inputs = service.inputs(settings)
        self._agent: Agent = service.agent(settings, 1)
        self._outputs = {name: settings.topics.prefix + name for name in self._agent.outputs}
        self._known, self._port = service.known_labels(settings), service.port
        self._dead_letters = DeadLetterLog()
        self._joined = False
        self._reached: dict[TP, int] = {}
        most = max_record_bytes(settings.limits.max_event_bytes)
        options: dict[str, Any] = {
            **connection_options(settings.kafka),
            "env": {name: text for name, text in os.environ.items() if name == "PROCESSING_GUARANTEE"},
            "broker_commit_interval": 1.0,
            "broker_max_poll_records": settings.batch.max_events,
            "consumer_auto_offset_reset": settings.input.start_from,
            "consumer_group_instance_id": identity.member,
            "producer_acks": -1,
            "producer_compression_type": "lz4",
            "producer_max_request_size": most,
            "stream_buffer_maxsize": settings.batch.max_events,
            "stream_wait_empty": False,  # What is in hand and not acknowledged is read again.
            "topic_allow_declare": False,
            "topic_disable_leader": True,
            "worker_redirect_stdouts": False,
        }
        try:
            super().__init__(identity.group, **options)
            guarantee = cast("ProcessingGuarantee", self.conf.processing_guarantee)
        except ValueError as error:
            raise ConfigurationError(f"Faust refuses its settings: {error}") from None
        if guarantee is ProcessingGuarantee.EXACTLY_ONCE:
            raise ConfigurationError(
                "Faust's processing_guarantee=exactly_once is refused: over four SIGKILLs it wrote 1,924 of 85,623 "
                "outputs twice; unset PROCESSING_GUARANTEE to run at least once, or use `--runtime kafka`, which is "
                "exactly once"
            )
        self.transport = _FaustTransport(self.conf.broker_consumer, self, self.loop)
        topic = self.topic(
            *self._inputs, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
        )
        self.agent(topic, name="evaluate", concurrency=1)(self._work)
        self.task(self._watch)
        self.on_partitions_assigned.connect(cast("Any", self._assigned))  # Its types want what it never passes.
        self.on_partitions_revoked.connect(cast("Any", self._revoked))

    @override
    def _create_directories(self) -> None:
        """None: they would be for tables."""

    @override
    async def on_first_start(self) -> None:
        """Start the slot and wait for its topics; end the process after an error that a restart does not remove."""
        settings, needed = self._settings, [*self._inputs, *self._outputs.values()]
        try:
            slot = started(
                *("evaluate", self._slot, settings, self._port, self._known, self._must_stop),
                member=self._member,
                runtime="faust",
                guarantee=GUARANTEE,
            )
            own = self.add_context(slot)
            self._telemetry, self._health = own.telemetry, own.health
            await asyncio.to_thread(wait_for_topics, settings, needed, own.stopped)
        except (PermanentError, ConfigurationError) as error:
            _exit_for_good(str(error))

    def _must_stop(self) -> bool:
        return self.should_stop or self._stopped_outside()

    @override
    async def stop(self) -> None:
        """Stop in time, also where Faust waits for a broker that does not answer."""
        cut = threading.Timer(STOP_SECONDS, os._exit, (1,))
        cut.daemon = True
        cut.start()
        await super().stop()

    async def _work(self, given: StreamT[bytes]) -> None:
        stream = cast("Stream[bytes]", given).noack()
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
        """Evaluate one event and write what it comes to, however long that takes. Never raises but when cancelled."""
        stamp = round(message.timestamp * 1000) if message.timestamp >= 0 else None
        record = Record(message.topic, message.partition, message.offset, message.key, message.value, stamp)
        began = time.perf_counter()
        outcome = self._agent.handle([record])
        handled = time.perf_counter()
        written = False
        try:
            while refused := await self._written(outcome.emissions):
                self._agent.on_abort()
                outcome = self._agent.dead_letter(record, f"Kafka refuses what it came to: {refused}")
            written = True
        finally:
            if written:
                self._agent.on_commit()
            else:
                self._agent.on_abort()
        self._reached[message.tp] = message.offset + 1
        self._telemetry.add(Measurements(outcome.counts, outcome.levels))
        self._dead_letters.on_commit(outcome)
        self._telemetry.observe("ragweir_batch_events", 1)
        self._telemetry.observe("ragweir_handle_seconds", handled - began)
        self._telemetry.observe("ragweir_commit_seconds", time.perf_counter() - handled)
        self._telemetry.set("ragweir_last_commit_timestamp_seconds", time.time())

    async def _written(self, emissions: Sequence[Emission]) -> str:
        """Write until Kafka has it all; gives why not, where the record itself is at fault."""
        delay = 0.1
        while True:
            sent = [self._sent(emission) for emission in emissions]
            failed = [each for each in await asyncio.gather(*sent, return_exceptions=True) if each is not None]
            if not failed:
                return ""
            # Faust wraps what the client raises.
            causes = [error.__cause__ or error for error in failed]
            for cause in causes:
                if getattr(cause, "errno", None) in RECORD_FAULTS:
                    return type(cause).__name__
            log.warning("Kafka does not take what was evaluated; trying again", reason=type(causes[0]).__name__)
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LAST_DELAY_SECONDS)

    async def _sent(self, emission: Emission) -> None:
        # No timestamp: Kafka refuses stamps far ahead, and retention would delete old ones at once.
        to, headers = self._outputs[emission.topic], list(emission.headers)
        partition = None if emission.partition < 0 else emission.partition
        await self.producer.send_and_wait(to, emission.key, emission.value, partition, None, headers)

    async def _assigned(self, _: faust.App, assigned: set[TP], **__: Any) -> None:
        self._joined = True
        self._telemetry.set("ragweir_assigned_partitions", len(assigned))
        log.info("partitions assigned", held=len(assigned))

    async def _revoked(self, _: faust.App, revoked: set[TP], **__: Any) -> None:
        for tp in revoked:
            self._reached.pop(tp, None)
            self._telemetry.remove("ragweir_lag", tp.topic, str(tp.partition))
        self._agent.on_revoked([(tp.topic, tp.partition) for tp in revoked])

    async def _watch(self) -> None:
        """Keep health and lag current, and end with the supervisor."""
        admin = build(AdminClient, client_properties(self._settings))
        while not self.should_stop:
            self._health.alive()
            self._dead_letters.tick()
            if self._stopped_outside():
                os.kill(os.getpid(), signal.SIGTERM)
            try:
                await asyncio.to_thread(admin.list_topics, self._inputs[0], timeout=_WATCH_EVERY_SECONDS)
                lost = ""
            except KafkaException as error:
                lost = f"the broker is lost: {error.args[0].str()}"
            self._telemetry.set("ragweir_broker_up", 0 if lost else 1)
            self._health.not_ready = lost or ("" if self._joined else "waiting for partitions")
            for tp, reached in self._reached.items():
                with suppress(AssertionError):  # The consumer has a thread of its own, and may have given it up.
                    if (end := self.consumer.highwater(tp)) is not None:
                        self._telemetry.set("ragweir_lag", max(0, end - reached), tp.topic, str(tp.partition))
            await self.sleep(_WATCH_EVERY_SECONDS)
        self._health.not_ready = "stopped"
        self._dead_letters.flush()


class _FaustLog(logging.Handler):
    """Tells what Faust and its client warn of in our own logs."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        reason = record.exc_info and record.exc_info[1]
        why = {"reason": repr(reason)} if reason else {}
        log.warning(record.getMessage().strip(), logger=record.name, **why)


def _exit_for_good(why: str) -> NoReturn:
    """End the process with one sentence; an exception would come out of Faust as pages of tracebacks."""
    log.error(why)
    os._exit(DO_NOT_RESTART)


def run_slot(settings: Settings, slot: int, stopped: Callable[[], bool]) -> None:
    """Run one slot until told to stop; ends the process.

    Raises:
        ConfigurationError: if the settings cannot be used, or not with Faust.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    app = EvaluateApp(settings, slot, stopped)
    worker = faust.Worker(app, loop=loop, quiet=True, override_logging=False)
    worker.spinner = None  # It moves the cursor of whatever standard output is.
    logging.getLogger().addHandler(_FaustLog(logging.WARNING))
    worker.execute_from_commandline()


def check(settings: Settings) -> None:
    """Find out what is wrong for every slot before any starts.

    Raises:
        ConfigurationError: if the settings cannot be used, or not with Faust.
    """
    EvaluateApp(settings, 0)
