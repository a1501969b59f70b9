"""Dead letters sent again: to `rag.redrive` in transactions that also commit how far the dead letters have come.

How far: per partition the committed offset of a group of its own, before which all letters are settled but those that
the offset's metadata names. These were left where they are, being of another class or still refused, for a later
redrive. So nothing is sent twice and nothing is lost, whatever is chosen and whenever a redrive is killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from confluent_kafka import Consumer, TopicPartition

from ragweir.errors import PermanentError, Rejected
from ragweir.schemas.codec.json import encode_json, event_time, interaction, parse
from ragweir.streams.dead_letters.listing import Letter, letter
from ragweir.streams.dead_letters.progress import Fate, RedriveProgress
from ragweir.streams.emissions import cloud_event
from ragweir.streams.kafka.client import Identity, build, reader_properties
from ragweir.streams.kafka.reader import OnProgress, StoredRecord, offset_range, read, topics
from ragweir.streams.kafka.transactional_sender import TransactionalSender
from ragweir.streams.records import Headers
from ragweir.streams.settings import Settings

_TIMEOUT_S = 30.0
_BATCH_LETTERS = 500
_BATCH_BYTES = 8 * 1024 * 1024
_METADATA_CHARACTERS = 4_000
"""Kafka keeps 4,096 bytes with a committed offset unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which letters are sent, and how they are read."""

    error_class: str | None
    """None for all."""
    mapping: Callable[[Letter], Callable[[object], object] | None]
    """The map that a letter is read through, if any."""
    max_bytes: int
    """Of one event."""
    force: bool = False
    """True where letters of class `fatal` are sent too."""

    def fate(self, each: Letter | None) -> tuple[Fate, bytes | str]:
        """What becomes of a letter, with the bytes to send or, where it is still refused, the reason."""
        if each is None or each.by != "evaluate":
            return "other", ""
        if not each.redrivable:
            return "no_event", ""
        if self.error_class not in (None, each.said.error_class):
            return "other_class", ""
        if each.said.error_class == "fatal" and not self.force:
            return "fatal", ""
        try:
            return "sent", self._event(each)
        except Rejected as rejected:
            return "refused", rejected.message

    def _event(self, each: Letter) -> bytes:
        """The event as it would now be accepted. One without a time of its own gets that of its first record.

        Raises:
            Rejected: if it would still be refused.
        """
        value, mapping = each.kept.value or b"", self.mapping(each)
        data = parse(value, self.max_bytes)
        if mapping:
            data = mapping(data)
            value = encode_json(data)
        event = interaction(data)
        time = event_time(event, each.said.source_timestamp)
        if event.ended_at is None and event.started_at is None:
            # What is written now has today's time. Nothing else of the bytes changes; the last of two names counts.
            stamp = encode_json(time)
            value = value.rstrip()[:-1] + b',"ended_at":' + stamp + b"}"
        if len(value) > self.max_bytes:
            raise Rejected("too_large", f"as it would be sent, the event is over the limit of {self.max_bytes} bytes")
        return value


@dataclass(slots=True)
class RedriveReport:
    """What a redrive did, or would do."""

    fates: Counter[Fate] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Why letters are still refused."""
    full: set[int] = field(default_factory=set)
    """Partitions that were not read to their end: no more letters can be noted as left."""


class Redrive:
    """How the dead letters stand, and sending them again.

    Raises:
        PermanentError: if there is no such topic, or the group's offsets are not ours.
        Unreachable: if no broker answers.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.topic, self.target = (f"{settings.topics.prefix}{name}" for name in ("dead-letter", "redrive"))
        self._group = Identity("redrive", 0, settings.topics.prefix).group
        self._present = topics(settings)
        for name in (self.topic, self.target):
            if name not in self._present:
                raise PermanentError(
                    f"there is no topic {name}, or it may not be seen; `ragweir topics create` makes ours"
                )

    def progress(self) -> dict[int, RedriveProgress]:
        """How each partition stands, as committed."""
        consumer = self._member()
        try:
            return self._standings(consumer)
        finally:
            consumer.close()

    def _member(self) -> Consumer:
        return build(Consumer, {**reader_properties(self.settings), "group.id": self._group})

    def _standings(self, consumer: Consumer) -> dict[int, RedriveProgress]:
        wanted = [TopicPartition(self.topic, each) for each in range(self._present[self.topic])]
        try:
            committed = consumer.committed(wanted, timeout=_TIMEOUT_S)
            return {each.partition: RedriveProgress.stored(each.offset, each.metadata) for each in committed}
        except ValueError:
            raise PermanentError(
                f"the offsets of the group {self._group} were committed by somebody else; "
                "delete the group with kafka-consumer-groups, and all dead letters are sent again"
            ) from None

    def __call__(self, choice: Choice, *, dry_run: bool, watch: Callable[[int], OnProgress]) -> RedriveReport:
        """Send what is chosen and would now be accepted.

        Args:
            choice: which letters, and how they are read.
            dry_run: change nothing.
            watch: is told how many offsets there are, and gives what is told of each step.

        Raises:
            PermanentError: if Kafka does not take it; what was committed stays, and another redrive goes on there.
        """
        report, consumer = RedriveReport(), self._member()
        try:
            sending = None if dry_run else TransactionalSender(self.settings, "redrive", "the redrive")
            standings = self._standings(consumer)
            now = offset_range(self.settings, self.topic)
            standings = {each: standing.since(now.starts[each]) for each, standing in standings.items()}
            now = now.since({each: standing.start for each, standing in standings.items()})
            for batch in _batches(read(self.settings, now, watch(len(now)))):
                self._settle(batch, choice, standings, report, (sending, consumer))
        finally:
            consumer.close()
        return report

    def _settle(
        self,
        batch: Iterable[StoredRecord],
        choice: Choice,
        standings: dict[int, RedriveProgress],
        report: RedriveReport,
        clients: tuple[TransactionalSender | None, Consumer],
    ) -> None:
        lanes: dict[int, list[tuple[StoredRecord, Letter | None, Fate, bytes | str]]] = {}
        for kept in batch:
            if kept.partition not in report.full and standings[kept.partition].waits(kept.offset):
                each = letter(kept)
                lanes.setdefault(kept.partition, []).append((kept, each, *choice.fate(each)))
        moved: dict[int, RedriveProgress] = {}
        sent: list[tuple[Letter, bytes]] = []
        for partition, lane in lanes.items():
            standing = standings[partition].after({kept.offset: fate for kept, _, fate, _ in lane})
            if len(standing.metadata()) > _METADATA_CHARACTERS:
                report.full.add(partition)
                continue
            if standing != standings[partition]:
                moved[partition] = standing
            for _, each, fate, found in lane:
                report.fates[fate] += 1
                if isinstance(found, bytes) and each is not None:
                    sent.append((each, found))
                elif fate == "refused":
                    report.reasons[str(found)] += 1
        sending, consumer = clients
        if sending is not None and moved:
            self._send(sending, consumer, sent, moved)
        standings.update(moved)

    def _send(
        self,
        sending: TransactionalSender,
        consumer: Consumer,
        sent: Iterable[tuple[Letter, bytes]],
        moved: Mapping[int, RedriveProgress],
    ) -> None:
        offsets = [
            TopicPartition(self.topic, partition, standing.next_offset, standing.metadata())
            for partition, standing in moved.items()
        ]
        with sending.transaction():
            for each, value in sent:
                sending.produce(self.target, value, each.kept.key, _headers(each))
            sending.add_offsets(offsets, consumer)


def _headers(each: Letter) -> Headers:
    """What the letter said, so that the event can be followed back to where it was first read."""
    kept = each.kept
    identity = f"{kept.topic}/{kept.partition}/{kept.offset}"
    # As on the dead letter itself: any number may stand as a record's timestamp.
    time = datetime.fromtimestamp(max(0, min(each.said.source_timestamp or 0, 2**43)) / 1000, UTC)
    return (*cloud_event("redrive", "interaction", identity, time, "application/json"), *each.said.headers())


def _batches(records: Iterator[StoredRecord]) -> Iterator[list[StoredRecord]]:
    """Records in batches that make short transactions."""
    batch: list[StoredRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.value or b"") + len(record.key or b"")
        if len(batch) >= _BATCH_LETTERS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
