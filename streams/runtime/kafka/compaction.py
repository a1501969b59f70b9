"""Log compaction of a windows topic: the latest record of each key, on disk, ordered by the start of its window."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 1
_MEMORY_BYTES = 32 * 1024 * 1024
"""Size of the write buffer; most revisions are replaced in it and never written to disk."""
# The database does not outlive the process and needs no durability. The negative cache size is in KiB.
_SETUP = """
pragma journal_mode = off;
pragma synchronous = off;
pragma locking_mode = exclusive;
pragma cache_size = -32768;
create table latest (start integer, key blob, value blob, primary key (start, key));
"""
_PUT = "insert into latest values (?, ?, ?) on conflict (start, key) do update set value = excluded.value"
_DELETE = "delete from latest where start = ? and key = ?"
_ALL = "select start, value from latest order by start, key"

WindowPosition = tuple[int, bytes]
"""The start of a record's window, in epoch seconds, and the record's key."""


class CompactedRecords:
    """Keeps the latest record of each start and key, in bounded memory.

    Args:
        folder: directory of the database.
        memory_bytes: size of the write buffer.
    """

    def __init__(self, folder: Path, memory_bytes: int = _MEMORY_BYTES) -> None:
        # Without implicit transactions.
        self._db = sqlite3.connect(folder / "latest.sqlite", isolation_level=None)
        self._db.executescript(_SETUP)
        self._buffer: dict[WindowPosition, bytes | None] = {}
        self._bytes, self._max_bytes = 0, memory_bytes
        self._spilled = False
        """True once records were written to the disk: the buffer alone does not hold all of them."""

    def put(self, start_s: int, key: bytes, value: bytes | None) -> None:
        """Replace the record of a key; None is a tombstone and removes it.

        Raises:
            sqlite3.Error: if it cannot be written.
        """
        if (start_s, key) in self._buffer:
            self._bytes -= len(key) + len(self._buffer[start_s, key] or b"")
        self._buffer[start_s, key] = value
        self._bytes += len(key) + len(value or b"")
        if self._bytes > self._max_bytes:
            self._flush()

    def _flush(self) -> None:
        self._db.execute("begin")
        put = (
            (*position, zstd.compress(value, _LEVEL)) for position, value in self._buffer.items() if value is not None
        )
        self._db.executemany(_PUT, put)
        self._db.executemany(_DELETE, (position for position, value in self._buffer.items() if value is None))
        self._db.execute("commit")
        self._buffer, self._bytes, self._spilled = {}, 0, True

    def __len__(self) -> int:
        if not self._spilled:
            return sum(value is not None for value in self._buffer.values())
        self._flush()
        count: int = self._db.execute("select count(*) from latest").fetchone()[0]
        return count

    def by_start(self) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Yield the records by the start of their windows, ascending; each group must be read before the next one.

        Raises:
            sqlite3.Error: if the disk cannot be read.
        """
        for start_s, rows in groupby(self._rows(), itemgetter(0)):
            yield start_s, (value for _, value in rows)

    def _rows(self) -> Iterator[tuple[int, bytes]]:
        if not self._spilled:
            yield from ((start, value) for (start, _), value in sorted(self._buffer.items()) if value is not None)
            return
        self._flush()
        for start_s, value in self._db.execute(_ALL):
            yield start_s, zstd.decompress(value)

    def close(self) -> None:
        """Close the database."""
        self._db.close()
