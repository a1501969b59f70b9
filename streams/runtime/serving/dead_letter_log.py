"""Logs dead letters: the first one of each class, then the count of each minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import structlog

from ragweir.schemas.dead_letter import DeadLetter
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Outcome

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

INTERVAL_SECONDS = 60.0
"""Time between two logged counts."""
_COUNTER = "ragweir_dead_letters_total"


class DeadLetterLog:
    """Logs the dead letters of one worker after the commits that wrote them, without their content.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = machine.monotonic) -> None:
        self._clock = clock
        self._seen: set[str] = set()
        """The classes whose first dead letter was logged."""
        self._counts: Counter[str] = Counter()
        """The count of each class since the last log lines."""
        self._due: float | None = None
        """The time of the next log lines; None without counts."""

    def on_commit(self, outcome: Outcome) -> None:
        """Count the dead letters of a committed batch; log the first one of each class."""
        for (name, *labels), number in outcome.counts.items():
            if name == _COUNTER and number:
                self._counts[labels[0]] += number
        if not self._counts:
            return
        if self._due is None:
            self._due = self._clock() + INTERVAL_SECONDS
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
        """Log the counts once a minute is over. Called regularly, also without records."""
        if self._due is not None and self._clock() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Log the counts since the last log lines."""
        for error_class, count in sorted(self._counts.items()):
            log.warning("dead letters", error_class=error_class, count=count)
        self._counts.clear()
        self._due = None
