"""Draws and labels on the topics `labels.draws` and `labels`.

The answers of a draw are written before the draw, in one transaction of which only one can be open: a second draw that
begins meanwhile ends the first. A label is committed by all in-sync replicas, and was read from them, before
`LabelTopic.add` returns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar, cast

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from pydantic import ValidationError
from typing_extensions import override

from ragweir.errors import PermanentError, Rejected
from ragweir.metrics.criterion import Criterion
from ragweir.schemas.codec.json import encode, parse
from ragweir.schemas.interaction import RecordPart
from ragweir.schemas.label import Draw, Label, QueuedAnswer, draw_key, label_key
from ragweir.schemas.window import duration_s
from ragweir.streams.analysis.evaluation_source import EvaluationSource, ShowProgress
from ragweir.streams.analysis.labels.drawing import DrawnQueue
from ragweir.streams.analysis.labels.evaluated import Evaluated
from ragweir.streams.analysis.labels.store import LabelFile, PeopleLabels, read_labels
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.kafka.client import Connection, build, client_properties
from ragweir.streams.runtime.kafka.client_messages import topic_partition_of
from ragweir.streams.runtime.kafka.read_back import ReadBack
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.runtime.kafka.transactional_sender import TransactionalSender
from ragweir.streams.settings import Settings

LABELS, DRAWS = "labels", "labels.draws"
"""The topics, by their names in the topic table."""
_NAME = "labels"
_TIMEOUT_SECONDS = 30.0
_JSON = "application/json"
_KINDS = {LABELS: "label", DRAWS: "draw"}
_Part = TypeVar("_Part", bound=RecordPart)


@dataclass(slots=True)
class TopicLabels(PeopleLabels):
    """The labels and draws of the topics, and the answers of each draw."""

    queues: dict[str, dict[str, QueuedAnswer]] = field(default_factory=lambda: defaultdict(dict))
    """The answers of each draw by event id, in the order of the topic's partitions."""
    unreadable: int = 0
    """Number of records that are no label, draw or answer."""

    @override
    def add(self, label: Label) -> None:
        """Add a label; of two of one key the later one counts, which may be in another partition after topics grew."""
        there = self.labels.get((label.event_id, label.question, label.rater))
        if there is None or label.time >= there.time:
            PeopleLabels.add(self, label)

    def answers(self, question: str) -> list[QueuedAnswer]:
        """Return the answers of all draws of a question, those of the newest draw first."""
        draws = sorted((each for each in self.draws.values() if each.question == question), key=lambda draw: draw.start)
        return [answer for draw in reversed(draws) for answer in self.queue(draw.id)]

    def queue(self, draw_id: str) -> list[QueuedAnswer]:
        """Return the answers of a draw, in an order that has nothing to do with what they are."""
        answers = self.queues[draw_id].values()
        return sorted(answers, key=lambda answer: blake2b(draw_key(draw_id, answer.event_id)).digest())


def read_topics(settings: Settings, progress: ShowProgress) -> TopicLabels:
    """Read all labels and draws.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if there is no such topic.
    """
    found = TopicLabels()
    for name in (DRAWS, LABELS):
        part = offset_range(settings, settings.output_topic(name))
        with progress(f"reading {settings.output_topic(name)}", len(part)) as moved:
            for record in read(settings, part, moved):
                if record.value is not None:
                    _take(found, name, record.value)
    return found


def _take(found: TopicLabels, name: str, value: bytes) -> None:
    if name == LABELS:
        label = _parsed(Label, value)
        if label is None:
            found.unreadable += 1
        else:
            found.add(label)
    elif made := _parsed(Draw, value):
        found.draws[made.id] = made
    elif answer := _parsed(QueuedAnswer, value):
        found.queues[answer.draw.id][answer.event_id] = answer
    else:
        found.unreadable += 1


def _parsed(model: type[_Part], value: bytes) -> _Part | None:
    try:
        return model.model_validate(parse(value))
    except (ValidationError, Rejected):
        return None


def undrawn(
    settings: Settings,
    criteria: Sequence[Criterion],
    question: str,
    application: str | None,
    now: datetime,
    progress: ShowProgress,
) -> tuple[Evaluated, list[str]]:
    """Read the evaluations of `labels.range` that no draw of a question and application covers, with remarks on them.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if a topic is missing, or there are no such evaluations.
    """
    since = now - timedelta(seconds=duration_s(settings.labels.range))
    if (end := _end_of_draws(read_topics(settings, progress), question, application)) is not None:
        since = max(since, end)
    return evaluated_since(settings, criteria, since, progress)


def evaluated_since(
    settings: Settings, criteria: Sequence[Criterion], since: datetime, progress: ShowProgress
) -> tuple[Evaluated, list[str]]:
    """Read the evaluations of events since a time, with remarks on them.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if a topic is missing, or there are no such evaluations.
    """
    found, unreadable, since_s = Evaluated(criteria, settings.windows.dimensions), 0, since.timestamp()
    for value in EvaluationSource.named(settings, "live").values(progress, since):
        try:
            found.add(value, since_s)
        except (msgspec.MsgspecError, ValueError, OverflowError):
            unreadable += 1
    if not len(found):
        raise PermanentError(f"there is no evaluation of an event since {since:%Y-%m-%d %H:%M:%S} UTC")
    return found, [f"{unreadable:,} records of the topic are no evaluations"] if unreadable else []


def _end_of_draws(found: PeopleLabels, question: str, application: str | None) -> datetime | None:
    """Return the end of the last range that was drawn from; None without one.

    A draw of all applications covers each of them, and one of an application is a part of all.
    """
    ends = [
        draw.end
        for draw in found.draws.values()
        if draw.question == question and (application is None or draw.application in (None, application))
    ]
    return max(ends, default=None)


class DrawWriter:
    """Writes draws; one that is begun later ends this one.

    Raises:
        PermanentError, Unreachable: if Kafka begins no transaction.
    """

    def __init__(self, settings: Settings) -> None:
        self._topic = settings.output_topic(DRAWS)
        self._sender = TransactionalSender(settings, _NAME, "the draw")

    def write(self, queue: DrawnQueue) -> None:
        """Write a draw and its answers, all or none.

        Raises:
            PermanentError: if Kafka answers with an error, or another draw has begun meanwhile.
        """
        draw = queue.draw
        keyed: Iterable[tuple[bytes, RecordPart]] = [
            *((draw_key(draw.id, answer.event_id), answer) for answer in queue.answers),
            (draw_key(draw.id), draw),
        ]
        with self._sender.transaction():
            for key, part in keyed:
                headers = cloud_event(_NAME, "draw", key.decode(), draw.made_at, _JSON)
                self._sender.produce(self._topic, encode(part), key, headers)


class LabelTopic:
    """The topics of labels and draws, to which labels are added.

    Args:
        settings: all settings.
        content: the labels that they have, which grow.
    """

    def __init__(self, settings: Settings, content: PeopleLabels) -> None:
        self.content = content
        self._topics = {name: settings.output_topic(name) for name in (LABELS, DRAWS)}
        self._read_back = {name: ReadBack(settings, topic) for name, topic in self._topics.items()}
        self._producer: Producer = build(
            Producer,
            {
                "linger.ms": 0,
                "delivery.timeout.ms": int(_TIMEOUT_SECONDS * 1_000),
                **client_properties(settings, Connection(quiet=True)),
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
            },
        )

    def add_draw(self, draw: Draw) -> None:
        """Add a draw, unless the topic has it.

        Raises:
            PermanentError: if the brokers do not take it.
        """
        if draw.id not in self.content.draws:
            self._write(DRAWS, [(draw_key(draw.id), draw, draw.made_at)])
            self.content.draws[draw.id] = draw

    def add(self, *labels: Label) -> None:
        """Add labels, each of which replaces an earlier one of its key.

        Raises:
            PermanentError: if the brokers do not take one of them.
        """
        keyed = [(label_key(each.event_id, each.question, each.rater), each, each.time) for each in labels]
        self._write(LABELS, keyed)
        for label in labels:
            self.content.add(label)

    def _write(self, name: str, parts: Sequence[tuple[bytes, RecordPart, datetime]]) -> None:
        """Write records, wait until all in-sync replicas have them, and read them."""
        failed: list[str] = []
        written: dict[int, dict[int, bytes]] = defaultdict(dict)

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                written[topic_partition_of(message)[1]][cast("int", message.offset())] = cast("bytes", message.value())
            else:
                failed.append(error.str())

        for key, part, time in parts:
            headers = cloud_event(_NAME, _KINDS[name], key.decode(), time, _JSON)
            try:
                self._producer.produce(
                    self._topics[name], encode(part), key, headers=list(headers), on_delivery=on_delivery
                )
            except (KafkaException, BufferError) as error:
                failed.append(str(error))
        self._producer.flush(_TIMEOUT_SECONDS + 1)
        delivered = sum(map(len, written.values()))
        if delivered < len(parts):
            why = failed[0] if failed else "no broker answers"
            raise PermanentError(
                f"{len(parts) - delivered:,} of {len(parts):,} records of {self._topics[name]} were not taken: {why}; "
                "do it again"
            )
        if not self._read_back[name].holds(written):
            raise PermanentError(f"{self._topics[name]} does not return what was written to it; do it again")


def labels_now(settings: Settings, file: Path | None, progress: ShowProgress) -> PeopleLabels:
    """Read the labels of a file, or of the topics if there is none.

    Raises:
        PermanentError: as `read_labels` and `read_topics`.
        Unreachable: if no broker answers.
    """
    if file is None:
        return read_topics(settings, progress)
    with progress(f"Reading {file.name}", file.stat().st_size) as moved:
        return read_labels(file, moved)


@contextmanager
def label_store(settings: Settings, file: Path | None, progress: ShowProgress) -> Iterator[LabelFile | LabelTopic]:
    """Open the labels of a file, or of the topics if there is none, for the length of a `with` block.

    Raises:
        PermanentError: as `LabelFile` and `read_topics`.
        Unreachable: if no broker answers.
    """
    if file is None:
        yield LabelTopic(settings, read_topics(settings, progress))
        return
    with LabelFile(file) as store:
        yield store
