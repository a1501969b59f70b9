"""Drives the Kafka runtime on a cluster in memory, on the test's own thread and in virtual time."""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import admin
from fake_clients import FakeAdmin, FakeProducer
from fake_consumer import FakeConsumer
from fake_kafka import Cluster, VirtualClocks
from typing_extensions import override

from ragweir.errors import ErrorClass
from ragweir.streams.runtime.agent import Agent, Assignment
from ragweir.streams.runtime.agent_parts import Holding, InputProgress, Origin, Preparation, Recovery
from ragweir.streams.runtime.kafka.client import Identity
from ragweir.streams.runtime.loop.kafka_runtime import KafkaRuntime
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import (
    Emission,
    EventPosition,
    Measurements,
    Outcome,
    Record,
    ReplayBounds,
    TopicPartition,
)
from ragweir.streams.runtime.serving.health import Health
from ragweir.streams.runtime.serving.telemetry import Telemetry
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.settings import Settings

IN, OUT, DEAD = "rag.interactions", "rag.evaluations", "rag.dead-letter"
PATIENCE_S = 200.0
"""The virtual time after which something that a test waits for will not come."""

Condition = Callable[[], object]
Script = Iterator[Condition]
"""The steps of a test while the runtime runs: it yields the condition that it waits for."""


class Killed(BaseException):
    """The process is killed: nothing of the runtime runs any more."""


class Copier(Agent):
    """Copies records to `evaluations` and notes each call. Its parts are given, each by what it overrides.

    Args:
        changelog: the changelog that it has.
        writes: returns the value that it writes for a record.
    """

    outputs = ("evaluations", "windows", "dead-letter")

    def __init__(
        self,
        changelog: str | None = None,
        writes: Callable[[Record], bytes | None] = lambda record: record.value,
        clock_record: Emission | None = None,
        preparation: Preparation | None = None,
        holding: Holding | None = None,
        input_progress: InputProgress | None = None,
        recovery: Recovery | None = None,
    ) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.changelog, self.writes, self.clock_record = changelog, writes, clock_record
        self.preparation, self.holding = preparation or Preparation(), holding or Holding()
        self.input_progress, self.recovery = input_progress or InputProgress(), recovery or Recovery()
        self.on_start: Callable[[Assignment], object] = lambda _: None
        self.letter: bytes = b"letter"

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def of(self, name: str) -> list[Any]:
        return [detail for each, detail in self.calls if each == name]

    @property
    def handled(self) -> list[int]:
        """The offsets that it was given, in order."""
        return [offset for offsets in self.of("handle") for _, offset in offsets]

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        self.calls.append(("on_assigned", (*assignment.topic_partition, assignment.committed, assignment.start)))
        self.on_start(assignment)

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("on_revoked", sorted(partition for _, partition in partitions)))

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        self.calls.append(("handle", [(record.partition, record.offset) for record in records]))
        return Outcome(
            [Emission("evaluations", each.key, self.writes(each), ()) for each in records],
            Counter({("ragweir_events_in_total",): len(records)}),
            settled=list(records),
        )

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        self.calls.append(("dead_letter", (record.offset, error_class)))
        return Outcome([Emission("dead-letter", record.key, self.letter, ())], settled=[record])

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:
        self.calls.append(("tick", max_settled))
        return Outcome()

    @override
    def on_commit(self) -> None:
        self.calls.append(("on_commit", None))

    @override
    def on_abort(self) -> None:
        self.calls.append(("on_abort", None))

    @override
    def drain(self) -> None:
        self.calls.append(("drain", None))

    @override
    def drain_metrics(self) -> Measurements:
        self.calls.append(("drain_metrics", None))
        return Measurements()


class Provable(Recovery):
    """Proves by `evaluations`, whose values name the offsets that they were made of."""

    outputs = ("evaluations",)

    @override
    def origins(self, output: Record) -> Iterable[Origin]:
        yield Origin((IN, 0), (int(output.value or b""), 0), (output.value or b"").decode())

    @override
    def identities(self, record: Record) -> Iterable[tuple[EventPosition, str]]:
        yield (record.offset, 0), (record.value or b"").decode()

    @override
    def replay_command(self, topic: str, first: int, end: int) -> str:
        return f"again {topic} {first} {end}"


@dataclass
class World:
    """A cluster, and the runtimes that were started on it."""

    cluster: Cluster
    health: Health = field(default_factory=Health)
    telemetry: Telemetry = field(default_factory=lambda: telemetry_of("evaluate", 0))

    @property
    def clocks(self) -> VirtualClocks:
        return self.cluster.clocks

    def sample(self, name: str, **labels: str) -> float | None:
        return self.telemetry.registry.get_sample_value(name, labels)

    def offset(self, partition: int = 0, topic: str = IN, group: str = "rag.test") -> tuple[int, str]:
        """Return the committed offset and its metadata."""
        return self.cluster.groups[group].offsets.get((topic, partition), (-1, ""))

    def consumer(self, group: str = "rag.test", **properties: Any) -> FakeConsumer:
        """Return another member of a group, or a reader."""
        dotted = {name.replace("_", "."): value for name, value in properties.items()}
        return FakeConsumer(self.cluster, {"group.id": group, "auto.offset.reset": "earliest", **dotted})

    def producer(self, transactional_id: str, **properties: Any) -> FakeProducer:
        return FakeProducer(self.cluster, {"transactional.id": transactional_id, **properties})

    def run(
        self,
        agent: Agent,
        script: Script,
        slot: int = 0,
        inputs: Sequence[str] = (IN,),
        bounds: ReplayBounds | None = None,
        assignor: Any = "roundrobin",
        forms: Any = None,
        canary: Sequence[str] = (),
        **settings: Mapping[str, Any],
    ) -> None:
        """Run the runtime until the script ends."""
        self.health, self.telemetry = Health(), telemetry_of("evaluate", slot)
        given: dict[str, Any] = {
            "kafka": {"bootstrap_servers": "memory:9092"},
            "batch": {"max_wait_ms": 20},
            **settings,
        }
        identity = Identity("test", slot, "rag.", "here")
        stopped = Stopped(script)
        KafkaRuntime(
            Settings(**given),
            identity,
            agent,
            inputs,
            self.telemetry,
            self.health,
            stopped,
            assignor,
            bounds,
            canary,
            forms,
        ).run()


class Stopped:
    """Goes on with a script each time that what it waits for is there."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._condition: Condition | None = None
        self._since_s, self._is_over, self._is_inside = machine.monotonic(), False, False

    def __call__(self) -> bool:
        if self._is_over or self._is_inside:
            return self._is_over
        self._is_inside = True
        try:
            if self._condition is None or self._condition():
                self._condition, self._since_s = next(self._script), machine.monotonic()
            elif machine.monotonic() > self._since_s + PATIENCE_S:
                raise AssertionError("it waits in vain")
        except StopIteration:
            self._is_over = True
        finally:
            self._is_inside = False
        return self._is_over


def after(seconds: float) -> Condition:
    """Return the condition that so many virtual seconds have passed."""
    until = machine.monotonic() + seconds
    return lambda: machine.monotonic() >= until


def in_memory(monkeypatch: pytest.MonkeyPatch) -> World:
    """Replace the clocks and the Kafka clients of the product, and return what there is instead."""
    clocks = VirtualClocks()
    monkeypatch.setattr(machine, "clocks", clocks)
    cluster = Cluster(clocks)
    fakes = {
        confluent_kafka.Consumer: FakeConsumer,
        confluent_kafka.Producer: FakeProducer,
        admin.AdminClient: FakeAdmin,
    }
    for name, module in list(sys.modules.items()):
        if name.startswith("ragweir.streams."):
            for client, fake in fakes.items():
                if getattr(module, client.__name__, None) is client:
                    monkeypatch.setattr(module, client.__name__, partial(fake, cluster))
    for topic in (IN, OUT, DEAD):
        cluster.create(topic)
    return World(cluster)
