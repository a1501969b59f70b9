"""Spans and log records that are written by hand, from the documentation that the tests name."""

from collections.abc import Mapping
from typing import Any

from ragweir.streams.traces.span import SpanEvent, TraceLog, TraceSpan

TRACE = "0af7651916cd43dd8448eb211c80319c"
STARTED = 1_795_376_000_000_000_000


def span(
    attributes: Mapping[str, Any],
    *,
    name: str = "",
    id: str = "b7ad6b7169203331",
    parent: str | None = None,
    scope: str = "",
    error: str | None = None,
    events: tuple[tuple[str, Mapping[str, Any]], ...] = (),
    at: int = 0,
    dropped: int = 0,
) -> TraceSpan:
    """Return a span of two seconds that begins `at` milliseconds after the first; its events come a second later."""
    started = STARTED + at * 1_000_000
    return TraceSpan(
        trace_id=TRACE,
        span_id=id,
        parent_id=parent,
        remote_parent=False,
        name=name,
        kind=1,
        started_ns=started,
        ended_ns=started + 2_000_000_000,
        attributes=attributes,
        resource={},
        scope=scope,
        scope_version="",
        events=tuple(SpanEvent(event, started + 1_000_000_000, values) for event, values in events),
        error=error,
        dropped_attributes=dropped,
    )


def log(event_name: str, body: Any = None, attributes: Mapping[str, Any] | None = None) -> TraceLog:
    """Return a log record of the span."""
    return TraceLog(
        trace_id=TRACE,
        span_id="b7ad6b7169203331",
        time_ns=STARTED,
        event_name=event_name,
        body=body,
        attributes=attributes or {},
        resource={},
        scope="",
    )
