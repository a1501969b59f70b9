"""The demo's traffic: samples sent at an even pace, and what becomes of each, read back as it is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from schemas.codec import encode_json
from schemas.dead_letter import DeadLetter
from streams.demo.samples import UNREADABLE, Unreadable, drill, interaction
from streams.demo.services import DemoError
from streams.kafka_client import Connection, build, client_properties, publisher_properties
from streams.settings import Settings

Result = dict[str, Any] | DeadLetter
"""What becomes of a record: an evaluation, as plain data, or a dead letter."""

DRILL_RATE = 20
"""Answers a second in the drill of an alert."""

_TURN_S = 0.05
_SILENCE_S = 60.0
"""How long nothing may come back before something must be wrong."""


def plan(events: int) -> list[int | Unreadable]:
    """What is sent, in order: the numbers of the interactions, and the unreadable records spread among them.

    >>> [isinstance(each, Unreadable) for each in plan(8)]
    [False, True, False, False, True, False, False, True, False, False, True, False]
    """
    records: list[int | Unreadable] = list(range(events))
    for position, unreadable in reversed(list(enumerate(UNREADABLE))):
        records.insert((2 * position + 1) * events // (2 * len(UNREADABLE)), unreadable)
    return records


class _Sender:
    """Sends to the interactions topic, and remembers what Kafka would not take."""

    def __init__(self, settings: Settings) -> None:
        self._topic = f"{settings.topics.prefix}interactions"
        self._producer = build(Producer, publisher_properties(settings, Connection()))
        self._lost: KafkaError | None = None

    def send(self, key: str, value: bytes | None) -> None:
        self._producer.produce(self._topic, value=value, key=key.encode(), on_delivery=self._delivered)

    def settle(self) -> None:
        """Hear what became of records.

        Raises:
            DemoError: if Kafka does not take one.
        """
        self._producer.poll(0)
        if self._lost is not None:
            raise DemoError(f"Kafka did not take a sample: {self._lost.str()}.")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._lost = error


class Publisher:
    """Sends a plan at an even pace; each interaction ends at the moment that it is sent.

    Args:
        settings: where to.
        events: how many interactions.
        seconds: how long it takes.
    """

    def __init__(self, settings: Settings, events: int, seconds: float) -> None:
        self._sender = _Sender(settings)
        self._plan = plan(events)
        self._began = time.monotonic()
        self._pause = seconds / len(self._plan)
        self.sent = 0

    @property
    def total(self) -> int:
        """How many records there are to send, the unreadable ones among them."""
        return len(self._plan)

    def send_due(self) -> None:
        """Send what is due by now.

        Raises:
            DemoError: if Kafka does not take a record.
        """
        elapsed = time.monotonic() - self._began
        try:
            while self.sent < self.total and self.sent * self._pause <= elapsed:
                record = self._plan[self.sent]
                if isinstance(record, Unreadable):
                    self._sender.send(record.key, record.value)
                else:
                    event = interaction(record, datetime.now(UTC))
                    self._sender.send(event["event_id"], encode_json(event))
                self.sent += 1
        except BufferError:
            pass  # The rest is still due at the next turn.
        self._sender.settle()


class Drill:
    """Sends answers without end at an even pace, good ones or, while quality is dropped, mostly bad ones.

    Args:
        settings: where to.
    """

    def __init__(self, settings: Settings) -> None:
        self._sender = _Sender(settings)
        self._due = time.monotonic()
        self.sent = 0

    def send_due(self, *, dropped: bool) -> None:
        """Send what is due by now.

        Raises:
            DemoError: if Kafka does not take a record.
        """
        while self._due <= time.monotonic():
            event = drill(self.sent, datetime.now(UTC), dropped=dropped)
            self._sender.send(event["event_id"], encode_json(event))
            self._due += 1 / DRILL_RATE
            self.sent += 1
        self._sender.settle()


def results(settings: Settings, publisher: Publisher, check: Callable[[], None]) -> Iterator[Result | None]:
    """Publish, and give what becomes of every record until all are settled; None when a turn brought nothing.

    Args:
        settings: where from.
        publisher: sends meanwhile.
        check: raises when the service has ended.

    Raises:
        DemoError: if results do not come.
    """
    evaluations, dead_letters = (settings.topics.prefix + name for name in ("evaluations", "dead-letter"))
    consumer = build(
        Consumer,
        {
            **client_properties(settings),
            # Never joined and never committed to: the partitions are assigned by hand.
            "group.id": f"{settings.topics.prefix}demo",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        },
    )
    partitions = range(settings.topics.partitions)
    consumer.assign([TopicPartition(topic, each, 0) for topic in (evaluations, dead_letters) for each in partitions])
    settled, heard = 0, time.monotonic()
    try:
        while settled < publisher.total:
            publisher.send_due()
            message = consumer.poll(_TURN_S)
            # A message is false when its value is empty, as a tombstone's dead letter is.
            error = None if message is None else message.error()
            if message is not None and error is None:
                settled, heard = settled + 1, time.monotonic()
                yield _result(message, dead_letters)
                continue
            if error is not None and not error.retriable():
                raise KafkaException(error)
            check()
            if time.monotonic() - heard > _SILENCE_S:
                raise DemoError(f"No evaluation has come for {_SILENCE_S:.0f} s.")
            yield None
    finally:
        consumer.close()


def _result(message: Message, dead_letters: str) -> Result:
    if message.topic() == dead_letters:
        headers = dict(message.headers() or ())
        return DeadLetter.from_headers((name, value) for name, value in headers.items() if isinstance(value, bytes))
    evaluation: dict[str, Any] = orjson.loads(message.value() or b"")
    return evaluation
