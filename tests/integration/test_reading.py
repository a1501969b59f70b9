"""Reading what a topic holds now, on a real broker: all that is committed, up to its ends, and nothing waited for."""

import time

from confluent_kafka import Producer
from conftest import SharedBroker, create_topic, produce, trim

from ragweir.streams.runtime.kafka.reader import OffsetRange, offset_range, read
from ragweir.streams.settings import Settings, load


def settings(kafka: SharedBroker) -> Settings:
    return load(None, {"kafka": {"bootstrap_servers": kafka.bootstrap}})


def places(kafka: SharedBroker, part: OffsetRange) -> list[tuple[int, int]]:
    """What is read, and that the progress told comes to the whole of it."""
    steps: list[int] = []
    found = sorted((kept.partition, kept.offset) for kept in read(settings(kafka), part, steps.append))
    assert sum(steps) == len(part)
    return found


def test_all_that_is_committed_is_read(kafka: SharedBroker, prefix: str) -> None:
    """Marks, aborted records and an open transaction at the end are passed over, and hold nothing up."""
    topic = create_topic(kafka.bootstrap, f"{prefix}topic", 3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{prefix}id", "log_level": 0})
    producer.init_transactions(30)
    for ends in (producer.commit_transaction, producer.abort_transaction) * 5:
        producer.begin_transaction()
        producer.produce(topic, b"v", b"k", 1, headers=[("h", b"1"), ("h", None)])
        producer.flush(30)
        ends(30)
    committed = [(1, offset) for offset in range(0, 20, 4)]
    assert places(kafka, offset_range(settings(kafka), topic)) == committed
    assert places(kafka, OffsetRange(topic, {1: 0}, {1: 1_000})) == committed, (
        "an end beyond the topic's is not waited for"
    )
    producer.begin_transaction()
    producer.produce(topic, b"v", b"k", 1)
    producer.flush(30)
    produce(kafka.bootstrap, topic, [b"w"] * 3, partition=2)
    now = offset_range(settings(kafka), topic)
    produce(kafka.bootstrap, topic, [b"later"] * 3, partition=2)
    assert places(kafka, now) == [*committed, (2, 0), (2, 1), (2, 2)]
    first = next(read(settings(kafka), now.since({2: 3})))
    assert (first.key, first.value, first.headers) == (b"k", b"v", (("h", b"1"), ("h", None)))
    producer.abort_transaction(30)


def test_spans_begin_where_they_are_asked_to(kafka: SharedBroker, prefix: str) -> None:
    """The newest ones, those since a time, those of some partitions; what retention took is not waited for."""
    topic = create_topic(kafka.bootstrap, f"{prefix}topic", 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    now_ms = int(time.time() * 1000)
    for number in range(20):
        producer.produce(topic, b"v", partition=number % 2, timestamp=now_ms - 100_000 + number * 1_000)
    assert producer.flush(30) == 0
    own = settings(kafka)
    assert places(kafka, offset_range(own, topic, partitions=[1]).newest(3)) == [(1, 7), (1, 8), (1, 9)]
    assert places(kafka, offset_range(own, topic, since_ms=now_ms - 83_500)) == [(0, 9), (1, 8), (1, 9)]
    assert places(kafka, offset_range(own, topic, since_ms=now_ms)) == []
    trim(kafka.bootstrap, topic, [0], 8)
    assert places(kafka, offset_range(own, topic, partitions=[0])) == [(0, 8), (0, 9)]
    assert places(kafka, offset_range(own, topic, partitions=[0]).newest(100)) == [(0, 8), (0, 9)]
