"""The watchdog: ends a process whose call to Kafka does not return."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable

import structlog

from ragweir.streams.runtime.awake import done_in_time
from ragweir.streams.runtime.machine import machine

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_CHECK_SECONDS = 0.25


class Watchdog:
    """Ends the process when a call lasts longer than `limit_s`; the supervisor starts a new one.

    librdkafka can block for ever in a call that was given a timeout: sending a transaction's offsets while the group's
    coordinator goes away (librdkafka issue 5456). No signal reaches Python there, so that SIGTERM has no effect.

    A call that is late because the process did not run ends nothing: the second half of the limit counts only the time
    in which it ran. The first half costs no more than a check now and then.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._began = 0.0
        """The time at which the current call began; 0 without one."""
        # In a copy of the context, so that the log line has the slot.
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(self._watch,), name="watchdog", daemon=True).start()

    def call_begins(self) -> None:
        """Start the time limit."""
        self._began = machine.monotonic()

    def call_ended(self) -> None:
        """Cancel the time limit."""
        self._began = 0.0

    def _watch(self) -> None:
        while True:
            machine.sleep(_CHECK_SECONDS)
            began, half_s = self._began, self._limit_s / 2
            if 0.0 < began < machine.monotonic() - half_s and not done_in_time(self._ends(began), half_s):
                log.error("a call to Kafka does not come back; a restart settles the open transaction")
                os._exit(1)

    def _ends(self, began: float) -> Callable[[float], bool]:
        """Return the function that waits, and returns whether the call that began then has ended."""

        def wait(seconds: float) -> bool:
            machine.sleep(seconds)
            return self._began != began

        return wait
