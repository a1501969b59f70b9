"""Tables of the store, and the layout of its rows and columns.

A row is an evaluation: its head, which has the fields of `HEAD`, and its numbers. New rows are in `tail`, those
of a flush together; 4,096 of them become a segment, which has one `col` for each field of the head and each metric, and
a `line` for every 16 rows as a page shows them. A row that another one replaces is marked in `dead`. Rows are numbered
in the order of arrival.
"""

from __future__ import annotations

import sqlite3
import struct
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SCHEMA_VERSION = 3
SEGMENT_ROWS = 4_096
LINE_ROWS = 16
NONE = -1
"""Number of a text that is not there."""
OTHER = -2
"""Number of a text over the limit of its field."""
MAX_TERMS, MAX_TERM_CHARACTERS = 65_536, 2 * 1024 * 1024
"""Limits for the distinct texts of a field: their number, and their length in sum."""
MAX_METRICS = 2_000
TERM_FIELDS = (
    *("application", "tenant", "environment", "pipeline_version", "model"),
    *("labels", "categories", "flags", "source_topic"),
)
"""The fields that are texts with few values; labels, categories and flags as JSON."""
DIGEST_FIELDS = ("session_id", "question_id", "trace_id")
"""The fields that are texts with many values, of which digests are kept."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PAGE_BYTES = 8192
_LEVEL = -5
"""zstd's: a level of 1 takes three times as long, for a twentieth less of disk."""
_RAW, _ZSTD = b"r", b"z"
_BUSY_SECONDS = 5.0

_COLUMNS = (
    *(("time_us", "i8"), ("written_ms", "i8"), ("event", "i8"), ("partition", "i4"), ("offset", "i8")),
    *(("source_partition", "i4"), ("source_offset", "i8"), ("source_index", "i4"), ("judged", "i4")),
    *((name, "i8") for name in DIGEST_FIELDS),
    *((name, "i4") for name in TERM_FIELDS),
)
HEAD = np.dtype([(name, f"<{kind}") for name, kind in _COLUMNS])
"""The head of a row. `event` is the digest of the event id; `partition` and `offset` are the record's own position."""
PACK_HEAD = struct.Struct("<" + "".join("q" if kind == "i8" else "i" for _, kind in _COLUMNS)).pack

FIELD_NUMBERS = {name: -1 - place for place, name in enumerate(HEAD.names or ())}
"""Numbers of the columns that are fields of the head; those of metrics are not negative."""
IDS = -100
"""Number of the column of event ids: the length of each in bytes, and the bytes of all."""
DOCUMENTS = -101
"""Number of the column of documents: the number of each row's documents, and the digests of all."""

_TABLES = """
create table next (topic text, topic_id text, partition integer, offset integer, primary key (topic, partition))
    without rowid;
create table term (id integer primary key, field integer, text text, unique (field, text));
create table metric (id integer primary key, name text unique);
create table layout (id integer primary key, metrics text unique);
create table event (digest integer primary key, row integer, judged_source integer);
create table recent (digest integer primary key, row integer, judged_source integer);
create table tail (first integer primary key, rows integer, heads blob, layouts blob, scores blob, id_lengths blob,
    ids blob, document_counts blob, documents blob);
create table segment (first integer primary key, time_min integer, time_max integer, written_max integer, metrics text);
create table col (name integer, first integer, data blob, primary key (name, first)) without rowid;
create table line (first integer primary key, data blob);
create table dead (first integer primary key, bits blob);
create table label (event_id text, question text, rater text, event integer, withdrawn integer, time_us integer,
    data blob,
    primary key (event_id, question, rater)) without rowid;
create index label_event on label (event);
create table draw (id text primary key, data blob);
create table queued (draw text, event_id text, data blob, primary key (draw, event_id)) without rowid;
create table letter (partition integer, offset integer, written_ms integer, service text, data blob,
    primary key (partition, offset)) without rowid;
create index letter_written on letter (written_ms desc, partition, offset);
create table feedback (event_id text, name text, giver text, event integer, value text, time_us integer,
    written_ms integer, event_us integer, application text, primary key (event_id, name, giver)) without rowid;
create index feedback_value on feedback (name, value, event);
create index feedback_written on feedback (written_ms);
create table state (name text primary key, value real) without rowid;
"""
_WRITER = """
pragma synchronous = normal;
pragma cache_size = -32768;
pragma journal_size_limit = 67108864;
"""
_READER = """
pragma query_only = 1;
pragma cache_size = -8192;
"""


class OtherVersionError(sqlite3.DatabaseError):
    """The file is no store of this version."""


def remove(file: Path) -> None:
    """Remove a store, if it is there."""
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def connect_writer(file: Path) -> sqlite3.Connection:
    """Open the store for writing, and create its tables if there are none.

    Raises:
        sqlite3.Error: if it cannot be written, is damaged, or is no store of this version.
    """
    db = sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        if not db.execute("select count(*) from sqlite_master").fetchone()[0]:
            db.executescript(
                f"pragma page_size = {_PAGE_BYTES}; pragma auto_vacuum = incremental; pragma journal_mode = wal;"
            )
            db.executescript(f"begin; {_TABLES} pragma user_version = {SCHEMA_VERSION}; commit;")
        if db.execute("pragma user_version").fetchone()[0] != SCHEMA_VERSION:
            raise OtherVersionError(f"{file} is no store of this version")
        db.executescript(_WRITER)
    except sqlite3.Error:
        db.close()
        raise
    return db


def connect_reader(file: Path) -> sqlite3.Connection:
    """Open the store for reading, by any thread but one at a time.

    Raises:
        sqlite3.Error: if it cannot be read.
    """
    uri = f"{file.absolute().as_uri()}?mode=ro"
    db = sqlite3.connect(uri, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    try:
        db.executescript(_READER)
    except sqlite3.Error:
        db.close()
        raise
    return db


def digest(text: str | None) -> int:
    """Return a digest of a text, 8 bytes as a number; 0 for None.

    >>> digest("a"), digest(None)
    (3405396810240292928, 0)
    """
    if text is None:
        return 0
    found: int = int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little", signed=True
    )
    return found


def is_full(texts: int, characters: int) -> bool:
    """Return whether a field has all the texts that are kept apart, by their number and their length in sum."""
    return texts >= MAX_TERMS or characters >= MAX_TERM_CHARACTERS


def microseconds(time: datetime) -> int:
    """Return a time as microseconds since 1970."""
    since = time - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def time_of(number: int) -> datetime:
    """Return the time of a number of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=number)


def size_of(db: sqlite3.Connection, file: Path) -> int:
    """Return the bytes of a store that are in use, with those of changes that are not yet in its file."""
    pages, free, page = (
        int(db.execute(f"pragma {name}").fetchone()[0]) for name in ("page_count", "freelist_count", "page_size")
    )
    changes = file.with_name(f"{file.name}-wal")
    return (pages - free) * page + (changes.stat().st_size if changes.exists() else 0)


def document_digest(text: str) -> int:
    """Return a digest of the id of a document, 4 bytes as a number."""
    return crc32(text.encode("utf-8", "surrogatepass"))


class Compressor:
    """Compresses for one thread at a time; one that is kept takes a fourth less time than one for each call."""

    def __init__(self) -> None:
        self._own = zstd.ZstdCompressor(_LEVEL)

    def compress(self, data: bytes) -> bytes:
        """Return the bytes in less space."""
        return self._own.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)


def packed(data: bytes, compressor: Compressor) -> bytes:
    """Return bytes as a column keeps them: compressed if this halves them. The last byte says which."""
    small = compressor.compress(data)
    return small + _ZSTD if 2 * len(small) < len(data) else data + _RAW


def raw(data: bytes) -> bytes:
    """Return bytes as a column keeps them that is searched as a whole: never compressed."""
    return data + _RAW


def unpacked(data: bytes) -> memoryview:
    """Return the bytes of a column.

    Raises:
        sqlite3.DatabaseError: if they are damaged.
    """
    content = memoryview(data)[:-1]
    return memoryview(_decompressed(content)) if data[-1:] == _ZSTD else content


def _decompressed(data: bytes | memoryview) -> bytes:
    try:
        return zstd.decompress(data)
    except zstd.ZstdError as error:
        raise sqlite3.DatabaseError(f"compressed data are damaged: {error}") from None


class LineBlock(NamedTuple):
    """Some rows as a page shows them."""

    heads: NDArray[Any]
    """With the fields of `HEAD`."""
    scores: NDArray[np.float64]
    """By metric of the segment and row; NaN for none."""
    event_ids: list[str]

    @classmethod
    def encoded(
        cls,
        heads: NDArray[Any],
        scores: NDArray[np.float64],
        id_lengths: NDArray[np.uint32],
        ids: bytes,
        compressor: Compressor,
    ) -> Iterator[bytes]:
        """Yield the blocks of a segment as the table `line` keeps them.

        Args:
            heads: the heads of all rows.
            scores: the values by metric and row.
            id_lengths: bytes of each event id.
            ids: the bytes of all.
            compressor: compresses each block.
        """
        number = len(heads) // LINE_ROWS
        by_block = np.ascontiguousarray(scores.reshape(len(scores), number, LINE_ROWS).transpose(1, 0, 2))
        lengths = id_lengths.reshape(number, LINE_ROWS)
        start = 0
        for block, size in enumerate(lengths.sum(1).tolist()):
            own = heads[block * LINE_ROWS : (block + 1) * LINE_ROWS].tobytes()
            content = own, by_block[block].tobytes(), lengths[block].tobytes(), ids[start : start + size]
            yield compressor.compress(b"".join(content))
            start += size

    @classmethod
    def decode(cls, data: bytes, metrics: int, rows: int = LINE_ROWS) -> LineBlock:
        """Return a block of the table `line`."""
        content = _decompressed(data)
        at = HEAD.itemsize * rows
        heads = np.frombuffer(content, HEAD, rows)
        scores = np.frombuffer(content, "<f8", metrics * rows, at).reshape(metrics, rows)
        at += 8 * metrics * rows
        ends = at + 4 * rows + np.cumsum(np.frombuffer(content, "<u4", rows, at), dtype=np.int64)
        starts = [at + 4 * rows, *ends.tolist()]
        ids = [
            content[start:end].decode("utf-8", "surrogatepass")
            for start, end in zip(starts, ends.tolist(), strict=False)
        ]
        return cls(heads, scores, ids)
