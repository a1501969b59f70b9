"""CloudEvents headers and dead letters, which all agents write in the same way."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from ragweir.errors import ErrorClass
from ragweir.schemas.dead_letter import HEAD_BYTES, DeadLetter, kept_bytes
from ragweir.streams.runtime.headers import producer_headers, trace_headers
from ragweir.streams.runtime.records import Emission, Headers, Outcome, Record
from ragweir.streams.runtime.text.escapes import escaped


@lru_cache
def _type_and_source(service: str, kind: str) -> Headers:
    return (
        ("ce_specversion", b"1.0"),
        ("ce_type", f"ragweir.{kind}.v1".encode()),
        ("ce_source", f"ragweir/{service}".encode()),
    )


def cloud_event(service: str, kind: str, identity: str, time: datetime, content_type: str) -> Headers:
    """Return the headers of CloudEvents' Kafka binding, which do not depend on the time or host of the evaluation."""
    return (
        *_type_and_source(service, kind),
        ("ce_id", identity.encode()),
        ("ce_time", time.isoformat().encode()),
        ("content-type", content_type.encode()),
    )


def with_trace(emissions: list[Emission], record: Record) -> list[Emission]:
    """Return emissions with the trace context of the record that they are made of."""
    if not record.headers or not (trace := trace_headers(record.headers)):
        return emissions
    return [each._replace(headers=(*each.headers, *trace)) for each in emissions]


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
    """Add a dead letter to an outcome, with the headers of its record; of a value over `max_bytes` the head is kept.

    Args:
        outcome: gets the dead letter and its count.
        service: the service that writes it.
        record: the input record.
        error_class: the class of the error.
        message: one sentence that quotes nothing of the record; control characters, as of a name in a schema, are
            escaped.
        max_bytes: the size of the largest value that is kept whole.
        index: the index of the event within the record.
        repeated: true if another dead letter has the value of this record, which is then left out: the dead letters of
            a record with many events would be many times its size.
    """
    value, length, digest = (b"", len(record.value or b""), None) if repeated else kept_bytes(record.value, max_bytes)
    letter = DeadLetter(
        error_class=error_class,
        message=escaped(message),  # Any tool that lists records prints headers as they are.
        source_topic=record.topic,
        source_partition=record.partition,
        source_offset=record.offset,
        source_index=index or None,
        source_timestamp=record.timestamp_ms,
        length=length,
        sha256=digest,
    )
    # A timestamp can be any number; dates end with the year 9999.
    time = datetime.fromtimestamp(max(0, min(record.timestamp_ms or 0, 2**43)) / 1000, UTC)
    identity = f"{record.topic}/{record.partition}/{record.offset}" + (f"/{index}" if index else "")
    theirs = producer_headers(record.headers) if record.headers else ()
    headers = (
        *cloud_event(service, "dead_letter", identity, time, "application/octet-stream"),
        *letter.headers(),
        *theirs,
    )
    # A key may have any size, and a dead letter must not be too large to write.
    key = record.key and record.key[: HEAD_BYTES - sum(len(name) + len(value or b"") for name, value in theirs)]
    outcome.emissions.append(Emission("dead-letter", key, value, headers))
    outcome.counts["ragweir_dead_letters_total", error_class] += 1
