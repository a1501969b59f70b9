"""Writing of the store: rows, segments, and the offsets that they were read to, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import orjson

from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Evaluation, Version, supersedes
from ragweir.schemas.evaluation_record import ScoredRecord
from ragweir.schemas.feedback import JoinedFeedback
from ragweir.schemas.label import WITHDRAWN, Draw, Label, QueuedAnswer
from ragweir.streams.analysis.dead_letters.letters import Letter
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.console.store.feedback_rows import FeedbackRows, drop_feedback
from ragweir.streams.console.store.layout import (
    DOCUMENTS,
    FIELD_NUMBERS,
    IDS,
    LINE_ROWS,
    SEGMENT_ROWS,
    Compressor,
    LineBlock,
    connect_writer,
    digest,
    microseconds,
    packed,
    raw,
    size_of,
)
from ragweir.streams.console.store.people_series import people_labels
from ragweir.streams.console.store.retention import drop_oldest, give_back, is_over
from ragweir.streams.console.store.row_maker import NewNames, RowMaker, StoredRow
from ragweir.streams.console.store.tail_rows import TailRows, append

_MAX_LETTERS = 100_000
_MAX_RECENT = 65_536
"""Events that are kept in a small table until they are put into the large one together, where each is in a page of its
own: in small numbers, they would write a page each."""
_ASKED = 500
"""Events that one statement asks for."""
_PUT_LABEL = """
insert into label values (?, ?, ?, ?, ?, ?, ?) on conflict (event_id, question, rater) do update
set withdrawn = excluded.withdrawn, time_us = excluded.time_us, data = excluded.data
where excluded.time_us >= time_us
"""
_NEXT_ROW = """
select coalesce((select max(first + rows) from tail), (select max(first) + ? from segment), 0)
"""
_DROP_LETTERS = """
delete from letter where written_ms < ? or written_ms < (
    select written_ms from letter order by written_ms desc limit 1 offset ?
)
"""
_SCORED = Version(judged=False, source=None)
"""The version of any scored evaluation that replaces none: its source makes no difference later."""


class StoreWriter:
    """Writes evaluations, labels and draws, by one thread at a time.

    What was taken is in the file after the next `flush`, all of it or nothing.

    Args:
        file: the SQLite file; it is created if there is none.

    Raises:
        sqlite3.Error: if it cannot be written, or is damaged.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._db = file, connect_writer(file)
        self._names = NewNames.load(self._db)
        self._make, self._compressor = RowMaker(self._names).row, Compressor()
        self._next: int = self._db.execute(_NEXT_ROW, (SEGMENT_ROWS,)).fetchone()[0]
        self._recent: int = self._db.execute("select count(*) from recent").fetchone()[0]
        """The most events that `recent` has."""
        self._rows: list[StoredRow] = []
        self._labels: list[tuple[str, str, str, int, bool, int, bytes]] = []
        self._draws: list[tuple[str, bytes]] = []
        self._queued: list[tuple[str, str, bytes]] = []
        self._letters: list[tuple[int, int, int, str, bytes]] = []
        self._feedback = FeedbackRows()
        self.rejected = 0
        """Number of evaluations over a limit of the store."""
        self.replaced = 0
        """Number of evaluations that another one of the same event replaced, or that replaced none."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(
        self, evaluation: Evaluation | ScoredRecord, partition: int, offset: int, written_ms: int | None = None
    ) -> None:
        """Take an evaluation with the position and the timestamp of its record."""
        row = self._make(evaluation, partition, offset, written_ms or 0)
        if row is None:
            self.rejected += 1
        else:
            self._rows.append(row)

    def take_label(self, label: Label) -> None:
        """Take a label, which replaces one of its key that was not given later. Its comment is not kept."""
        bare = encode(label.model_copy(update={"comment": None}))
        withdrawn = label.value == WITHDRAWN
        key = label.event_id, label.question, label.rater
        self._labels.append((*key, digest(label.event_id), withdrawn, microseconds(label.time), bare))

    def take_draw(self, draw: Draw) -> None:
        """Take a draw of answers to be labelled."""
        self._draws.append((draw.id, encode(draw)))

    def take_queued(self, answer: QueuedAnswer) -> None:
        """Take an answer that a draw chose."""
        self._queued.append((answer.draw.id, answer.event_id, encode(answer)))

    def take_letter(self, letter: Letter) -> None:
        """Take the reason and the position of a dead letter, without its value."""
        record = letter.record
        at = record.partition, record.offset, record.timestamp_ms or 0
        self._letters.append((*at, letter.service, encode(letter.details)))

    def take_feedback(self, feedback: JoinedFeedback, written_ms: int) -> None:
        """Take feedback with the timestamp of its record; it replaces that of its answer, name and giver."""
        self._feedback.take(feedback, written_ms)

    @property
    def taken(self) -> int:
        """Number of rows that the next flush writes."""
        others = len(self._labels) + len(self._draws) + len(self._queued) + len(self._letters) + len(self._feedback)
        return len(self._rows) + others

    def flush(self, offsets: Mapping[tuple[str, str, int], int] | None = None, read: float = 1.0) -> None:
        """Write all that was taken, and how far it goes.

        Args:
            offsets: the next offset of each topic, id of the topic, and partition.
            read: part of the evaluations that was read, from 0 to 1.

        Raises:
            sqlite3.Error: if it cannot be written; what was taken is then lost to this writer.
        """
        db = self._db
        db.execute("begin immediate")
        try:
            self._names.save(db)
            self._append()
            db.executemany(_PUT_LABEL, self._labels)
            db.executemany("insert or replace into draw values (?, ?)", self._draws)
            db.executemany("insert or replace into queued values (?, ?, ?)", self._queued)
            db.executemany("insert or replace into letter values (?, ?, ?, ?, ?)", self._letters)
            self._feedback.write(db)
            db.executemany(
                "insert or replace into next values (?, ?, ?, ?)",
                [(*at, offset) for at, offset in (offsets or {}).items()],
            )
            db.execute("insert or replace into state values ('read', ?)", (read,))
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise
        self._rows, self._labels, self._draws, self._queued, self._letters = [], [], [], [], []
        self._feedback.clear()

    def _append(self) -> None:
        """Write the rows that count, and mark those that they replace."""
        known = self._known({row.event for row in self._rows})
        own: dict[int, tuple[int, int, object]] = {}
        kept, dead, number = [], [], self._next
        for row in self._rows:
            event = row.event
            old = known.get(event)
            version = row.version if row.judged or old else _SCORED
            if old is not None:
                self.replaced += 1
                if not supersedes(old[1], version):
                    continue
                dead.append(old[0])
            known[event] = number, version
            own[event] = event, number, version.source if version.judged else None
            kept.append(row)
            number += 1
        self._db.executemany("insert or replace into recent values (?, ?, ?)", sorted(own.values()))
        self._recent += len(own)
        if self._recent >= _MAX_RECENT:
            self._db.execute("insert or replace into event select * from recent order by digest")
            self._db.execute("delete from recent")
            self._recent = 0
        self._mark_dead(dead)
        self._put(kept)

    def _put(self, rows: Sequence[StoredRow]) -> None:
        """Write rows into the tail, and make segments of those that fill one."""
        while rows:
            part = rows[: SEGMENT_ROWS - self._next % SEGMENT_ROWS]
            append(self._db, self._next, part)
            rows = rows[len(part) :]
            self._next += len(part)
            if self._next % SEGMENT_ROWS == 0:
                self._make_segment(self._next - SEGMENT_ROWS)

    def _known(self, events: Iterable[int]) -> dict[int, tuple[int, Version]]:
        """Return the rows of events that are there, with their versions."""
        ids, found = sorted(events), {}
        for at in range(0, len(ids), _ASKED):
            part = ids[at : at + _ASKED]
            places = ",".join("?" * len(part))
            for table in ("event", "recent"):
                wanted = f"select digest, row, judged_source from {table} where digest in ({places})"  # noqa: S608
                for event, row, source in self._db.execute(wanted, part):
                    found[event] = row, Version(source is not None, source)
        return found

    def _mark_dead(self, rows: Iterable[int]) -> None:
        by_segment = defaultdict(list)
        for row in rows:
            by_segment[row // SEGMENT_ROWS * SEGMENT_ROWS].append(row % SEGMENT_ROWS)
        for first, places in by_segment.items():
            found = self._db.execute("select bits from dead where first = ?", (first,)).fetchone()
            bits = np.unpackbits(np.frombuffer(found[0], np.uint8)) if found else np.zeros(SEGMENT_ROWS, np.uint8)
            bits[places] = 1
            self._db.execute("insert or replace into dead values (?, ?)", (first, np.packbits(bits).tobytes()))

    def _make_segment(self, first: int) -> None:
        """Make a segment of the tail."""
        db, rows = self._db, TailRows.read(self._db)
        heads, metrics, scores = rows.heads, rows.metrics, rows.scores
        cols = {FIELD_NUMBERS[name]: np.ascontiguousarray(heads[name]).tobytes() for name in FIELD_NUMBERS}
        cols |= {number: scores[place].tobytes() for place, number in enumerate(metrics)}
        cols[DOCUMENTS] = rows.document_counts.tobytes() + rows.documents
        db.executemany(
            "insert into col values (?, ?, ?)",
            [(number, first, packed(data, self._compressor)) for number, data in sorted(cols.items())],
        )
        ids = raw(rows.id_lengths.tobytes() + rows.ids)
        db.execute("insert into col values (?, ?, ?)", (IDS, first, ids))
        lines = LineBlock.encoded(heads, scores, rows.id_lengths, rows.ids, self._compressor)
        db.executemany(
            "insert into line values (?, ?)", [(first + at * LINE_ROWS, block) for at, block in enumerate(lines)]
        )
        times = heads["time_us"]
        db.execute(
            "insert into segment values (?, ?, ?, ?, ?)",
            (first, int(times.min()), int(times.max()), int(heads["written_ms"].max()), orjson.dumps(metrics)),
        )
        db.execute("delete from tail")

    def offsets(self, topic: str) -> dict[str, dict[int, int]]:
        """Return the next offsets of a topic's partitions, by the id of the topic."""
        found: dict[str, dict[int, int]] = defaultdict(dict)
        for topic_id, partition, offset in self._db.execute(
            "select topic_id, partition, offset from next where topic = ?", (topic,)
        ):
            found[topic_id][partition] = offset
        return found

    def drop(self, max_bytes: int, oldest_ms: float, most: int = 8) -> int:
        """Drop the oldest segments of a store that is too large or too old; returns their number.

        Args:
            max_bytes: size of the store.
            oldest_ms: timestamp before which records are not kept.
            most: number of segments that are dropped at once.
        """
        dropped = 0
        while dropped < most and is_over(self._db, self._file, max_bytes, oldest_ms) and drop_oldest(self._db):
            dropped += 1
        if dropped:
            give_back(self._db)
        return dropped

    def drop_heads(self, oldest_ms: float) -> None:
        """Drop the dead letters and the feedback that were written before a time, and the oldest beyond a number."""
        self._db.execute(_DROP_LETTERS, (oldest_ms, _MAX_LETTERS))
        drop_feedback(self._db, oldest_ms)

    def people_labels(self) -> PeopleLabels:
        """Return all labels and draws that are in the file."""
        return people_labels(self._db)

    def size(self) -> int:
        """Return the bytes of the store that are in use."""
        return size_of(self._db, self._file)

    def close(self) -> None:
        """Close the file; what was taken since the last flush is not in it."""
        self._db.close()
