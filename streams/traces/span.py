"""Spans and log records, read from OTLP into plain Python values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Attributes = Mapping[str, Any]
"""Attributes by key; the values are text, numbers, booleans, None, bytes, lists and dicts."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event within a span, such as an exception."""

    name: str
    time_ns: int
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One span of a trace."""

    trace_id: str
    """32 hex digits."""
    span_id: str
    """16 hex digits."""
    parent_id: str | None
    """16 hex digits; None for a span without a parent."""
    remote_parent: bool
    """True if the parent belongs to another process: by the flags, or, where these do not say, for a SERVER or CONSUMER
    span."""
    name: str
    kind: int
    """OTLP's number of the span kind."""
    started_ns: int
    ended_ns: int
    attributes: Attributes
    resource: Attributes
    scope: str
    """Name of the instrumentation scope."""
    scope_version: str
    events: tuple[SpanEvent, ...] = ()
    error: str | None = None
    """Message of the status if it is an error, which may be empty; None for any other status."""
    dropped_attributes: int = 0
    """Number of attributes that the SDK left out because of its limit."""


@dataclass(frozen=True, slots=True)
class TraceLog:
    """One log record that belongs to a span."""

    trace_id: str
    span_id: str
    time_ns: int
    event_name: str
    """Name of the event: the field, or else the attribute `event.name`."""
    body: Any
    attributes: Attributes
    resource: Attributes
    scope: str
