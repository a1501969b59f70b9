"""Computes causes for pages, one question at a time, and keeps the last reports."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread

from ragweir.errors import RagweirError, ReadTooLong
from ragweir.streams.analysis.blame.blame_question import BlameQuestion
from ragweir.streams.analysis.blame.blame_report import BlameReport
from ragweir.streams.runtime.machine import machine

WAIT_SECONDS = 2.0
"""Time that a page waits for a report; after it the page says that it is being computed."""
FRESH_SECONDS = 60.0
"""Age up to which a report is shown again."""
_KEPT, _WAITING = 16, 4


class CauseDesk:
    """Answers questions about causes; a page waits for a short time, and asks again.

    Args:
        compute: computes the report of a question; it may take long.
        wait_s: time that `ask` waits.
    """

    def __init__(self, compute: Callable[[BlameQuestion], BlameReport], wait_s: float = WAIT_SECONDS) -> None:
        self._compute, self._wait_s = compute, wait_s
        self._lock, self._turn = Lock(), Lock()
        self._asked: dict[BlameQuestion, tuple[float, Future[BlameReport]]] = {}

    def ask(self, question: BlameQuestion) -> BlameReport | None:
        """Return the report of a question; None while it is being computed.

        Raises:
            RagweirError: if it cannot be computed.
            ReadTooLong: if other questions are waiting.
        """
        found = self._future(question)
        try:
            return found.result(self._wait_s)
        except TimeoutError:
            return None
        except RagweirError:
            self._forget(question, found)
            raise

    def _forget(self, question: BlameQuestion, failed: Future[BlameReport]) -> None:
        """Forget a failure, which a page has shown, so that the next one tries again."""
        with self._lock:
            if self._asked.get(question, (0.0, None))[1] is failed:
                del self._asked[question]

    def _future(self, question: BlameQuestion) -> Future[BlameReport]:
        with self._lock:
            asked_s, known = self._asked.get(question, (0.0, None))
            is_fresh = machine.monotonic() - asked_s < FRESH_SECONDS
            if known is not None and (is_fresh or not known.done()):
                return known
            if sum(not each.done() for _, each in self._asked.values()) >= _WAITING:
                raise ReadTooLong("the causes of other questions are being computed; load this page again")
            done = [each for each, (_, own) in self._asked.items() if own.done()]
            for each in done[: max(0, len(self._asked) - _KEPT + 1)]:
                del self._asked[each]
            self._asked.pop(question, None)
            found: Future[BlameReport] = Future()
            self._asked[question] = machine.monotonic(), found
        # A daemon, so that the end of the process does not wait for it.
        Thread(target=self._answer, args=(question, found), name="causes", daemon=True).start()
        return found

    def _answer(self, question: BlameQuestion, found: Future[BlameReport]) -> None:
        with self._turn:
            try:
                found.set_result(self._compute(question))
            except BaseException as error:
                found.set_exception(error)
