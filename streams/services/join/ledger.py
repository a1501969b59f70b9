"""The ledger of `join` in one partition of `assembly`: an entry per transaction, and the state that it leads back to.

An entry lists the traces that were closed in its transaction, packed, in base64. Each is one of these, with numbers in
little-endian order::

    0 | trace id (16) | back (4)                                                            gave no interaction
    1 | trace id (16) | back (4) | time (8) | roots (2) | parents (2) | ids (8 each)        gave interactions

`back` is the number of offsets from the one before which the trace was closed to the entry's `next`. A trace without an
interaction is listed so that a restore does not open it again with its old records.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog
from pydantic import ValidationError

from ragweir.schemas.assembly import CLOCK_KEY, AssemblyEntry
from ragweir.schemas.topics import TOPICS
from ragweir.streams.runtime.agent import Changelog
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.join.emitted import EmittedTraces, packed_end
from ragweir.streams.services.join.join_clock import JoinClock

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_TAIL_RECORDS = 64
"""Records that are read first of the changelog's end, to find the newest entry."""
_HEAD = struct.Struct("<B16sI")
_SILENT, _EMITTED = 0, 1
# A topic forgets what is older than its retention, and the newest entry of a quiet partition must not be forgotten.
_RETELL_SECONDS = TOPICS["assembly"].retention_h * 3600 / 4


class MissedRange(NamedTuple):
    """The records that retention deleted unread most recently."""

    end: int
    """The first offset that was left."""
    until_ms: int | None = None
    """The time before which traces that begin after it may lack spans; None until the clock has moved."""


class Position(NamedTuple):
    """The state at a place in the log, between two records and two closings, without the traces."""

    next: int
    """The offset of the next record."""
    floor: int
    """The first offset of the oldest open trace."""
    floor_ms: int
    """The clock at that offset."""
    clock: JoinClock
    closings: int
    """The number of closings with interactions so far."""
    remembered_from: int
    """The number of those before the oldest one that is remembered."""
    gap: MissedRange | None = None


class ClosedTrace(NamedTuple):
    """A closed trace, as the ledger lists it."""

    trace_id: bytes
    read_to: int
    """The offset of the record before which it was closed."""
    packed: bytes = b""
    """Its emission, packed; empty if it gave no interaction."""

    @property
    def size(self) -> int:
        """Its size in an entry, in bytes."""
        return _HEAD.size + len(self.packed)


def packed_closings(closings: Iterable[ClosedTrace], next_offset: int) -> bytes:
    """Return closings in binary.

    >>> closings = [ClosedTrace(bytes(16), 7), ClosedTrace(bytes(16), 9, bytes(12))]
    >>> list(unpacked_closings(packed_closings(closings, 9), 9)) == closings
    True
    """
    return b"".join(
        _HEAD.pack(_EMITTED if each.packed else _SILENT, each.trace_id, next_offset - each.read_to) + each.packed
        for each in closings
    )


def unpacked_closings(data: bytes, next_offset: int) -> Iterator[ClosedTrace]:
    """Yield the closings that `packed_closings` packed.

    Raises:
        struct.error: if the data ends within one.
    """
    at = 0
    while at < len(data):
        kind, trace_id, back = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        end = packed_end(data, at) if kind == _EMITTED else at
        yield ClosedTrace(trace_id, next_offset - back, data[at:end])
        at = end


class _Page(NamedTuple):
    """An entry with closings."""

    offset: int
    """A lower bound of its offset in the changelog."""
    sequence: int
    closings: int
    """The number of closings with interactions, up to this entry."""
    next: int

    def is_needed(self, position: Position) -> bool:
        """Return whether a restore to a position needs the entry."""
        return self.closings > position.remembered_from or self.next > position.floor


@dataclass(slots=True)
class LedgerWriter:
    """Writes the entries of one partition.

    The offsets of entries are lower bounds: the first entry after an assignment has at least the offset that was the
    changelog's end then, and each entry and each transaction's end mark takes one more.

    Args:
        written: a lower bound of the offset that the next entry gets.
        topic_id: Kafka's id of the topic `spans`.
        clock: monotonic seconds.
    """

    written: int
    topic_id: str = ""
    clock: Callable[[], float] = machine.monotonic
    newest: AssemblyEntry | None = None
    """The newest committed entry."""
    pages: deque[_Page] = field(default_factory=deque)
    is_due: bool = True
    """True while an entry has to be written even if nothing has happened."""
    _written_s: float = 0.0
    _next: tuple[AssemblyEntry, Position, _Page | None] | None = None

    def __post_init__(self) -> None:
        self._written_s = self.clock()

    def retell(self) -> None:
        """Make an entry due if the newest one was written long ago."""
        self.is_due |= self.clock() - self._written_s >= _RETELL_SECONDS

    def entry(self, position: Position, closings: Iterable[ClosedTrace]) -> bytes:
        """Return the next entry, which `commit` or `abort` follows."""
        data = packed_closings(closings, position.next)
        sequence = self.newest.sequence + 1 if self.newest else 0
        own = _Page(self.written, sequence, position.closings, position.next)
        oldest = next((page for page in self.pages if page.is_needed(position)), own)
        gap = position.gap
        entry = AssemblyEntry(
            committed=position.floor,
            next=position.next,
            clock=position.clock.marks,
            sources=dict(position.clock.sources),
            ledger_from=oldest.offset,
            emitted=b64encode(data).decode(),
            sequence=sequence,
            ledger_sequence=oldest.sequence,
            clock_ms=position.clock.time_ms,
            floor_ms=position.floor_ms,
            closings=position.closings,
            remembered_from=position.remembered_from,
            topic_id=self.topic_id,
            missed_from=gap.end if gap else None,
            missed_until_ms=gap.until_ms if gap else None,
        )
        self._next = entry, position, own if data else None
        return entry.model_dump_json().encode()

    def commit(self) -> Position | None:
        """Keep the entry, which is committed, and return its position; None if there is none."""
        if self._next is None:
            return None
        self.newest, position, page = self._next
        if page:
            self.pages.append(page)
        while self.pages and not self.pages[0].is_needed(position):
            self.pages.popleft()
        self.written += 2
        self._written_s, self.is_due, self._next = self.clock(), False, None
        return position

    def abort(self) -> None:
        """Forget the entry, which is not committed."""
        self._next = None


@dataclass(frozen=True, slots=True)
class StoredState:
    """The state of a partition, as its ledger has it: without the open traces, which are read again."""

    position: Position
    ledger: LedgerWriter
    emitted: EmittedTraces
    read_to: dict[bytes, int] = field(default_factory=dict)
    """The offsets before which closed traces are not opened again, by trace id."""
    forgotten: int = 0
    """The number of emissions that are missing, since their entries were deleted."""
    is_same_topic: bool = True
    """False if the ledger belongs to a topic `spans` that was deleted."""

    def at(self, position: Position) -> StoredState:
        """Return the state with another position."""
        return replace(self, position=position)


def newest_entry(changelog: Changelog) -> tuple[int, AssemblyEntry] | None:
    """Return the entry that was written last, with its offset; the search goes back from the end in growing steps."""
    first, step = changelog.end, _TAIL_RECORDS
    while first > 0:
        first = max(0, first - step)
        found: tuple[int, AssemblyEntry] | None = None
        for record in changelog.since(first):
            if (entry := _entry(record.value)) is not None:
                found = record.offset, entry
        if found is not None:
            return found
        step *= 8
    return None


def restored(
    changelog: Changelog,
    newest: tuple[int, AssemblyEntry],
    emitted: EmittedTraces,
    topic_id: str,
    clock: Callable[[], float] = machine.monotonic,
) -> StoredState:
    """Return the state that a changelog leads to.

    Args:
        changelog: the changelog.
        newest: its newest entry, as `newest_entry` returns it.
        emitted: gets the traces that are remembered.
        topic_id: Kafka's id of the topic `spans`. The offsets of entries with another one count for nothing.
        clock: monotonic seconds.
    """
    offset, last = newest
    is_same = _is_same_topic(last, topic_id)
    committed = last.committed if is_same else 0
    ledger = LedgerWriter(changelog.end, topic_id, clock, last)
    read_to: dict[bytes, int] = {}
    begun = False
    for entry_offset, entry, closings in _entries(changelog, offset, last):
        if not begun:
            begun = True
            emitted.first = entry.closings - sum(bool(each.packed) for each in closings)
        counts = is_same and _is_same_topic(entry, topic_id)
        for trace_id, end, packed in closings:
            if packed:
                emitted.add(trace_id, packed)
            if counts and end > committed:
                read_to[trace_id] = end
        if closings:
            ledger.pages.append(_Page(entry_offset, entry.sequence, entry.closings, entry.next if counts else 0))
    if not begun:
        emitted.first = last.closings
    forgotten = max(0, emitted.first - last.remembered_from)
    if forgotten:
        log.error(
            "retention deleted a part of the ledger: later spans of its traces begin these again", traces=forgotten
        )
    emitted.forget_before(last.remembered_from)
    missed = MissedRange(last.missed_from, last.missed_until_ms) if last.missed_from is not None and is_same else None
    position = Position(
        last.next if is_same else 0,
        committed,
        last.floor_ms,
        JoinClock(last.clock, last.sources, last.clock_ms),
        emitted.count,
        emitted.first,
        missed,
    )
    return StoredState(position, ledger, emitted, read_to, forgotten, is_same)


def _entries(
    changelog: Changelog, offset: int, last: AssemblyEntry
) -> Iterator[tuple[int, AssemblyEntry, list[ClosedTrace]]]:
    """Yield the entries that a restore needs, with their offsets and closings; `last` is the newest, at `offset`."""
    # A bound above the entry itself is one of a topic that was deleted and created again.
    first = last.ledger_from if last.ledger_from <= offset else 0
    foreign = 0
    for record in changelog.since(first):
        if record.key == CLOCK_KEY:
            continue
        entry = _entry(record.value)
        if entry is not None and not last.ledger_sequence <= entry.sequence <= last.sequence:
            continue
        try:
            if entry is not None:
                yield record.offset, entry, list(unpacked_closings(b64decode(entry.emitted), entry.next))
                continue
        except (Base64Error, struct.error):
            pass
        foreign += 1
    if foreign:
        log.warning("foreign records in the assembly topic are ignored", records=foreign)


def _is_same_topic(entry: AssemblyEntry, topic_id: str) -> bool:
    return not (entry.topic_id and topic_id) or entry.topic_id == topic_id


def _entry(value: bytes | None) -> AssemblyEntry | None:
    try:
        return AssemblyEntry.model_validate_json(value or b"")
    except ValidationError:
        return None
