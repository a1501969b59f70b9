"""The loops that `peers_kafka` compares: ragweir's own, and the same loop written with other packages.

Each peer is used as its own documentation does, with lz4 and all acknowledgements as ours, and is handed the same work:
either null work, or the evaluate agent, which decodes, scores by the whole catalogue and encodes.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as PartitionOffset
from typing_extensions import override

from bench.kafka_to_kafka import Echo, Wrapper
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.streams.agent import Agent
from ragweir.streams.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.kafka.client import Connection, Identity, consumer_properties, producer_properties
from ragweir.streams.kafka.messages import record_of
from ragweir.streams.records import Outcome, Record
from ragweir.streams.runtimes.kafka import KafkaRuntime
from ragweir.streams.service import SERVICES
from ragweir.streams.serving.health import Health
from ragweir.streams.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings, load

BATCH = 1_000
_EXACTLY, _AT_LEAST = "exactly once", "at least once"


@dataclass(frozen=True, slots=True)
class Task:
    """What a loop is to do."""

    bootstrap: str
    prefix: str
    source: str
    work: str
    events: int

    @property
    def output(self) -> str:
        """Where it writes to."""
        return f"{self.prefix}evaluations"

    @property
    def settings(self) -> Settings:
        """Of ragweir's own loops."""
        return load(
            None,
            {
                "kafka": {"bootstrap_servers": self.bootstrap},
                "topics": {"prefix": self.prefix},
                "input": {"topic": self.source},
                "batch": {"max_events": BATCH, "max_bytes": 64 * 1024 * 1024},
                "telemetry": {"port": 0},
            },
        )

    def agent(self) -> Agent:
        """The work itself, without I/O."""
        if self.work == "null":
            return Echo()
        horizon = self.settings.input.duplicate_horizon
        return EvaluateAgent(EvaluateConfig(Catalogue(everything()), duplicate_horizon=horizon))


@dataclass(frozen=True, slots=True)
class Measured:
    """What one loop came to in one round; `why` says why it came to nothing."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    events: int = 0
    why: str = ""


class Meter(Wrapper):
    """Tells wall and CPU time from its first event until all of its outputs are settled."""

    def __init__(self, agent: Agent, events: int, tell: Callable[[Measured], None]) -> None:
        super().__init__(agent)
        self._events, self._tell = events, tell
        self._start: tuple[float, float] | None = None
        self._pending = self._settled = 0
        self.done = False

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        self._start = self._start or (time.monotonic(), time.process_time())
        self._pending += len(records)
        return super().handle(records)

    @override
    def on_abort(self) -> None:
        """All that was handled has to be handled again."""
        super().on_abort()
        self._pending = 0

    @override
    def on_commit(self) -> None:
        """All that was handled is written, and as safe as the loop makes it."""
        super().on_commit()
        self._settled += self._pending
        self._pending = 0
        if self._settled >= self._events and self._start is not None and not self.done:
            self.done = True
            wall, cpu = self._start
            self._tell(Measured(time.monotonic() - wall, time.process_time() - cpu, self._settled))

    @property
    def seen(self) -> int:
        """The number of events that were handled."""
        return self._settled + self._pending


def ragweir_kafka(task: Task, meter: Meter) -> None:
    """One slot of our Kafka runtime."""
    identity, telemetry = Identity("bench", 0, task.prefix), Telemetry("evaluate", 0)
    settings, topics = task.settings, [task.source]
    KafkaRuntime(settings, identity, meter, topics, telemetry, Health(), lambda: meter.done).run()


def ragweir_faust(task: Task, meter: Meter) -> None:
    """One slot of `ragweir evaluate --runtime faust`."""
    from ragweir.streams.faust import runtime  # noqa: PLC0415 (as above)

    given: dict[str, Any] = vars(runtime)
    given["SERVICES"] = {**SERVICES, "evaluate": replace(SERVICES["evaluate"], agent=lambda *_: meter)}
    runtime.run_slot(task.settings, 0, lambda: False)


def confluent_bare(task: Task, meter: Meter) -> None:
    """The least code on our own client that does the same: consume, produce, send offsets, commit."""
    settings, identity, connection = task.settings, Identity("bench", 0, task.prefix), Connection()
    consumer = Consumer(consumer_properties(settings, identity, connection) | {"auto.offset.reset": "earliest"})
    producer = Producer(producer_properties(settings, identity, connection))
    producer.init_transactions()
    consumer.subscribe([task.source])
    while not meter.done:
        messages = [message for message in consumer.consume(BATCH, 0.1) if message.error() is None]
        if not messages:
            continue
        records = [record_of(message) for message in messages]
        producer.begin_transaction()
        for each in meter.handle(records).emissions:
            producer.produce(task.output, each.value, each.key, headers=list(each.headers))
        reached = {record.partition: record.offset + 1 for record in records}
        offsets = [PartitionOffset(task.source, partition, offset) for partition, offset in reached.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()
        meter.on_commit()


def aiokafka_transactional(task: Task, meter: Meter) -> None:
    """The transactional consume-process-produce loop of aiokafka's documentation."""
    asyncio.run(_aiokafka(task, meter))


async def _aiokafka(task: Task, meter: Meter) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # noqa: PLC0415 (as above)

    group = f"{task.prefix}aiokafka"
    consumer = AIOKafkaConsumer(
        task.source,
        bootstrap_servers=task.bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=task.bootstrap, transactional_id=f"{group}-0", compression_type="lz4", linger_ms=5
    )
    async with consumer, producer:
        while not meter.done:
            batches = await consumer.getmany(timeout_ms=100, max_records=BATCH)
            messages = [message for batch in batches.values() for message in batch]
            if not messages:
                continue
            records = [Record(m.topic, m.partition, m.offset, m.key, m.value, m.timestamp) for m in messages]
            async with producer.transaction():
                for each in meter.handle(records).emissions:
                    await producer.send(task.output, each.value, each.key, headers=list(each.headers))
                offsets = {place: batch[-1].offset + 1 for place, batch in batches.items()}
                await producer.send_offsets_to_transaction(offsets, group)
            meter.on_commit()


def faust_textbook(task: Task, meter: Meter) -> None:
    """An agent of faust-streaming as its tutorial writes one: it reads, works and sends."""
    import faust  # noqa: PLC0415 (as above)

    with tempfile.TemporaryDirectory() as folder:
        app = faust.App(
            f"{task.prefix}faust",
            broker=f"kafka://{task.bootstrap}",
            datadir=folder,
            topic_allow_declare=False,
            topic_disable_leader=True,
            web_enabled=False,
            producer_compression_type="lz4",
            consumer_auto_offset_reset="earliest",
        )
        raw: dict[str, Any] = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw"}
        raw["value_serializer"] = "raw"
        source, output = app.topic(task.source, **raw), app.topic(task.output, **raw)

        async def evaluate(stream: Any) -> None:
            async for event in stream.events():
                message = event.message
                stamp = round(message.timestamp * 1000)
                place = message.topic, message.partition, message.offset
                for each in meter.handle([Record(*place, message.key, message.value, stamp)]).emissions:
                    await output.send(key=each.key, value=each.value, headers=list(each.headers))
                if meter.seen >= task.events and not meter.done:
                    await app.producer.flush()
                    meter.on_commit()

        app.agent(source)(evaluate)
        app.finalize()
        worker = faust.Worker(app, quiet=True, override_logging=False, redirect_stdouts=False)
        worker.spinner = None
        worker.execute_from_commandline()


def quix_at_least_once(task: Task, meter: Meter) -> None:
    """Quix Streams as it comes: a commit every five seconds."""
    _quix(task, meter, "at-least-once")


def quix_exactly_once(task: Task, meter: Meter) -> None:
    """Quix Streams with transactions: one every five seconds."""
    _quix(task, meter, "exactly-once")


def _quix(task: Task, meter: Meter, guarantee: Any) -> None:
    from quixstreams import Application, message_context  # noqa: PLC0415 (as above)

    def work(value: bytes, key: bytes, timestamp: int, _: Any) -> Any:
        at = message_context()
        return meter.handle([Record(at.topic, at.partition, at.offset, key, value, timestamp)]).emissions[0]

    with tempfile.TemporaryDirectory() as folder:
        app = Application(
            broker_address=task.bootstrap,
            consumer_group=f"{task.prefix}quix",
            auto_offset_reset="earliest",
            processing_guarantee=guarantee,
            producer_extra_config={"compression.type": "lz4"},
            state_dir=folder,
            loglevel="ERROR",
            auto_create_topics=False,
            use_changelog_topics=False,
        )
        output = app.topic(task.output, value_serializer="bytes")
        frame = app.dataframe(app.topic(task.source, value_deserializer="bytes"))
        frame = frame.apply(work, metadata=True)
        frame = frame.set_headers(lambda each, *_: list(each.headers))
        frame.apply(lambda each: each.value).to_topic(output)
        app.run(count=task.events, collect=False)  # Its end commits what the last interval has not.
        meter.on_commit()


@dataclass(frozen=True, slots=True)
class Loop:
    """One way to write the loop; `package` is whose version is told."""

    name: str
    package: str
    guarantee: str
    run: Callable[[Task, Meter], None]


OURS = Loop("ragweir", "ragweir", _EXACTLY, ragweir_kafka)
LOOPS = (
    OURS,
    Loop("ragweir, --runtime faust", "faust-streaming", _AT_LEAST, ragweir_faust),
    Loop("confluent-kafka, bare loop", "confluent-kafka", _EXACTLY, confluent_bare),
    Loop("aiokafka, transactional loop", "aiokafka", _EXACTLY, aiokafka_transactional),
    Loop("faust-streaming, as in its tutorial", "faust-streaming", _AT_LEAST, faust_textbook),
    Loop("Quix Streams", "quixstreams", _AT_LEAST, quix_at_least_once),
    Loop("Quix Streams, exactly-once", "quixstreams", _EXACTLY, quix_exactly_once),
)
