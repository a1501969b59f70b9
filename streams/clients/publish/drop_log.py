"""Log of what a publisher drops: at most one line a minute for each reason."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ragweir.streams.runtime.machine import machine

log = logging.getLogger("ragweir.publish")

_INTERVAL_S = 60.0
_ADVICE: Mapping[str, str] = {
    "queue_full": "the queue is full, since events come faster than they are sent, or no broker answers",
    "invalid": "they are no interactions",
    "too_large": "they are over limits.max_event_bytes",
    "not_delivered": "Kafka did not acknowledge them",
    "after_close": "their publisher was closed before",
}


class DropLog:
    """Logs counts of dropped events.

    Args:
        clock: monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = machine.monotonic) -> None:
        self._clock = clock
        self._logged: dict[str, tuple[int, float]] = {}

    def report(self, dropped: Mapping[str, int], notes: Mapping[str, str], *, final: bool = False) -> None:
        """Log the reasons with new events, unless one was logged within a minute; a final report logs them all."""
        now = self._clock()
        for reason, number in dropped.items():
            count, at = self._logged.get(reason, (0, now - _INTERVAL_S))
            if number > count and (final or now - at >= _INTERVAL_S):
                self._logged[reason] = number, now
                note = "".join(each if each.isprintable() else "?" for each in notes.get(reason, ""))
                log.warning(
                    "%d events dropped (%s, %d in all): %s%s",
                    number - count,
                    reason,
                    number,
                    _ADVICE[reason],
                    f"; of the last one: {note}" if note else "",
                )
