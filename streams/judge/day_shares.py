"""The number of shares of a day's budgets, for a judge that does not hold the ledger of partition 0, which says it."""

from __future__ import annotations

import threading
import time

import structlog
from confluent_kafka import KafkaException
from pydantic import ValidationError

from ragweir.errors import RagweirError
from ragweir.schemas.judging import LedgerEntry, parse_shares
from ragweir.streams.kafka.reader import offset_range, read
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_PAUSE_S = 1.0
_TOLD_AFTER_S = 30.0


class DayShares:
    """Answers from what it has read, and reads on in a thread of its own, once a second at most.

    A day's number is written once, and is not written unless it is committed, so that any answer holds for good.

    Args:
        settings: how to reach Kafka.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, self._topic = settings, f"{settings.topics.prefix}judge.ledger"
        self._known: dict[str, int] = {}
        self._next = 0
        """The offset up to which the ledger was read."""
        self._reader: threading.Thread | None = None
        self._read_at = self._asked_at = 0.0
        self._day = ""
        """The day that was asked for and is not known."""
        self._trouble = ""
        """Why the ledger could not be read last; empty if it could."""

    def __call__(self, day: str) -> int | None:
        """Return the number of shares of a day, or None as long as it is not known; never waits."""
        shares = self._known.get(day)
        if shares is None:
            self._ask(day, time.monotonic())
        return shares

    def _ask(self, day: str, now: float) -> None:
        if day != self._day:
            self._day, self._asked_at = day, now
        elif now >= self._asked_at + _TOLD_AFTER_S:
            self._asked_at = now
            log.warning(
                "judging waits: the ledger of partition 0 does not say yet into how many parts the day's budget is "
                "divided; the worker that holds this partition writes it",
                day=day,
                topic=self._topic,
                trouble=self._trouble or None,
            )
        if now >= self._read_at + _PAUSE_S and (self._reader is None or not self._reader.is_alive()):
            self._read_at = now
            self._reader = threading.Thread(target=self._read, name="day-shares", daemon=True)
            self._reader.start()

    def _read(self) -> None:
        try:
            whole = offset_range(self._settings, self._topic, partitions=[0])
            # A ledger that was made anew may end before what was read of the old one.
            first = self._next if self._next <= whole.ends[0] else 0
            for record in read(self._settings, whole.since({0: first})):
                self._note(record.value)
            self._next, self._trouble = whole.ends[0], ""
        except (RagweirError, KafkaException) as error:
            self._trouble = str(error)

    def _note(self, value: bytes | None) -> None:
        try:
            found = parse_shares(LedgerEntry.model_validate_json(value or b""))
        except ValidationError:  # A tombstone, or nothing of ours.
            return
        if found is not None:
            day, shares = found
            self._known[day] = shares
