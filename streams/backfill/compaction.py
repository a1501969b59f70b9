"""The latest record of each key of a windows topic, on disk but for those that came last, in the order of windows."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

_MEMORY_BYTES = 32 * 1024 * 1024
"""Records held before they go to disk together, so that most revisions never do."""
# Nothing of it outlives the process, so that nothing has to be safe. The negative size is in KiB.
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

PartitionKey = tuple[int, bytes]
"""The start of a record's window, epoch seconds, and its key."""


class CompactedRecords:
    """Keeps the last record that was put for each place. Memory does not grow with their number.

    Args:
        folder: for what does not fit into memory.
        memory_bytes: how much of records is held before it goes there.
    """

    def __init__(self, folder: Path, memory_bytes: int = _MEMORY_BYTES) -> None:
        # Each statement is its own transaction, unless one is begun.
        self._db = sqlite3.connect(folder / "latest.sqlite", isolation_level=None)
        self._db.executescript(_SETUP)
        self._newest: dict[PartitionKey, bytes | None] = {}
        self._bytes, self._most = 0, memory_bytes

    def put(self, start_s: int, key: bytes, value: bytes | None) -> None:
        """Put a record in place of the one before with its key; None is a tombstone, which leaves none.

        Raises:
            sqlite3.Error: if the disk does not take it.
        """
        if (start_s, key) in self._newest:
            self._bytes -= len(key) + len(self._newest[start_s, key] or b"")
        self._newest[start_s, key] = value
        self._bytes += len(key) + len(value or b"")
        if self._bytes > self._most:
            self._flush()

    def _flush(self) -> None:
        self._db.execute("begin")
        put = ((*place, zlib.compress(value, 1)) for place, value in self._newest.items() if value is not None)
        self._db.executemany(_PUT, put)
        self._db.executemany(_DELETE, (place for place, value in self._newest.items() if value is None))
        self._db.execute("commit")
        self._newest, self._bytes = {}, 0

    def __len__(self) -> int:
        self._flush()
        count: int = self._db.execute("select count(*) from latest").fetchone()[0]
        return count

    def by_start(self) -> Iterator[tuple[int, Iterator[bytes]]]:
        """The records by the start of their windows, ascending; each group is gone when the next is asked for.

        Raises:
            sqlite3.Error: if the disk fails.
        """
        self._flush()
        for start_s, rows in groupby(self._db.execute(_ALL), itemgetter(0)):
            yield start_s, (zlib.decompress(value) for _, value in rows)

    def close(self) -> None:
        """Let go of the disk; nothing can be put or read any more."""
        self._db.close()
