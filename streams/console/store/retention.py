"""Bounds of the store: its age and its size. The oldest segment by arrival goes first."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import orjson

from ragweir.streams.console.store.layout import DOCUMENTS, FIELD_NUMBERS, HEAD, IDS, SEGMENT_ROWS, size_of, unpacked

_FREED_PAGES = 2_000
"""Limit for the free pages that are given back to the file system at once."""


def drop_oldest(db: sqlite3.Connection) -> bool:
    """Drop the oldest segment in a transaction of its own; returns false if there is none.

    Raises:
        sqlite3.Error: if the file cannot be written, or is damaged.
    """
    found = db.execute("select first, metrics from segment order by first limit 1").fetchone()
    if found is None:
        return False
    first, metrics = found
    number = FIELD_NUMBERS["event"]
    (data,) = db.execute("select data from col where name = ? and first = ?", (number, first)).fetchone()
    events = np.sort(np.frombuffer(unpacked(data), HEAD["event"])).tolist()
    end = first + SEGMENT_ROWS
    db.execute("begin immediate")
    try:
        for table in ("event", "recent"):
            wanted = f"delete from {table} where digest = ? and row < ?"  # noqa: S608
            db.executemany(wanted, [(event, end) for event in events])
        names = [*FIELD_NUMBERS.values(), IDS, DOCUMENTS, *orjson.loads(metrics)]
        db.executemany("delete from col where name = ? and first = ?", [(name, first) for name in names])
        db.execute("delete from line where first >= ? and first < ?", (first, end))
        db.execute("delete from dead where first = ?", (first,))
        db.execute("delete from segment where first = ?", (first,))
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise
    return True


def is_over(db: sqlite3.Connection, file: Path, max_bytes: int, oldest_ms: float) -> bool:
    """Return whether the oldest segment is to go: the store is too large, or all of it was written too long ago.

    Args:
        db: a connection that writes.
        file: the file.
        max_bytes: size of the store.
        oldest_ms: timestamp before which records are not kept.
    """
    written = db.execute("select written_max from segment order by first limit 1").fetchone()
    return written is not None and (written[0] < oldest_ms or size_of(db, file) > max_bytes)


def give_back(db: sqlite3.Connection) -> None:
    """Give free pages back to the file system."""
    db.execute(f"pragma incremental_vacuum({_FREED_PAGES})").fetchall()
