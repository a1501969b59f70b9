"""Loops from Kafka to Kafka: their tasks, and the measurement of each in its own process."""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as PartitionOffset
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from typing_extensions import override

from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.streams.playground.local.kafka import LocalKafka, local_kafka
from ragweir.streams.runtime.kafka.client import Connection, Identity, consumer_properties, producer_properties
from ragweir.streams.runtime.kafka.client_messages import record_of
from ragweir.streams.runtime.kafka.reader import offset_range
from ragweir.streams.runtime.kernel_choice import kernel_choice
from ragweir.streams.runtime.loop.kafka_runtime import KafkaRuntime
from ragweir.streams.runtime.records import Emission, Outcome, Record, ReplayBounds
from ragweir.streams.runtime.serving.health import Health
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.settings import CommitSettings, Settings, load

BATCH = 1_000
PARTITIONS = 8
INTERVAL_MS = CommitSettings().interval_ms
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly once", "at least once"
_NULL_BYTES = 3_500
"""Bytes of an output of null work: about those of an evaluation."""
_TIMEOUT_S = 900.0
_EXIT_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class LoopTask:
    """Events that a loop reads from `source`, and writes to topics with this prefix."""

    bootstrap: str
    prefix: str
    source: str
    work: str
    """`null`: write the first 3,500 bytes again. `evaluate`: decode, score by the whole catalogue and encode."""
    events: int
    interval_ms: int = INTERVAL_MS
    """Time between two commits, in milliseconds; 0 commits each batch."""
    core: int | None = None
    """The core that the loop runs on; None for all."""

    @property
    def output(self) -> str:
        """The topic of the evaluations."""
        return f"{self.prefix}evaluations"

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics with the prefix."""
        return self.output, f"{self.prefix}dead-letter", f"{self.prefix}redrive"

    @property
    def settings(self) -> Settings:
        """The settings of ragweir's own loops."""
        return load(
            None,
            {
                "kafka": {"bootstrap_servers": self.bootstrap},
                "topics": {"prefix": self.prefix},
                "input": {"topic": self.source},
                "batch": {"max_events": BATCH},
                "commit": {"interval_ms": self.interval_ms},
                "telemetry": {"port": 0},
            },
        )


@dataclass(frozen=True, slots=True)
class Measurement:
    """Time that one loop took."""

    began_s: float
    """Monotonic time, which all processes share."""
    seconds: float
    cpu_s: float
    events: int

    @classmethod
    def of_all(cls, measurements: Sequence[Measurement]) -> Measurement:
        """Return the measurement of loops that ran at the same time."""
        began_s = min(each.began_s for each in measurements)
        ended_s = max(each.began_s + each.seconds for each in measurements)
        cpu_s, events = sum(each.cpu_s for each in measurements), sum(each.events for each in measurements)
        return cls(began_s, ended_s - began_s, cpu_s, events)

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU time per event, in microseconds."""
        return self.cpu_s / self.events * 1e6


class MeteredAgent(EvaluateAgent):
    """The evaluate agent, or null work in its place; it reports the time from its first event to its last commit."""

    def __init__(self, task: LoopTask, report: Callable[[Measurement], None]) -> None:
        self._null = task.work == "null"
        horizon = 0 if self._null else task.settings.input.duplicate_horizon
        counting = kernel_choice(task.settings.kernel).counting  # RAGWEIR_KERNEL__USE=never compares
        super().__init__(EvaluateConfig(Catalogue(everything()), counting=counting, duplicate_horizon=horizon))
        self._events, self._report = task.events, report
        self._start: tuple[float, float] | None = None
        self._pending = self._committed = 0

    @property
    def handled(self) -> bool:
        """True if every event was handled, committed or not."""
        return self._committed + self._pending >= self._events

    @property
    def done(self) -> bool:
        """True if every event is committed."""
        return self._committed >= self._events

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        self._start = self._start or (time.monotonic(), time.process_time())
        self._pending += len(records)
        if not self._null:
            return super().handle(records)
        headers = (("ce_id", b"x"), ("ce_type", b"bench"))
        emissions = [Emission("evaluations", each.key, (each.value or b"")[:_NULL_BYTES], headers) for each in records]
        return Outcome(emissions, Counter({("ragweir_events_in_total",): len(records)}), settled=[*records])

    @override
    def on_abort(self) -> None:
        super().on_abort()
        self._pending = 0

    @override
    def on_commit(self) -> None:
        super().on_commit()
        before, self._committed, self._pending = self.done, self._committed + self._pending, 0
        if self._start is not None and self.done and not before:
            wall, cpu = self._start
            self._report(Measurement(wall, time.monotonic() - wall, time.process_time() - cpu, self._committed))


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop, with the package whose version is printed and the guarantee that the package states."""

    name: str
    package: str
    guarantee: str
    run: Callable[[LoopTask, MeteredAgent], None]


def _ragweir(task: LoopTask, agent: MeteredAgent, bounds: ReplayBounds | None = None) -> None:
    identity, telemetry = Identity("bench", 0, task.prefix), telemetry_of("evaluate", 0)
    topics = [task.source]
    KafkaRuntime(task.settings, identity, agent, topics, telemetry, Health(), lambda: agent.done, bounds=bounds).run()


def _ragweir_replay(task: LoopTask, agent: MeteredAgent) -> None:
    whole = offset_range(task.settings, task.source)
    starts, ends = ({(task.source, p): offset for p, offset in part.items()} for part in (whole.starts, whole.ends))
    _ragweir(task, agent, ReplayBounds(starts, ends))


def _bare(task: LoopTask, agent: MeteredAgent) -> None:
    """Consume, produce, and after the interval send offsets and commit. No error is handled."""
    settings, identity, connection = task.settings, Identity("bench", 0, task.prefix), Connection()
    consumer = Consumer(consumer_properties(settings, identity, connection) | {"auto.offset.reset": "earliest"})
    producer = Producer(producer_properties(settings, identity, connection))
    producer.init_transactions()
    consumer.subscribe([task.source])
    reached: dict[int, int] = {}
    began_s = 0.0
    while not agent.done:
        records = [record_of(each) for each in consumer.consume(BATCH, 0.1) if each.error() is None]
        if records and not reached:
            producer.begin_transaction()
            began_s = time.monotonic()
        for each in agent.handle(records).emissions if records else ():
            producer.produce(task.output, each.value, each.key, headers=list(each.headers))
        producer.poll(0)
        reached |= {record.partition: record.offset + 1 for record in records}
        if reached and (len(records) < BATCH or time.monotonic() - began_s >= task.interval_ms / 1000):
            offsets = [PartitionOffset(task.source, partition, offset) for partition, offset in reached.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            producer.commit_transaction()
            reached = {}
            agent.on_commit()


RAGWEIR = Loop("ragweir", "ragweir", EXACTLY_ONCE, _ragweir)
REPLAY = Loop("ragweir, replay", "ragweir", EXACTLY_ONCE, _ragweir_replay)
BARE = Loop("confluent-kafka, bare loop", "confluent-kafka", EXACTLY_ONCE, _bare)


def _work(loop: Loop, task: LoopTask, pipe: Any) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    logging.disable(logging.WARNING)
    if task.core is not None:
        os.sched_setaffinity(0, {task.core})
    try:
        loop.run(task, MeteredAgent(task, pipe.send))
    except BaseException as error:  # noqa: BLE001, RUF100 (a loop that cannot run is a row of the table)
        with suppress(OSError):
            pipe.send(ChildProcessError(" ".join(f"{loop.name}: {type(error).__name__}: {error}".split())[:200]))


def measure(loop: Loop, *tasks: LoopTask) -> Measurement:
    """Run a loop in a new process for each task, all at the same time, until their events are committed.

    Raises:
        ChildProcessError: as `in_process`.
    """
    with ThreadPoolExecutor(len(tasks)) as pool:
        return Measurement.of_all([*pool.map(partial(in_process, _work, loop), tasks)])


def in_process(work: Callable[..., None], *given: Any) -> Any:
    """Return what `work` sends, in a new process, into the pipe that is its last argument.

    Raises:
        ChildProcessError: it sends an error, nothing in time, or nothing before it ends.
    """
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=work, args=(*given, sender), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(_TIMEOUT_S):
            raise ChildProcessError(f"not done after {_TIMEOUT_S:.0f} s")
        sent = receiver.recv()
    except EOFError:
        process.join(_EXIT_TIMEOUT_S)
        raise ChildProcessError(f"its process ended with {process.exitcode}") from None
    else:
        if isinstance(sent, ChildProcessError):
            raise sent
        return sent
    finally:
        process.join(_EXIT_TIMEOUT_S)
        process.kill()
        process.join()


@contextmanager
def pinned_kafka() -> Iterator[tuple[LocalKafka, int | None]]:
    """Run a broker on the first core; return it with the core for the loops, None if there is only one."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[0]})
    try:
        with local_kafka() as broker:
            yield broker, cores[-1] if len(cores) > 1 else None
    finally:
        if len(cores) > 1:
            os.sched_setaffinity(0, cores)


@contextmanager
def topics(bootstrap: str, *names: str, partitions: int = PARTITIONS) -> Iterator[None]:
    """Create topics, and delete them after the block."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        future.result(60)
    time.sleep(1)
    try:
        yield
    finally:
        admin.delete_topics([*names])


def publish(bootstrap: str, topic: str, values: Iterable[bytes]) -> None:
    """Write values to a topic, with keys that differ."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "lz4", "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value, f"bench-{number}".encode())
        if number % 1_000 == 0:
            producer.poll(0.01)
    if producer.flush(60):
        raise RuntimeError("the broker did not take the events")
