"""A worker's use of the rate limits in the ledger, with which the next process of its slot begins.

Each entry has the use of the last minute and a grant, which is committed before calls use it. So the next process knows
the most that the one before can have sent, and does not have to wait until all of it is a minute old.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import structlog
from confluent_kafka import KafkaException
from pydantic import ValidationError

from ragweir.errors import RagweirError
from ragweir.schemas.codec.json import encode
from ragweir.schemas.judging import LedgerEntry, ledger_key, rates_entry
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Emission
from ragweir.streams.services.judge.rate_limit import LimitUse, RateLimits
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_READ_INTERVAL_S = 1.0


class StoredUse(NamedTuple):
    """An entry of the ledger, and when it was written, in epoch seconds."""

    entry: LedgerEntry
    at_s: float


Read = Callable[[str], StoredUse | None]


class RateLedger:
    """Begins with the stored use of the rate limits, and stores their use when a call waits for a grant.

    Args:
        limits: the limits, whose calls need grants.
        read: returns the newest entry of a member without blocking, or None while there is none.
    """

    def __init__(self, limits: RateLimits, read: Read) -> None:
        self.limits, self._read = limits, read
        self._member = ""
        self._has_begun = not limits.closed_s
        self._is_emitted = False

    def on_member(self, member: str) -> None:
        """Take the member id of the slot, which is the name of its entry."""
        self._member = member

    def emissions(self, now_s: float) -> Iterator[Emission]:
        """Return the entry to commit if a call waits for a grant; before, begin with that of an earlier process."""
        if not self._member:
            return
        if not self._has_begun and (stored := self._read(self._member)) is not None:
            self._has_begun = True
            before = {name: LimitUse(use.returned, use.open) for name, use in stored.entry.rates.items()}
            self.limits.begin(before, now_s - stored.at_s)
            log.info("the rate limits begin with the use of the process before", age_s=round(now_s - stored.at_s, 1))
        self._is_emitted = False
        if uses := self.limits.use():
            self._is_emitted = self._has_begun = True
            entry = rates_entry(self._member, {name: asdict(use) for name, use in uses.items()})
            key, at = ledger_key(entry), datetime.fromtimestamp(now_s, UTC)
            headers = cloud_event("judge", "ledger", key.decode(), at, "application/json")
            yield Emission("judge.ledger", key, encode(entry), headers, entry.partition)

    def on_commit(self) -> None:
        """Let calls use the grants of the entry that is committed."""
        if self._is_emitted:
            self._is_emitted = False
            self.limits.grant()


class StoredUses:
    """Reads the entry of a member in a thread, once, or again each second while Kafka does not answer."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._topic = settings, f"{settings.topics.prefix}judge.ledger"
        self._found: StoredUse | None = None
        self._is_read = False
        self._reader: threading.Thread | None = None
        self._read_at = 0.0

    def __call__(self, member: str) -> StoredUse | None:
        """Return the newest entry of a member, or None while there is none, without blocking."""
        now = machine.monotonic()
        is_reading = self._reader is not None and self._reader.is_alive()
        if not (self._is_read or is_reading) and now >= self._read_at + _READ_INTERVAL_S:
            self._read_at = now
            self._reader = threading.Thread(target=partial(self._find, member), name="stored-uses", daemon=True)
            self._reader.start()
        return self._found

    def _find(self, member: str) -> None:
        wanted, found = rates_entry(member, {}), None
        with suppress(RagweirError, KafkaException):  # It is read again; the limits are closed for a minute at most.
            whole = offset_range(self._settings, self._topic, partitions=[wanted.partition])
            for record in read(self._settings, whole):
                if record.key == ledger_key(wanted):
                    with suppress(ValidationError):  # A tombstone, or a foreign record.
                        entry = LedgerEntry.model_validate_json(record.value or b"")
                        found = StoredUse(entry, (record.timestamp_ms or 0) / 1_000)
            self._found, self._is_read = found, True
