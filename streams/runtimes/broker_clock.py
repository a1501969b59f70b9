"""The brokers' time: a worker whose own clock is wrong keeps the same days as all others.

Kafka stamps the records of a topic with `message.timestamp.type=LogAppendTime` when it appends them, and a delivery
report says when that was. From one report to the next the time goes on by a clock of this machine that nobody sets.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message


def elapsed_s() -> float:
    """Return seconds that never go back; where the system has such a clock, it goes on while the machine sleeps."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class BrokerClock:
    """The time of the newest delivery report, and what has elapsed since; this machine's time until there is one.

    Args:
        elapsed: seconds that never go back.
        own: this machine's time, in epoch seconds.
    """

    def __init__(self, elapsed: Callable[[], float] = elapsed_s, own: Callable[[], float] = time.time) -> None:
        self._elapsed, self._own = elapsed, own
        self._ahead_s: float | None = None
        """The brokers' time less the elapsed one."""
        self.is_asked = False
        """True once a record was delivered, whether its report says the brokers' time or not."""

    @property
    def is_brokers(self) -> bool:
        """True where the time is the brokers'."""
        return self._ahead_s is not None

    def delivered(self, message: Message) -> None:
        """Take note of a delivery report."""
        kind, stamp_ms = message.timestamp()
        self.is_asked = True
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            self._ahead_s = stamp_ms / 1_000 - self._elapsed()

    def now_s(self) -> float:
        """Return the time, in epoch seconds."""
        return self._own() if self._ahead_s is None else self._ahead_s + self._elapsed()
