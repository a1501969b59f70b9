"""Transactions of several batches on a real Kafka: when they are committed, and how rebalances and aborts end them."""

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager

import orjson
import pytest
from confluent_kafka import Consumer
from conftest import SharedBroker, create_topic, produce, read_to_end
from services import eventually
from typing_extensions import override

from ragweir.errors import ErrorClass
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.window import Window
from ragweir.streams.runtime.agent import Agent, Assignment
from ragweir.streams.runtime.kafka.client import Identity
from ragweir.streams.runtime.loop.kafka_runtime import KafkaRuntime
from ragweir.streams.runtime.records import Emission, Outcome, Record, TopicPartition
from ragweir.streams.runtime.serving.health import Health
from ragweir.streams.services.aggregate.agent import AggregateAgent, AggregateConfig
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.settings import Settings

BATCH, RECORDS, BYTES = 10, 400, 1_000
TOO_LARGE = random.Random(7).randbytes(200_000)
"""A value that the topic does not take, compressed or not."""


class Copier(Agent):
    """Copies records to `evaluations`, and notes each call.

    Args:
        pause_s: the time that a batch takes.
        changelog: the changelog that it claims to have.
    """

    outputs = "evaluations", "dead-letter"

    def __init__(self, pause_s: float = 0.0, changelog: str | None = None) -> None:
        self._pause_s, self.changelog = pause_s, changelog
        self.calls: list[str] = []
        self.handled = 0

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        self.calls.append("handle")
        self.handled += len(records)
        time.sleep(self._pause_s)
        values = [TOO_LARGE if record.value == b"large" else record.value for record in records]
        emissions = [Emission("evaluations", each.key, value, ()) for each, value in zip(records, values, strict=True)]
        return Outcome(emissions, settled=list(records))

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        return Outcome([Emission("dead-letter", record.key, record.value, ())], settled=[record])

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        self.calls.append("on_assigned")

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append("on_revoked")

    @override
    def on_commit(self) -> None:
        self.calls.append("on_commit")

    @override
    def on_abort(self) -> None:
        self.calls.append("on_abort")


class Run:
    """The runtime with an agent, on a thread of the test."""

    def __init__(
        self, kafka: SharedBroker, prefix: str, agent: Agent, service: str = "evaluate", **commit: int
    ) -> None:
        self._kafka, self._prefix, self.topic = kafka, prefix, f"{prefix}interactions"
        for name in ("interactions", "dead-letter"):
            create_topic(kafka.bootstrap, prefix + name)
        create_topic(kafka.bootstrap, f"{prefix}evaluations", config={"max.message.bytes": "100000"})
        settings = Settings(
            kafka={"bootstrap_servers": kafka.bootstrap},
            topics={"prefix": prefix},
            batch={"max_wait_ms": 20, "max_events": BATCH},
            commit=commit,
        )
        self._stop, self._telemetry = threading.Event(), telemetry_of(service, 0)
        self.group = (identity := Identity("long", 0, prefix)).group
        runtime = KafkaRuntime(settings, identity, agent, [self.topic], self._telemetry, Health(), self._stop.is_set)
        self._worker = threading.Thread(target=runtime.run)

    def publish(self, values: Sequence[bytes]) -> None:
        produce(self._kafka.bootstrap, self.topic, values, partition=0)

    def written(self, name: str = "evaluations") -> list[bytes | None]:
        return [message.value() for message in read_to_end(self._kafka.bootstrap, self._prefix + name)]

    def transactions(self, outcome: str = "committed") -> float:
        labels = {"outcome": outcome}
        return self._telemetry.registry.get_sample_value("ragweir_transactions_total", labels) or 0.0

    @contextmanager
    def started(self) -> Iterator[None]:
        self._worker.start()
        try:
            yield
        finally:
            self._stop.set()
            self._worker.join()


def numbered(count: int = RECORDS) -> list[bytes]:
    return [b"%d" % number + bytes(BYTES) for number in range(count)]


def is_written(run: Run, values: Sequence[bytes]) -> Callable[[], bool]:
    return lambda: run.written() == values


def test_a_backlog_is_committed_in_few_transactions(kafka: SharedBroker, prefix: str) -> None:
    """A transaction holds one batch at first, then twice as many each time."""
    agent = Copier()
    run = Run(kafka, prefix, agent, interval_ms=2_500)
    run.publish(numbered())
    with run.started():
        eventually(is_written(run, numbered()), "all are written once, in order")
    assert agent.calls.count("handle") == RECORDS / BATCH
    assert run.transactions() < RECORDS / BATCH / 3
    batches = [len(each.split()) for each in " ".join(agent.calls).split("on_commit") if "handle" in each]
    assert batches[:3] == [1, 2, 4]
    assert "on_abort" not in agent.calls


@pytest.mark.parametrize(
    ("changelog", "commit"),
    [("evaluations", {"interval_ms": 2_500}), (None, {"interval_ms": 0}), (None, {"max_bytes": BATCH * BYTES // 2})],
    ids=["changelog", "no interval", "bytes"],
)
def test_each_batch_commits(kafka: SharedBroker, prefix: str, changelog: str | None, commit: dict[str, int]) -> None:
    """By default with a changelog, without an interval, and where a batch has more than the maximum of bytes."""
    agent = Copier(changelog=changelog)
    run = Run(kafka, prefix, agent, **commit)
    run.publish(numbered(100))
    with run.started():
        eventually(is_written(run, numbered(100)), "all are written")
    work = [call for call in agent.calls if call in ("handle", "on_commit")]
    first = work.index("handle")
    assert work[first : first + 20] == ["handle", "on_commit"] * 10


def test_windows_are_written_once_in_a_transaction(kafka: SharedBroker, prefix: str) -> None:
    """An agent with a changelog may have several batches in a transaction: few revisions, and each event once."""
    agent = AggregateAgent(AggregateConfig(Aggregator(Catalogue(everything()))))
    run = Run(kafka, prefix, agent, "aggregate", interval_ms=2_500)
    create_topic(kafka.bootstrap, f"{prefix}windows")
    fields = {"event_id": "1", "event_time": "2026-11-21T12:00:00Z", "scores": {}, "catalogue_version": "1"}
    last = b'"next_offset":%d' % RECORDS
    run.publish([orjson.dumps(fields)] * RECORDS)
    with run.started():
        eventually(lambda: any(last in (each or b"") for each in run.written("windows")), "all are summed")
    windows = [Window.model_validate_json(each) for each in run.written("windows") if each and b'"events"' in each]
    assert windows[-1].events == RECORDS
    assert [window.revision for window in windows] == list(range(1, len(windows) + 1))
    assert len(windows) <= run.transactions() < RECORDS / BATCH / 3


def test_partitions_are_revoked_after_the_open_transaction_is_committed(kafka: SharedBroker, prefix: str) -> None:
    """Nothing that was sent is sent again by the next owner, and nothing is handled in between."""
    agent = Copier(pause_s=0.05)
    run = Run(kafka, prefix, agent, interval_ms=2_500)
    run.publish(numbered())
    with run.started():
        eventually(lambda: agent.handled > 4 * BATCH, "a transaction of several batches is open")
        member = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": run.group,
                "partition.assignment.strategy": "roundrobin",
                "log_level": 0,
            }
        )
        with closing(member):
            member.subscribe([f"{prefix}dead-letter"])
            eventually(lambda: (member.poll(0.1), agent.calls.count("on_assigned") == 2)[1], "the partition came back")
        eventually(is_written(run, numbered()), "all are written once, in order")
    revoked = agent.calls.index("on_revoked")
    assert agent.calls[revoked - 1] == "on_commit"
    assert agent.handled == RECORDS, "nothing is handled again"
    assert "on_abort" not in agent.calls


def test_a_poison_record_behind_several_batches_is_found(kafka: SharedBroker, prefix: str) -> None:
    """The abort takes all of them back; they are written once, in order, and few are handled many times."""
    agent = Copier()
    values = numbered()
    values[333] = b"large"
    run = Run(kafka, prefix, agent, interval_ms=2_500)
    run.publish(values)
    wanted = [value for value in values if value != b"large"]
    with run.started():
        eventually(is_written(run, wanted), "all others are written once, in order")
        assert run.written("dead-letter") == [b"large"]
    assert agent.calls.count("on_abort") == run.transactions("aborted") >= 2
    assert agent.handled < 4 * RECORDS


def test_a_stop_commits_the_open_transaction(kafka: SharedBroker, prefix: str) -> None:
    """The next process begins after what was handled."""
    agent = Copier(pause_s=0.05)
    run = Run(kafka, prefix, agent, interval_ms=2_500)
    run.publish(numbered())
    with run.started():
        eventually(lambda: agent.handled > 4 * BATCH, "a transaction of several batches is open")
    assert run.written() == numbered()[: agent.handled]
    assert agent.handled < RECORDS
