"""The number of shares of a day's budgets, read from the ledger of partition 0 by a judge that does not have it."""

from __future__ import annotations

import threading
from contextlib import suppress

import structlog
from confluent_kafka import KafkaException
from pydantic import ValidationError

from ragweir.errors import RagweirError
from ragweir.schemas.judging import LedgerEntry, parse_shares
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_READ_INTERVAL_S = 1.0
_WARN_INTERVAL_S = 30.0


class DayShares:
    """Caches the numbers of shares, and reads further records in a thread, at most once a second.

    A day's number is written once, in a committed transaction, so it never changes.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, self._topic = settings, f"{settings.topics.prefix}judge.ledger"
        self._known: dict[str, int] = {}
        self._next = 0
        """The offset at which reading goes on."""
        self._reader: threading.Thread | None = None
        self._read_at = self._asked_at = 0.0
        self._day = ""
        """The last requested day whose number is not known."""
        self._error = ""
        """The error of the last reading; empty if it succeeded."""

    def __call__(self, day: str) -> int | None:
        """Return the number of shares of a day, or None while it is not known, without blocking."""
        shares = self._known.get(day)
        if shares is None:
            self._ask(day, machine.monotonic())
        return shares

    def _ask(self, day: str, now: float) -> None:
        if day != self._day:
            self._day, self._asked_at = day, now
        elif now >= self._asked_at + _WARN_INTERVAL_S:
            self._asked_at = now
            log.warning(
                "judging waits: the ledger of partition 0 does not hold the number of shares of the day's budget yet; "
                "the worker that has this partition writes it",
                day=day,
                topic=self._topic,
                error=self._error or None,
            )
        if now >= self._read_at + _READ_INTERVAL_S and (self._reader is None or not self._reader.is_alive()):
            self._read_at = now
            self._reader = threading.Thread(target=self._read, name="day-shares", daemon=True)
            self._reader.start()

    def _read(self) -> None:
        try:
            whole = offset_range(self._settings, self._topic, partitions=[0])
            # A topic that was created again may end before the old one.
            first = self._next if self._next <= whole.ends[0] else 0
            for record in read(self._settings, whole.since({0: first})):
                with suppress(ValidationError):  # A tombstone, or a foreign record.
                    if found := parse_shares(LedgerEntry.model_validate_json(record.value or b"")):
                        self._known.update([found])
            self._next, self._error = whole.ends[0], ""
        except (RagweirError, KafkaException) as error:
            self._error = str(error)
