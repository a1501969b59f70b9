"""Records on which a process dies, on a real Kafka: each is a dead letter alone, and its neighbours are evaluated."""

import signal

import pytest
from confluent_kafka import Consumer, TopicPartition
from conftest import SharedBroker, produce, read_to_end
from faults import Traffic, set_offset
from harm import CAUSES, Start, evaluations_to_sum, event, healthy, letters, metadata, publish, starting
from services import Services, eventually

from ragweir.errors import DO_NOT_RESTART
from ragweir.streams.runtime.protection.delivery_attempts import MAX_ATTEMPTS

QUICK = ("segv", "spin", "hoard")
"""A signal, a loop and memory; the other harms take the same ways."""


@pytest.fixture
def start(services: Services) -> Start:
    return starting(services)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "harm", [harm if harm in QUICK else pytest.param(harm, marks=pytest.mark.long) for harm in CAUSES]
)
def test_one_record_that_ends_processes_is_buried_and_its_neighbours_are_evaluated(
    prefix: str, single: Traffic, start: Start, harm: str
) -> None:
    """Of 51 records in one batch the harmful one becomes a dead letter, with its bytes and the cause; 50 are evaluated.

    In order and exactly once; and the worker that comes after does not read it again.
    """
    publish(single, {20: harm})
    worker = start(single, "--slot", "0")
    if harm in ("spin", "sleep"):  # A supervisor would end it after a minute.
        eventually(lambda: metadata(single).attempts == 1, "the attempt is noted")
        worker.send(signal.SIGKILL)
    assert worker.ended() != 0
    assert metadata(single).model_dump(exclude={"topic", "partitions", "note"}) == {
        "attempts": 1,
        "until": 51,
        "fatal": (),
        "warm_from": 0,
    }
    worker = start(single, "--slot", "0")
    single.settled()
    assert worker.process.poll() is None
    places = [place for _, (_, place) in single.evaluations()]
    assert places == [offset for offset in range(51) if offset != 20]
    (letter,) = letters(single)
    assert (letter.error_class, letter.source_offset, letter.length) == ("fatal", 20, None)
    assert letter.message == CAUSES[harm]
    (message,) = read_to_end(single.bootstrap, f"{prefix}dead-letter")
    assert message.value() == event(20, harm)
    assert metadata(single).model_dump(exclude={"topic", "partitions", "note"}) == {
        "attempts": 0,
        "until": 0,
        "fatal": (20,),
        "warm_from": 0,
    }
    assert worker.stop() == 0
    third = start(single, "--slot", "0")
    produce(single.bootstrap, single.topic, [event(51)], partition=0)
    single.published[0] = 52
    single.settled()
    assert third.process.poll() is None, "what stands before its start is read again, but not that record"
    assert third.stop() == 0


@pytest.mark.heavy
def test_aggregate_stops_for_good_where_its_processes_die_on_the_same_records(
    kafka: SharedBroker, prefix: str, start: Start
) -> None:
    """After so many deaths it is rejected, in one sentence that names the records and what to do; which then helps."""
    traffic = evaluations_to_sum(kafka, prefix, start, {0: "abort"})
    topic, group = f"{prefix}evaluations", f"{prefix}aggregate"
    for life in range(MAX_ATTEMPTS):
        assert start(traffic, "--slot", "0", service="aggregate").ended() == -signal.SIGABRT
        assert metadata(traffic, "aggregate", "evaluations").attempts == life + 1
    refused = start(traffic, "--slot", "0", service="aggregate")
    assert refused.ended() == DO_NOT_RESTART
    (line,) = refused.logged(level="error")
    assert f"{MAX_ATTEMPTS} processes in a row have ended" in line["event"]
    assert f"{topic}/0 from offset 0 to before 2" in line["event"]
    assert f"--group {group} --topic {topic}:0 --reset-offsets --to-offset 0" in line["event"]
    assert letters(traffic) == []
    set_offset(kafka.bootstrap, group, topic, 0, 0)
    assert start(traffic, "--slot", "0", service="aggregate").ended() == -signal.SIGABRT, "it tries again"


@pytest.mark.heavy
def test_metadata_of_others_says_nothing(prefix: str, single: Traffic, start: Start) -> None:
    """Offsets that an older release committed, without metadata, and those with somebody else's."""
    consumer = Consumer({"bootstrap.servers": single.bootstrap, "group.id": f"{prefix}evaluate", "log_level": 0})
    for offset, text in enumerate(("", "somebody's", '{"attempts": "many"}', "[" * 4_000, "")):
        at = TopicPartition(single.topic, 0, offset, text)
        eventually(lambda at=at: consumer.commit(offsets=[at], asynchronous=False), "it is committed")
        produce(single.bootstrap, single.topic, [event(offset)], partition=0)
        single.published[0] = offset + 1
        worker = start(single, "--slot", "0")
        single.settled()
        assert worker.stop() == 0
        assert worker.logged(level="error") == []
    consumer.close()
    healthy(single)
