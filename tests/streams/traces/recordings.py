"""Reads recorded exports without the product's own reader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragweir.streams.traces.interactions import Assembled, assemble
from ragweir.streams.traces.span import SpanEvent, TraceSpan

OTLP = Path(__file__).with_name("otlp")
_REMOTE_KINDS = (2, 5)
_ERROR = 2


def _value(value: Any) -> Any:
    match value.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [_value(each) for each in value.array_value.values]
        case "kvlist_value":
            return _attributes(value.kvlist_value.values)
        case name:
            return getattr(value, name)


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _span(span: Any, resource: Mapping[str, Any], scope: Any) -> TraceSpan:
    is_remote = bool(span.flags & 0x200) if span.flags & 0x100 else span.kind in _REMOTE_KINDS
    return TraceSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() or None,
        remote_parent=is_remote,
        name=span.name,
        kind=span.kind,
        started_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        resource=resource,
        scope=scope.name,
        scope_version=scope.version,
        events=tuple(SpanEvent(each.name, each.time_unix_nano, _attributes(each.attributes)) for each in span.events),
        error=span.status.message if span.status.code == _ERROR else None,
        dropped_attributes=span.dropped_attributes_count,
    )


def spans_of(path: Path) -> list[TraceSpan]:
    """Return the spans of an export request in protobuf."""
    return [
        _span(span, _attributes(part.resource.attributes), scope.scope)
        for part in ExportTraceServiceRequest.FromString(path.read_bytes()).resource_spans
        for scope in part.scope_spans
        for span in scope.spans
    ]


def recorded(case: str) -> list[list[TraceSpan]]:
    """Return the spans of each trace of a recording, such as `limits/docs70`, in the order of their beginnings."""
    folder, _, name = case.rpartition("/")
    traces: defaultdict[str, list[TraceSpan]] = defaultdict(list)
    for path in sorted((OTLP / folder).glob(f"{name}.*pb")):
        if ".logs." not in path.name:
            for span in spans_of(path):
                traces[span.trace_id].append(span)
    return sorted(traces.values(), key=lambda spans: min(span.started_ns for span in spans))


def assembled(case: str) -> list[Assembled]:
    """Return the interactions of each trace of a recording."""
    return [assemble(spans) for spans in recorded(case)]
