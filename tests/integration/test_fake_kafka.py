"""Kafka in memory behaves as Kafka does: each script runs on both, with equal results."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Protocol

import pytest
from confluent_kafka import (
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from conftest import SharedBroker, create_topic
from fake_clients import FakeAdmin, FakeProducer
from fake_consumer import FakeConsumer
from fake_worker import World
from typing_extensions import override

TURNS = 150
"""The times that a client is polled for 0.1 s before something is taken to be missing."""
READER = {"auto.offset.reset": "earliest", "enable.partition.eof": True, "enable.auto.commit": False}


class Side(Protocol):
    """One of the two."""

    admin: Any

    def topic(self, name: str = "t", partitions: int = 1, **config: str) -> str: ...
    def delete(self, topic: str) -> None: ...
    def consumer(self, group: str = "g", **properties: Any) -> Any: ...
    def producer(self, transactional_id: str = "p", **properties: Any) -> Any: ...


def _dotted(properties: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in properties.items()}


class Real(Side):
    """Kafka. What is made is closed at the end."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._base: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._bootstrap, self._prefix = bootstrap, prefix
        self.admin = AdminClient(self._base)
        self.stack = ExitStack()

    @override
    def topic(self, name: str = "t", partitions: int = 1, **config: str) -> str:
        return create_topic(self._bootstrap, self._prefix + name, partitions, _dotted(config))

    @override
    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(20)
        for _ in range(TURNS):
            if topic not in self.admin.list_topics(timeout=10).topics:
                return
            time.sleep(0.1)

    @override
    def consumer(self, group: str = "g", **properties: Any) -> Any:
        more = {**READER, "fetch.wait.max.ms": 20, "heartbeat.interval.ms": 100, "session.timeout.ms": 6_000}
        consumer = Consumer({**self._base, **more, "group.id": self._prefix + group, **_dotted(properties)})
        self.stack.callback(consumer.close)
        return consumer

    @override
    def producer(self, transactional_id: str = "p", **properties: Any) -> Any:
        named = {"transactional.id": self._prefix + transactional_id}
        return Producer({**self._base, "linger.ms": 0, **named, **_dotted(properties)})


class Memory(Side):
    """Kafka in memory."""

    def __init__(self, world: World) -> None:
        self._cluster = world.cluster
        self.admin = FakeAdmin(world.cluster, {})

    @override
    def topic(self, name: str = "t", partitions: int = 1, **config: str) -> str:
        self._cluster.create(name, partitions, **config)
        return name

    @override
    def delete(self, topic: str) -> None:
        self._cluster.delete(topic)

    @override
    def consumer(self, group: str = "g", **properties: Any) -> Any:
        return FakeConsumer(self._cluster, {**READER, "group.id": group, **_dotted(properties)})

    @override
    def producer(self, transactional_id: str = "p", **properties: Any) -> Any:
        return FakeProducer(self._cluster, {"transactional.id": transactional_id, **_dotted(properties)})


@contextmanager
def both(kafka: SharedBroker, prefix: str, world: World) -> Iterator[tuple[Side, Side]]:
    real = Real(kafka.bootstrap, prefix)
    with real.stack:
        yield real, Memory(world)


# What the scripts do.


def failed(call: Callable[[], object]) -> tuple[str, bool, bool, bool] | None:
    """Return the name of a call's error, and if it is fatal, may be retried or requires an abort; None without one."""
    try:
        call()
    except KafkaException as raised:
        error = raised.args[0]
        return error.name(), error.fatal(), error.retriable(), error.txn_requires_abort()
    return None


def read(consumer: Any, at: TopicPartition) -> list[object]:
    """Return what is read of a partition from there to the first report of its end, with offsets."""
    consumer.assign([at])
    found: list[object] = []
    for _ in range(TURNS):
        if (message := consumer.poll(0.1)) is None:
            continue
        if (error := message.error()) is not None:
            found.append((error.name(), message.offset()))
            return found
        found.append((message.offset(), message.value()))
    return found


def polled(consumers: list[Any], until: Callable[[], object]) -> None:
    for _ in range(TURNS):
        for consumer in consumers:
            consumer.poll(0.02)
        if until():
            return
    raise AssertionError("it waits in vain")


def opened(side: Side, topic: str, *values: bytes, transactional_id: str = "p", **properties: Any) -> Any:
    """Return a producer with an open transaction that has written values."""
    producer = side.producer(transactional_id, **properties)
    producer.init_transactions(20)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    for _ in range(TURNS):
        producer.poll(0.02)
        if not len(producer):
            break
    return producer


def visibility(side: Side) -> list[object]:
    """Open, aborted and committed transactions, as readers of both isolation levels see them."""
    topic = side.topic()
    at = TopicPartition(topic, 0, 0)
    readers = [side.consumer(isolation_level=level) for level in ("read_committed", "read_uncommitted")]
    producer = opened(side, topic, b"a", b"b")
    seen: list[object] = []

    def look() -> None:
        for reader in readers:
            seen.append((read(reader, at), reader.get_watermark_offsets(at, timeout=10)))
            seen.append(reader.get_watermark_offsets(at, cached=True))
        seen.extend(each.offset for each in readers[0].offsets_for_times([TopicPartition(topic, 0, OFFSET_END)], 10))
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            asked = side.admin.list_offsets({at: OffsetSpec.latest()}, isolation_level=level, request_timeout=10)
            seen.extend(future.result(20).offset for future in asked.values())

    look()
    producer.abort_transaction(10)
    look()
    producer.begin_transaction()
    producer.produce(topic, b"c", partition=0)
    producer.commit_transaction(10)
    look()
    return seen


def offsets(side: Side) -> list[object]:
    """The offsets of a transaction are pending until it ends: they are neither answered, nor are older ones."""
    topic = side.topic()
    at = TopicPartition(topic, 0, 7, "note")
    consumer = side.consumer(isolation_level="read_committed")

    def answered(timeout: float = 10) -> object:
        return [(each.offset, each.metadata or "") for each in consumer.committed([TopicPartition(topic, 0)], timeout)]

    seen: list[object] = [answered()]
    producer = opened(side, topic)
    producer.send_offsets_to_transaction([at], consumer.consumer_group_metadata(), 10)
    seen.append((failed(lambda: answered(0.5)) or ("", 0))[0])
    producer.abort_transaction(10)
    seen.append(answered())
    producer.begin_transaction()
    producer.send_offsets_to_transaction([at], consumer.consumer_group_metadata(), 10)
    producer.commit_transaction(10)
    seen.append(answered())
    return seen


def rejected(side: Side) -> list[object]:
    """A record that the topic does not take, and one that the client itself does not take."""
    topic = side.topic(max_message_bytes="1000")
    reports: list[object] = []
    producer = side.producer(message_max_bytes=100_000)
    producer.init_transactions(20)

    def reported(error: KafkaError | None, _: object) -> None:
        reports.append(error and error.name())

    producer.begin_transaction()
    too_large = failed(lambda: producer.produce(topic, bytes(200_000)))
    producer.produce(topic, b"small", partition=0, on_delivery=reported)
    producer.produce(topic, bytes(range(256)) * 20, partition=0, on_delivery=reported)
    committed = failed(lambda: producer.commit_transaction(10))
    again: list[object] = []
    for value in (b"1", b"2", b"3", b"4"):
        producer.abort_transaction(10)
        producer.begin_transaction()
        producer.produce(topic, value, partition=0, on_delivery=reported)
        again.append(failed(lambda: producer.commit_transaction(10)))
        if again[-1] is None:
            break
    values = [each[1] for each in read(side.consumer(), TopicPartition(topic, 0, 0))[:-1]]  # type: ignore[index]
    return [too_large, sorted(map(str, reports)), committed, again, values]


def unsent(side: Side) -> list[object]:
    """A partition that a topic does not have is known at once, and an abort reports what it finds in the queue."""
    topic = side.topic()
    reports: list[object] = []
    producer = side.producer(linger_ms=5_000)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.list_topics(topic, timeout=10)
    failure = failed(lambda: producer.produce(topic, b"x", partition=5))
    producer.produce(topic, b"y", partition=0, on_delivery=lambda error, _: reports.append(error and error.name()))
    producer.abort_transaction(10)
    producer.poll(0.1)
    return [failure, reports, [each[0] for each in read(side.consumer(), TopicPartition(topic, 0, 0))]]  # type: ignore[index]


def fenced(side: Side) -> list[object]:
    """A producer with a newer epoch fences the older one, and aborts what it left open."""
    topic = side.topic()
    old = opened(side, topic, b"old")
    new = opened(side, topic, b"new")
    new.commit_transaction(10)
    first = failed(lambda: old.commit_transaction(10))
    second = failed(old.begin_transaction)
    values = [each for each in read(side.consumer(), TopicPartition(topic, 0, 0)) if each[0] != "_PARTITION_EOF"]  # type: ignore[index]
    return [first, second and second[:2], values]


class Rebalances:
    """The calls of one member's callbacks, in order."""

    def __init__(self, side: Side, topic: str, **properties: Any) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.consumer = side.consumer(partition_assignment_strategy="roundrobin", **properties)
        self.consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def _assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.calls.append(("assigned", sorted(each.partition for each in partitions)))
        consumer.assign([TopicPartition(each.topic, each.partition, 0) for each in partitions])

    def _revoked(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.calls.append(("revoked", sorted(each.partition for each in partitions)))
        consumer.unassign()

    def _lost(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.calls.append(("lost", sorted(each.partition for each in partitions)))
        consumer.unassign()

    @property
    def held(self) -> int:
        return len(self.calls[-1][1]) if self.calls and self.calls[-1][0] == "assigned" else 0


def generations(side: Side) -> list[object]:
    """A member that joins makes all members join again; a commit under the old generation is rejected."""
    topic = side.topic(partitions=2)
    first = Rebalances(side, topic)
    polled([first.consumer], lambda: first.held == 2)
    old = first.consumer.consumer_group_metadata()
    second = Rebalances(side, topic)
    polled([first.consumer, second.consumer], lambda: first.held == second.held == 1)
    producer = opened(side, topic)
    offset = [TopicPartition(topic, 0, 1)]
    stale = failed(lambda: producer.send_offsets_to_transaction(offset, old, 10))
    producer.abort_transaction(10)
    producer.begin_transaction()
    now = first.consumer.consumer_group_metadata()
    fresh = failed(lambda: (producer.send_offsets_to_transaction(offset, now, 10), producer.commit_transaction(10)))
    names = [name for name, _ in first.calls], [name for name, _ in second.calls]
    second.consumer.close()
    polled([first.consumer], lambda: first.held == 2)
    return [stale, fresh, names, [name for name, _ in first.calls], second.calls[-1][0]]


def statics(side: Side) -> list[object]:
    """A static member that comes back has its partitions without a rebalance, and its older process is fenced."""
    topic = side.topic(partitions=2)
    old = Rebalances(side, topic, group_instance_id="one")
    other = Rebalances(side, topic, group_instance_id="two")
    polled([old.consumer, other.consumer], lambda: old.held == other.held == 1)
    told = len(other.calls)
    new = Rebalances(side, topic, group_instance_id="one")
    polled([new.consumer], lambda: new.held == 1)
    errors: list[object] = []

    def is_fenced() -> bool:
        message = old.consumer.poll(0.05)
        if message is not None and message.error() and message.error().code() != KafkaError._PARTITION_EOF:
            errors.append((message.error().name(), message.error().fatal()))
        return bool(errors)

    polled([new.consumer, other.consumer], is_fenced)
    is_same = new.calls[-1] == [call for call in old.calls if call[0] == "assigned"][-1]
    told_more = len(other.calls) - told
    # It stays a member when it closes, and leaves when it unsubscribes.
    new.consumer.close()
    polled([other.consumer], lambda: True)
    closed = len(other.calls) - told
    third = Rebalances(side, topic, group_instance_id="one")
    polled([third.consumer, other.consumer], lambda: third.held == 1)
    third.consumer.unsubscribe()
    polled([third.consumer, other.consumer], lambda: other.held == 2)
    return [errors[:1], is_same, told_more, closed, third.calls[-1][0]]


def answers(side: Side) -> list[object]:
    """The errors of questions about what does not exist, and of positions that there are not."""
    topic = side.topic()
    described = side.admin.describe_topics(TopicCollection(["none-" + topic]), request_timeout=10)
    consumer = side.consumer(auto_offset_reset="error")
    producer = opened(side, topic, b"a", b"b")
    producer.commit_transaction(10)
    seen: list[object] = [
        [(failed(partial(future.result, 20)) or "")[0] for future in described.values()],
        failed(lambda: consumer.seek(TopicPartition(topic, 0, 0))) is not None,
        consumer.get_watermark_offsets(TopicPartition(topic, 0), cached=True) == (OFFSET_INVALID, OFFSET_INVALID),
        read(consumer, TopicPartition(topic, 0, 9))[0][0],  # type: ignore[index]
    ]
    ends = 0
    consumer.assign([TopicPartition(topic, 0, 0)])
    for _ in range(20):
        message = consumer.poll(0.05)
        ends += message is not None and message.error() is not None
    return [*seen, ends]


def pauses(side: Side) -> list[object]:
    """A paused partition is not read, and a resumed one from where it was, or where it was sought."""
    topic = side.topic(partitions=2)
    producer = opened(side, topic, b"a", b"b", b"c")
    producer.commit_transaction(10)
    consumer = side.consumer(enable_partition_eof=False)
    at = TopicPartition(topic, 0)

    def next_value(turns: int = TURNS) -> object:
        for _ in range(turns):
            if (message := consumer.poll(0.1)) is not None:
                return message.value()
        return None

    consumer.assign([TopicPartition(topic, 0, 0)])
    seen = [next_value()]
    consumer.pause([at])
    seen.append(next_value(5))
    consumer.resume([at])
    seen.append(next_value())
    consumer.pause([at])
    consumer.resume([at])
    consumer.seek(TopicPartition(topic, 0, 0))
    seen.append(next_value())
    return seen


def recreated(side: Side) -> list[object]:
    """A topic that is made again has another id, and no committed offsets."""
    topic = side.topic()
    consumer = side.consumer()
    producer = opened(side, topic, b"a")
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], consumer.consumer_group_metadata(), 10)
    producer.commit_transaction(10)

    def topic_id() -> str:
        (future,) = side.admin.describe_topics(TopicCollection([topic]), request_timeout=10).values()
        return str(future.result(20).topic_id)

    def committed() -> list[int]:
        return [each.offset for each in consumer.committed([TopicPartition(topic, 0)], timeout=10)]

    before, first = committed(), topic_id()
    side.delete(topic)
    side.topic()
    for _ in range(TURNS):
        if committed() == [OFFSET_INVALID]:
            break
        consumer.poll(0.1)
    return [before, committed(), first == topic_id(), read(side.consumer("another"), TopicPartition(topic, 0, 0))]


SCRIPTS = (visibility, offsets, rejected, unsent, fenced, generations, statics, answers, pauses, recreated)


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.__name__ for script in SCRIPTS])
def test_kafka_in_memory_answers_as_kafka_does(
    kafka: SharedBroker, prefix: str, world: World, script: Callable[[Side], list[object]]
) -> None:
    with both(kafka, prefix, world) as (real, memory):
        expected = script(real)
        found = script(memory)
        assert found == expected, f"{found}\n{expected}"
        assert len(str(expected)) > 20, "the script has found something"
