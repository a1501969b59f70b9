"""The answers whose scores people have seen on pages: their labels of these are not blind."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock

from ragweir.errors import PermanentError
from ragweir.schemas.label import QueuedAnswer
from ragweir.streams.console.store.layout import digest, microseconds
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.shared.raters import hashed_rater

MOST_ANSWERS = 50_000
"""Answers that are known one by one of a person, who is said to have seen all answers until then after one more."""
_WAIT_S = 5.0
_TABLES = """
create table if not exists seen (person text, event integer, primary key (person, event)) without rowid;
create table if not exists seen_all (person text primary key, until_us integer) without rowid;
"""


class SeenAnswers:
    """Remembers the answers whose scores people have seen, for any number of threads at once.

    Args:
        file: the SQLite file, which outlives the process; it has hashes of names and ids alone.
        key: key of the hashes of raters (`labels.key`).

    Raises:
        PermanentError: if the file cannot be written, or is damaged.
    """

    def __init__(self, file: Path, key: str) -> None:
        self._file, self._key, self._lock = file, key, Lock()
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._db = sqlite3.connect(file, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            self._db.executescript(f"pragma journal_mode = wal; pragma synchronous = normal; {_TABLES}")
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None

    def add(self, person: str, event_ids: Iterable[str]) -> None:
        """Record that a person sees scores of answers.

        Raises:
            PermanentError: if the file cannot be written; the scores are then not to be shown.
        """
        rater = hashed_rater(person, self._key)
        with self._lock:
            try:
                self._db.execute("begin immediate")
                new = self._db.executemany(
                    "insert or ignore into seen values (?, ?)", [(rater, digest(each)) for each in event_ids]
                ).rowcount
                if new > 0 and self._number(rater) > MOST_ANSWERS:
                    self._db.execute("delete from seen where person = ?", (rater,))
                    self._db.execute(
                        "insert or replace into seen_all values (?, ?)", (rater, microseconds(machine.now()))
                    )
                self._db.execute("commit")
            except sqlite3.Error as error:
                with suppress(sqlite3.Error):
                    self._db.rollback()
                raise self._unusable(error) from None

    def _number(self, rater: str) -> int:
        return int(self._db.execute("select count(*) from seen where person = ?", (rater,)).fetchone()[0])

    def has(self, person: str, answer: QueuedAnswer) -> bool:
        """Return whether a person may have seen scores of an answer.

        Raises:
            PermanentError: if the file cannot be read.
        """
        rater = hashed_rater(person, self._key)
        with self._lock:
            try:
                one = self._db.execute(
                    "select 1 from seen where person = ? and event = ?", (rater, digest(answer.event_id))
                ).fetchone()
                until = self._db.execute("select until_us from seen_all where person = ?", (rater,)).fetchone()
            except sqlite3.Error as error:
                raise self._unusable(error) from None
        if until is None:
            return one is not None
        return one is not None or answer.event_time is None or microseconds(answer.event_time) <= until[0]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _unusable(self, error: Exception) -> PermanentError:
        return PermanentError(f"{self._file}, which has the answers that people have seen, cannot be used: {error}")
