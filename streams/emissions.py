"""What all agents write alike: CloudEvents headers and dead letters."""

from __future__ import annotations

from datetime import UTC, datetime

from ragweir.errors import ErrorClass
from ragweir.schemas.dead_letter import HEAD_BYTES, DeadLetter, kept_bytes
from ragweir.streams.records import Emission, Headers, Outcome, Record


def cloud_event(service: str, kind: str, identity: str, time: datetime, content_type: str) -> Headers:
    """The headers of CloudEvents' Kafka binding; nothing in them depends on when or where a record was handled."""
    return (
        ("ce_specversion", b"1.0"),
        ("ce_type", f"ragweir.{kind}.v1".encode()),
        ("ce_source", f"ragweir/{service}".encode()),
        ("ce_id", identity.encode()),
        ("ce_time", time.isoformat().encode()),
        ("content-type", content_type.encode()),
    )


def add_dead_letter(
    outcome: Outcome,
    service: str,
    record: Record,
    error_class: ErrorClass,
    message: str,
    max_bytes: int,
    index: int = 0,
    *,
    repeated: bool = False,
) -> None:
    """Emit a record as a dead letter; of a value over `max_bytes` only the head is kept.

    Args:
        outcome: takes the dead letter and its count.
        service: emits it.
        record: the record in question.
        error_class: of the dead letter.
        message: one sentence that quotes nothing of the record.
        max_bytes: the largest value that is kept whole.
        index: the place within the record of the event in question.
        repeated: true for a record of which another dead letter has kept the value. This one keeps nothing of it, or
            the dead letters of a record with many events would take many times its size.
    """
    value, length, digest = (b"", len(record.value or b""), None) if repeated else kept_bytes(record.value, max_bytes)
    letter = DeadLetter(
        error_class=error_class,
        message=message,
        source_topic=record.topic,
        source_partition=record.partition,
        source_offset=record.offset,
        source_index=index or None,
        source_timestamp=record.timestamp_ms,
        length=length,
        sha256=digest,
    )
    # Any number may stand as a record's timestamp; dates end with the year 9999.
    time = datetime.fromtimestamp(max(0, min(record.timestamp_ms or 0, 2**43)) / 1000, UTC)
    identity = f"{record.topic}/{record.partition}/{record.offset}" + (f"/{index}" if index else "")
    headers = (
        *cloud_event(service, "dead_letter", identity, time, "application/octet-stream"),
        *letter.headers(),
    )
    # A key has no limit of its own, and a dead letter must never be too large to write.
    key = record.key and record.key[:HEAD_BYTES]
    outcome.emissions.append(Emission("dead-letter", key, value, headers))
    outcome.counts["ragweir_dead_letters_total", error_class] += 1
