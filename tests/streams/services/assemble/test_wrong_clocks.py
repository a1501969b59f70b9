"""Traces are assembled whole and in time whatever the clocks of the machines of `key` and `join` say.

Two workers of `key` and one of `join` are driven as the Kafka runtime drives them. Time passes alike on all machines,
and the broker's clock is right.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message
from confluent_kafka import TopicPartition as PartitionOffset
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

from ragweir.schemas.assembly import ClockMark
from ragweir.schemas.topics import TOPICS
from ragweir.streams.runtime.agent import Agent, Assignment, StoredChangelog
from ragweir.streams.runtime.loop.broker_clock import BrokerClock
from ragweir.streams.runtime.loop.confirmed_ends import ConfirmedEnds
from ragweir.streams.runtime.records import Emission, Outcome, Record, TopicPartition
from ragweir.streams.services.join.agent import JoinAgent
from ragweir.streams.services.key.agent import KeyAgent
from ragweir.streams.settings import AssembleSettings

START = 1_800_000_000.0
SOURCE, SPANS = "otlp", ("rag.spans", 0)
STEP_S = 0.25
JUMP_AT = START + 20
LIMIT = 64 * 1024
Ahead = Callable[[float], float]
"""By the right time, the seconds by which a machine's clock is ahead of it."""


class Report:
    """A delivery report, which is read a little after the record was appended."""

    def __init__(self, kind: int, at_s: float) -> None:
        self.kind, self.at_s = kind, at_s

    def timestamp(self) -> tuple[int, int]:
        return self.kind, int(self.at_s * 1_000)

    def latency(self) -> float:
        return 0.01


def request(trace: int, number: int, parent: int, kind: str) -> bytes:
    """An export request of one span."""
    span = Span(trace_id=trace.to_bytes(16, "big"), span_id=(16 * trace + number).to_bytes(8, "big"), name=kind)
    if parent:
        span.parent_span_id = (16 * trace + parent).to_bytes(8, "big")
    texts = {"openinference.span.kind": kind, "input.value": f"What is {trace}?", "output.value": f"It is {trace}."}
    for name, text in texts.items():
        span.attributes.add(key=name).value.string_value = text
    span.start_time_unix_nano = span.end_time_unix_nano = 1
    return TracesData(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[span])])]).SerializeToString()


class Cluster:
    """The broker: two partitions of a source, one of `spans`, and its clock."""

    def __init__(self, *, has_brokers_time: bool = True) -> None:
        self.now = START
        self.kind = TIMESTAMP_LOG_APPEND_TIME if has_brokers_time else TIMESTAMP_CREATE_TIME
        self.sources: dict[int, list[Record]] = {0: [], 1: []}
        self.spans: list[Record] = []
        self.interactions: list[tuple[float, dict[str, Any]]] = []

    def send(self, partition: int, value: bytes) -> None:
        log = self.sources[partition]
        log.append(Record(SOURCE, partition, len(log), None, value, round(self.now * 1_000)))

    def append(self, emission: Emission) -> None:
        if emission.topic == "spans":
            at_ms = round(self.now * 1_000)
            record = Record(*SPANS, len(self.spans), emission.key, emission.value, at_ms, emission.headers)
            self.spans.append(record)
        elif emission.topic == "interactions":
            self.interactions.append((self.now, json.loads(emission.value or b"")))

    def marks(self) -> list[tuple[int, ClockMark]]:
        """Return the marks with the times at which they were appended."""
        own = [record for record in self.spans if record.key is None]
        return [(each.timestamp_ms or 0, ClockMark.model_validate_json(each.value or b"")) for each in own]


class Worker:
    """A worker on a machine of its own."""

    def __init__(self, cluster: Cluster, agent: Agent, held: TopicPartition, ahead: Ahead) -> None:
        self.cluster, self.agent, self.held = cluster, agent, held
        self.log: Sequence[Record] = cluster.spans if held == SPANS else cluster.sources[held[1]]
        self.read = 0
        self.clock = BrokerClock(lambda: cluster.now - START, lambda: cluster.now + ahead(cluster.now))
        self.ends = ConfirmedEnds(self._ask, lambda _: self.read, self.clock.now_s, lambda: cluster.now)
        agent.on_assigned(Assignment(held, None, 0, StoredChangelog()))
        agent.input_progress.on_partition_counts({SOURCE: 2}, {"spans": 1})

    def _ask(self, wanted: Mapping[PartitionOffset, Any]) -> Mapping[PartitionOffset, "Future[Any]"]:
        answers: dict[PartitionOffset, Future[Any]] = {each: Future() for each in wanted}
        for future in answers.values():
            future.set_result(SimpleNamespace(offset=len(self.log)))
        return answers

    def _write(self, emissions: Sequence[Emission]) -> None:
        for each in emissions:
            self.cluster.append(each)
            if self.agent.clock_record is not None:
                kind = self.cluster.kind if TOPICS[each.topic].config else TIMESTAMP_CREATE_TIME
                self.clock.on_delivery(cast("Message", Report(kind, self.cluster.now)))

    def step(self) -> None:
        """Drive one transaction."""
        if not self.clock.is_asked and self.agent.clock_record is not None:
            self._write([self.agent.clock_record])
        records = self.log[self.read :]
        self.read = len(self.log)
        self.agent.input_progress.on_time(self.clock.now_s())
        outcome = self.agent.handle(records) if records else Outcome()
        progress = self.agent.input_progress
        progress.on_ends(self.ends.confirmed(progress.to_confirm([self.held])))
        outcome.extend(self.agent.tick(self.clock.now_s(), (), 1_000))
        self._write(outcome.emissions)
        self.agent.on_commit()


def right(_: float) -> float:
    """The clock of a machine that is not ahead."""
    return 0.0


def run(
    cluster: Cluster, seconds: float, first: Ahead = right, second: Ahead = right, join: Ahead = right
) -> tuple[dict[int, float], list[float]]:
    """Send a trace each second, in two parts three seconds apart that different workers read.

    Args:
        cluster: the broker.
        seconds: the length of the run; in its last 15 seconds no trace begins.
        first: the clock of the first worker of key.
        second: the clock of the second one.
        join: the clock of the worker of join.

    Returns:
        The times at which traces were sent to their ends, and the delays of the clock that join shows.
    """
    settings = AssembleSettings(settle_s=6)
    workers = [
        Worker(cluster, KeyAgent(settings, LIMIT), (SOURCE, 0), first),
        Worker(cluster, KeyAgent(settings, LIMIT), (SOURCE, 1), second),
        joining := Worker(cluster, JoinAgent(settings, LIMIT), SPANS, join),
    ]
    sent: dict[int, float] = {}
    delays: list[float] = []
    until = START + seconds
    while cluster.now < until:
        passed_s = cluster.now - START
        if passed_s == int(passed_s) and until - cluster.now > 15:
            trace = int(passed_s) + 1
            cluster.send(trace % 2, request(trace, 1, 0, "CHAIN"))
            if trace > 3:  # Three is odd, so that its first part is in the other partition.
                cluster.send(trace % 2, request(trace - 3, 2, 1, "LLM"))
                sent[trace - 3] = cluster.now
        for each in workers:
            each.step()
        shown = joining.agent.drain_metrics().levels.get(("ragweir_assemble_clock_delay_seconds", "0"))
        delays += [shown] if shown is not None else []
        cluster.now += STEP_S
    return sent, delays


CLOCKS: dict[str, Ahead] = {
    "four minutes ahead": lambda _: 240.0,
    "four minutes behind": lambda _: -240.0,
    "jumps 35 s ahead": lambda now: 35.0 if now >= JUMP_AT else 0.0,
    "jumps 35 s back": lambda now: -35.0 if now >= JUMP_AT else 0.0,
}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("clock", CLOCKS)
def test_workers_whose_clocks_are_wrong_tear_double_and_delay_nothing(clock: str, workers: int) -> None:
    """Each trace gives one interaction with both of its parts, seconds after the last one."""
    cluster = Cluster()
    sent, delays = run(cluster, 60, CLOCKS[clock], CLOCKS[clock] if workers == 2 else right)
    found: dict[int, list[tuple[float, int]]] = {}
    for at, event in cluster.interactions:
        found.setdefault(int(event["event_id"].partition(":")[0], 16), []).append((at, event["assembly"]["spans"]))
    assert len(sent) == 42
    wrong = {trace: found.get(trace, []) for trace in sent if [spans for _, spans in found.get(trace, [])] != [2]}
    assert wrong == {}
    assert max(found[trace][0][0] - at for trace, at in sent.items()) < 9
    assert all(each.time_ms <= at_ms for at_ms, mark in cluster.marks() for each in mark.marks)
    assert all(0 <= delay < 3 for delay in delays)


def test_the_traces_of_an_idle_source_are_closed() -> None:
    """The brokers' time goes on without records: each mark brings it."""
    cluster = Cluster()
    sent, _ = run(cluster, 16, first=CLOCKS["four minutes ahead"])
    assert sent == {}, "one trace was begun"
    assert [event["event_id"] for _, event in cluster.interactions] == [f"{1:032x}:{17:016x}"]


@pytest.mark.parametrize("ahead_s", [240.0, -240.0])
def test_the_delay_does_not_follow_the_clock_of_join(ahead_s: float) -> None:
    _, delays = run(Cluster(), 30, join=lambda _: ahead_s)
    assert len(delays) > 50
    assert all(0 <= delay < 3 for delay in delays)


def test_without_the_brokers_time_marks_that_are_ahead_show_as_a_negative_delay() -> None:
    """Topics that were created before may lack it; `ragweir topics create` sets it."""
    cluster = Cluster(has_brokers_time=False)
    ahead = CLOCKS["four minutes ahead"]
    _, delays = run(cluster, 20, first=ahead, second=ahead)
    assert len(delays) > 50
    assert -240 <= max(delays) < -237
