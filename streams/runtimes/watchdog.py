"""The watchdog: ends a process that is caught in a call which does not come back."""

from __future__ import annotations

import contextvars
import os
import threading
import time

import structlog

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_LOOK_EVERY_S = 0.25


class Watchdog:
    """Ends the process when a call lasts longer than `limit_s`; the supervisor starts a new one.

    librdkafka can wait for ever in a call that was given a timeout: sending a transaction's offsets while the group's
    coordinator goes away (librdkafka issue 5456). No signal reaches Python there, so that SIGTERM would do nothing.
    To ask the coordinator before each call does not avoid that: most of these calls have begun when it dies.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._end_by = 0.0
        # In our own context, so that its one line names the slot.
        watch = contextvars.copy_context().run
        threading.Thread(target=watch, args=(self._watch,), name="watchdog", daemon=True).start()

    def call_begins(self) -> None:
        """A call that must come back is about to be made."""
        self._end_by = time.monotonic() + self._limit_s

    def call_ended(self) -> None:
        """It came back."""
        self._end_by = 0.0

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_EVERY_S)
            if 0.0 < self._end_by < time.monotonic():
                log.error("a call to Kafka does not come back; a restart settles the open transaction")
                os._exit(1)
