"""One event's story: what was found out about it, gathered from the live topics by its key, or from a file.

A key's partition is known without asking, so one partition of each topic is looked at, and of that only the newest
part. Where the judge is still to come, the requests that wait are found the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from pydantic import ValidationError

from ragweir.errors import Rejected
from ragweir.schemas.codec.json import parse
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.topics import max_record_bytes
from ragweir.schemas.window import duration_s
from ragweir.streams.aggregate.dimensions import Dimensions
from ragweir.streams.aggregate.window_times import start_of
from ragweir.streams.dead_letters.listing import Letter, letter
from ragweir.streams.kafka.client import Identity, build, reader_properties
from ragweir.streams.kafka.reader import Moved, OffsetRange, StoredRecord, offset_range, read, topics
from ragweir.streams.runtimes.files import read_lines
from ragweir.streams.settings import Settings, WindowSettings

_CLOCKS_MS = 5 * 60 * 1000
"""How far the clocks of those who write may differ."""
_TIMEOUT_S = 5.0
_WORD = 0xFFFFFFFF

Watch = Callable[[str, int], Moved]
"""Is told what is looked at and how much of it there is, and gives what is told of each step."""


def partition_of(key: bytes, partitions: int) -> int:
    """Where Java's client, and ours, put a key.

    >>> [partition_of(key, 12) for key in (b"21", b"foobar", b"a-little-bit-long-string")]
    [0, 6, 8]
    """
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2 of 32 bits, seeded as Kafka does (org.apache.kafka.common.utils.Utils)."""
    factor, value = 0x5BD1E995, 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & _WORD
        word = (word ^ word >> 24) * factor & _WORD
        value = value * factor & _WORD ^ word
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * factor & _WORD
    value = (value ^ value >> 13) * factor & _WORD
    return value ^ value >> 15


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back a partition is looked at: its newest offsets, or what was written within a time."""

    newest: int = 200_000
    since_s: int | None = None
    """If set, it takes the place of `newest`."""


@dataclass(frozen=True, slots=True)
class Looked:
    """How far one place was looked through."""

    where: str
    records: int
    whole: bool
    """Whether that is all it holds."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A request to judge the event that is not settled."""

    topic: str
    """Without the prefix."""
    since: datetime | None
    """When the judge was first asked; None while the request itself waits to be read."""
    not_before: datetime | None
    attempts: int
    why: str


@dataclass(frozen=True, slots=True)
class Entered:
    """A window that the event's time and dimensions put it in."""

    window: str
    start: datetime
    end: datetime
    dimensions: dict[str, str]


@dataclass(slots=True)
class Story:
    """What is known of one event."""

    event_id: str
    looked: list[Looked] = field(default_factory=list)
    evaluation: Evaluation | None = None
    """The newest."""
    found_at: str = ""
    times: int = 0
    """How many evaluations there are of it."""
    source: StoredRecord | None = None
    """The record that it was read in, where Kafka still holds it."""
    asked: bool = False
    """Whether Kafka was asked for it."""
    waits: list[Wait] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    """Records with its id as key that were refused."""
    windows: list[Entered] = field(default_factory=list)

    @property
    def known(self) -> bool:
        """Whether anything was found."""
        return self.evaluation is not None or bool(self.letters)


def from_file(file: Path, event_id: str, settings: Settings, watch: Watch) -> Story:
    """The story that a file of evaluations tells, JSON lines as `score` writes them.

    Raises:
        OSError: if the file cannot be read.
        PermanentError: if it is of another format.
    """
    story, lines = Story(event_id), 0
    most = max_record_bytes(settings.limits.max_event_bytes)
    with file.open("rb") as source:
        moved = watch(str(file), file.stat().st_size)
        for number, line in read_lines(source, most, str(file)):
            lines += 1
            moved(len(line) + 1)
            _take(story, _evaluation(line, event_id, most), f"{file}, line {number}")
    story.looked.append(Looked(str(file), lines, whole=True))
    story.windows = list(windows(story.evaluation, settings.windows))
    return story


def from_topics(settings: Settings, event_id: str, reach: Reach, run: str | None, watch: Watch) -> Story:
    """The story that the topics tell: the live ones, or those of a replay.

    Raises:
        PermanentError: if the evaluations' topic does not exist.
        Unreachable: if no broker answers.
    """
    return _Search(settings, event_id, reach, run, watch).story()


def windows(evaluation: Evaluation | None, settings: WindowSettings) -> Iterator[Entered]:
    """The windows of an evaluation by these settings; at either end of the calendar there are none."""
    if evaluation is None or not MINYEAR < evaluation.event_time.year < MAXYEAR:
        return
    dimensions = Dimensions(settings.dimensions, settings.values)
    named = dimensions.named(dimensions.of(evaluation))
    for size in settings.sizes:
        length = timedelta(seconds=duration_s(size))
        start = start_of(evaluation.event_time, length)
        yield Entered(size, start, start + length, named)


def _take(story: Story, evaluation: Evaluation | None, place: str) -> None:
    """The newest evaluation of an event is complete; but in a file others may stand behind the judged one."""
    if evaluation is None:
        return
    story.times += evaluation.stage == "scored"
    if story.evaluation is None or (story.evaluation.stage, evaluation.stage) != ("judged", "scored"):
        story.evaluation, story.found_at = evaluation, place


def _evaluation(value: bytes | None, event_id: str, max_bytes: int) -> Evaluation | None:
    """An evaluation of the event, if that is what the value is."""
    try:
        data = parse(value, max_bytes)
        if not isinstance(data, dict) or data.get("event_id") != event_id:
            return None
        return Evaluation.model_validate(data)
    except (Rejected, ValidationError):
        return None


class _Search:
    """Looks for one event in the topics under one prefix."""

    def __init__(self, settings: Settings, event_id: str, reach: Reach, run: str | None, watch: Watch) -> None:
        self._settings, self._reach, self._watch = settings, reach, watch
        self._story = Story(event_id)
        self._key = event_id.encode()
        self._prefix = settings.topics.prefix + (f"run.{run}." if run else "")
        self._live = run is None
        self._present = topics(settings)
        self._most = max_record_bytes(settings.limits.max_event_bytes)

    def story(self) -> Story:
        story, evaluated_ms = self._story, 0
        for kept in self._records("evaluations", required=True):
            evaluation = _evaluation(kept.value, story.event_id, self._most)
            if evaluation is not None and evaluation.stage == "scored":
                evaluated_ms = kept.timestamp_ms or 0
            _take(story, evaluation, f"{kept.topic}/{kept.partition}/{kept.offset}")
        for kept in self._records("dead-letter"):
            if (each := letter(kept)) is not None:
                story.letters.append(each)
        if story.evaluation is not None:
            story.source, story.asked = self._source(story.evaluation), True
            story.windows = list(windows(story.evaluation, self._settings.windows))
            if _is_selected(story.evaluation):
                story.waits = list(self._waiting(evaluated_ms - _CLOCKS_MS))
        return story

    def _records(self, name: str, *, since_ms: int | None = None, required: bool = False) -> Iterator[StoredRecord]:
        """The records with the event's key in one topic, as far back as is looked."""
        topic = self._prefix + name
        if topic not in self._present and not required:
            return
        partition = partition_of(self._key, self._present.get(topic, 1))
        whole = offset_range(self._settings, topic, partitions=[partition])
        part = self._bounded(whole, partition, since_ms)
        self._story.looked.append(Looked(f"{topic}/{partition}", len(part), whole=part.starts == whole.starts))
        for kept in read(self._settings, part, self._watch(topic, len(part))):
            if kept.key == self._key:
                yield kept

    def _bounded(self, whole: OffsetRange, partition: int, since_ms: int | None) -> OffsetRange:
        reach = self._reach
        if reach.since_s is not None:
            since_ms = max(since_ms or 0, int(1000 * (time.time() - reach.since_s)))
        if since_ms is not None:
            return offset_range(self._settings, whole.topic, partitions=[partition], since_ms=since_ms)
        return whole.newest(reach.newest)

    def _source(self, evaluation: Evaluation) -> StoredRecord | None:
        """The record that the event was read in, if it is still there."""
        at = evaluation.source
        if at is None or at.partition >= self._present.get(at.topic, 0):
            return None
        held = offset_range(self._settings, at.topic, partitions=[at.partition])
        if not held.starts[at.partition] <= at.offset < held.ends[at.partition]:
            return None
        one = OffsetRange(at.topic, {at.partition: at.offset}, {at.partition: at.offset + 1})
        return next(read(self._settings, one), None)

    def _waiting(self, since_ms: int) -> Iterator[Wait]:
        """The requests to judge the event that the judge has not settled; all of them where it cannot be asked."""
        for name in ("judge.requests", "judge.retry", "judge.deferred"):
            settled = self._settled(self._prefix + name)
            for kept in self._records(name, since_ms=since_ms):
                request = _request(kept, self._most)
                if kept.offset >= settled and request is not None:
                    yield Wait(name, request.requested_at, request.not_before, request.attempts, request.why)

    def _settled(self, topic: str) -> int:
        if topic not in self._present:
            return 0
        at = TopicPartition(topic, partition_of(self._key, self._present[topic]))
        group = Identity("judge", 0, self._prefix).group
        consumer = build(Consumer, {**reader_properties(self._settings), "group.id": group})
        try:
            return max(0, consumer.committed([at], timeout=_TIMEOUT_S)[0].offset)
        except KafkaException:
            return 0
        finally:
            consumer.close()


def _is_selected(evaluation: Evaluation) -> bool:
    return evaluation.stage == "scored" and any(each.status == "selected" for each in evaluation.decision.suites)


def _request(kept: StoredRecord, max_bytes: int) -> JudgeRequest | None:
    try:
        return JudgeRequest.model_validate(parse(kept.value, max_bytes))
    except (Rejected, ValidationError):
        return None
