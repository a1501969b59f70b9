"""The store of answers that feedback can be about: a file of SQLite, which is made again from the topic if it is lost.

Answers are found by 64-bit hashes of the ids of their events and traces. The id of the event that was found is compared
as text, so that no hash of an event leads to another one; that two of 600 million traces share a hash has a probability
of 1 %. Rows are in segments of at most a million answers: the indexes of a segment fit into the cache while they are
written at random places, and old answers are dropped with their tables.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import orjson

from ragweir.errors import TransientError
from ragweir.schemas.feedback import FeedbackTarget

_VERSION = 1
_SEGMENT_ROWS = 1_000_000
_SEGMENTS = 4
"""The least number of segments of a horizon, so that answers are kept for a quarter longer at most."""
_BUFFERED = 1_000
"""Answers that are inserted at once."""
_MOST_SELECTS = 100
"""Segments that one statement looks in; SQLite allows 500."""
_SCHEMA = """
CREATE TABLE topic (id TEXT NOT NULL, dimensions TEXT NOT NULL);
CREATE TABLE offsets (partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL);
CREATE TABLE segments (id INTEGER PRIMARY KEY, first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL);
"""
_SEGMENT_SCHEMA = """CREATE TABLE answers_{0} (event INTEGER PRIMARY KEY, trace INTEGER, span INTEGER, event_id TEXT,
    time_us INTEGER, labels INTEGER);
CREATE INDEX traces_{0} ON answers_{0} (trace) WHERE trace IS NOT NULL;
CREATE TABLE labels_{0} (id INTEGER PRIMARY KEY, labels TEXT NOT NULL UNIQUE)"""
_COUNT = "SELECT count(*) FROM answers_{0}"
_INSERT = "INSERT OR IGNORE INTO answers_{0} VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_LABELS = "INSERT OR IGNORE INTO labels_{0} (labels) VALUES (?)"
_FIND_LABELS = "SELECT id FROM labels_{0} WHERE labels = ?"
_LABELS = "SELECT labels FROM labels_{0} WHERE id = ?"
_FIND = "SELECT {0}, event_id, time_us, span, labels FROM answers_{0} WHERE {1} = ?1"


class EvaluatedAnswer(NamedTuple):
    """An evaluated event, as far as feedback needs it."""

    event_id: str
    time_us: int
    """Time of the event, in microseconds since 1970."""
    labels: tuple[str, ...]
    """Its values of the dimensions."""


def hash_of(text: str) -> int:
    """Return the 64-bit hash of an id, which does not depend on the process.

    >>> hash_of("e1") == hash_of("e1"), -(2**63) <= hash_of("e2") < 2**63
    (True, True)
    """
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest(), "big", signed=True)


def target_hash(target: FeedbackTarget) -> int:
    """Return the hash by which the answer of feedback is found: that of its event, or of its trace."""
    return _trace_hash(target.trace_id or "") if target.event_id is None else hash_of(target.event_id)


def _trace_hash(trace_id: str) -> int:
    # Ids of traces are hexadecimal, and their case does not count.
    return hash_of("trace " + trace_id.lower())


class _Guard:
    """A context that holds a lock, and raises another error in place of one of SQLite's.

    Args:
        lock: the lock.
        fail: returns the error to raise.
    """

    def __init__(self, lock: threading.RLock, fail: Callable[[sqlite3.DatabaseError], TransientError]) -> None:
        self._lock, self._fail = lock, fail

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            if isinstance(error, sqlite3.DatabaseError):
                raise self._fail(error) from None
        finally:
            self._lock.release()


class TargetStore:
    """Keeps answers, finds that of feedback, and notices answers that are watched for. Any thread may call it.

    Methods raise TransientError while the file is closed, if another process has it, and if it is damaged: it is
    deleted then, and the next `open` begins with an empty one.

    Args:
        horizon_s: the time for which answers are kept after they were written, in seconds.
        dimensions: the names of the dimensions of their label sets.
    """

    def __init__(self, horizon_s: int, dimensions: tuple[str, ...]) -> None:
        self._horizon_ms, self._dimensions = horizon_s * 1000, orjson.dumps(dimensions).decode()
        self._path = Path()
        self._lock = threading.RLock()
        self._guarded = _Guard(self._lock, self._fail)
        self._database: sqlite3.Connection | None = None
        self.inserted = 0
        """Number of answers that were inserted since the start, by which `WaitingList.add` knows that none came."""
        self._watched: set[int] = set()
        self._seen: set[int] = set()
        """The watched hashes of answers that were added since `take_seen`."""
        self._may_drop = False
        """True while no answer that was added may be looked for."""
        self._read_ms = 0
        """The largest timestamp of the records that were read."""
        self._is_caught_up = False
        self._begin()

    def _begin(self) -> None:
        self._rows: list[tuple[int, int | None, int | None, str, int, int]] = []
        self._segment = self._segment_rows = self._first_ms = self._last_ms = 0
        self._label_sets: dict[tuple[str, ...], int] = {}
        self._labels: dict[tuple[int, int], tuple[str, ...]] = {}
        """Label sets that were found, by their segment and number."""
        self._statements: dict[str, list[str]] = {"event": [], "trace": []}
        """The statements that look in all segments, the newest first."""

    # The file.

    def open(self, path: Path) -> None:
        """Open a file, or make it; one of another version, or with other dimensions, is made again."""
        with self._guarded:
            self._disconnect()
            self._path = path
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise TransientError(f"the store of answers {self._path} cannot be made: {error.strerror}") from None
            self._connect()
            if self._db.execute("SELECT dimensions FROM topic").fetchone() != (self._dimensions,):
                self._remove()
                self._connect()

    def _connect(self) -> None:
        self._database = sqlite3.connect(self._path, timeout=1.0, isolation_level=None, check_same_thread=False)
        # The file is this process's alone, and its last commits may be lost if the machine fails, but nothing else.
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = NORMAL", "cache_size = -65536"):
            self._db.execute(f"PRAGMA {pragma}").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            self._remove()
            self._connect()
        elif version == 0:
            self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT")
            self._db.execute("INSERT INTO topic VALUES ('', ?)", (self._dimensions,))
        self._resume()

    def _resume(self) -> None:
        """Go on in the newest segment, in a transaction."""
        self._begin()
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")
        found = self._db.execute("SELECT id, first_ms, last_ms FROM segments ORDER BY id DESC LIMIT 1").fetchone()
        if found is not None:
            self._segment, self._first_ms, self._last_ms = found
            (self._segment_rows,) = self._db.execute(_COUNT.format(self._segment)).fetchone()
        self._prepare()

    def _prepare(self) -> None:
        """Make the statements anew, as the segments have changed."""
        newest_first = [each for (each,) in self._db.execute("SELECT id FROM segments ORDER BY id DESC").fetchall()]
        for column, statements in self._statements.items():
            selects = [_FIND.format(each, column) for each in newest_first]
            statements[:] = [
                " UNION ALL ".join(selects[first : first + _MOST_SELECTS])
                for first in range(0, len(selects), _MOST_SELECTS)
            ]

    @property
    def _db(self) -> sqlite3.Connection:
        if self._database is None:
            raise TransientError("the store of answers is closed")
        return self._database

    def _fail(self, error: sqlite3.DatabaseError) -> TransientError:
        # An operational error, such as a full disk, is none of the file.
        if isinstance(error, sqlite3.OperationalError):
            self._disconnect()
        else:
            self._remove()
        return TransientError(f"the store of answers {self._path}: {error}")

    def _remove(self) -> None:
        self._disconnect()
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def _disconnect(self) -> None:
        self._is_caught_up = False
        if self._database is not None:
            self._database.close()
            self._database = None

    def close(self) -> None:
        """Close the file; answers that were not committed are read again."""
        with self._lock:
            self._disconnect()

    # The answers.

    def offsets(self, topic_id: str) -> Mapping[int, int]:
        """Return the next offset of each partition of the topic; answers of a topic with another id are dropped."""
        with self._guarded:
            if self._db.execute("SELECT id FROM topic").fetchone() != (topic_id,):
                for (segment,) in self._db.execute("SELECT id FROM segments").fetchall():
                    self._drop(segment)
                self._db.execute("DELETE FROM offsets")
                self._db.execute("UPDATE topic SET id = ?", (topic_id,))
                self._db.execute("COMMIT")
                self._resume()
            return dict(self._db.execute("SELECT partition, next_offset FROM offsets").fetchall())

    def add(self, answer: EvaluatedAnswer, trace_id: str | None, span_id: str | None, written_ms: int) -> None:
        """Add an answer, which `commit` stores.

        Args:
            answer: the answer.
            trace_id: id of its trace, if it has one.
            span_id: id of its span, if it has one.
            written_ms: timestamp of its record, epoch milliseconds.
        """
        event, trace = hash_of(answer.event_id), _trace_hash(trace_id) if trace_id else None
        span = hash_of(span_id.lower()) if span_id else None
        with self._guarded:
            self._read_ms = max(self._read_ms, written_ms)
            if (
                self._segment_rows >= _SEGMENT_ROWS
                or written_ms - self._first_ms > self._horizon_ms // _SEGMENTS
                or not self._segment
            ):
                self._insert()
                self._new_segment(written_ms)
            self._last_ms = max(self._last_ms, written_ms)
            self._segment_rows += 1
            labels = self._label_set(answer.labels)
            self._rows.append((event, trace, span, answer.event_id, answer.time_us, labels))
            if len(self._rows) >= _BUFFERED:
                self._insert()

    def _insert(self) -> None:
        if not self._rows:
            return
        # A second evaluation of an event, and one in 10 million million events with its hash, is left out.
        self._db.executemany(_INSERT.format(self._segment), self._rows)
        if self._watched:
            self._seen |= self._watched.intersection(row[0] for row in self._rows)
            self._seen |= self._watched.intersection(row[1] for row in self._rows if row[1] is not None)
            self._may_drop = self._may_drop and not self._seen
        self.inserted += len(self._rows)
        self._rows.clear()

    def _new_segment(self, first_ms: int) -> None:
        if self._segment:
            self._db.execute("UPDATE segments SET last_ms = ? WHERE id = ?", (self._last_ms, self._segment))
        self._segment += 1
        self._segment_rows, self._first_ms, self._last_ms = 0, first_ms, first_ms
        self._label_sets = {}
        for statement in _SEGMENT_SCHEMA.format(self._segment).split(";"):
            self._db.execute(statement)
        self._db.execute("INSERT INTO segments VALUES (?, ?, ?)", (self._segment, first_ms, first_ms))
        self._prepare()

    def _label_set(self, labels: tuple[str, ...]) -> int:
        found = self._label_sets.get(labels)
        if found is None:
            text = orjson.dumps(labels).decode()
            self._db.execute(_INSERT_LABELS.format(self._segment), (text,))
            (found,) = self._db.execute(_FIND_LABELS.format(self._segment), (text,)).fetchone()
            if len(self._label_sets) >= _BUFFERED:
                self._label_sets.clear()
            self._label_sets[labels] = found
        return found

    def commit(self, offsets: Mapping[int, int], *, caught_up: bool) -> None:
        """Store what was added, with the next offset of each partition, and drop old answers; see `let_drop`.

        Args:
            offsets: the next offset of each partition of which records were read.
            caught_up: true once all partitions were read to their ends.
        """
        with self._guarded:
            self._insert()
            self._db.executemany("REPLACE INTO offsets VALUES (?, ?)", offsets.items())
            self._db.execute("UPDATE segments SET last_ms = ? WHERE id = ?", (self._last_ms, self._segment))
            before_ms = self._read_ms - self._horizon_ms if self._may_drop else 0
            old = self._db.execute(
                "SELECT id FROM segments WHERE last_ms < ? AND id < ?", (before_ms, self._segment)
            ).fetchall()
            for (segment,) in old:
                self._drop(segment)
            if old:
                self._prepare()
            self._db.execute("COMMIT")
            self._db.execute("BEGIN IMMEDIATE")
            self._is_caught_up = caught_up

    def _drop(self, segment: int) -> None:
        self._db.execute(f"DROP TABLE answers_{segment}")
        self._db.execute(f"DROP TABLE labels_{segment}")
        self._db.execute("DELETE FROM segments WHERE id = ?", (segment,))

    @property
    def read_through_ms(self) -> int:
        """The timestamp up to which evaluations were read; 0 until all partitions were read to their ends."""
        return self._read_ms if self._is_caught_up else 0

    # Looking for answers.

    def find(self, target: FeedbackTarget) -> EvaluatedAnswer | None:
        """Return the answer of feedback: the event, else that of the named span, else the last one of the trace.

        Of a trace whose answers were written days apart, those of the newest segment count.

        An answer that is added later is seen if the target is watched for before this call.
        """
        column = "trace" if target.event_id is None else "event"
        span = hash_of(target.span_id.lower()) if target.span_id else None
        best: tuple[bool, int, str] | None = None
        place = 0, 0
        """The segment of the best answer, and the number of its label set."""
        with self._guarded:
            self._insert()
            for segment, event_id, time_us, of_span, labels in self._rows_of(column, target_hash(target)):
                if best is not None and segment != place[0]:
                    break  # Those of older segments are older.
                rank = span is not None and of_span == span, time_us, event_id
                if target.event_id in (None, event_id) and (best is None or rank > best):
                    best, place = rank, (segment, labels)
            return None if best is None else EvaluatedAnswer(best[2], best[1], self._labels_at(place))

    def _labels_at(self, place: tuple[int, int]) -> tuple[str, ...]:
        found = self._labels.get(place)
        if found is None:
            segment, number = place
            (text,) = self._db.execute(_LABELS.format(segment), (number,)).fetchone()
            if len(self._labels) >= _BUFFERED:
                self._labels.clear()
            found = self._labels[place] = tuple(orjson.loads(text))
        return found

    def _rows_of(self, column: str, value: int) -> Iterator[tuple[int, str, int, int | None, int]]:
        """Yield the answers with a hash, with their segments, the newest segment first."""
        for statement in self._statements[column]:
            yield from self._db.execute(statement, (value,))

    def watch(self, hashes: AbstractSet[int]) -> None:
        """Have answers with these hashes seen; see `target_hash`."""
        with self._lock:
            self._watched |= hashes

    def unwatch(self, hashes: AbstractSet[int]) -> None:
        """Have answers with these hashes not seen any more."""
        with self._lock:
            self._watched -= hashes
            self._seen -= hashes

    def take_seen(self) -> AbstractSet[int]:
        """Return the watched hashes of answers that were added since the last call."""
        with self._lock:
            seen, self._seen = self._seen, set()
            return seen

    def let_drop(self, *, caught_up: bool) -> None:
        """Let answers that are older than the horizon be dropped, until another one that is watched for is added.

        Args:
            caught_up: false if feedback is still to be read, whose answers may be that old by now.
        """
        with self._lock:
            self._may_drop = caught_up and not self._seen
