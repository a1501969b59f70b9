"""The watchdog: ends a process whose call to Kafka does not return."""

from __future__ import annotations

import contextvars
import os
import threading
import time

import structlog

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_CHECK_SECONDS = 0.25


class Watchdog:
    """Ends the process when a call lasts longer than `limit_s`; the supervisor starts a new one.

    librdkafka can block for ever in a call that was given a timeout: sending a transaction's offsets while the group's
    coordinator goes away (librdkafka issue 5456). No signal reaches Python there, so that SIGTERM has no effect.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._end_by = 0.0
        # In a copy of the context, so that the log line has the slot.
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(self._watch,), name="watchdog", daemon=True).start()

    def call_begins(self) -> None:
        """Start the time limit."""
        self._end_by = time.monotonic() + self._limit_s

    def call_ended(self) -> None:
        """Cancel the time limit."""
        self._end_by = 0.0

    def _watch(self) -> None:
        while True:
            time.sleep(_CHECK_SECONDS)
            if 0.0 < self._end_by < time.monotonic():
                log.error("a call to Kafka does not come back; a restart settles the open transaction")
                os._exit(1)
