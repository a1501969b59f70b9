"""Bad input on a real broker: poison and what the broker rejects end as dead letters, and nothing else does."""

import hashlib
import random
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import evaluating, settled
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, create_topic, produce, read_to_end
from poison import MARK, POISON, event, fifty_megabytes
from services import eventually

from ragweir.errors import RestartRequired
from ragweir.schemas.dead_letter import HEAD_BYTES, DeadLetter
from ragweir.schemas.topics import MAX_EVENT_BYTES, max_record_bytes
from ragweir.streams.runtime.kafka import transactional_producer
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.services.slot import run_slot
from ragweir.streams.settings import Settings

EVENTS = 10_000
PARTITIONS = 4


def topics(kafka: SharedBroker, prefix: str, **evaluations: str) -> None:
    """Our topics, of which the interactions allow 60 MB; with these properties of the evaluations topic."""
    ours = {"max.message.bytes": str(max_record_bytes())}
    create_topic(kafka.bootstrap, f"{prefix}interactions", PARTITIONS, {"max.message.bytes": "60000000"})
    create_topic(kafka.bootstrap, f"{prefix}redrive")
    create_topic(kafka.bootstrap, f"{prefix}evaluations", PARTITIONS, ours | evaluations)
    create_topic(kafka.bootstrap, f"{prefix}dead-letter", PARTITIONS, ours)


def all_settled(kafka: SharedBroker, prefix: str) -> dict[tuple[int, int], Message]:
    """Wait until every interaction is settled; gives them by their places."""
    interactions = read_to_end(kafka.bootstrap, f"{prefix}interactions")
    ends: dict[tuple[str, int], int] = {}
    for each in interactions:
        ends[each.topic(), each.partition()] = each.offset() + 1
    settled(kafka.bootstrap, f"{prefix}evaluate", ends)
    return {(each.partition(), each.offset()): each for each in interactions}


def letters(kafka: SharedBroker, prefix: str) -> dict[tuple[int, int], tuple[DeadLetter, Message]]:
    """The dead letters by the places that they speak of; none twice."""
    found = {}
    for message in read_to_end(kafka.bootstrap, f"{prefix}dead-letter"):
        letter = DeadLetter.from_headers(message.headers())
        place = letter.source_partition, letter.source_offset
        assert place not in found
        found[place] = letter, message
    return found


def evaluations(kafka: SharedBroker, prefix: str) -> dict[tuple[int, int], tuple[dict[str, Any], Message]]:
    """The evaluations by the places that they speak of; none twice."""
    found = {}
    for message in read_to_end(kafka.bootstrap, f"{prefix}evaluations"):
        evaluation = orjson.loads(message.value())
        place = evaluation["source"]["partition"], evaluation["source"]["offset"]
        assert place not in found
        found[place] = evaluation, message
    return found


def assert_order(messages: list[tuple[tuple[int, int], Message]]) -> None:
    """Order holds per source and output partition."""
    lanes: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for (partition, offset), message in messages:
        lanes[partition, message.partition()].append((message.offset(), offset))
    for lane in lanes.values():
        assert [offset for _, offset in sorted(lane)] == sorted(offset for _, offset in lane)


def test_poison_becomes_dead_letters_and_all_else_evaluations(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Of 10,000 records, with poison of every kind among them, two workers lose, double and misplace none.

    Every good event has its evaluation and every poison its dead letter: byte for byte, and of 50 MB the head.
    """
    topics(kafka, prefix)
    large = fifty_megabytes()
    expected = {poison.value: poison.error_class for poison in POISON} | {large: "too_large"}
    values = list(expected)
    values += [event(event_id=f"event-{number}") for number in range(EVENTS - len(values))]
    random.Random(7).shuffle(values)
    for partition in range(PARTITIONS):
        share = values[partition::PARTITIONS]
        produce(kafka.bootstrap, f"{prefix}interactions", share, key=f"key-{partition}".encode(), partition=partition)

    with evaluating(kafka.bootstrap, prefix, tmp_path, workers=2) as service:
        records = all_settled(kafka, prefix)
    assert len(records) == EVENTS
    assert len(service.logged("started")) == 2, "no worker had to be started again"
    assert MARK not in (tmp_path / f"{prefix}log").read_text(), "logs hold no content"

    evaluated, dead = evaluations(kafka, prefix), letters(kafka, prefix)
    assert evaluated.keys() | dead.keys() == records.keys()
    assert len(evaluated) == EVENTS - len(expected)
    assert len(dead) == len(expected)
    for place, (evaluation, message) in evaluated.items():
        assert records[place].value() == event(event_id=evaluation["event_id"])
        assert message.key() == evaluation["event_id"].encode()
        headers = dict(message.headers())
        assert headers["ce_id"] == f"{evaluation['event_id']}:scored".encode()
        assert headers["ce_type"] == b"ragweir.evaluation.scored.v1"
        assert headers["content-type"] == b"application/json"
    for place, (letter, message) in dead.items():
        record = records[place]
        value = record.value()
        assert letter.error_class == expected[value]
        assert letter.source_topic == f"{prefix}interactions"
        assert letter.source_timestamp == record.timestamp()[1]
        assert MARK not in letter.message
        assert message.key() == record.key()
        if value is not None and len(value) > MAX_EVENT_BYTES:
            assert message.value() == value[:HEAD_BYTES]
            assert (letter.length, letter.sha256) == (len(value), hashlib.sha256(value).hexdigest())
        else:
            assert message.value() == value
            assert (letter.length, letter.sha256) == (None, None)
    assert_order([(place, message) for place, (_, message) in evaluated.items()])
    assert_order([(place, message) for place, (_, message) in dead.items()])


@pytest.mark.heavy
def test_an_output_that_the_broker_rejects_ends_as_a_dead_letter(
    kafka: SharedBroker, prefix: str, tmp_path: Path
) -> None:
    """A record whose evaluation is too large for its topic is a dead letter; its neighbours are evaluated."""
    topics(kafka, prefix, **{"max.message.bytes": "30000"})
    noise = random.Random(7)
    large = {n: event(event_id=f"event-{n}", query=noise.randbytes(90_000).hex()) for n in (0, 33, 34, 59)}
    values = [large.get(number, event(event_id=f"event-{number}")) for number in range(60)]
    produce(kafka.bootstrap, f"{prefix}interactions", values, partition=0)
    with evaluating(kafka.bootstrap, prefix, tmp_path, RAGWEIR_OUTPUT__INCLUDE_TEXT="true") as service:
        all_settled(kafka, prefix)
    dead = letters(kafka, prefix)
    assert sorted(offset for _, offset in dead) == list(large)
    for (_, offset), (letter, message) in dead.items():
        assert letter.error_class == "refused"
        assert letter.message.startswith("Kafka rejects the records made from it: ")
        assert message.value() == values[offset][:HEAD_BYTES]
        assert (letter.length, letter.sha256) == (len(values[offset]), hashlib.sha256(values[offset]).hexdigest())
    evaluated = evaluations(kafka, prefix)
    assert sorted(offset for _, offset in evaluated) == [n for n in range(60) if n not in large]
    assert_order([(place, message) for place, (_, message) in evaluated.items()])
    assert len(service.logged("started")) == 1, "the worker lived through it"


class WrongClock(Producer):
    """A real producer on a machine whose clock is a day behind whenever it writes about an event called late."""

    def produce(self, topic: str, **record: Any) -> None:
        late = (record.get("key") or b"").startswith(b"late")
        super().produce(topic, **record, timestamp=int(time.time() - 86_400) * 1_000 if late else 0)


@pytest.mark.heavy
def test_a_timestamp_that_the_broker_rejects_ends_as_a_dead_letter(
    kafka: SharedBroker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record whose evaluation bears a stamp that the topic rejects is a dead letter; its neighbours are evaluated."""
    monkeypatch.setattr(transactional_producer, "Producer", WrongClock)
    topics(kafka, prefix, **{"message.timestamp.before.max.ms": "60000"})
    late = (3, 4, 11)
    values = [event(event_id=f"{'late' if n in late else 'event'}-{n}") for n in range(12)]
    produce(kafka.bootstrap, f"{prefix}interactions", values, partition=0)
    stop = threading.Event()
    settings = Settings(kafka={"bootstrap_servers": kafka.bootstrap}, topics={"prefix": prefix}, telemetry={"port": 0})

    def supervised() -> None:
        while not stop.is_set():
            with suppress(RestartRequired):  # As in a process of its own, after which the supervisor starts the next.
                run_slot(SERVICES["evaluate"], settings, 0, stop.is_set)

    worker = threading.Thread(target=supervised)
    worker.start()
    try:
        all_settled(kafka, prefix)
    finally:
        stop.set()
        worker.join()
    dead = letters(kafka, prefix)
    assert sorted(offset for _, offset in dead) == list(late)
    for (_, offset), (letter, message) in dead.items():
        assert letter.error_class == "refused"
        assert "timestamp" in letter.message
        assert message.value() == values[offset]
    evaluated = evaluations(kafka, prefix)
    assert sorted(offset for _, offset in evaluated) == [n for n in range(12) if n not in late]


@pytest.mark.heavy
def test_a_topic_that_is_gone_condemns_no_record(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """While the evaluations topic is away no event is a dead letter or passed over; then all are evaluated."""
    topics(kafka, prefix)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    topic = f"{prefix}evaluations"
    with evaluating(kafka.bootstrap, prefix, tmp_path) as service:
        produce(kafka.bootstrap, f"{prefix}interactions", [event(event_id="before")], partition=0)
        all_settled(kafka, prefix)
        admin.delete_topics([topic])[topic].result(30)
        eventually(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic is gone")
        values = [event(event_id=f"event-{number}") for number in range(50)]
        produce(kafka.bootstrap, f"{prefix}interactions", values, partition=0)
        eventually(
            lambda: service.logged("transaction aborted") or service.logged("worker ended"), "the worker has felt it"
        )
        create_topic(kafka.bootstrap, topic, PARTITIONS)
        all_settled(kafka, prefix)
    assert letters(kafka, prefix) == {}
    assert sorted(offset for _, offset in evaluations(kafka, prefix)) == list(range(1, 51))
