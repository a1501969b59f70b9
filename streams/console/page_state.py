"""The state that every page shows: what is kept, how far it was read, and how far evaluation is behind."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread
from typing import NamedTuple

from ragweir.streams.console.store.stored_answers import StoreState
from ragweir.streams.runtime.machine import machine

ASK_SECONDS = 15.0
"""Time after which the lag is asked for again."""


class PageState(NamedTuple):
    """The state at the time of a page."""

    kept: StoreState
    lag: str | None
    """The lag of evaluation, in words; None of files, which nothing follows."""


class LagWatch:
    """Knows how far evaluation is behind: it asks in a thread of its own, so that no page waits for a broker.

    Args:
        ask: returns the lag in words, or the reason why it is not known; it ends within its own time limits.
    """

    def __init__(self, ask: Callable[[], str]) -> None:
        self._ask, self._lock = ask, Lock()
        self._said = "the lag is not known yet"
        self._asked_s: float | None = None
        self._thread: Thread | None = None

    def say(self) -> str:
        """Return what was known last, and ask again if it is old."""
        with self._lock:
            is_old = self._asked_s is None or machine.monotonic() - self._asked_s > ASK_SECONDS
            if is_old and (self._thread is None or not self._thread.is_alive()):
                self._asked_s = machine.monotonic()
                self._thread = Thread(target=self._answer, name="lag", daemon=True)
                self._thread.start()
            return self._said

    def _answer(self) -> None:
        said = self._ask()
        with self._lock:
            self._said = said
