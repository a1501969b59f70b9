"""Where the group's coordinator answers an older offset than the one committed, what was written decides."""

import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from conftest import SharedBroker, produce, read_to_end
from faults import BEHIND, Traffic, environment, forget, set_offset
from services import Service, Services, eventually

from ragweir.errors import Interrupted
from ragweir.streams.runtime.recovery import offsets
from ragweir.streams.runtime.recovery.offsets import ask_until_answered

Start = Callable[..., Service]


@pytest.fixture
def start(services: Services) -> Start:
    """Start one slot of evaluate."""
    return lambda traffic, **settings: services.start(
        "evaluate", "--slot", "0", variables=environment(traffic, **settings)
    )


def evaluated(traffic: Traffic, start: Start) -> None:
    """Publish some events and have them evaluated by a worker that ends."""
    traffic.publish(120)
    worker = start(traffic)
    traffic.settled()
    assert worker.stop() == 0
    assert not worker.logged(BEHIND)


@pytest.mark.heavy
def test_an_offset_that_was_set_back_doubles_nothing(prefix: str, traffic: Traffic, start: Start) -> None:
    """The worker goes on behind what it has written, and says so for each partition that it concerns."""
    evaluated(traffic, start)
    for partition, offset in ((0, 30), (1, 119), (2, 0)):
        set_offset(traffic.bootstrap, f"{prefix}evaluate", traffic.topic, partition, offset)
    worker = start(traffic)
    traffic.publish(40)
    traffic.must_be_settled_exactly_once()
    told = {line["partition"]: line for line in worker.logged(BEHIND, level="error")}
    assert {partition: (line["committed"], line["goes_on_at"]) for partition, line in told.items()} == {
        0: (30, 120),
        1: (119, 120),
        2: (0, 120),
    }


@pytest.mark.heavy
def test_a_forgotten_group_doubles_and_loses_nothing(prefix: str, traffic: Traffic, start: Start) -> None:
    """What came while nobody worked is evaluated, although a new group would begin at the end."""
    evaluated(traffic, start)
    forget(traffic.admin, f"{prefix}evaluate")
    traffic.publish(30)
    start(traffic, input__start_from="latest")
    traffic.must_be_settled_exactly_once()


@pytest.mark.heavy
@pytest.mark.parametrize("how", ["older", pytest.param("none", marks=pytest.mark.long)])
def test_an_idle_partition_is_as_safe_as_a_busy_one(kafka: SharedBroker, prefix: str, start: Start, how: str) -> None:
    """Others have written so much since that the end of the output tells nothing of it."""
    traffic = Traffic(kafka.bootstrap, prefix, partitions=2)
    evaluated(traffic, start)
    busy = [json.dumps({"event_id": f"1/{n}", "query": "Is it?", "response": "It is."}) for n in range(120, 1_400)]
    produce(kafka.bootstrap, traffic.topic, [each.encode() for each in busy], partition=1)
    traffic.published[1] = 1_400
    worker = start(traffic, batch__max_events=500)
    traffic.settled()
    assert worker.stop() == 0
    newest = read_to_end(kafka.bootstrap, f"{prefix}evaluations")
    for partition in (0, 1):
        told = [json.loads(each.value() or b"")["source"] for each in newest if each.partition() == partition][-300:]
        assert {source["partition"] for source in told} == {1}, "nothing is told of the idle partition"
    if how == "older":
        set_offset(kafka.bootstrap, f"{prefix}evaluate", traffic.topic, 0, 10)
    else:
        forget(traffic.admin, f"{prefix}evaluate")
    again = start(traffic)
    (line,) = eventually(lambda: again.logged(BEHIND, level="error", partition=0), "it is told")
    first = 10 if how == "older" else 0
    command = f"ragweir replay --run-id again-{first}-120 --topic {traffic.topic} --from {first} --to 120"
    assert (line["goes_on_at"], line["command"]) == (120, command)
    eventually(lambda: traffic.committed().get(0) == 120, "the right offset is committed")
    places = [place for _, place in traffic.evaluations()]
    assert len(places) == len(set(places)), "nothing is doubled"
    assert again.stop() == 0
    forget(traffic.admin, f"{prefix}evaluate")
    forget(traffic.admin, f"{prefix}evaluate.progress")
    start(traffic)
    eventually(lambda: [place for _, place in traffic.evaluations()].count((0, 5)) == 2, "who wants to, forgets both")


def test_evaluations_of_other_events_prove_nothing(prefix: str, single: Traffic, start: Start) -> None:
    """As those of a topic that was deleted and made anew: every event of the new one is evaluated.

    One tells of an event that does not stand where it says, one of an offset that the topic does not have, one of
    another topic, and one is no evaluation at all.
    """
    single.publish(50)
    strangers = [
        {"event_id": event_id, "source": {"topic": topic, "partition": 0, "offset": offset}}
        for event_id, topic, offset in (
            ("0/20", single.topic, 30),
            ("0/5000", single.topic, 5_000),
            ("0/40", f"{prefix}redrive", 40),
        )
    ]
    output = f"{prefix}evaluations"
    produce(single.bootstrap, output, [*(json.dumps(each).encode() for each in strangers), b"no evaluation"])
    worker = start(single)
    single.settled()
    assert worker.stop() == 0
    assert not worker.logged(BEHIND)
    written = [json.loads(message.value()) for message in read_to_end(single.bootstrap, output)[len(strangers) + 1 :]]
    assert [each["source"]["offset"] for each in written] == [offset for offset in range(50) if offset != 7]


def test_a_partition_whose_offset_is_held_back_is_asked_for_with_pauses() -> None:
    """An answer with an error costs the broker as much as none."""
    held_back = cast("TopicPartition", SimpleNamespace(error=KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)))
    asked: list[float] = []

    def ask(timeout_s: float) -> list[TopicPartition]:
        asked.append(timeout_s)
        return [held_back]

    until = time.monotonic() + 0.35
    with pytest.raises(Interrupted):
        ask_until_answered(ask, lambda: time.monotonic() > until)
    assert 2 <= len(asked) <= 5


def test_a_partition_that_was_just_added_is_asked_for_again() -> None:
    """Its assignment may come before the broker that is asked knows it; one that is deleted never becomes known."""
    answers = [KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION)), (0, 7)]

    def ask(_: float) -> tuple[int, int]:
        answer = answers.pop(0)
        if isinstance(answer, KafkaException):
            raise answer
        return answer

    assert ask_until_answered(ask, lambda: False) == (0, 7)


def test_a_partition_that_stays_unknown_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "_NEW_PARTITION_SECONDS", 0.0)

    def ask(_: float) -> tuple[int, int]:
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))

    with pytest.raises(KafkaException):
        ask_until_answered(ask, lambda: False)
