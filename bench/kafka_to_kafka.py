"""Kafka to Kafka, exactly once: what the transactions cost by batch size, beside a bare loop of the same calls."""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import structlog
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as PartitionOffset
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.progress import track
from rich.table import Table
from typing_extensions import override

from bench.interactions import interactions
from ragweir.errors import ErrorClass
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.streams.agent import Agent, Assignment
from ragweir.streams.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.kafka.client import Connection, Identity, consumer_properties, producer_properties
from ragweir.streams.kafka.reader import offset_range
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.records import Emission, Outcome, Record, ReplayBounds, TopicPartition
from ragweir.streams.runtimes.kafka import KafkaRuntime
from ragweir.streams.serving.health import Health
from ragweir.streams.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings, load

PARTITIONS = 8
_QUIET_S = 3.0
_LATE_S = 20.0
"""A worker that has had no event by then comes too late: the others have handled all of them."""
_HEADERS = (("ce_id", b"x"), ("ce_type", b"bench"))


@dataclass(frozen=True, slots=True)
class Run:
    """What one worker measured."""

    events: int
    began: float
    ended: float
    cpu_s: float


class Echo(Agent):
    """Null work: each record's value is written again, as large as an evaluation."""

    @property
    @override
    def outputs(self) -> tuple[str, ...]:
        return ("evaluations",)

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """The first 3,500 bytes of each."""
        emissions = [Emission("evaluations", record.key, (record.value or b"")[:3500], _HEADERS) for record in records]
        return Outcome(emissions, Counter({("ragweir_events_in_total",): len(records)}), settled=[*records])

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Not met here."""
        raise RuntimeError(f"{error_class} ({reason}) at {record.offset}")


class Wrapper(Agent):
    """Does what another agent does, which keeps no state in Kafka and holds no records."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    @property
    @override
    def outputs(self) -> tuple[str, ...]:
        return self.agent.outputs

    @property
    @override
    def warm_up(self) -> int:
        return self.agent.warm_up

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        self.agent.on_assigned(assignment)

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.agent.on_revoked(partitions)

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        return self.agent.handle(records)

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        return self.agent.dead_letter(record, reason, error_class)

    @override
    def on_commit(self) -> None:
        self.agent.on_commit()

    @override
    def on_abort(self) -> None:
        self.agent.on_abort()


class Meter(Wrapper):
    """Notes wall and CPU time at the first record and after each batch that was committed."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self._start: tuple[float, float] | None = None
        self._last: tuple[float, float] = (0.0, 0.0)
        self._settled = True
        self._give_up = time.time() + _LATE_S

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        self._start = self._start or (time.time(), time.process_time())
        self._settled = False
        return super().handle(records)

    def stopped(self) -> bool:
        """Asked by the loop after each batch: notes the time, and stops when it has been quiet for a while."""
        if not self._settled:
            self._settled = True
            self._last = (time.time(), time.process_time())
        if self._start is None:
            return time.time() > self._give_up
        return time.time() - self._last[0] > _QUIET_S

    def run(self, events: int) -> Run:
        """What was measured; the events are those that were committed."""
        start = self._start or self._last
        return Run(events, start[0], self._last[0], self._last[1] - start[1])


def _settings(bootstrap: str, prefix: str, batch: int) -> Settings:
    return load(
        None,
        {
            "kafka": {"bootstrap_servers": bootstrap},
            "topics": {"prefix": prefix},
            "input": {"topic": "bench.input"},
            "batch": {"max_events": batch, "max_bytes": 64 * 1024 * 1024},
        },
    )


def runtime_worker(bootstrap: str, prefix: str, batch: int, slot: int, work: str) -> Run:
    """One slot of the Kafka runtime."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    settings = _settings(bootstrap, prefix, batch)
    config = EvaluateConfig(Catalogue(everything()), duplicate_horizon=settings.input.duplicate_horizon)
    meter = Meter(Echo() if work == "null" else EvaluateAgent(config))
    identity, telemetry = Identity("bench", slot, prefix), Telemetry("evaluate", slot)
    bounds = _everything(settings) if work == "replay" else None
    topics = ["bench.input"]
    KafkaRuntime(settings, identity, meter, topics, telemetry, Health(), meter.stopped, bounds=bounds).run()
    return meter.run(int(telemetry.registry.get_sample_value("ragweir_events_in_total") or 0))


def _everything(settings: Settings) -> ReplayBounds:
    """The bounds of a replay of all there is."""
    whole = offset_range(settings, "bench.input")
    starts, ends = ({("bench.input", p): offset for p, offset in part.items()} for part in (whole.starts, whole.ends))
    return ReplayBounds(starts, ends)


def bare_worker(bootstrap: str, prefix: str, batch: int, slot: int, _: str) -> Run:
    """The least code that does the same: consume, produce, send offsets, commit. It handles no error."""
    settings, identity, connection = _settings(bootstrap, prefix, batch), Identity("bench", slot, prefix), Connection()
    consumer = Consumer(consumer_properties(settings, identity, connection) | {"auto.offset.reset": "earliest"})
    producer = Producer(producer_properties(settings, identity, connection))
    producer.init_transactions()
    consumer.subscribe(["bench.input"])
    start: tuple[float, float] | None = None
    last = (time.time(), 0.0)
    events = 0
    while start is None or time.time() - last[0] < _QUIET_S:
        messages = [message for message in consumer.consume(batch, 0.1) if message.error() is None]
        if not messages:
            continue
        start = start or (time.time(), time.process_time())
        producer.begin_transaction()
        reached: dict[int, int] = {}
        for message in messages:
            producer.produce(f"{prefix}evaluations", message.value()[:3500], message.key(), headers=list(_HEADERS))
            reached[message.partition()] = message.offset() + 1
        offsets = [PartitionOffset("bench.input", partition, offset) for partition, offset in reached.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()
        events += len(messages)
        last = (time.time(), time.process_time())
    consumer.close()
    return Run(events, start[0], last[0], last[1] - start[1])


_ROWS: tuple[tuple[str, Callable[..., Run], str, int, int], ...] = (
    *(("bare loop", bare_worker, "null", 1, batch) for batch in (100, 1_000)),
    *(("ragweir, null work", runtime_worker, "null", 1, batch) for batch in (100, 500, 1_000, 5_000)),
    *(("ragweir, null work", runtime_worker, "null", 2, batch) for batch in (1_000,)),
    *(("ragweir, evaluate", runtime_worker, "evaluate", 1, batch) for batch in (100, 500, 1_000, 5_000)),
    *(("ragweir, evaluate", runtime_worker, "evaluate", 2, batch) for batch in (100, 500, 1_000, 5_000)),
    *(("ragweir, replay", runtime_worker, "replay", workers, 1_000) for workers in (1, 2)),
)


def table(events: int, names: str = "") -> Table:
    """One row per kind of work, number of workers and batch size; only those whose name has this in it."""
    title = f"Kafka to Kafka, {events:,} events of 4.5 KB, {PARTITIONS} partitions, the broker on the same cores"
    result = Table(
        "loop",
        "workers",
        "events per commit",
        "events/s",
        "CPU µs per event in the worker",
        title=title,
        title_justify="left",
    )
    rows = [row for row in _ROWS if names in row[0]]
    spawn = multiprocessing.get_context("spawn")
    with local_kafka() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("bench.input", PARTITIONS)])["bench.input"].result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "compression.type": "lz4"})
        for number, value in enumerate(interactions(events)):
            producer.produce("bench.input", value, str(number).encode())
            if number % 1000 == 0:
                producer.poll(0.01)
        producer.flush()
        for number, (name, worker, work, workers, batch) in enumerate(track(rows, "Kafka to Kafka", transient=True)):
            prefix = f"bench{number}."
            admin.create_topics([NewTopic(f"{prefix}{topic}", PARTITIONS) for topic in ("evaluations", "dead-letter")])
            time.sleep(1)
            with spawn.Pool(workers) as pool:
                runs = pool.starmap(worker, [(broker.bootstrap, prefix, batch, slot, work) for slot in range(workers)])
            total = sum(run.events for run in runs)
            if total != events:
                raise RuntimeError(f"{name}: {total} events instead of {events}")
            busy = [run for run in runs if run.events]
            wall = max(run.ended for run in busy) - min(run.began for run in busy)
            cpu = sum(run.cpu_s for run in runs) / total * 1e6
            result.add_row(name, str(workers), f"{batch:,}", f"{total / wall:,.0f}", f"{cpu:.1f}")
            admin.delete_topics([f"{prefix}evaluations"])
    return result
