"""The demo's traffic: samples sent at an even pace, and what becomes of each, read back as it is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ragweir.errors import DemoError
from ragweir.schemas.codec.json import encode_json
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.judge.results import chosen
from ragweir.streams.kafka.client import Connection, build, client_properties, publisher_properties
from ragweir.streams.playground.demo.samples import UNREADABLE, Unreadable, drill, interaction
from ragweir.streams.settings import Settings

Result = Evaluation | JudgeRequest | DeadLetter
"""What becomes of a record: an evaluation, scored or judged, a request that has to wait, or a dead letter."""

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


class PacedPublisher:
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


def _dead_letter(message: Message) -> DeadLetter:
    headers = dict(message.headers() or ())
    return DeadLetter.from_headers((name, value) for name, value in headers.items() if isinstance(value, bytes))


_READERS: Mapping[str, Callable[[Message], Result]] = {
    "evaluations": lambda message: Evaluation.model_validate_json(message.value() or b""),
    "judge.deferred": lambda message: JudgeRequest.model_validate_json(message.value() or b""),
    "dead-letter": _dead_letter,
}
"""How each topic is read that says what became of something."""


class Awaited:
    """What is still to come: what becomes of each record, and of each event that the judge is asked about.

    Topics are read side by side, so that an event may be heard to wait before it is heard to have been selected.
    """

    def __init__(self, records: int) -> None:
        self._records = records
        self._asked: set[str] = set()
        self._answered: set[str] = set()

    def __bool__(self) -> bool:
        return self._records > 0 or bool(self._asked)

    def heard(self, result: Result) -> None:
        """Take one result in."""
        if isinstance(result, JudgeRequest):
            self._settle(result.evaluation)
        elif isinstance(result, Evaluation) and result.stage == "judged":
            self._settle(result)
        else:
            self._records -= 1
            if isinstance(result, Evaluation) and chosen(result) and result.event_id not in self._answered:
                self._asked.add(result.event_id)

    def _settle(self, evaluation: Evaluation) -> None:
        self._answered.add(evaluation.event_id)
        self._asked.discard(evaluation.event_id)


def results(settings: Settings, publisher: PacedPublisher, check: Callable[[], None]) -> Iterator[Result | None]:
    """Publish, and give what becomes of every record until all are settled; None when a turn brought nothing.

    An event that was selected is settled once it is judged, or waits for the budget.

    Args:
        settings: where from.
        publisher: sends meanwhile.
        check: raises when the service has ended.

    Raises:
        DemoError: if results do not come.
    """
    readers = {settings.topics.prefix + name: read for name, read in _READERS.items()}
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
    consumer.assign([TopicPartition(topic, each, 0) for topic in readers for each in partitions])
    awaited, heard = Awaited(publisher.total), time.monotonic()
    try:
        while awaited:
            publisher.send_due()
            message = consumer.poll(_TURN_S)
            # A message is false when its value is empty, as a tombstone's dead letter is.
            error = None if message is None else message.error()
            if message is not None and error is None:
                heard = time.monotonic()
                result = readers[message.topic() or ""](message)
                awaited.heard(result)
                yield result
                continue
            if error is not None and not error.retriable():
                raise KafkaException(error)
            check()
            if time.monotonic() - heard > _SILENCE_S:
                raise DemoError(f"Nothing has come of some records for {_SILENCE_S:.0f} s.")
            yield None
    finally:
        consumer.close()
