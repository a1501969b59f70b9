"""Feedback of users in the store: of each answer, name and giver the newest, unless it was taken back."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from ragweir.schemas.feedback import JoinedFeedback
from ragweir.streams.console.store.layout import digest, microseconds, time_of
from ragweir.streams.console.store.row_ranges import Ints
from ragweir.streams.services.tally.held_feedback import counted_value

MOST_FEEDBACK = 1_000_000
"""Limit for the feedback that is kept; the oldest records go first."""
MOST_VALUES = 200
"""Names and values that are offered and counted by themselves, those of most feedback."""

_PUT = "insert or replace into feedback values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DROP = """
delete from feedback where written_ms < ? or written_ms < (
    select written_ms from feedback order by written_ms desc limit 1 offset ?
)
"""
_COUNTS = """
select application, name, value, count(*) from feedback
where event_us >= ? and event_us < ? and (
    exists (select 1 from recent where recent.digest = feedback.event)
    or exists (select 1 from event where event.digest = feedback.event)
)
group by application, name, value order by count(*) desc, name, value limit ?
"""
_VALUES = "select name, value from feedback group by name, value order by count(*) desc, name, value limit ?"


class StoredFeedback(NamedTuple):
    """Feedback of one giver about an answer."""

    name: str
    value: str
    """Its value as windows count it."""
    giver: str
    """Keyed hash of the giver; empty if the application names none."""
    time: datetime


class FeedbackCount(NamedTuple):
    """The number of givers who gave one value."""

    name: str
    value: str
    givers: int


class FeedbackRows:
    """Collects feedback, and writes it when the store is flushed."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str, str], tuple[JoinedFeedback, int]] = {}

    def __len__(self) -> int:
        return len(self._taken)

    def take(self, feedback: JoinedFeedback, written_ms: int) -> None:
        """Take feedback, which replaces that of its answer, name and giver; one without a value takes it back."""
        self._taken[feedback.event_id, feedback.name, feedback.giver or ""] = feedback, written_ms

    def write(self, db: sqlite3.Connection) -> None:
        """Write what was taken, in the transaction that is open."""
        rows, gone = [], []
        for key, (each, written_ms) in self._taken.items():
            value = counted_value(each.value)
            if value is None:
                gone.append(key)
                continue
            times = microseconds(each.time), written_ms, microseconds(each.event_time)
            rows.append((*key, digest(each.event_id), value, *times, each.dimensions.get("application")))
        db.executemany("delete from feedback where event_id = ? and name = ? and giver = ?", gone)
        db.executemany(_PUT, rows)

    def clear(self) -> None:
        """Forget what was written."""
        self._taken.clear()


def drop_feedback(db: sqlite3.Connection, oldest_ms: float) -> None:
    """Drop the feedback that was written before a time, and the oldest beyond a number."""
    db.execute(_DROP, (oldest_ms, MOST_FEEDBACK))


def feedback_of(db: sqlite3.Connection, event_ids: Sequence[str]) -> dict[str, list[StoredFeedback]]:
    """Return the feedback about each of some answers, the newest first; without those that have none."""
    places = ",".join("?" * len(event_ids))
    rows = db.execute(
        "select event_id, name, value, giver, time_us from feedback "  # noqa: S608 - question marks alone
        f"where event_id in ({places}) order by time_us desc, name, giver",
        event_ids,
    )
    found: dict[str, list[StoredFeedback]] = defaultdict(list)
    for event_id, name, value, giver, time_us in rows:
        found[event_id].append(StoredFeedback(name, value, giver, time_of(time_us)))
    return found


def events_with(db: sqlite3.Connection, wanted: Mapping[str, Iterable[str]]) -> Ints:
    """Return the digests of the answers that have one of the values of each name; of all with feedback for no name."""
    if not wanted:
        return _digests(db.execute("select distinct event from feedback"))
    found: Ints | None = None
    for name, values in wanted.items():
        own = tuple(values)
        places = ",".join("?" * len(own))
        rows = db.execute(
            f"select distinct event from feedback where name = ? and value in ({places})",  # noqa: S608
            (name, *own),
        )
        found = _digests(rows) if found is None else np.intersect1d(found, _digests(rows))
    return found if found is not None else np.zeros(0, np.int64)


def _digests(rows: sqlite3.Cursor) -> Ints:
    return np.array([event for (event,) in rows], np.int64)


def feedback_values(db: sqlite3.Connection) -> tuple[tuple[str, str], ...]:
    """Return the names and values that there are, those of most feedback first."""
    return tuple(db.execute(_VALUES, (MOST_VALUES,)))


def feedback_counts(
    db: sqlite3.Connection, since: datetime, until: datetime
) -> dict[str | None, tuple[FeedbackCount, ...]]:
    """Return the feedback about the answers of a time range that are here, by application, name and value."""
    found: dict[str | None, list[FeedbackCount]] = defaultdict(list)
    for application, *count in db.execute(_COUNTS, (microseconds(since), microseconds(until), 20 * MOST_VALUES)):
        found[application].append(FeedbackCount(*count))
    return {application: tuple(counts) for application, counts in found.items()}
