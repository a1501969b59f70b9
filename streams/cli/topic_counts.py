"""What `ragweir doctor` counts in topics."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from confluent_kafka import TopicPartition

from ragweir.schemas.judging import LedgerEntry
from ragweir.streams.kafka.reader import offset_range, read
from ragweir.streams.settings import Settings

_COUNTED = 2_000
"""Records that are read only to be counted, at most."""


def ledger(settings: Settings, topic: str, since_ms: int) -> list[LedgerEntry]:
    """The newest state of each of the ledger's accounts that has changed since a time."""
    accounts: dict[bytes | None, LedgerEntry] = {}
    for record in read(settings, offset_range(settings, topic, since_ms=since_ms)):
        accounts.pop(record.key, None)
        if record.value is not None:
            accounts[record.key] = LedgerEntry.model_validate(orjson.loads(record.value))
    return list(accounts.values())


def number_behind(settings: Settings, started: Sequence[TopicPartition], offsets: int) -> str:
    """How many records there are from these places of a topic to its ends, in words.

    Offsets count the marks of transactions too, so that what is few is counted by reading it.

    Args:
        settings: where to read.
        started: where the first of them may be, at least one.
        offsets: how many offsets there are.
    """
    if offsets > _COUNTED:
        return f"at most {offsets:,}"
    whole = offset_range(settings, started[0].topic, partitions=[place.partition for place in started])
    rest = whole.since({place.partition: place.offset for place in started})
    return str(sum(1 for _ in read(settings, rest)))
