"""Confirmed ends: a time is confirmed only if everything that Kafka had before it was read."""

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.streams.runtime.loop.confirmed_ends import ConfirmedEnds
from ragweir.streams.runtime.records import TopicPartition

A, B = ("t", 0), ("t", 1)


class Kafka:
    """Answers when it is told to; time passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.read: dict[TopicPartition, int] = {A: 0}
        self.asked: list[dict[PartitionOffset, Future[Any]]] = []
        self.ends = ConfirmedEnds(self._ask, self.read.get, lambda: self.now, lambda: self.now)

    def _ask(self, wanted: Mapping[PartitionOffset, Any]) -> Mapping[PartitionOffset, Future[Any]]:
        self.asked.append({each: Future() for each in wanted})
        return self.asked[-1]

    def confirmed(self, passed_s: float = 0.0) -> Mapping[TopicPartition, float]:
        self.now += passed_s
        return self.ends.confirmed(self.read)

    def answer(self, *ends: int) -> None:
        for future, end in zip(self.asked[-1].values(), ends, strict=True):
            future.set_result(SimpleNamespace(offset=end))

    def fail(self) -> None:
        for future in self.asked[-1].values():
            future.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


def test_the_time_is_that_before_the_question_however_late_the_answer_is(kafka: Kafka) -> None:
    """The process may have been stopped between the two, while the partition grew."""
    assert kafka.confirmed() == {}
    kafka.answer(0)
    assert kafka.confirmed(3_600) == {A: 1_000.0}
    assert kafka.confirmed() == {}, "each time is given once"


def test_an_end_that_is_not_reached_is_confirmed_once_it_is(kafka: Kafka) -> None:
    """With the time of its question, also after later questions: a worker may lag for a while."""
    kafka.confirmed()
    kafka.answer(5)
    assert kafka.confirmed(1.0) == {}
    kafka.answer(9)
    kafka.read[A] = 4
    assert kafka.confirmed(1.0) == {}
    kafka.read[A] = 5
    assert kafka.confirmed() == {A: 1_000.0}
    kafka.answer(9)
    kafka.read[A] = 9
    assert kafka.confirmed(1.0) == {A: 1_002.0}, "the latest of those that are reached"


def test_one_question_a_second_and_none_while_another_is_open(kafka: Kafka) -> None:
    for _ in range(50):
        kafka.confirmed(0.1)
    assert len(kafka.asked) == 1
    kafka.answer(0)
    for _ in range(10):
        kafka.confirmed(0.09)
        if not any(future.done() for future in kafka.asked[-1].values()):
            kafka.answer(0)
    assert len(kafka.asked) == 2


def test_nothing_is_asked_without_partitions(kafka: Kafka) -> None:
    kafka.read.clear()
    kafka.confirmed(5)
    assert kafka.asked == []


def test_after_a_failure_nothing_is_confirmed_for_a_while(kafka: Kafka) -> None:
    """Producers first write what they kept while the broker was away, and earlier answers count no longer."""
    kafka.confirmed()
    kafka.answer(3)
    assert kafka.confirmed(1) == {}
    kafka.fail()
    kafka.confirmed()
    kafka.read[A] = 3
    assert kafka.confirmed() == {}
    began = kafka.now
    while not (found := kafka.confirmed(0.5)):
        if not any(future.done() for future in kafka.asked[-1].values()):
            kafka.answer(3)
        assert kafka.now < began + 20
    assert began + 10 <= found[A] <= kafka.now


def test_the_failure_of_one_partition_fails_the_answer(kafka: Kafka) -> None:
    kafka.read[B] = 0
    kafka.confirmed()
    good, bad = kafka.asked[-1].values()
    good.set_result(SimpleNamespace(offset=0))
    assert kafka.confirmed() == {}, "all answers are waited for"
    bad.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    assert kafka.confirmed() == {}


def test_a_partition_that_was_given_up_is_forgotten(kafka: Kafka) -> None:
    """An answer may come after it, and the partition may come back at an earlier offset."""
    kafka.read[B] = 0
    kafka.confirmed()
    kafka.answer(4, 0)
    assert kafka.confirmed() == {B: 1_000.0}
    del kafka.read[A]
    assert kafka.confirmed() == {}
    kafka.read[A] = 4
    assert kafka.confirmed() == {}


def test_a_long_lag_keeps_the_newest_ends_only(kafka: Kafka) -> None:
    for end in range(1, 501):
        kafka.confirmed(1)
        kafka.answer(end)
    kafka.confirmed()
    kafka.read[A] = 399
    assert kafka.confirmed() == {}
    kafka.read[A] = 401
    assert kafka.confirmed() == {A: 1_401.0}
