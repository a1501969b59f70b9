"""The brokers' time, so that a worker whose own clock is wrong has the same days as all others.

Kafka stamps the records of a topic with `message.timestamp.type=LogAppendTime` when it appends them, and the delivery
report has that time. Until the next report it is advanced by a monotonic clock of this machine.

A report may be read long after the record was appended, as after a stall of the process: it says that the time is this
one or later, but no later than if the record had been appended when it was sent.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from ragweir.streams.runtime.machine import machine


class BrokerClock:
    """The time of the newest delivery report plus the elapsed time; this machine's time until there is one.

    Args:
        elapsed: monotonic seconds.
        own: this machine's time, in epoch seconds.
    """

    def __init__(
        self, elapsed: Callable[[], float] = machine.boottime, own: Callable[[], float] = machine.time
    ) -> None:
        self._elapsed, self._own = elapsed, own
        self._offset_s: float | None = None
        """The brokers' time minus the elapsed one, or slightly less."""
        self.is_asked = False
        """True once there was a delivery report, with the brokers' time or without."""

    @property
    def is_brokers(self) -> bool:
        """True if the time is the brokers'."""
        return self._offset_s is not None

    def on_delivery(self, message: Message) -> None:
        """Read the time of a delivery report."""
        kind, timestamp_ms = message.timestamp()
        self.is_asked = True
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            least = timestamp_ms / 1_000 - self._elapsed()
            most = least + max(0.0, message.latency() or 0.0)
            self._offset_s = least if self._offset_s is None else min(max(self._offset_s, least), most)

    def now_s(self) -> float:
        """Return the time, in epoch seconds."""
        return self._own() if self._offset_s is None else self._offset_s + self._elapsed()
