"""The demo's traffic: sends samples at an even pace, and reads their results as they are committed.

The application of the demo publishes its interactions, or is instrumented and exports their traces.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from ragweir.errors import DemoError
from ragweir.schemas.codec.json import encode_json, interaction
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.playground.demo import samples
from ragweir.streams.playground.demo.samples import STAGING, UNREADABLE, Event, Unreadable
from ragweir.streams.playground.traces import otlp_requests
from ragweir.streams.runtime.kafka.blocking_publisher import BlockingPublisher
from ragweir.streams.runtime.kafka.client import build, client_properties
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.judge.results import chosen
from ragweir.streams.settings import Settings

Sent = tuple[str | None, bytes | None]
"""The key and the value of a record to send."""
Encode = Callable[[Event], Sequence[Sent]]
"""Returns the records by which the application tells of an interaction."""
Result = Evaluation | JudgeRequest | DeadLetter
"""The result of a record: an evaluation, scored or judged, a deferred request, or a dead letter."""

_POLL_SECONDS = 0.05
_MAX_SILENCE_SECONDS = 60.0
"""Time without any result after which the demo fails."""


def as_event(event: Event) -> list[Sent]:
    """Return the record of an interaction that the application publishes."""
    return [(event["event_id"], encode_json(event))]


def as_trace(event: Event) -> list[Sent]:
    """Return the records of an interaction's trace, as a Collector's kafka exporter writes them: without keys."""
    return [(None, request) for request in otlp_requests(interaction(event))]


def plan(events: int, unreadable: Sequence[Unreadable] = UNREADABLE) -> list[int | Unreadable]:
    """Return what is sent, in order: the numbers of the interactions, and the unreadable records spread among them.

    >>> [isinstance(each, Unreadable) for each in plan(8)]
    [False, True, False, False, True, False, False, True, False, False, True, False]
    """
    records: list[int | Unreadable] = list(range(events))
    for position, each in reversed(list(enumerate(unreadable))):
        records.insert((2 * position + 1) * events // (2 * len(unreadable)), each)
    return records


class PacedPublisher:
    """Sends interactions at an even pace.

    Args:
        publisher: sends their records.
        records: returns the records of the interaction with a number.
        interval_s: time between two interactions.
        total: number of interactions; unlimited by default.
    """

    def __init__(
        self,
        publisher: BlockingPublisher,
        records: Callable[[int], Sequence[Sent]],
        interval_s: float,
        total: int = sys.maxsize,
    ) -> None:
        self._publisher, self._records, self._interval_s, self.total = publisher, records, interval_s, total
        self._due = machine.monotonic()
        self.sent = 0

    def send_due(self) -> None:
        """Send the records of the interactions that are due."""
        while self.sent < self.total and self._due <= machine.monotonic():
            for key, value in self._records(self.sent):
                self._publisher.send(value, None if key is None else key.encode())
            self._due += self._interval_s
            self.sent += 1


def sample_publisher(
    publisher: BlockingPublisher, events: int, seconds: float, encode: Encode, unreadable: Sequence[Unreadable]
) -> PacedPublisher:
    """Return the publisher of a number of interactions of staging, each of which ends when it is sent.

    Args:
        publisher: sends their records.
        events: the number of interactions.
        seconds: the time over which they are sent.
        encode: returns the records of an interaction.
        unreadable: records that are spread among them.
    """
    planned = plan(events, unreadable)

    def records(number: int) -> Sequence[Sent]:
        sample = planned[number]
        if isinstance(sample, Unreadable):
            return [(sample.key, sample.value)]
        return encode(samples.interaction(sample, machine.now()) | {"environment": STAGING})

    return PacedPublisher(publisher, records, seconds / len(planned), len(planned))


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

    Raises:
        DemoError: if results do not come, or `check` finds that the services have ended.
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
    pending, last = Pending(publisher.total), machine.monotonic()
    try:
        while pending:
            publisher.send_due()
            message = consumer.poll(_POLL_SECONDS)
            # A message without a value is false, such as the dead letter of a tombstone.
            error = None if message is None else message.error()
            if message is not None and error is None:
                last = machine.monotonic()
                result = readers[message.topic() or ""](message)
                pending.receive(result)
                yield result
                continue
            if error is not None and not error.retriable():
                raise KafkaException(error)
            check()
            if machine.monotonic() - last > _MAX_SILENCE_SECONDS:
                raise DemoError(f"Some records have no result after {_MAX_SILENCE_SECONDS:.0f} s.")
            yield None
    finally:
        consumer.close()
