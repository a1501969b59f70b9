"""Encoding of a captured event as a record of Kafka, which the service that reads it does not reject."""

from __future__ import annotations

import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from pathlib import PurePath
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel

from ragweir.errors import Rejected
from ragweir.schemas.codec.json import decode, event_time, parse
from ragweir.schemas.feedback import feedback_of
from ragweir.schemas.times import from_epoch
from ragweir.streams.clients.publish.backlog import CapturedEvent, CapturedSpan
from ragweir.streams.clients.publish.identity import event_id
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.records import Headers
from ragweir.streams.settings import PublishSettings

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC | orjson.OPT_SERIALIZE_NUMPY
_NO_RESPONSE = ""
"""The response of an event whose block raised before it had one."""


class EncodedEvent(NamedTuple):
    """A record to send."""

    key: bytes
    value: bytes
    headers: Headers
    timestamp_ms: int


def encode(event: CapturedEvent, defaults: PublishSettings, max_bytes: int) -> EncodedEvent:
    """Encode an event and check that it is an interaction, or feedback.

    >>> event = CapturedEvent({"query": "Who?", "response": "Ada."}, captured_ns=1_764_000_000_000_000_000)
    >>> record = encode(event, PublishSettings(application="bot"), 1000)
    >>> decode(record.value).application, record.key == decode(record.value).event_id.encode()
    ('bot', True)

    Raises:
        Rejected: if it cannot be encoded, is larger than `max_bytes` or is neither. The message quotes nothing of it.
    """
    try:
        fields = dict(event.fields)
    except (TypeError, ValueError):
        raise Rejected("invalid", "an event is a mapping of fields") from None
    completed = _dated(fields, event) if event.is_feedback else _completed(fields, event, defaults)
    try:
        value = orjson.dumps(completed, _plain, _OPTIONS)
    except TypeError as error:
        raise Rejected("invalid", f"it has no form in JSON: {error}") from None
    captured_ms = event.captured_ns // 1_000_000
    if event.is_feedback:
        feedback = feedback_of(parse(value, max_bytes))
        if feedback.value is None and fields["value"] is not None:  # JSON has null for a number that is none.
            raise Rejected("invalid", "value: must be a finite number")
        return EncodedEvent(feedback.target.encode(), value, (("content-type", b"application/json"),), captured_ms)
    interaction = decode(value, max_bytes=max_bytes)
    identity = interaction.event_id
    time = event_time(interaction, captured_ms)
    headers = cloud_event("publish", "interaction", identity, time, "application/json")
    return EncodedEvent(identity.encode(), value, headers, captured_ms)


def _completed(fields: dict[str, Any], event: CapturedEvent, defaults: PublishSettings) -> dict[str, Any]:
    """Return the fields with the captured times and spans, and with defaults for absent ones."""
    captured: dict[str, Any] = {
        "started_at": _time(event.started_ns),
        "ended_at": _time(event.ended_ns),
        "first_token_at": _time(event.first_token_ns),
        "application": defaults.application,
        "environment": defaults.environment,
        "pipeline_version": defaults.pipeline_version,
        "event_id": event_id(event.captured_ns) if fields.get("event_id") is None else None,
        "response": _NO_RESPONSE if fields.get("error") else None,
    }
    fields |= {name: value for name, value in captured.items() if value is not None and fields.get(name) is None}
    labels = fields.get("labels")
    if defaults.labels and (labels is None or isinstance(labels, dict)):
        fields["labels"] = {**defaults.labels, **(labels or {})}
    if event.spans:
        given = fields.get("spans")
        fields["spans"] = [*(given if isinstance(given, list) else ()), *map(_span, event.spans)]
    return fields


def _dated(fields: dict[str, Any], event: CapturedEvent) -> dict[str, Any]:
    """Return the fields of feedback with the time of the call, if they have none."""
    return fields if fields.get("time") is not None else {**fields, "time": _time(event.captured_ns)}


def _span(span: CapturedSpan) -> dict[str, Any]:
    parent = None if span.parent_id is None else str(span.parent_id)
    return {
        "id": str(span.id),
        "parent_id": parent,
        "kind": span.kind,
        "name": span.name,
        "started_at": _time(span.started_ns),
        "ended_at": _time(span.ended_ns),
        "error": span.error,
    }


def _time(epoch_ns: int | None) -> object:
    return None if epoch_ns is None else from_epoch(epoch_ns, "ns")


def _plain(value: object) -> object:
    """Return an object as one that JSON has a form for."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, AbstractSet):
        return list(value)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, PurePath):
        return os.fspath(value)
    raise TypeError  # orjson adds the type's name.
