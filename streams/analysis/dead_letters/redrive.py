"""Redrive: sends dead letters to `rag.redrive`, in transactions that also commit the progress.

The progress of a partition is a committed offset of the redrive's consumer group. Letters before it are done, except
those that the offset's metadata lists: they are of another class or still rejected, and are postponed to a later
redrive. So each letter is sent at most once and none is lost, whichever are selected and whenever a redrive is killed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime

from confluent_kafka import Consumer, TopicPartition

from ragweir.errors import PermanentError, Rejected
from ragweir.schemas.codec.json import encode_json, event_time, interaction, parse
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.streams.analysis.dead_letters.letters import Letter, read_letter
from ragweir.streams.analysis.dead_letters.redrive_progress import RedriveProgress, RedriveResult
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.headers import producer_headers
from ragweir.streams.runtime.kafka.client import Identity, build, reader_properties
from ragweir.streams.runtime.kafka.reader import OnProgress, offset_range, read, topics
from ragweir.streams.runtime.kafka.transactional_sender import TransactionalSender
from ragweir.streams.runtime.records import Headers, Record
from ragweir.streams.settings import Settings

_TIMEOUT_SECONDS = 30.0
_BATCH_LETTERS = 500
_BATCH_BYTES = 8 * 1024 * 1024
_METADATA_CHARACTERS = 4_000
"""Kafka's default limit for the metadata of a committed offset is 4,096 bytes."""


@dataclass(frozen=True, slots=True)
class RedriveOptions:
    """Selects the letters of a redrive and the map through which each is read."""

    error_class: str | None
    """None selects all classes."""
    mapping: Callable[[Letter], FieldMap | None]
    """Returns the map for a letter, None for none."""
    as_json: Callable[[Letter], bytes]
    """Returns the event of a letter in JSON; raises Rejected if it cannot be read."""
    max_bytes: int
    """Size limit of one event."""
    force: bool = False
    """True to send letters of class `fatal` as well."""

    def check(self, letter: Letter | None) -> tuple[RedriveResult, bytes | str]:
        """Return the result for a letter, with the bytes to send or, if it is still rejected, the reason."""
        if letter is None or letter.service != "evaluate":
            return "other", ""
        if not letter.redrivable:
            return "no_event", ""
        if self.error_class not in (None, letter.details.error_class):
            return "other_class", ""
        if letter.details.error_class == "fatal" and not self.force:
            return "fatal", ""
        try:
            return "sent", self._event(letter)
        except Rejected as rejected:
            return "rejected", rejected.message

    def _event(self, letter: Letter) -> bytes:
        """Return the event to send; one without a time gets the timestamp of its first record.

        Raises:
            Rejected: if evaluate would reject the event again.
        """
        value, mapping = self.as_json(letter), self.mapping(letter)
        data = parse(value, self.max_bytes)
        if mapping is None:
            event = interaction(data)
        elif (fields := mapping(data)) is None:
            raise Rejected("unmapped", "`where` of the map does not select the event")
        else:
            value = encode_json(fields)
            event = interaction(fields, origins=mapping.origins)
        time = event_time(event, letter.details.source_timestamp)
        if event.ended_at is None and event.started_at is None:
            # The new record has today's timestamp. Other bytes do not change; of two equal names the last one counts.
            value = value.rstrip()[:-1] + b',"ended_at":' + encode_json(time) + b"}"
        if len(value) > self.max_bytes:
            raise Rejected("too_large", f"as it would be sent, the event is over the limit of {self.max_bytes} bytes")
        return value


@dataclass(slots=True)
class RedriveReport:
    """Counts of a redrive or of its dry run."""

    results: Counter[RedriveResult] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Letters that are still rejected, by reason."""
    full: set[int] = field(default_factory=set)
    """Partitions that were not read to their end because their metadata has no space for more postponed letters."""


class Redrive:
    """Sends dead letters again and reads the progress of earlier redrives.

    Raises:
        PermanentError: if a topic does not exist, or the group's offsets have metadata of another format.
        Unreachable: if no broker answers.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.topic, self.target = (f"{settings.topics.prefix}{name}" for name in ("dead-letter", "redrive"))
        self._group = Identity("redrive", 0, settings.topics.prefix).group
        present = topics(settings)
        for name in (self.topic, self.target):
            if name not in present:
                raise PermanentError(
                    f"there is no topic {name}, or it may not be seen; `ragweir topics create` makes ours"
                )
        self._partitions = present[self.topic]

    def progress(self) -> dict[int, RedriveProgress]:
        """Return the committed progress of each partition."""
        with closing(self._consumer()) as consumer:
            return self._committed(consumer)

    def _consumer(self) -> Consumer:
        return build(Consumer, {**reader_properties(self.settings), "group.id": self._group})

    def _committed(self, consumer: Consumer) -> dict[int, RedriveProgress]:
        partitions = [TopicPartition(self.topic, each) for each in range(self._partitions)]
        try:
            committed = consumer.committed(partitions, timeout=_TIMEOUT_SECONDS)
            return {each.partition: RedriveProgress.committed(each.offset, each.metadata) for each in committed}
        except ValueError:
            raise PermanentError(
                f"the offsets of the group {self._group} were committed by another program; "
                "delete the group with kafka-consumer-groups, and all dead letters are sent again"
            ) from None

    def __call__(self, options: RedriveOptions, *, dry_run: bool, watch: Callable[[int], OnProgress]) -> RedriveReport:
        """Send the selected letters that evaluate would now accept.

        Args:
            options: selection and map.
            dry_run: True to write nothing.
            watch: called with the number of offsets; returns a callback for each step.

        Raises:
            PermanentError: if Kafka rejects a transaction; earlier ones stay committed, and another redrive resumes.
        """
        report = RedriveReport()
        with closing(self._consumer()) as consumer:
            sender = None if dry_run else TransactionalSender(self.settings, "redrive", "the redrive")
            part = offset_range(self.settings, self.topic)
            progress = {each: known.since(part.starts[each]) for each, known in self._committed(consumer).items()}
            part = part.since({each: known.start for each, known in progress.items()})
            for batch in _batches(read(self.settings, part, watch(len(part)))):
                events, changed = _check_batch(batch, options, progress, report)
                if sender is not None and changed:
                    self._send(sender, consumer, events, changed)
                progress.update(changed)
        return report

    def _send(
        self,
        sender: TransactionalSender,
        consumer: Consumer,
        events: Iterable[tuple[Letter, bytes]],
        changed: dict[int, RedriveProgress],
    ) -> None:
        offsets = [
            TopicPartition(self.topic, partition, progress.next_offset, progress.metadata())
            for partition, progress in changed.items()
        ]
        with sender.transaction():
            for letter, value in events:
                sender.produce(self.target, value, letter.record.key, _headers(letter))
            sender.add_offsets(offsets, consumer)


def _check_batch(
    batch: Iterable[Record],
    options: RedriveOptions,
    progress: dict[int, RedriveProgress],
    report: RedriveReport,
) -> tuple[list[tuple[Letter, bytes]], dict[int, RedriveProgress]]:
    """Return the events to send of a batch and the progress that changes with them; update the report."""
    checked: defaultdict[int, list[tuple[int, Letter | None, RedriveResult, bytes | str]]] = defaultdict(list)
    for record in batch:
        if record.partition not in report.full and progress[record.partition].is_pending(record.offset):
            letter = read_letter(record)
            checked[record.partition].append((record.offset, letter, *options.check(letter)))
    changed: dict[int, RedriveProgress] = {}
    events: list[tuple[Letter, bytes]] = []
    for partition, letters in checked.items():
        after = progress[partition].after({offset: result for offset, _, result, _ in letters})
        if len(after.metadata()) > _METADATA_CHARACTERS:
            report.full.add(partition)
            continue
        if after != progress[partition]:
            changed[partition] = after
        for _, letter, result, found in letters:
            report.results[result] += 1
            if isinstance(found, bytes) and letter is not None:
                events.append((letter, found))
            elif result == "rejected":
                report.reasons[str(found)] += 1
    return events, changed


def _headers(letter: Letter) -> Headers:
    """Return the headers of a redriven event: ragweir's, which name its first position, and the producer's."""
    record = letter.record
    identity = f"{record.topic}/{record.partition}/{record.offset}"
    # Clamped as on the dead letter: the timestamp of a record may be any number.
    time = datetime.fromtimestamp(max(0, min(letter.details.source_timestamp or 0, 2**43)) / 1000, UTC)
    own = *cloud_event("redrive", "interaction", identity, time, "application/json"), *letter.details.headers()
    return *own, *producer_headers(record.headers)


def _batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    """Yield records in batches for short transactions."""
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.value or b"") + len(record.key or b"")
        if len(batch) >= _BATCH_LETTERS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
