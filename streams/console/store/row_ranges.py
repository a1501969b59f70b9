"""Ranges of rows of the store: consecutive rows as columns, which are read when they are asked for."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray
from typing_extensions import override

from ragweir.streams.console.store.column_cache import ColumnCache
from ragweir.streams.console.store.layout import (
    DOCUMENTS,
    FIELD_NUMBERS,
    HEAD,
    IDS,
    LINE_ROWS,
    SEGMENT_ROWS,
    LineBlock,
    unpacked,
)
from ragweir.streams.console.store.tail_rows import TailRows

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_KEPT_IDS = 400
"""Segments of a store whose ids are kept in memory, half of it for ids of 36 characters. A search for a part of an id
reads all of them: those of a larger store would take the place of each other, and of the metrics."""
_JOINED = 16
"""Parts that are joined at a time: 512 KB of each column."""


class Line(NamedTuple):
    """One row as a page shows it."""

    head: Any
    """With the fields of `HEAD`."""
    metrics: Sequence[int]
    """Numbers of the metrics of its part."""
    scores: Floats
    """Their values; NaN for none."""
    event_id: str


class RowColumns(ABC):
    """Columns of consecutive rows.

    Args:
        first: number of the first one.
        rows: number of rows.
        time_min: time of the first event in microseconds.
        time_max: time of the last event.
    """

    def __init__(self, first: int, rows: int, time_min: int, time_max: int) -> None:
        self.first, self.rows, self.time_min, self.time_max = first, rows, time_min, time_max

    @abstractmethod
    def alive(self) -> Flags:
        """Return a flag for each row that no other one replaced; the flags may be changed."""

    @abstractmethod
    def field(self, name: str) -> NDArray[Any]:
        """Return a field of the heads."""

    @abstractmethod
    def metric(self, number: int) -> Floats:
        """Return a metric; NaN for none."""


class RowRange(RowColumns):
    """Consecutive rows as they are in the store.

    Args:
        first: number of the first one.
        rows: number of rows.
        dead: bits of the rows that were replaced; None if there are none.
        time_min: time of the first event in microseconds.
        time_max: time of the last event.
    """

    def __init__(self, first: int, rows: int, dead: bytes | None, time_min: int, time_max: int) -> None:
        super().__init__(first, rows, time_min, time_max)
        self._dead = dead

    def count(self) -> int:
        """Return the number of rows that no other one replaced: one of each event."""
        return self.rows if self._dead is None else int(np.count_nonzero(self.alive()))

    @override
    def alive(self) -> Flags:
        if self._dead is None:
            return np.ones(self.rows, np.bool_)
        return ~np.unpackbits(np.frombuffer(self._dead, np.uint8), count=self.rows).astype(np.bool_)

    @abstractmethod
    def ids(self) -> tuple[Ints, memoryview]:
        """Return the length of each event id in bytes, and the bytes of all."""

    @abstractmethod
    def documents(self) -> tuple[Ints, NDArray[np.uint32]]:
        """Return the number of each row's documents, and the digests of all."""

    @abstractmethod
    def line(self, row: int) -> Line:
        """Return a row."""


class JoinedColumns(RowColumns):
    """The columns of several parts as one: operations on few long columns take less time than on many short ones.

    Args:
        parts: parts in ascending order, each of which begins where the one before it ends.
    """

    def __init__(self, parts: Sequence[RowRange]) -> None:
        self._parts = parts
        times = min(each.time_min for each in parts), max(each.time_max for each in parts)
        super().__init__(parts[0].first, sum(each.rows for each in parts), *times)

    @override
    def alive(self) -> Flags:
        return np.concatenate([each.alive() for each in self._parts])

    @override
    def field(self, name: str) -> NDArray[Any]:
        return np.concatenate([each.field(name) for each in self._parts])

    @override
    def metric(self, number: int) -> Floats:
        return np.concatenate([each.metric(number) for each in self._parts])


def joined(parts: Sequence[RowRange]) -> Iterator[JoinedColumns]:
    """Yield the columns of all parts, those of some at a time."""
    for at in range(0, len(parts), _JOINED):
        yield JoinedColumns(parts[at : at + _JOINED][::-1])


class Segment(RowRange):
    """A segment, of which each column is in the file by itself."""

    def __init__(
        self,
        db: sqlite3.Connection,
        columns: ColumnCache,
        first: int,
        dead: bytes | None,
        times: tuple[int, int],
        *,
        keep_ids: bool,
    ) -> None:
        super().__init__(first, SEGMENT_ROWS, dead, *times)
        self._db, self._columns, self._keep_ids = db, columns, keep_ids
        self._lines: dict[int, LineBlock] = {}

    def _column(self, number: int) -> memoryview | None:
        if number == IDS and not self._keep_ids:
            return self._read(number)
        return self._columns.get((number, self.first), lambda: self._read(number))

    def _read(self, number: int) -> memoryview | None:
        found = self._db.execute("select data from col where name = ? and first = ?", (number, self.first)).fetchone()
        return None if found is None else unpacked(found[0])

    def _own_column(self, number: int) -> memoryview:
        if (found := self._column(number)) is None:
            raise self._damage(number)
        return found

    def _damage(self, number: int) -> sqlite3.DatabaseError:
        return sqlite3.DatabaseError(f"column {number} of the segment {self.first} is damaged")

    def _values(self, number: int, data: memoryview, kind: Any) -> NDArray[Any]:
        if data.nbytes != self.rows * np.dtype(kind).itemsize:
            raise self._damage(number)
        return np.frombuffer(data, kind)

    @override
    def field(self, name: str) -> NDArray[Any]:
        number = FIELD_NUMBERS[name]
        return self._values(number, self._own_column(number), HEAD[name])

    @override
    def metric(self, number: int) -> Floats:
        found = self._column(number)
        return np.full(self.rows, np.nan) if found is None else self._values(number, found, "<f8")

    @override
    def ids(self) -> tuple[Ints, memoryview]:
        data = self._own_column(IDS)
        lengths = np.frombuffer(data, "<u4", self.rows).astype(np.int64)
        return lengths, data[4 * self.rows :]

    @override
    def documents(self) -> tuple[Ints, NDArray[np.uint32]]:
        data = self._own_column(DOCUMENTS)
        counts = np.frombuffer(data, np.uint8, self.rows).astype(np.int64)
        return counts, np.frombuffer(data, "<u4", int(counts.sum()), self.rows)

    @cached_property
    def _metrics(self) -> list[int]:
        found: list[int] = orjson.loads(
            self._db.execute("select metrics from segment where first = ?", (self.first,)).fetchone()[0]
        )
        return found

    @override
    def line(self, row: int) -> Line:
        start = row // LINE_ROWS * LINE_ROWS
        block = self._lines.get(start)
        if block is None:
            data = self._db.execute("select data from line where first = ?", (start,)).fetchone()[0]
            block = self._lines[start] = LineBlock.decode(data, len(self._metrics))
        place = row - start
        return Line(block.heads[place], self._metrics, block.scores[:, place], block.event_ids[place])


class Tail(RowRange):
    """The rows that are in no segment yet."""

    def __init__(self, first: int, rows: TailRows, dead: bytes | None) -> None:
        self._own = rows
        self._at = {number: place for place, number in enumerate(rows.metrics)}
        times = rows.heads["time_us"]
        super().__init__(first, len(rows.heads), dead, int(times.min()), int(times.max()))

    @override
    def field(self, name: str) -> NDArray[Any]:
        found: NDArray[Any] = self._own.heads[name]
        return found

    @override
    def metric(self, number: int) -> Floats:
        place = self._at.get(number)
        return np.full(self.rows, np.nan) if place is None else self._own.scores[place]

    @override
    def ids(self) -> tuple[Ints, memoryview]:
        return self._own.id_lengths.astype(np.int64), memoryview(self._own.ids)

    @override
    def documents(self) -> tuple[Ints, NDArray[np.uint32]]:
        return self._own.document_counts.astype(np.int64), np.frombuffer(self._own.documents, "<u4")

    @override
    def line(self, row: int) -> Line:
        place, own = row - self.first, self._own
        end = int(own.id_lengths[: place + 1].sum())
        event_id = own.ids[end - int(own.id_lengths[place]) : end].decode("utf-8", "surrogatepass")
        return Line(own.heads[place], own.metrics, own.scores[:, place], event_id)


class RowRanges:
    """The parts of one state of the store, newest first. The tail is kept as long as it does not change.

    Args:
        columns: keeps columns of segments.
    """

    def __init__(self, columns: ColumnCache) -> None:
        self._columns = columns
        self._tail: tuple[tuple[int, int, bytes | None], Tail] | None = None

    def read(self, db: sqlite3.Connection) -> list[RowRange]:
        """Return the parts within a transaction of the connection."""
        dead: dict[int, bytes] = dict(db.execute("select first, bits from dead"))
        first, end = db.execute("select min(first), max(first + rows) from tail").fetchone()
        found: list[RowRange] = []
        if first is not None:
            state = first, end, dead.get(first)
            if self._tail is None or self._tail[0] != state:
                self._tail = state, Tail(first, TailRows.read(db), dead.get(first))
            found.append(self._tail[1])
        segments = db.execute("select first, time_min, time_max from segment order by first desc").fetchall()
        keep_ids = len(segments) <= _KEPT_IDS
        found += [
            Segment(db, self._columns, each, dead.get(each), (time_min, time_max), keep_ids=keep_ids)
            for each, time_min, time_max in segments
        ]
        return found
