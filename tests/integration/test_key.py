"""The key service on a real Kafka: every span once, and marks that are never later than a record still to be read.

The sources have the broker's timestamps, so that the time at which each record came is known exactly.
"""

import json
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands import ragweir, told
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from conftest import QUICK_BROKER, SharedBroker, create_topic, produce, read_to_end, transaction
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from services import QUICK_CLIENT, Service, end_all, eventually, quick, until

from ragweir.schemas.assembly import HEADER_SOURCE, HEADER_TIME, ClockMark
from ragweir.schemas.topics import TOPICS
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.traces.wire import divide, read

SLACK_MS = 1_000
"""Time between a record's timestamp and its visibility: a broker on a busy machine may be suspended between them."""

REFRESHED = {"RAGWEIR_KAFKA__CLIENT": json.dumps({**QUICK_CLIENT, "topic.metadata.refresh.interval.ms": 1_000})}

Source = tuple[str, int]


def traces(*ids: tuple[int, int]) -> bytes:
    """A request with spans of these trace and span ids."""
    data = TracesData()
    resource = data.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    spans = resource.scope_spans.add().spans
    for trace, span in ids:
        spans.add(trace_id=trace.to_bytes(16, "big"), span_id=span.to_bytes(8, "big"), name="x" * 50)
    return data.SerializeToString()


def logs(*ids: tuple[int, int]) -> bytes:
    """A request with log records of these trace and span ids."""
    data = LogsData()
    records = data.resource_logs.add().scope_logs.add().log_records
    for trace, span in ids:
        records.add(trace_id=trace.to_bytes(16, "big"), span_id=span.to_bytes(8, "big"), time_unix_nano=1)
    return data.SerializeToString()


class Slice(NamedTuple):
    """A record of spans."""

    source: Source
    offset: int
    trace: str
    time_ms: int


class Deployment:
    """A source of traces with three partitions and one of logs with two, and workers that copy them to spans."""

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        folder: Path,
        workers: int,
        times: str = "LogAppendTime",
        ahead_s: Iterable[int] = repeat(0),
        **more: str,
    ) -> None:
        self.bootstrap, self.prefix, self.folder = bootstrap, prefix, folder
        self.sources = {f"{prefix}otlp_spans": 3, f"{prefix}otlp_logs": 2}
        for topic, partitions in self.sources.items():
            create_topic(bootstrap, topic, partitions, {"message.timestamp.type": times})
        for name, partitions in {"spans": 4, "dead-letter": 1}.items():
            create_topic(bootstrap, prefix + name, partitions, dict(TOPICS[name].config))
        traces = {"input__format": "otlp", "input__topic": f"{prefix}otlp_spans"}
        topics = {"assemble__topics": [f"{prefix}otlp_logs"]}
        self.variables = quick(bootstrap, prefix, **traces, **topics, batch__max_events=20) | more
        self.workers = [self.start(slot, ahead_s) for slot, ahead_s in zip(range(workers), ahead_s, strict=False)]
        self._random = random.Random(prefix)
        self._feeding = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self.fed = 0

    def start(self, slot: int, ahead_s: int = 0) -> Service:
        """Start a worker, whose clock may be ahead."""
        program = ["ragweir.streams.commands"] if ahead_s == 0 else ["chaos.shifted_clock", str(ahead_s)]
        command = ["-m", *program, "key", "--slot", str(slot)]
        return Service(command, self.folder / f"{slot}.log", self.variables)

    def restart(self, slot: int) -> None:
        """Kill a worker and start it again."""
        self.workers[slot].process.kill()
        self.workers[slot].ended()
        self.workers[slot] = self.start(slot)

    def end(self) -> None:
        self._feeding.set()
        if self._thread.ident:
            self._thread.join(30)
        end_all(self.workers)

    # Feeding.

    def feed(self) -> None:
        """Begin to write traces in pieces, without keys, to any partition, until `settle`."""
        self._thread.start()

    def _feed(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "log_level": 0})
        own, number = self._random, 0
        while not self._feeding.is_set():
            ids = [(own.randrange(max(1, number - 20), number + 2), number * 10 + each) for each in range(1, 5)]
            (topic, partitions), make = own.choice([*zip(self.sources.items(), (traces, logs), strict=True)])
            producer.produce(topic, make(*ids), partition=own.randrange(partitions))
            number += 1
            producer.poll(0.003)
        producer.flush(60)
        self.fed = number

    def settle(self, *, supervised: bool = False) -> int:
        """End feeding, and wait until the marks of all partitions are later; return the number of records fed.

        With `supervised` a worker that ends meanwhile is started again, as the supervisor does.
        """
        if self._thread.ident:
            self._feeding.set()
            self._thread.join(90)
        self.catch_up(supervised=supervised)
        return self.fed

    def catch_up(self, *, supervised: bool = False) -> None:
        """Wait until the clock of every partition of spans is later than now."""
        now = time.time() * 1000

        def is_later() -> bool:
            for slot, worker in enumerate(self.workers if supervised else ()):
                if worker.process.poll() is not None:
                    self.restart(slot)
            _, clocks = self.log()
            return len(clocks) == len(self.spans_partitions()) and all(clock >= now for clock in clocks.values())

        eventually(is_later, "the clocks of all partitions of spans go on")

    # What is in spans.

    def spans_partitions(self) -> list[int]:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return [*admin.list_topics(f"{self.prefix}spans", timeout=30).topics[f"{self.prefix}spans"].partitions]

    def log(self) -> tuple[dict[int, list[Slice | ClockMark]], dict[int, int]]:
        """The records of each partition of spans in order, and its clock: the minimum over all source partitions."""
        found: defaultdict[int, list[Slice | ClockMark]] = defaultdict(list)
        for message in read_to_end(self.bootstrap, f"{self.prefix}spans"):
            found[message.partition() or 0].append(_entry(message))
        clocks = {}
        for partition, entries in found.items():
            marks = [entry for entry in entries if isinstance(entry, ClockMark)]
            times = {(own.topic, own.partition): own.time_ms for mark in marks for own in mark.marks}
            wanted = (
                [(topic, number) for topic, count in marks[-1].sources.items() for number in range(count)]
                if marks
                else []
            )
            if wanted and times.keys() >= set(wanted):
                clocks[partition] = min(times[each] for each in wanted)
        return found, clocks

    def copied(self, topic: str) -> list[Slice]:
        """Return the slices of a source."""
        own = [entry for entries in self.log()[0].values() for entry in entries]
        return [entry for entry in own if isinstance(entry, Slice) and entry.source[0] == topic]

    def newest_marks(self) -> list[ClockMark]:
        """Return the newest mark of each partition of spans."""
        return [[each for each in own if isinstance(each, ClockMark)][-1] for own in self.log()[0].values()]

    def must_be_right(self) -> None:
        """Every slice is there once and in order, and no mark is later than a record that comes after it."""
        expected: Counter[tuple[Source, int, str]] = Counter()
        came: dict[tuple[Source, int], int] = {}
        for topic in self.sources:
            for message in read_to_end(self.bootstrap, topic):
                place = (topic, message.partition() or 0), message.offset() or 0
                came[place] = message.timestamp()[1]
                expected.update((*place, each.trace_id) for each in divide(message.value() or b"").slices)
        entries, _ = self.log()
        slices = [entry for own in entries.values() for entry in own if isinstance(entry, Slice)]
        found = Counter((entry.source, entry.offset, entry.trace) for entry in slices)
        assert found - expected == Counter(), "doubled"
        assert expected - found == Counter(), "lost"
        homes: defaultdict[str, set[int]] = defaultdict(set)
        for partition, own in entries.items():
            marked: dict[Source, int] = {}
            last: dict[Source, int] = {}
            for entry in own:
                if isinstance(entry, ClockMark):
                    for mark in entry.marks:
                        source = mark.topic, mark.partition
                        assert mark.time_ms >= marked.get(source, 0), "a mark goes back"
                        marked[source] = mark.time_ms
                else:
                    homes[entry.trace].add(partition)
                    assert entry.offset >= last.get(entry.source, 0), "out of order"
                    last[entry.source] = entry.offset
                    assert entry.time_ms >= marked.get(entry.source, 0), "a slice is late at once"
                    behind = marked.get(entry.source, 0) - came[entry.source, entry.offset]
                    assert behind <= SLACK_MS, f"a mark was {behind} ms ahead of an unread record"
        assert {len(own) for own in homes.values()} == {1}, "a trace in several partitions"


def _entry(message: Message) -> Slice | ClockMark:
    if message.key() is None:
        return ClockMark.model_validate_json(message.value() or b"")
    headers = dict(message.headers() or [])
    topic, partition, offset = headers[HEADER_SOURCE].decode().rsplit("/", 2)
    spans, records = read(message.value() or b"")
    (trace,) = {each.trace_id for each in (*spans, *records)}
    assert trace.encode() == message.key()
    return Slice((topic, int(partition)), int(offset), trace, int(headers[HEADER_TIME]))


Deploy = Callable[..., Deployment]


@pytest.fixture
def deploy(kafka: SharedBroker, prefix: str, tmp_path: Path) -> Iterator[Deploy]:
    deployed: list[Deployment] = []

    def start(bootstrap: str = kafka.bootstrap, *, workers: int = 1, **more: Any) -> Deployment:
        deployed.append(Deployment(bootstrap, prefix, tmp_path, workers, **more))
        return deployed[-1]

    try:
        yield start
    finally:
        for each in deployed:
            each.end()


@pytest.mark.heavy
def test_kills_of_several_workers_lose_and_double_nothing(deploy: Deploy) -> None:
    """Unkeyed pieces of traces and logs over five partitions of two topics, three workers, and six kills."""
    deployed = deploy(workers=3)
    deployed.feed()
    for kill in range(6):
        time.sleep(1.5)
        deployed.restart(kill % 3)
    assert deployed.settle() > 500
    deployed.must_be_right()


@pytest.mark.heavy
def test_marks_follow_the_brokers_time_whatever_the_clocks_of_the_workers(deploy: Deploy) -> None:
    """One is four minutes ahead and one behind; the first record of each asks for the time, and marks nothing."""
    deployed = deploy(workers=2, ahead_s=(240, -240))
    deployed.feed()

    def entries_now() -> list[tuple[int, Slice | ClockMark]]:
        messages = read_to_end(deployed.bootstrap, f"{deployed.prefix}spans")
        return [(message.timestamp()[1], _entry(message)) for message in messages]

    def both_asked() -> bool:
        return sum(isinstance(entry, ClockMark) and not entry.marks for _, entry in entries_now()) == 2

    until(both_asked)
    assert deployed.settle() > 10
    deployed.must_be_right()
    entries = entries_now()
    marks = [(at_ms, entry.marks) for at_ms, entry in entries if isinstance(entry, ClockMark)]
    assert all(each.time_ms <= at_ms for at_ms, own in marks for each in own)
    assert all(entry.time_ms <= at_ms for at_ms, entry in entries if isinstance(entry, Slice))
    assert [own for _, own in marks].count(()) == 2
    assert not any(worker.logged("follow this machine's clock") for worker in deployed.workers)


@pytest.mark.heavy
def test_the_marks_of_idle_partitions_go_on(deploy: Deploy) -> None:
    """Those that were empty from the start, and those that end in the markers of a transaction."""
    deployed = deploy(workers=2)
    deployed.catch_up()
    topic = next(iter(deployed.sources))
    for end in ("commit_transaction", "abort_transaction"):
        producer = transaction(deployed.bootstrap, f"{topic}x")
        for number in range(1, 4):
            producer.produce(topic, traces((number, number)), partition=1)
        producer.flush(30)
        getattr(producer, end)(30)
        deployed.catch_up()
    deployed.must_be_right()
    assert sum(len([each for each in own if isinstance(each, Slice)]) for own in deployed.log()[0].values()) == 3


@pytest.mark.heavy
def test_an_open_transaction_holds_the_clock(deploy: Deploy) -> None:
    """Its records are in the log and unread: at its end they come with the times at which they were written."""
    deployed = deploy()
    deployed.catch_up()
    topic = next(iter(deployed.sources))
    producer = transaction(deployed.bootstrap, f"{topic}x")
    producer.produce(topic, traces((1, 1)), partition=1)
    assert producer.flush(30) == 0
    written = time.time() * 1000
    time.sleep(3)
    assert all(clock <= written + SLACK_MS for clock in deployed.log()[1].values())
    producer.commit_transaction(30)
    deployed.catch_up()
    deployed.must_be_right()


@pytest.mark.heavy
def test_the_next_worker_goes_on_from_the_last_mark(deploy: Deploy) -> None:
    """It stands in the metadata of the committed offset: a producer whose clock is behind is not late at a restart."""
    deployed = deploy(times="CreateTime")
    deployed.catch_up()
    assert deployed.workers[0].stop() == 0
    before = min(deployed.log()[1].values())
    topic = next(iter(deployed.sources))
    producer = Producer({"bootstrap.servers": deployed.bootstrap, "log_level": 0})
    producer.produce(topic, traces((1, 1)), partition=0, timestamp=before - 3_600_000)
    assert producer.flush(30) == 0
    deployed.workers[0] = deployed.start(0)
    deployed.catch_up()
    (found,) = [each for own in deployed.log()[0].values() for each in own if isinstance(each, Slice)]
    assert found.time_ms >= before


@pytest.mark.heavy
def test_what_is_not_otlp_is_a_dead_letter(deploy: Deploy) -> None:
    """And so is a trace that no record of spans can hold; everything else goes on, in one attempt."""
    deployed = deploy(RAGWEIR_LIMITS__MAX_EVENT_BYTES="20000")
    topic = next(iter(deployed.sources))
    large = traces(*((9, each) for each in range(1, 5_000)))
    produce(deployed.bootstrap, topic, [b"not otlp", traces((1, 1)), large, None, traces((0, 1))], partition=0)
    deployed.catch_up()
    letters = [dict(each.headers() or []) for each in read_to_end(deployed.bootstrap, f"{deployed.prefix}dead-letter")]
    assert [each["ragweir-error-class"].decode() for each in letters] == [
        "unreadable",
        "too_large",
        "tombstone",
        "unreadable",
    ]
    (found,) = [each for own in deployed.log()[0].values() for each in own if isinstance(each, Slice)]
    assert (found.trace, found.offset) == (f"{1:032x}", 1)
    worker = deployed.workers[0]
    assert worker.sample('ragweir_transactions_total{outcome="aborted"}') == 0
    assert worker.sample("ragweir_assemble_unjoinable_spans_total") == 0
    assert worker.sample("ragweir_assemble_slices_total") == 1
    assert worker.sample("ragweir_assemble_marks_total") > 0
    gauge = f'ragweir_assemble_mark_timestamp_seconds{{partition="2",topic="{topic}"}}'
    assert abs(worker.sample(gauge) - time.time()) < 60


@pytest.mark.heavy
def test_added_partitions_of_spans_and_sources_are_marked(deploy: Deploy) -> None:
    """While the worker runs: the new partitions of spans have a clock, and it waits for those of the source."""
    deployed = deploy()
    deployed.catch_up()
    topic = next(iter(deployed.sources))
    admin = AdminClient({"bootstrap.servers": deployed.bootstrap, "log_level": 0})
    grown = {f"{deployed.prefix}spans": 6, topic: 4}
    for future in admin.create_partitions([NewPartitions(*each) for each in grown.items()]).values():
        future.result(30)
    deployed.sources |= {topic: 4}

    def is_known() -> bool:
        own, clocks = deployed.log()
        newest = [[each for each in entries if isinstance(each, ClockMark)][-1] for entries in own.values()]
        return len(clocks) == 6 and all(mark.sources[topic] == 4 for mark in newest)

    eventually(is_known, "all partitions of spans have marks of all partitions of the source")
    produce(deployed.bootstrap, topic, [traces((1, 1))], partition=3)
    deployed.catch_up()
    deployed.must_be_right()


@pytest.mark.heavy
def test_a_source_that_is_deleted_holds_the_others_for_seconds_and_is_read_again_once_it_is_back(
    deploy: Deploy,
) -> None:
    """By its new id: from its start, whatever new groups do. A worker that starts meanwhile reads the others."""
    deployed = deploy(workers=2, RAGWEIR_INPUT__START_FROM="latest", **REFRESHED)
    deployed.catch_up()
    spans, logs = deployed.sources
    produce(deployed.bootstrap, logs, [traces((9, 9))] * 5, partition=1)
    eventually(lambda: len(deployed.copied(logs)) == 5, "the records of the source are copied")
    admin = AdminClient({"bootstrap.servers": deployed.bootstrap, "log_level": 0})
    admin.delete_topics([logs])[logs].result(30)
    partitions = deployed.sources.pop(logs)
    produce(deployed.bootstrap, spans, [traces((1, 1))], partition=0)
    deployed.catch_up()
    assert len(deployed.copied(spans)) == 1
    # A worker that started after the deletion marks the others at once.
    eventually(lambda: all(each.sources == {spans: 3} for each in deployed.newest_marks()), "the others alone count")
    first = deployed.workers[0]
    eventually(lambda: first.sample(f'ragweir_topic_missing{{topic="{logs}"}}') == 1, "the gauge names it")
    assert first.sample(f'ragweir_topic_missing{{topic="{spans}"}}') == 0
    assert f"there is no topic {logs}" in ragweir("doctor", **deployed.variables).stdout.decode()
    deployed.restart(1)
    # A worker that starts after the topic is there again does not know that it was missing.
    eventually(
        lambda: deployed.workers[1].sample(f'ragweir_topic_missing{{topic="{logs}"}}', slot=1) == 1,
        "so does the new one",
    )
    produce(deployed.bootstrap, spans, [traces((2, 2))], partition=1)
    deployed.catch_up()
    create_topic(deployed.bootstrap, logs, partitions, {"message.timestamp.type": "LogAppendTime"})
    deployed.sources[logs] = partitions
    produce(deployed.bootstrap, logs, [traces((3, 3))] * 3, partition=1)
    eventually(lambda: len(deployed.copied(logs)) == 8, "the records of the new topic are copied")
    deployed.catch_up()
    assert len(deployed.copied(spans)) == 2
    both = {spans: 3, logs: 2}
    eventually(lambda: all(each.sources == both for each in deployed.newest_marks()), "both count again")
    assert first.process.poll() is None, "no worker had to start again"
    eventually(lambda: first.sample(f'ragweir_topic_missing{{topic="{logs}"}}') == 0, "the gauge ends")


def test_otlp_is_needed_and_ragweirs_own_topics_are_no_sources() -> None:
    refused = ragweir("key", "--slot", "0")
    assert refused.returncode == 2
    assert "are there traces to assemble" in told(refused)
    for own in ("rag.spans", "rag.interactions"):
        variables = {"RAGWEIR_INPUT__FORMAT": "otlp", "RAGWEIR_ASSEMBLE__TOPICS": json.dumps([own])}
        refused = ragweir("assemble", **variables)
        assert refused.returncode == 2
        assert f"{own} is ragweir's own topic" in told(refused)


@pytest.mark.heavy
@pytest.mark.parametrize("seconds", [2, pytest.param(20, marks=pytest.mark.long)])
def test_a_stopped_process_marks_nothing_that_it_has_not_read(deploy: Deploy, seconds: float) -> None:
    """It is stopped at any moment, also between the answer about an end and its mark."""
    deployed = deploy(workers=2)
    deployed.feed()
    for _ in range(3 if seconds < 10 else 1):
        time.sleep(1.7)
        worker = deployed.workers[0]
        worker.send(signal.SIGSTOP)
        time.sleep(seconds)
        worker.send(signal.SIGCONT)
        if worker.process.poll() is not None:
            deployed.restart(0)
    if deployed.workers[0].process.poll() is not None:
        deployed.restart(0)
    assert deployed.settle() > 100
    deployed.must_be_right()


@pytest.mark.heavy
def test_marks_wait_while_the_broker_is_away(deploy: Deploy, tmp_path: Path) -> None:
    """The records that producers have kept meanwhile are in the log before the clock goes on."""
    with local_kafka(folder=tmp_path / "kafka", properties=QUICK_BROKER) as broker:
        deployed = deploy(broker.bootstrap)
        deployed.feed()
        time.sleep(3)
        broker.kill()
        time.sleep(5)
        broker.start()
        restarted = time.time() * 1000
        deployed.settle(supervised=True)
        deployed.must_be_right()
        marks = [each for own in deployed.log()[0].values() for each in own if isinstance(each, ClockMark)]
        times = {own.time_ms for mark in marks for own in mark.marks if own.caught_up}
        assert any(time_ms > restarted for time_ms in times)
        deployed.end()
