"""Answers that were given before, in memory or in an SQLite file that several processes may share.

The judge's words may quote events, so the file is made for its owner alone.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import stamina
import structlog

_BUSY_S = 2.0
"""How long another process that writes is waited for."""
_MEMORY = ":memory:"
_OWNER, _OTHERS = 0o600, 0o007
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Cache:
    """The newest usable answers by what was asked. What goes wrong with its file is told once; memory takes its place.

    Args:
        entries: how many answers are kept, the newest; 0 for none.
        file: where; None for memory.
    """

    def __init__(self, entries: int, file: Path | None = None) -> None:
        self._entries = entries
        try:
            self._answers = _opened(file)
        except sqlite3.Error as error:
            self._forsake(error)

    def get(self, key: bytes) -> str | None:
        """The answer; None if there is none."""
        if not self._entries:
            return None
        try:
            found = self._answers.execute("SELECT text FROM answers WHERE key = ?", (key,)).fetchone()
            return None if found is None else str(found[0])
        except sqlite3.Error as error:
            self._forsake(error)
            return None

    def put(self, key: bytes, text: str) -> None:
        """Keep an answer, and let the oldest go beyond the number that is kept."""
        if not self._entries:
            return
        try:
            self._answers.execute("INSERT OR REPLACE INTO answers (key, text) VALUES (?, ?)", (key, text))
            self._answers.execute("DELETE FROM answers WHERE id <= (SELECT max(id) FROM answers) - ?", (self._entries,))
        except sqlite3.Error as error:
            self._forsake(error)

    def close(self) -> None:
        """Close the file."""
        self._answers.close()

    def _forsake(self, error: sqlite3.Error) -> None:
        _log.warning(
            "the cache file cannot be used; answers are kept in memory",
            error=getattr(error, "sqlite_errorname", type(error).__name__),
        )
        self._answers = _opened(None)


def key(model: str, temperature: float, identity: bytes) -> bytes:
    """What an answer is found by: who was asked, how, and what."""
    return blake2b(f"{model}\n{temperature}\n".encode() + identity, digest_size=16).digest()


def _is_busy(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_BUSY


# SQLite waits for who writes, but not where two processes make the same new file.
@stamina.retry(on=_is_busy, timeout=_BUSY_S, attempts=None, wait_initial=0.01, wait_max=0.1, wait_jitter=0.01)
def _opened(file: Path | None) -> sqlite3.Connection:
    """Open the table, made anew where there is none.

    Raises:
        sqlite3.Error: if it cannot be used.
    """
    if file is not None:
        _hide(file)
    answers = sqlite3.connect(file or _MEMORY, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        answers.execute("PRAGMA journal_mode = WAL")
        answers.execute("PRAGMA synchronous = NORMAL")
        answers.execute(
            "CREATE TABLE IF NOT EXISTS answers (id INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB UNIQUE, text TEXT)"
        )
        answers.execute("SELECT text FROM answers WHERE key = x'00'")
    except sqlite3.Error:
        answers.close()
        raise
    return answers


def _hide(file: Path) -> None:
    """Make the file for its owner alone; take it from others where it is there already, as from an earlier release.

    A group keeps what it has, since several users may share the file. SQLite gives the files beside it the same mode.
    """
    with suppress(OSError):  # What cannot be made or changed shows when it is opened, or belongs to another.
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, _OWNER))
        for each in (file, *(file.with_name(file.name + suffix) for suffix in ("-wal", "-shm"))):
            if each.exists() and (mode := stat.S_IMODE(each.stat().st_mode)) & _OTHERS:
                each.chmod(mode & ~_OTHERS)
