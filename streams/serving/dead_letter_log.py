"""Logs dead letters: the first of each class, and then the number of each minute."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import structlog

from ragweir.schemas.dead_letter import DeadLetter
from ragweir.streams.records import Outcome

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

EVERY_S = 60.0
"""Seconds that one count is about."""
_COUNTER = "ragweir_dead_letters_total"


class DeadLetterLog:
    """Logs the dead letters of one worker, after the commits that wrote them, and never their content.

    Args:
        clock: gives seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: set[str] = set()
        """The classes of which one has been logged."""
        self._counts: Counter[str] = Counter()
        """The number of each class since the last counts were logged."""
        self._due: float | None = None
        """The time at which counts are logged next; None without any."""

    def committed(self, outcome: Outcome) -> None:
        """Take in what a batch came to, once it is committed; log the first dead letter of each class."""
        for (name, *labels), number in outcome.counts.items():
            if name == _COUNTER and number:
                self._counts[labels[0]] += number
        if not self._counts:
            return
        if self._due is None:
            self._due = self._clock() + EVERY_S
        if self._counts.keys() <= self._seen:
            return
        for emission in outcome.emissions:
            if emission.topic == "dead-letter":
                self._log_first(DeadLetter.from_headers(emission.headers))

    def _log_first(self, letter: DeadLetter) -> None:
        if letter.error_class not in self._seen:
            self._seen.add(letter.error_class)
            log.warning(
                "first dead letter of its class",
                error_class=letter.error_class,
                topic=letter.source_topic,
                partition=letter.source_partition,
                offset=letter.source_offset,
                message=letter.message,
            )

    def tick(self) -> None:
        """Log the counts of the last minute when it is over; to be called again and again, also without records."""
        if self._due is not None and self._clock() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Log what has been counted and not yet logged."""
        for error_class, count in sorted(self._counts.items()):
            log.warning("dead letters", error_class=error_class, count=count)
        self._counts.clear()
        self._due = None
