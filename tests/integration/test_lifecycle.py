"""The lifecycle of agents on a real Kafka: what the runtime calls, in which order, whatever the agent is like.

More of it is tested on a Kafka in memory, in `tests/streams/runtime`.
"""

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer
from conftest import SharedBroker, create_topic, produce, read_to_end
from services import eventually
from typing_extensions import override

from ragweir.errors import ErrorClass
from ragweir.streams.runtime.agent import Agent, Assignment
from ragweir.streams.runtime.agent_parts import Holding, InputProgress
from ragweir.streams.runtime.kafka.client import Identity
from ragweir.streams.runtime.loop.kafka_runtime import KafkaRuntime
from ragweir.streams.runtime.records import Emission, Measurements, Outcome, Record, TopicPartition
from ragweir.streams.runtime.serving.health import Health
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.settings import Settings

TOO_LARGE = random.Random(7).randbytes(200_000)
"""What the topic does not take, compressed or not."""


class Recorder(Agent, Holding):
    """Copies records to `evaluations`, one of them as more than the topic takes, and notes each call.

    Args:
        holds: take records in `handle` and settle them in `tick`, and no others meanwhile.
    """

    outputs = "evaluations", "dead-letter"

    def __init__(self, *, holds: bool = False) -> None:
        self.calls: list[tuple[str, object]] = []
        self.taken: list[Record] = []
        self.emitted = 0
        self._holds, self._draining = holds, False
        self.holding = self

    @property
    @override
    def capacity(self) -> int:
        return 0 if self.taken else 1_000

    @property
    @override
    def held(self) -> Collection[TopicPartition]:
        return {record.topic_partition for record in self.taken}

    @property
    @override
    def in_flight(self) -> bool:
        self.calls.append(("in_flight", self._draining))
        return False

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        self.calls.append(("on_assigned", (assignment.committed, assignment.start)))

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("on_revoked", [partition for _, partition in partitions]))

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        self.calls.append(("handle", [record.offset for record in records]))
        if self._holds:
            known = {record.offset for record in self.taken}
            self.taken += [record for record in records if record.offset not in known]
            return Outcome()
        return self._copied(records)

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        self.calls.append(("dead_letter", record.offset))
        if record in self.taken:
            assert self.taken[0] == record
            self.emitted = 1
        return Outcome([Emission("dead-letter", record.key, b"head", ())], settled=[record])

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:
        if not self._holds:
            self.calls.append(("tick", max_settled))
            return Outcome()
        own = self.taken[self.emitted : self.emitted + max_settled]
        self.emitted += len(own)
        if own:
            self.calls.append(("tick", [record.offset for record in own]))
        return self._copied(own)

    @override
    def on_commit(self) -> None:
        self.calls.append(("on_commit", None))
        del self.taken[: self.emitted]
        self.emitted = 0

    @override
    def on_abort(self) -> None:
        self.calls.append(("on_abort", None))
        self.emitted = 0

    @override
    def drain(self) -> None:
        self._draining = True
        self.calls.append(("drain", None))

    @override
    def drain_metrics(self) -> Measurements:
        self.calls.append(("drain_metrics", None))
        return Measurements()

    def _copied(self, records: Sequence[Record]) -> Outcome:
        values = [TOO_LARGE if record.value == b"large" else record.value for record in records]
        emissions = [
            Emission("evaluations", record.key, value, ()) for record, value in zip(records, values, strict=True)
        ]
        return Outcome(emissions, settled=list(records))


@contextmanager
def running(kafka: SharedBroker, prefix: str, agent: Agent) -> Iterator[SimpleNamespace]:
    """The runtime with an agent, on a thread of the test."""
    for name in ("interactions", "dead-letter"):
        create_topic(kafka.bootstrap, prefix + name, 1)
    create_topic(kafka.bootstrap, f"{prefix}evaluations", 1, config={"max.message.bytes": "100000"})
    settings = Settings(
        kafka={"bootstrap_servers": kafka.bootstrap}, topics={"prefix": prefix}, batch={"max_wait_ms": 20}
    )
    stop, telemetry = threading.Event(), telemetry_of("evaluate", 0)
    topic = f"{prefix}interactions"
    runtime = KafkaRuntime(settings, Identity("lifecycle", 0, prefix), agent, [topic], telemetry, Health(), stop.is_set)
    worker = threading.Thread(target=runtime.run)
    worker.start()
    lag = {"topic": topic, "partition": "0"}
    try:
        yield SimpleNamespace(
            topic=topic, lag=lambda: telemetry.registry.get_sample_value("ragweir_lag", lag), telemetry=telemetry
        )
    finally:
        stop.set()
        worker.join()


def written(kafka: SharedBroker, topic: str) -> list[bytes | None]:
    return [message.value() for message in read_to_end(kafka.bootstrap, topic)]


def names(agent: Recorder) -> list[str]:
    return [name for name, _ in agent.calls]


def ready(agent: Recorder) -> Callable[[], bool]:
    return lambda: "on_assigned" in names(agent)


def test_the_runtime_calls_the_whole_lifecycle_in_its_order(kafka: SharedBroker, prefix: str) -> None:
    """Without a fault: assigned, then per transaction handle, tick, commit and metrics, then drain and revoked."""
    agent = Recorder()
    with running(kafka, prefix, agent) as run:
        eventually(ready(agent), "the partition is assigned")
        produce(kafka.bootstrap, run.topic, [b"0", b"1", b"2"], partition=0)
        eventually(lambda: written(kafka, f"{prefix}evaluations") == [b"0", b"1", b"2"], "all are written")
    calls = agent.calls
    assert calls[0] == ("tick", 1_000) or calls[0] == ("on_assigned", (None, 0))
    assigned, handled = calls.index(("on_assigned", (None, 0))), names(agent).index("handle")
    assert assigned < handled
    assert names(agent)[handled : handled + 4] == ["handle", "tick", "on_commit", "drain_metrics"]
    assert [offset for name, of in calls if name == "handle" for offset in of] == [0, 1, 2]  # type: ignore[attr-defined]
    end = names(agent)[names(agent).index("drain") :]
    assert end[:2] == ["drain", "in_flight"]
    assert ("on_revoked", [0]) in calls[names(agent).index("drain") :]
    assert "on_abort" not in names(agent)


@pytest.mark.heavy
@pytest.mark.parametrize("holds", [False, True], ids=["settles at once", "holds records"])
def test_a_record_whose_outcome_kafka_does_not_take_becomes_a_dead_letter_whoever_holds_it(
    kafka: SharedBroker, prefix: str, *, holds: bool
) -> None:
    """The one record is found by halving what is settled, also where the agent had taken it long before."""
    agent = Recorder(holds=holds)
    with running(kafka, prefix, agent) as run:
        eventually(ready(agent), "the partition is assigned")
        values = [b"large" if number == 5 else b"%d" % number for number in range(12)]
        produce(kafka.bootstrap, run.topic, values, partition=0)
        eventually(lambda: written(kafka, f"{prefix}dead-letter") == [b"head"], "the one is a dead letter")
        wanted = [value for value in values if value != b"large"]
        eventually(lambda: written(kafka, f"{prefix}evaluations") == wanted, "the others are written once")
        eventually(lambda: run.lag() == 0, "all is committed")
    assert [offset for name, offset in agent.calls if name == "dead_letter"] == [5]
    assert "on_abort" in names(agent)
    after = [name for name in names(agent) if name in ("on_abort", "on_commit")]
    assert after[-1] == "on_commit"


class Patient(Agent, Holding, InputProgress):
    """Settles nothing, and notes the partition counts and the ends that it is told of."""

    outputs = ("evaluations",)
    counted_outputs = ("evaluations",)

    def __init__(self) -> None:
        self.holding = self.input_progress = self
        self.taken = 0
        self.assigned = 0
        self.resumed = 0
        self.counts: list[object] = []
        self.ends: list[tuple[int, float]] = []

    @override
    def to_confirm(self, held: Collection[TopicPartition]) -> Collection[TopicPartition]:
        return held

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        self.taken += len(records)
        return Outcome()

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        return Outcome(settled=[record])

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        self.assigned += 1

    @override
    def resumes_at(self, topic_partition: TopicPartition, start: int) -> int:
        return max(start, self.resumed)

    @override
    def on_partition_counts(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        self.counts.append((dict(inputs), dict(outputs)))

    @override
    def on_ends(self, confirmed: Mapping[TopicPartition, float]) -> None:
        self.ends += [(self.taken, time_s) for time_s in confirmed.values()]


def test_an_agent_is_told_of_partition_counts_and_ends(kafka: SharedBroker, prefix: str) -> None:
    """Counts once, as they do not change; ends again and again, and not before the records that came before."""
    agent = Patient()
    with running(kafka, prefix, agent) as run:
        eventually(lambda: agent.ends, "the empty partition is at its end")
        produce(kafka.bootstrap, run.topic, [b"0", b"1", b"2"], partition=0)
        produced = time.time()
        eventually(lambda: agent.ends[-1][1] > produced, "the end is confirmed again")
    assert all(taken == 3 for taken, time_s in agent.ends if time_s > produced)
    assert agent.counts == [({run.topic: 1}, {"evaluations": 1})]


def test_an_agent_that_still_has_its_records_goes_on_behind_them(kafka: SharedBroker, prefix: str) -> None:
    """After a rebalance that gives it back a partition of which it has settled nothing; the offset stays committed."""
    agent = Patient()
    with running(kafka, prefix, agent) as run:
        eventually(lambda: agent.ends, "the empty partition is at its end")
        produce(kafka.bootstrap, run.topic, [b"0", b"1", b"2"], partition=0)
        eventually(lambda: agent.taken == 3, "all are read")
        agent.resumed, agent.taken = 2, 0
        # A member that reads another topic makes the group assign all partitions again, this one to the same worker.
        member = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": Identity("lifecycle", 0, prefix).group,
                "partition.assignment.strategy": "roundrobin",
                "log_level": 0,
            }
        )
        with closing(member):
            member.subscribe([f"{prefix}evaluations"])
            eventually(lambda: (member.poll(0.1), agent.assigned == 2)[1], "the partition came back")
            produce(kafka.bootstrap, run.topic, [b"3"], partition=0)
            eventually(lambda: agent.taken > 1, "the next record is read")
            assert agent.taken == 2
