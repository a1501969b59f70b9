"""The wire form of OTLP: export requests of traces or log records, in protobuf or JSON, told apart by their content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from ragweir.errors import Rejected
from ragweir.streams.traces.export_request import LOGS, TRACES, ExportRequest, parse
from ragweir.streams.traces.span import SpanEvent, TraceLog, TraceSpan

MAX_GROWTH = 4
"""Maximum size of the slices of a request, as a multiple of its own."""
_FREE_BYTES = 64 * 1024
"""Size of slices that is never too large: a small request with several traces consists mostly of its resource."""
_SLICE_BYTES = 150
"""Size that counts for each slice besides its value: each becomes a record, with a key and headers."""
TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8
_NO_IDS = {size: bytes(size) for size in (TRACE_ID_BYTES, SPAN_ID_BYTES)}
_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200
"""Flags of a span: the SDK says if the parent is remote, and it is."""
_ENTRY_KINDS = frozenset({Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CONSUMER})
_EVENT_NAME = "event.name"
"""Attribute of a log record with the name of its event, from before there was a field for it."""

_SCALARS = frozenset({"string_value", "bool_value", "int_value", "double_value", "bytes_value"})


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of an export request that belongs to one trace."""

    trace_id: str
    """32 hex digits."""
    value: bytes
    """An export request of the same kind in protobuf, with the resources and scopes of the trace's spans or logs."""
    items: int
    """Number of its spans or log records."""


@dataclass(frozen=True, slots=True)
class Division:
    """An export request, divided by trace."""

    slices: list[Slice]
    """The slices, in the order of first occurrence."""
    unjoinable: int
    """Number of spans without a valid trace id or span id, which belong to no trace."""
    has_logs: bool = False
    """True if its items are log records."""


@dataclass(frozen=True, slots=True)
class SpanHead:
    """The part of a span that tells whether its trace is complete."""

    span_id: str
    parent_id: str | None
    remote_parent: bool
    started_ns: int
    ended_ns: int


def slices(value: bytes) -> list[Slice]:
    """Divide an export request by trace, in the order of first occurrence.

    Args:
        value: an export request of traces or log records, in protobuf or JSON.

    Raises:
        Rejected: if it is neither, or the slices would take more than four times its size; see `divide`.
    """
    return divide(value).slices


def most_bytes(value: bytes) -> int:
    """Return the most bytes of all records that are made of a request."""
    return max(MAX_GROWTH * len(value), _FREE_BYTES)


def divide(value: bytes) -> Division:
    """Divide an export request by trace, and count the spans that belong to none.

    Log records without a trace id, which are ordinary ones, are left out.

    >>> span = '{"traceId": "%032x", "spanId": "%016x"}'
    >>> spans = ", ".join(span % ids for ids in ((1, 1), (2, 2), (1, 3), (0, 4)))
    >>> division = divide(b'{"resourceSpans": [{"scopeSpans": [{"spans": [%s]}]}]}' % spans.encode())
    >>> [(int(each.trace_id, 16), each.items) for each in division.slices], division.unjoinable
    ([(1, 2), (2, 1)], 1)

    Args:
        value: an export request of traces or log records, in protobuf or JSON.

    Raises:
        Rejected: if it is neither, if it has spans and none of them belongs to a trace, or if the slices would take
            more than four times its size.
    """
    return divided(parse(value), value)


def divided(request: ExportRequest, value: bytes) -> Division:
    """Divide a parsed export request as `divide` does, which raises the same.

    Args:
        request: the request.
        value: its bytes.
    """
    traces, others = _by_trace(request, most_bytes(value))
    unjoinable = others if request.signal is TRACES else 0
    if unjoinable and not traces:
        raise Rejected(
            "unreadable", "none of the spans has a trace id of 32 and a span id of 16 hex digits that are not all 0"
        )
    if len(traces) == 1 and not others and request.is_protobuf:
        ((trace_id, parts),) = traces.items()
        only = Slice(trace_id.hex(), value, sum(len(items) for _, _, items in parts))
        return Division([only], 0, request.signal is LOGS)
    own = [_slice(request, trace_id, parts) for trace_id, parts in traces.items()]
    return Division(own, unjoinable, request.signal is LOGS)


_Parts = list[tuple[Any, Any, list[Any]]]
"""The items of one trace, with the resource and the scope that they are in."""


def _by_trace(request: ExportRequest, max_bytes: int) -> tuple[dict[bytes, _Parts], int]:
    """Return the items of each trace, and the number of items that belong to none.

    Raises:
        Rejected: if the resources and scopes, repeated for each of their traces, would exceed the size.
    """
    signal, is_traces = request.signal, request.signal is TRACES
    traces: dict[bytes, _Parts] = {}
    others, size = 0, request.message.ByteSize()
    for resource in getattr(request.message, signal.resources):
        seen: set[bytes] = set()
        resource_bytes = resource.resource.ByteSize() + len(resource.schema_url)
        size -= resource_bytes
        for scope in getattr(resource, signal.scopes):
            scope_bytes = scope.scope.ByteSize() + len(scope.schema_url)
            own: dict[bytes, list[Any]] = {}
            for item in getattr(scope, signal.items):
                trace_id = item.trace_id
                if is_id(trace_id, TRACE_ID_BYTES) and (not is_traces or is_id(item.span_id, SPAN_ID_BYTES)):
                    own.setdefault(trace_id, []).append(item)
                else:
                    others += 1
            # Counted before anything is copied: the copies of a large resource could take all memory.
            size += resource_bytes * len(own.keys() - seen) + scope_bytes * (len(own) - 1)
            size += _SLICE_BYTES * len(own.keys() - traces.keys())
            if size > max_bytes:
                raise _too_large(len(traces.keys() | own.keys()), max_bytes)
            seen |= own.keys()
            for trace_id, items in own.items():
                traces.setdefault(trace_id, []).append((resource, scope, items))
    return traces, others


def _too_large(traces: int, max_bytes: int) -> Rejected:
    return Rejected(
        "too_large",
        f"its {traces} traces or more, each with its resources, would take more than {max_bytes} bytes: shorten the "
        "resources, or partition the exporter's records by trace",
    )


def _slice(request: ExportRequest, trace_id: bytes, parts: _Parts) -> Slice:
    signal, message = request.signal, request.signal.message()
    resource = added = None
    for own, scope, items in parts:
        if own is not resource:
            resource, added = own, getattr(message, signal.resources).add()
            added.resource.CopyFrom(own.resource)
            added.schema_url = own.schema_url
        within = getattr(added, signal.scopes).add()
        within.scope.CopyFrom(scope.scope)
        within.schema_url = scope.schema_url
        getattr(within, signal.items).extend(items)
    return Slice(trace_id.hex(), message.SerializeToString(), sum(len(items) for _, _, items in parts))


def heads(value: bytes) -> Iterator[SpanHead]:
    """Yield the heads of the spans of a slice; none for log records, nor for spans that belong to no trace.

    Raises:
        Rejected: if it is no export request.
    """
    request = parse(value)
    if request.signal is LOGS:
        return
    for resource in request.message.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                span_id, parent_id = span.span_id, span.parent_span_id
                if is_id(span_id, SPAN_ID_BYTES) and is_id(span.trace_id, TRACE_ID_BYTES):
                    has_parent = is_id(parent_id, SPAN_ID_BYTES)
                    yield SpanHead(
                        span_id.hex(),
                        parent_id.hex() if has_parent else None,
                        has_parent and _is_remote(span),
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                    )


def read(value: bytes) -> tuple[list[TraceSpan], list[TraceLog]]:
    """Read the spans and log records of an export request, in protobuf or JSON.

    Those that belong to no trace are left out.

    Raises:
        Rejected: if it is no export request.
    """
    request = parse(value)
    if request.signal is LOGS:
        return [], list(_logs(request.message))
    return list(_spans(request.message)), []


def _spans(message: Any) -> Iterator[TraceSpan]:
    for resource in message.resource_spans:
        of_resource = attributes_of(resource.resource.attributes)
        for group in resource.scope_spans:
            scope, version = group.scope.name, group.scope.version
            for span in group.spans:
                if not (is_id(span.trace_id, TRACE_ID_BYTES) and is_id(span.span_id, SPAN_ID_BYTES)):
                    continue
                has_parent = is_id(span.parent_span_id, SPAN_ID_BYTES)
                yield TraceSpan(
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex() if has_parent else None,
                    remote_parent=has_parent and _is_remote(span),
                    name=span.name,
                    kind=span.kind,
                    started_ns=span.start_time_unix_nano,
                    ended_ns=span.end_time_unix_nano,
                    attributes=attributes_of(span.attributes),
                    resource=of_resource,
                    scope=scope,
                    scope_version=version,
                    events=tuple(
                        SpanEvent(event.name, event.time_unix_nano, attributes_of(event.attributes))
                        for event in span.events
                    ),
                    error=span.status.message if span.status.code == Status.STATUS_CODE_ERROR else None,
                    dropped_attributes=span.dropped_attributes_count,
                )


def _logs(message: Any) -> Iterator[TraceLog]:
    for resource in message.resource_logs:
        of_resource = attributes_of(resource.resource.attributes)
        for group in resource.scope_logs:
            for record in group.log_records:
                if not is_id(record.trace_id, TRACE_ID_BYTES):
                    continue
                attributes = attributes_of(record.attributes)
                yield TraceLog(
                    trace_id=record.trace_id.hex(),
                    span_id=record.span_id.hex() if is_id(record.span_id, SPAN_ID_BYTES) else "",
                    time_ns=record.time_unix_nano or record.observed_time_unix_nano,
                    event_name=event_name(record, attributes),
                    body=_plain(record.body),
                    attributes=attributes,
                    resource=of_resource,
                    scope=group.scope.name,
                )


def event_name(record: LogRecord, attributes: Mapping[str, Any]) -> str:
    """Return the name of the event of a log record with these attributes; empty text if it has none."""
    name = record.event_name or attributes.get(_EVENT_NAME)
    return name if isinstance(name, str) else ""


def is_id(value: bytes, size: int) -> bool:
    """Return whether an id of OpenTelemetry is valid: of its size, and not all 0."""
    return len(value) == size and value != _NO_IDS[size]


def _is_remote(span: Span) -> bool:
    """Return whether the parent of a span belongs to another process."""
    flags = span.flags
    return bool(flags & _IS_REMOTE) if flags & _HAS_IS_REMOTE else span.kind in _ENTRY_KINDS


def attributes_of(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    """Return attributes as plain values; of repeated keys the last one counts."""
    return {pair.key: _plain(pair.value) for pair in pairs}


def _plain(value: AnyValue) -> Any:
    """Return a value of OTLP as one of Python. The parser limits its depth."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return attributes_of(value.kvlist_value.values)
    return getattr(value, kind) if kind in _SCALARS else None
