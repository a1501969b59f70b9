"""The story of one event: its evaluations, dead letters and judge requests, read from the topics or from a file.

The partition of a key is known, so that one partition of each topic is read, and only the latest part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from pydantic import ValidationError

from ragweir.errors import PermanentError, Rejected
from ragweir.schemas.codec.json import parse
from ragweir.schemas.evaluation import Evaluation, supersedes, version_of
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.routing_row import RoutingRow, encode_row_key
from ragweir.schemas.times import parse_rfc3339
from ragweir.schemas.topics import max_record_bytes
from ragweir.schemas.window import duration_s
from ragweir.streams.analysis.dead_letters.letters import Letter, read_letter
from ragweir.streams.analysis.originals import Original
from ragweir.streams.analysis.traces.story import TraceStory, read_to, trace_id_of, trace_story
from ragweir.streams.files.events import EventReader
from ragweir.streams.runtime.kafka.client import Identity, build, reader_properties
from ragweir.streams.runtime.kafka.reader import OffsetRange, Watch, offset_range, read, topics
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.aggregate.window_times import start_of
from ragweir.streams.services.shared.dimensions import Dimensions
from ragweir.streams.services.shared.routing_rows import SHIPPED, RowTable, digest_of
from ragweir.streams.settings import Settings, WindowSettings

NEWEST_OFFSETS = 200_000
"""Offsets of each partition that a search covers by default."""

_CLOCK_SKEW_MS = 5 * 60 * 1000
"""Largest expected difference between the clocks of producers."""
_TIMEOUT_SECONDS = 5.0
_WORD = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key, as Java's client computes it.

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
class Searched:
    """A partition or file that was searched."""

    where: str
    records: int
    whole: bool
    """False if older records were left out."""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A judge request for the event whose offset is not committed."""

    topic: str
    """Without the prefix."""
    since: datetime | None
    """Time of the first attempt; None if there was none."""
    not_before: datetime | None
    attempts: int
    why: str


@dataclass(frozen=True, slots=True)
class EventWindow:
    """A window in which the event counts."""

    window: str
    start: datetime
    end: datetime
    dimensions: dict[str, str]


@dataclass(slots=True)
class Story:
    """Everything that was found about one event."""

    event_id: str
    searched: list[Searched] = field(default_factory=list)
    evaluation: Evaluation | None = None
    """The newest evaluation."""
    found_at: str = ""
    times: int = 0
    """Number of times that the event was scored."""
    source: Record | None = None
    """The record that held the event, if Kafka still has it."""
    source_searched: bool = False
    """True if the source was looked up in Kafka."""
    pending: list[PendingRequest] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    """Dead letters whose key is the event's id."""
    windows: list[EventWindow] = field(default_factory=list)
    row: RoutingRow | None = None
    """The routing row that its decision names, if it was found in `control`."""
    original: Original | None = None
    """The interaction, if it was read again or is to be shown."""
    trace: TraceStory | None = None
    """The trace that the event was assembled from; None for any other event."""

    @property
    def known(self) -> bool:
        """True if anything was found."""
        return self.evaluation is not None or bool(self.letters) or bool(self.trace and self.trace.records)


def from_file(file: Path, event_id: str, settings: Settings, watch: Watch) -> Story:
    """Return the story of an event from a file of evaluations.

    If no event has the id, and it is a number, it is that of the line or row that the event was read from.

    Raises:
        OSError: if the file cannot be read.
        UnreadableFile: if it has another format than those that are read, or is damaged.
        PermanentError: if rows of several files have the number.
    """
    story = _in_file(file, event_id, settings, watch, lambda data: data.get("event_id") == event_id)
    if story.known or not event_id.isascii() or not event_id.isdecimal():
        return story
    row, found = int(event_id), set[str]()

    def is_row(data: dict[str, Any]) -> bool:
        source, named = data.get("source"), data.get("event_id")
        at_row = isinstance(source, dict) and source.get("offset") == row and isinstance(named, str)
        if at_row:
            found.add(str(named))
        return at_row

    by_row = _in_file(file, event_id, settings, watch, is_row)
    if len(found) > 1:
        raise PermanentError(f"{len(found)} events of {file} were read from a row {row}: name one by its id")
    return by_row if by_row.known else story


def _in_file(
    file: Path, event_id: str, settings: Settings, watch: Watch, wanted: Callable[[dict[str, Any]], bool]
) -> Story:
    story, lines = Story(event_id), 0
    max_bytes = max_record_bytes(settings.limits.max_event_bytes)
    with file.open("rb") as source:
        reader = EventReader(source, str(file), max_bytes, watch(str(file), file.stat().st_size))
        for number, value in reader:
            lines += 1
            _add_evaluation(story, _evaluation(value, wanted, max_bytes), f"{file}, {reader.format.unit} {number}")
    story.searched.append(Searched(str(file), lines, whole=True))
    story.windows = list(windows(story.evaluation, settings.windows))
    story.event_id = story.evaluation.event_id if story.evaluation else event_id
    return story


def windows(evaluation: Evaluation | None, settings: WindowSettings) -> Iterator[EventWindow]:
    """Yield the windows of an evaluation by these settings; in the first and the last year there are none."""
    if evaluation is None or not MINYEAR < evaluation.event_time.year < MAXYEAR:
        return
    dimensions = Dimensions(settings.dimensions, settings.values)
    named = dimensions.named(dimensions.of(evaluation))
    for size in settings.sizes:
        length = timedelta(seconds=duration_s(size))
        start = start_of(evaluation.event_time, length)
        yield EventWindow(size, start, start + length, named)


def _add_evaluation(story: Story, evaluation: Evaluation | None, position: str) -> None:
    """Replace the story's evaluation by one that counts in its place."""
    if evaluation is None:
        return
    story.times += evaluation.stage == "scored"
    if story.evaluation is None or supersedes(version_of(story.evaluation), version_of(evaluation)):
        story.evaluation, story.found_at = evaluation, position


def _evaluation(value: bytes | None, wanted: Callable[[dict[str, Any]], bool], max_bytes: int) -> Evaluation | None:
    """Return the evaluation in a value, if it is a wanted one."""
    try:
        data = parse(value, max_bytes)
        if not isinstance(data, dict) or not wanted(data):
            return None
        return Evaluation.model_validate(data)
    except (Rejected, ValidationError):
        return None


class TopicSearch:
    """Search for one event in the live topics, or in those of a replay.

    Args:
        settings: the live system's settings.
        event_id: id of the event.
        run: id of the replay; None for the live topics.
        watch: shows the progress of each topic.
        newest: number of offsets of each partition to search.
        since_s: age in seconds of the records to search; takes precedence over `newest`.
    """

    def __init__(
        self,
        settings: Settings,
        event_id: str,
        run: str | None,
        watch: Watch,
        newest: int = NEWEST_OFFSETS,
        since_s: int | None = None,
    ) -> None:
        self._settings, self._watch, self._newest, self._since_s = settings, watch, newest, since_s
        self._story = Story(event_id)
        self._key = event_id.encode()
        self._prefix = settings.topics.prefix + (f"run.{run}." if run else "")
        self._topics = topics(settings)
        self._max_bytes = max_record_bytes(settings.limits.max_event_bytes)

    def story(self) -> Story:
        """Search all topics.

        Raises:
            PermanentError: if the topic of evaluations does not exist.
            Unreachable: if no broker answers.
        """
        story, scored_ms = self._story, 0
        for record in self._records("evaluations", required=True):
            evaluation = _evaluation(record.value, lambda data: data.get("event_id") == story.event_id, self._max_bytes)
            if evaluation is not None and evaluation.stage == "scored":
                scored_ms = record.timestamp_ms or 0
            _add_evaluation(story, evaluation, f"{record.topic}/{record.partition}/{record.offset}")
        story.letters += filter(None, map(read_letter, self._records("dead-letter")))
        if story.evaluation is not None:
            story.source, story.source_searched = self._source(story.evaluation), True
            story.windows = list(windows(story.evaluation, self._settings.windows))
            story.row = self._row(story.evaluation)
            if _is_selected(story.evaluation):
                story.pending = list(self._pending(scored_ms - _CLOCK_SKEW_MS))
        if trace_id := trace_id_of(story.event_id):
            story.trace = self._trace(trace_id)
        return story

    def _row(self, evaluation: Evaluation) -> RoutingRow | None:
        """Return the routing row that a decision names. Replays select by the live rows."""
        topic = self._settings.output_topic("control")
        decided = next((each for each in evaluation.decision.suites if each.row not in (None, SHIPPED)), None)
        if decided is None or decided.row is None or topic not in self._topics:
            return None
        try:
            key = encode_row_key(evaluation.application, parse_rfc3339(decided.row))
        except ValueError:
            return None
        # All partitions, as evaluate reads rows from any: a row by hand may be elsewhere than its key says.
        part = offset_range(self._settings, topic)
        table = RowTable()
        records = read(self._settings, part, self._watch(topic, len(part)))
        table.add(record for record in records if record.key == key)
        return next((row for row in table.held if decided.row_digest in (None, digest_of(row))), None)

    def _trace(self, trace_id: str) -> TraceStory | None:
        """Return the story of a trace; None if there is no topic of spans. Replays have none of their own."""
        spans, ledger = (f"{self._settings.topics.prefix}{name}" for name in ("spans", "assembly"))
        if spans not in self._topics:
            return None
        key = trace_id.encode()
        partition = partition_of(key, self._topics[spans])
        part, whole = self._searched(spans, partition, None)
        records = [each for each in read(self._settings, part, self._watch(spans, len(part))) if each.key == key]
        closed = None
        if records and partition < self._topics.get(ledger, 0):
            entries, _ = self._searched(ledger, partition, None)
            closed = read_to(trace_id, read(self._settings, entries, self._watch(ledger, len(entries))))
        story = trace_story(trace_id, records, self._settings.assemble, closed)
        story.whole = part.starts == whole.starts
        story.deleted = any(whole.starts.values())
        return story

    def _records(self, name: str, *, since_ms: int | None = None, required: bool = False) -> Iterator[Record]:
        """Yield the records of one topic that have the event's key, within the limit."""
        topic = self._prefix + name
        if topic not in self._topics and not required:
            return
        part, _ = self._searched(topic, partition_of(self._key, self._topics.get(topic, 1)), since_ms)
        for record in read(self._settings, part, self._watch(topic, len(part))):
            if record.key == self._key:
                yield record

    def _searched(self, topic: str, partition: int, since_ms: int | None) -> tuple[OffsetRange, OffsetRange]:
        """Return the offsets of a partition to search, and all that it has."""
        whole = offset_range(self._settings, topic, partitions=[partition])
        part = self._limited(whole, partition, since_ms)
        self._story.searched.append(Searched(f"{topic}/{partition}", len(part), whole=part.starts == whole.starts))
        return part, whole

    def _limited(self, whole: OffsetRange, partition: int, since_ms: int | None) -> OffsetRange:
        if self._since_s is not None:
            since_ms = max(since_ms or 0, int(1000 * (machine.time() - self._since_s)))
        if since_ms is not None:
            return offset_range(self._settings, whole.topic, partitions=[partition], since_ms=since_ms)
        return whole.newest(self._newest)

    def _source(self, evaluation: Evaluation) -> Record | None:
        """Return the record that held the event, if Kafka still has it."""
        at = evaluation.source
        if at is None or at.partition >= self._topics.get(at.topic, 0):
            return None
        held = offset_range(self._settings, at.topic, partitions=[at.partition])
        if not held.starts[at.partition] <= at.offset < held.ends[at.partition]:
            return None
        one = OffsetRange(at.topic, {at.partition: at.offset}, {at.partition: at.offset + 1})
        return next(read(self._settings, one), None)

    def _pending(self, since_ms: int) -> Iterator[PendingRequest]:
        """Yield the judge requests for the event whose offsets are not committed; all if offsets are unavailable."""
        for name in ("judge.requests", "judge.retry", "judge.deferred"):
            committed = self._committed(self._prefix + name)
            for record in self._records(name, since_ms=since_ms):
                if record.offset < committed:
                    continue
                try:
                    request = JudgeRequest.model_validate(parse(record.value, self._max_bytes))
                except (Rejected, ValidationError):
                    continue
                yield PendingRequest(name, request.requested_at, request.not_before, request.attempts, request.why)

    def _committed(self, topic: str) -> int:
        if topic not in self._topics:
            return 0
        at = TopicPartition(topic, partition_of(self._key, self._topics[topic]))
        group = Identity("judge", 0, self._prefix).group
        with closing(build(Consumer, {**reader_properties(self._settings), "group.id": group})) as consumer:
            try:
                return max(0, consumer.committed([at], timeout=_TIMEOUT_SECONDS)[0].offset)
            except KafkaException:
                return 0


def _is_selected(evaluation: Evaluation) -> bool:
    return evaluation.stage == "scored" and any(each.status == "selected" for each in evaluation.decision.suites)
