"""The demo's traffic: sends samples at an even pace, and reads their results as they are committed."""

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
"""The result of a record: an evaluation, scored or judged, a deferred request, or a dead letter."""

DRILL_RATE = 20
"""Answers a second in the alert drill."""

_POLL_SECONDS = 0.05
_MAX_SILENCE_SECONDS = 60.0
"""Time without any result after which the demo fails."""


def plan(events: int) -> list[int | Unreadable]:
    """Return what is sent, in order: the numbers of the interactions, and the unreadable records spread among them.

    >>> [isinstance(each, Unreadable) for each in plan(8)]
    [False, True, False, False, True, False, False, True, False, False, True, False]
    """
    records: list[int | Unreadable] = list(range(events))
    for position, unreadable in reversed(list(enumerate(UNREADABLE))):
        records.insert((2 * position + 1) * events // (2 * len(UNREADABLE)), unreadable)
    return records


class _Sender:
    """Sends to the interactions topic, and keeps the last delivery error."""

    def __init__(self, settings: Settings) -> None:
        self._topic = f"{settings.topics.prefix}interactions"
        self._producer = build(Producer, publisher_properties(settings, Connection()))
        self._lost: KafkaError | None = None

    def send(self, key: str, value: bytes | None) -> None:
        self._producer.produce(self._topic, value=value, key=key.encode(), on_delivery=self._delivered)

    def check(self) -> None:
        """Handle delivery reports.

        Raises:
            DemoError: if a record was not delivered.
        """
        self._producer.poll(0)
        if self._lost is not None:
            raise DemoError(f"A sample was not delivered: {self._lost.str()}.")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._lost = error


class PacedPublisher:
    """Sends samples at an even pace; each interaction ends when it is sent.

    Args:
        settings: the connection and the topic.
        events: the number of interactions.
        seconds: the time over which they are sent.
    """

    def __init__(self, settings: Settings, events: int, seconds: float) -> None:
        self._sender = _Sender(settings)
        self._plan = plan(events)
        self._began = time.monotonic()
        self._pause = seconds / len(self._plan)
        self.sent = 0

    @property
    def total(self) -> int:
        """The number of records to send, with the unreadable ones."""
        return len(self._plan)

    def send_due(self) -> None:
        """Send the records that are due.

        Raises:
            DemoError: if a record was not delivered.
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
            pass  # The rest is due at the next call.
        self._sender.check()


class Drill:
    """Sends answers continuously, good ones or, while quality is dropped, mostly bad ones.

    Args:
        settings: the connection and the topic.
    """

    def __init__(self, settings: Settings) -> None:
        self._sender = _Sender(settings)
        self._due = time.monotonic()
        self.sent = 0

    def send_due(self, *, dropped: bool) -> None:
        """Send the records that are due.

        Raises:
            DemoError: if a record was not delivered.
        """
        while self._due <= time.monotonic():
            event = drill(self.sent, datetime.now(UTC), dropped=dropped)
            self._sender.send(event["event_id"], encode_json(event))
            self._due += 1 / DRILL_RATE
            self.sent += 1
        self._sender.check()


def _dead_letter(message: Message) -> DeadLetter:
    headers = dict(message.headers() or ())
    return DeadLetter.from_headers((name, value) for name, value in headers.items() if isinstance(value, bytes))


_READERS: Mapping[str, Callable[[Message], Result]] = {
    "evaluations": lambda message: Evaluation.model_validate_json(message.value() or b""),
    "judge.deferred": lambda message: JudgeRequest.model_validate_json(message.value() or b""),
    "dead-letter": _dead_letter,
}
"""The topics of the results, and how their records are read."""


class Pending:
    """The results that are still to come: one of each record, and the judge's of each selected event.

    The topics are read at the same time, so that the judge's result may come before the evaluation that selects an
    event.
    """

    def __init__(self, records: int) -> None:
        self._records = records
        self._selected: set[str] = set()
        self._judged: set[str] = set()

    def __bool__(self) -> bool:
        return self._records > 0 or bool(self._selected)

    def receive(self, result: Result) -> None:
        """Handle one result."""
        if isinstance(result, JudgeRequest):
            self._settle(result.evaluation)
        elif isinstance(result, Evaluation) and result.stage == "judged":
            self._settle(result)
        else:
            self._records -= 1
            if isinstance(result, Evaluation) and chosen(result) and result.event_id not in self._judged:
                self._selected.add(result.event_id)

    def _settle(self, evaluation: Evaluation) -> None:
        self._judged.add(evaluation.event_id)
        self._selected.discard(evaluation.event_id)


def results(settings: Settings, publisher: PacedPublisher, check: Callable[[], None]) -> Iterator[Result | None]:
    """Publish, and yield the results until all have come; None after each poll without one.

    A selected event has two results: its evaluation, and the judged one or the deferred request.

    Args:
        settings: the connection and the topics.
        publisher: sends the records.
        check: raises an error if the services have ended.

    Raises:
        DemoError: if results do not come.
    """
    readers = {settings.topics.prefix + name: read for name, read in _READERS.items()}
    consumer = build(
        Consumer,
        {
            **client_properties(settings),
            # Partitions are assigned, so that the group is never joined.
            "group.id": f"{settings.topics.prefix}demo",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        },
    )
    partitions = range(settings.topics.partitions)
    consumer.assign([TopicPartition(topic, each, 0) for topic in readers for each in partitions])
    pending, last = Pending(publisher.total), time.monotonic()
    try:
        while pending:
            publisher.send_due()
            message = consumer.poll(_POLL_SECONDS)
            # A message without a value is false, such as the dead letter of a tombstone.
            error = None if message is None else message.error()
            if message is not None and error is None:
                last = time.monotonic()
                result = readers[message.topic() or ""](message)
                pending.receive(result)
                yield result
                continue
            if error is not None and not error.retriable():
                raise KafkaException(error)
            check()
            if time.monotonic() - last > _MAX_SILENCE_SECONDS:
                raise DemoError(f"Some records have no result after {_MAX_SILENCE_SECONDS:.0f} s.")
            yield None
    finally:
        consumer.close()
