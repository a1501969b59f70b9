"""Reading of the store: lists of answers, single answers, and counts by application."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from math import inf, isnan
from pathlib import Path
from threading import BoundedSemaphore, Lock

import numpy as np

from ragweir.errors import ReadTooLong
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.label import Label, QueuedAnswer
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.console.store.answer_query import NESTED, TIME, AnswerQuery, Cursor
from ragweir.streams.console.store.applications import ApplicationCounting, ApplicationCounts
from ragweir.streams.console.store.column_cache import ColumnCache
from ragweir.streams.console.store.conditions import Conditions, rows_where
from ragweir.streams.console.store.feedback_rows import (
    FeedbackCount,
    StoredFeedback,
    events_with,
    feedback_counts,
    feedback_of,
    feedback_values,
)
from ragweir.streams.console.store.layout import connect_reader, digest, size_of, time_of
from ragweir.streams.console.store.names import Names, is_decision
from ragweir.streams.console.store.order import PageRows
from ragweir.streams.console.store.people_series import people_labels
from ragweir.streams.console.store.row_ranges import Ints, Line, RowRange, RowRanges, joined
from ragweir.streams.console.store.stored_answers import AnswerPage, StoredAnswer, StoredLetter, StoreState, answer
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.aggregate.objectives import Objective

MAX_READS = 4
"""Reads at the same time, each of which takes memory of its own; further ones wait."""
CACHE_BYTES = 128 * 1024 * 1024
"""Memory of the columns that are kept: eleven metrics of a million answers, and their ids."""
READ_SECONDS = 2.0
"""Time limit of a read: a longer one would let the file of changes grow."""
NEWEST_LETTERS = "select * from letter order by written_ms desc, partition, offset limit ?"
_ROW_OF_EVENT = "select coalesce((select row from recent where digest = ?), (select row from event where digest = ?))"


@dataclass(slots=True)
class _Reader:
    """A connection with what it has read."""

    db: sqlite3.Connection
    file_number: int | None
    parts: RowRanges
    names: Names = field(default_factory=Names)
    deadline: float = inf

    def check_time(self) -> None:
        """Raise ReadTooLong after the deadline."""
        if machine.monotonic() > self.deadline:
            raise ReadTooLong("the store did not answer in time; try again, or ask for less")


class AnswerStore:
    """The answers of a store, for any number of threads at once. Nothing is written.

    Every method raises ReadTooLong after the time limit, and sqlite3.Error if the file is damaged or gone.

    Args:
        file: the SQLite file.
        objectives: the SLOs.
        read_s: time limit of a read, in seconds.
    """

    def __init__(self, file: Path, objectives: Sequence[Objective] = (), read_s: float = READ_SECONDS) -> None:
        self._file, self._read_s = file, read_s
        self._objectives = {each.slo.name: each for each in objectives}
        self._lock, self._places = Lock(), BoundedSemaphore(MAX_READS)
        self._idle: list[_Reader] = []
        self._columns = ColumnCache(CACHE_BYTES)
        self.is_damaged = False
        """True once a read found that the file is damaged."""

    @property
    def kept_bytes(self) -> int:
        """Memory of the columns that are kept."""
        return self._columns.bytes

    def close(self) -> None:
        """Close the connections that no thread uses."""
        with self._lock:
            readers, self._idle = self._idle, []
        for each in readers:
            each.db.close()

    @contextmanager
    def _reading(self) -> Iterator[_Reader]:
        """Read one state of the store for the length of a `with` block."""
        if not self._places.acquire(timeout=self._read_s):
            raise ReadTooLong("other pages are waiting for the store; load this one again")
        try:
            with self._own_reader() as reader:
                yield reader
        finally:
            self._places.release()

    @contextmanager
    def _own_reader(self) -> Iterator[_Reader]:
        number = self._file.stat().st_ino if self._file.exists() else None
        with self._lock:
            reader = self._idle.pop() if self._idle else None
        if reader is not None and reader.file_number != number:  # The store was made anew.
            reader.db.close()
            reader = None
            self._columns.clear()
        if reader is None:
            reader = _Reader(connect_reader(self._file), number, RowRanges(self._columns))
        try:
            reader.deadline = machine.monotonic() + self._read_s
            reader.db.execute("begin")
            try:
                reader.names.read(reader.db)
                yield reader
            finally:
                reader.db.execute("rollback")
        except sqlite3.Error as error:
            self.is_damaged |= not isinstance(error, sqlite3.OperationalError)
            reader.db.close()
            raise
        except Exception:
            self._release(reader)
            raise
        self._release(reader)

    def _release(self, reader: _Reader) -> None:
        with self._lock:
            self._idle.append(reader)

    def search(self, query: AnswerQuery) -> AnswerPage:
        """Return a page of a list of answers.

        Raises:
            BadQuery: if the query names a metric or an SLO that is not there.
        """
        with self._reading() as reader:
            conditions = self._conditions(reader)
            wanted, keys = conditions.of(query), conditions.keys(query.sort)
            page, total = PageRows(query), 0
            parts = reader.parts.read(reader.db)
            for part in parts:
                reader.check_time()
                places = np.flatnonzero(rows_where(wanted, part))
                total += len(places)
                page.add(part, places, partial(keys, part))
            found = tuple(answer(reader.names, _line(parts, each.row), each) for each in page.cursors())
            incomplete = reader.names.incomplete(query)
        has_previous, has_next = (page.more, True) if query.before else (query.after is not None, page.more)
        return AnswerPage(
            found,
            total,
            found[-1].cursor if found and has_next else None,
            found[0].cursor if found and has_previous else None,
            incomplete,
        )

    def number_since(self, query: AnswerQuery, row: int) -> int:
        """Return the number of answers of a list that arrived, or were judged, since the row of a number was the next.

        Raises:
            BadQuery: as `search`.
        """
        with self._reading() as reader:
            wanted, found = self._conditions(reader).of(query), 0
            for part in reader.parts.read(reader.db):
                if part.first + part.rows > row:
                    reader.check_time()
                    found += int(np.count_nonzero(rows_where(wanted, part)[max(0, row - part.first) :]))
        return found

    def found(self, event_id: str) -> StoredAnswer | None:
        """Return the answer with an event id, with its place in a list by time; None if it is not there."""
        with self._reading() as reader:
            return self._found(reader, event_id, TIME)

    def neighbours(self, query: AnswerQuery, event_id: str) -> tuple[str | None, str | None]:
        """Return the event ids before and after an answer in a list; None at its ends, and if it is not there.

        Raises:
            BadQuery: as `search`.
        """
        with self._reading() as reader:
            own = self._found(reader, event_id, query.sort)
        if own is None:
            return None, None
        one = replace(query, limit=1)
        before = self.search(one.page(before=own.cursor)).answers
        after = self.search(one.page(after=own.cursor)).answers
        return (before[0].event_id if before else None), (after[0].event_id if after else None)

    def _found(self, reader: _Reader, event_id: str, sort: str) -> StoredAnswer | None:
        wanted = digest(event_id)
        (row,) = reader.db.execute(_ROW_OF_EVENT, (wanted, wanted)).fetchone()
        if row is None:
            return None
        part = _part(reader.parts.read(reader.db), row)
        key = float(self._conditions(reader).keys(sort)(part)[row - part.first])
        line = part.line(row)
        return (
            answer(reader.names, line, Cursor(inf if isnan(key) else key, row)) if line.event_id == event_id else None
        )

    def applications(self, since: datetime, until: datetime, parts: int = 24) -> list[ApplicationCounts]:
        """Return the counts of each application, those with most answers first.

        The bad ones are those of the rehearsal's rule, so that the sums equal those of `ragweir slo rehearse`.

        Args:
            since: time of the first event.
            until: time before which events are.
            parts: number of equal parts of this time that are counted by themselves.
        """
        with self._reading() as reader:
            counting = ApplicationCounting(self._conditions(reader), since, until, parts)
            for part in joined(reader.parts.read(reader.db)):
                reader.check_time()
                counting.add(part)
            return counting.counts()

    def values(self, dimension: str, most: int = 200) -> tuple[str, ...]:
        """Return the values of a dimension of `AnswerQuery.where` that were met first, in alphabetical order."""
        own, _, key = dimension.partition(".")
        with self._reading() as reader:
            names = reader.names
            if own in NESTED:
                found = dict.fromkeys(names.values(number).get(key) for number in names.of(own))
            else:
                found = dict.fromkeys(names.text(number) for number in names.of(own))
        return tuple(sorted(islice((each for each in found if each is not None), most)))

    def metrics(self) -> tuple[str, ...]:
        """Return the names of the metrics that answers have."""
        with self._reading() as reader:
            return tuple(name for name in reader.names.metrics if not is_decision(name))

    def flags(self) -> tuple[str, ...]:
        """Return the flags that answers have."""
        with self._reading() as reader:
            names = reader.names
            return tuple(sorted({flag for number in names.of("flags") for flag in names.flags(number)}))

    def labels_of(self, event_id: str) -> tuple[Label, ...]:
        """Return the labels of an answer, withdrawn ones too."""
        with self._reading() as reader:
            rows = reader.db.execute("select data from label where event_id = ? order by question, rater", (event_id,))
            return tuple(Label.model_validate_json(data) for (data,) in rows)

    def feedback_of(self, event_ids: Sequence[str]) -> dict[str, list[StoredFeedback]]:
        """Return the feedback of users about each of some answers, the newest first; without those that have none."""
        with self._reading() as reader:
            return feedback_of(reader.db, event_ids)

    def feedback_values(self) -> tuple[tuple[str, str], ...]:
        """Return the names and values of feedback that there are, those of most feedback first."""
        with self._reading() as reader:
            return feedback_values(reader.db)

    def feedback_counts(self, since: datetime, until: datetime) -> dict[str | None, tuple[FeedbackCount, ...]]:
        """Return the feedback about the answers of a time range, counted by application, name and value."""
        with self._reading() as reader:
            return feedback_counts(reader.db, since, until)

    def letters(self, most: int = 1_000) -> tuple[StoredLetter, ...]:
        """Return the newest dead letters, the newest first."""
        with self._reading() as reader:
            rows = reader.db.execute(NEWEST_LETTERS, (most,)).fetchall()
        return tuple(
            StoredLetter((partition, offset), time_of(1_000 * ms), service, DeadLetter.model_validate_json(data))
            for partition, offset, ms, service, data in rows
        )

    def queue(self, draw_id: str) -> tuple[QueuedAnswer, ...]:
        """Return the answers of a draw."""
        with self._reading() as reader:
            rows = reader.db.execute("select data from queued where draw = ? order by event_id", (draw_id,)).fetchall()
        return tuple(QueuedAnswer.model_validate_json(data) for (data,) in rows)

    def labels_version(self) -> tuple[int, ...]:
        """Return numbers that change with the labels and draws."""
        with self._reading() as reader:
            row = reader.db.execute("select count(*), max(time_us), (select count(*) from draw) from label").fetchone()
        return tuple(each or 0 for each in row)

    def people_labels(self) -> PeopleLabels:
        """Return all labels and draws, for `ragweir.streams.analysis.labels.report`."""
        with self._reading() as reader:
            return people_labels(reader.db)

    def state(self) -> StoreState:
        """Return how much the store holds, and how much of the evaluations was read."""
        with self._reading() as reader:
            parts = reader.parts.read(reader.db)
            number = sum(part.count() for part in parts)
            letters = reader.db.execute("select count(*) from letter").fetchone()[0]
            read = reader.db.execute("select value from state where name = 'read'").fetchone()
            size = size_of(reader.db, self._file)
        return StoreState(
            number,
            time_of(min(part.time_min for part in parts)) if parts else None,
            time_of(max(part.time_max for part in parts)) if parts else None,
            read[0] if read else 0.0,
            size,
            letters,
            max((part.first + part.rows for part in parts), default=0),
        )

    def _conditions(self, reader: _Reader) -> Conditions:
        def labelled() -> Ints:
            rows = reader.db.execute("select distinct event from label where withdrawn = 0").fetchall()
            return np.array([event for (event,) in rows], np.int64)

        return Conditions(reader.names, self._objectives, labelled, partial(events_with, reader.db))


def _part(parts: Sequence[RowRange], row: int) -> RowRange:
    """Return the part of a row; parts are in descending order."""
    return next(part for part in parts if part.first <= row)


def _line(parts: Sequence[RowRange], row: int) -> Line:
    return _part(parts, row).line(row)
