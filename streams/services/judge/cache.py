"""A cache of the judge's answers, in memory or in an SQLite file that several processes may share.

Answers may quote events, so only the owner may read the file.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import orjson
import stamina
import structlog

from ragweir.streams.settings import JudgeSettings

_BUSY_S = 2.0
"""The longest wait for another process that writes, in seconds."""
_OWNER, _OTHERS = 0o600, 0o007
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Cache:
    """The newest usable answers by question. After an error of its file it logs a warning and goes on in memory.

    Args:
        entries: the number of answers that are kept; 0 for none.
        file: the SQLite file; None for memory.
    """

    def __init__(self, entries: int, file: Path | None = None) -> None:
        self._entries = entries
        try:
            self._answers = _open(file)
        except sqlite3.Error as error:
            self._use_memory(error)

    def get(self, key: bytes) -> str | None:
        """Return the answer; None if there is none."""
        if not self._entries:
            return None
        try:
            found = self._answers.execute("SELECT text FROM answers WHERE key = ?", (key,)).fetchone()
            return None if found is None else str(found[0])
        except sqlite3.Error as error:
            self._use_memory(error)
            return None

    def put(self, key: bytes, text: str) -> None:
        """Keep an answer, and delete the oldest ones above the number that is kept."""
        if not self._entries:
            return
        try:
            self._answers.execute("INSERT OR REPLACE INTO answers (key, text) VALUES (?, ?)", (key, text))
            self._answers.execute("DELETE FROM answers WHERE id <= (SELECT max(id) FROM answers) - ?", (self._entries,))
        except sqlite3.Error as error:
            self._use_memory(error)

    def close(self) -> None:
        """Close the file."""
        self._answers.close()

    def _use_memory(self, error: sqlite3.Error) -> None:
        _log.warning(
            "the cache file cannot be used; answers are kept in memory",
            error=getattr(error, "sqlite_errorname", type(error).__name__),
        )
        self._answers = _open(None)


def key(settings: JudgeSettings, identity: bytes) -> bytes:
    """Return the key of an answer: the digest of the question and of the settings that its answer depends on.

    >>> key(JudgeSettings(), b"1") == key(JudgeSettings(extra_body={"seed": 7}), b"1")
    False
    """
    temperature = "none" if settings.temperature is None else f"{settings.temperature:g}"
    asked = f"{settings.model}\n{temperature}\n".encode()
    if settings.extra_body:
        asked += orjson.dumps(settings.extra_body, option=orjson.OPT_SORT_KEYS) + b"\n"
    return blake2b(asked + identity, digest_size=16).digest()


def _is_busy(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_BUSY


# SQLite waits for other writers, except while two processes create the same file.
@stamina.retry(on=_is_busy, timeout=_BUSY_S, attempts=None, wait_initial=0.01, wait_max=0.1, wait_jitter=0.01)
def _open(file: Path | None) -> sqlite3.Connection:
    if file is not None:
        _restrict(file)
    answers = sqlite3.connect(file or ":memory:", timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
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


def _restrict(file: Path) -> None:
    """Create the file for its owner only, or remove the permissions of others from an existing one.

    A group keeps its permissions, since several users may share the file. SQLite gives its other files the same mode.
    """
    with suppress(OSError):  # Opening the file shows the error, or the file has another owner.
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, _OWNER))
        for each in (file, *(file.with_name(file.name + suffix) for suffix in ("-wal", "-shm"))):
            if each.exists() and (mode := stat.S_IMODE(each.stat().st_mode)) & _OTHERS:
                each.chmod(mode & ~_OTHERS)
