"""Export requests of OTLP: traces or log records, in protobuf or JSON, told apart by their content.

A span of Redpanda's topic `redpanda.otel_traces` is read as a request of this span.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from ragweir.errors import Rejected
from ragweir.streams.traces import otlp_json, redpanda


@dataclass(frozen=True, slots=True)
class Signal:
    """A kind of request: its message, and the names of its resources, their scopes and the items of these."""

    message: type[Message]
    resources: str
    scopes: str
    items: str


TRACES = Signal(TracesData, "resource_spans", "scope_spans", "spans")
LOGS = Signal(LogsData, "resource_logs", "scope_logs", "log_records")


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """A parsed export request."""

    signal: Signal
    message: Any
    is_protobuf: bool
    """True if its bytes are the message in protobuf."""


_LENGTH_DELIMITED = 2
_WIDTHS = {1: 8, 5: 4}
"""Size of a field by its wire type."""
_SPAN_TYPES = {1: 2, 2: 2, 6: 0, 7: 1, 8: 1, 10: 0, 11: 2, 12: 0}
_LOG_TYPES = {1: 1, 2: 0, 6: 2, 7: 0, 8: 5, 10: 2, 11: 1, 12: 2}
"""Wire types of the fields whose numbers both a span and a log record have, with different types."""
_MAX_VARINT_BITS = 63
_WHITESPACE = b" \t\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def parse(value: bytes) -> ExportRequest:
    r"""Parse an export request.

    >>> parse(b'{"resourceLogs": []}').signal is LOGS
    True
    >>> parse(bytes.fromhex("0a 07 12 05 12 03 0a 01 00")).signal is TRACES
    True
    >>> parse(b"hello")
    Traceback (most recent call last):
        ...
    ragweir.errors.Rejected: neither OTLP in protobuf nor in JSON

    Raises:
        Rejected: if it is neither protobuf nor JSON of OTLP.
    """
    value = redpanda.unframed(value)
    text = value.removeprefix(_BYTE_ORDER_MARK).lstrip(_WHITESPACE)
    if not text.startswith(b"{"):
        return _parse_protobuf(value)
    if len(text) < len(value):  # A line feed before the text begins a field of protobuf, too.
        with suppress(Rejected):
            return _parse_protobuf(value)
    return _parse_json(text)


def _parse_protobuf(value: bytes) -> ExportRequest:
    try:
        if (span := _redpanda_span(value)) is not None:
            return ExportRequest(TRACES, span, is_protobuf=False)
        signal = LOGS if _has_logs(value) else TRACES
        message = signal.message()
        message.ParseFromString(value)
    except DecodeError:
        raise Rejected("unreadable", "neither OTLP in protobuf nor in JSON") from None
    if value and not getattr(message, signal.resources):
        raise Rejected("unreadable", "protobuf without a resource, so that it is no OTLP of traces or log records")
    return ExportRequest(signal, message, is_protobuf=True)


def _redpanda_span(value: bytes) -> Message | None:
    """Return the request of a span of Redpanda's; None if the value is none."""
    try:
        return redpanda.from_protobuf(value, _fields(value, 0, len(value)))
    except (IndexError, ValueError):
        return None  # The parser reports it.


def _parse_json(text: bytes) -> ExportRequest:
    data = otlp_json.parse(text)
    if redpanda.is_span(data):
        return ExportRequest(TRACES, redpanda.from_json(data), is_protobuf=False)
    signals = [signal for signal in (TRACES, LOGS) if not data.keys().isdisjoint(_names(signal))]
    if data and not signals:
        raise Rejected("unreadable", "JSON, but not OTLP: it has neither resourceSpans nor resourceLogs")
    signal = signals[0] if signals else TRACES
    message = signal.message()
    otlp_json.fill(message, data)
    return ExportRequest(signal, message, is_protobuf=False)


def _names(signal: Signal) -> tuple[str, str]:
    """Return both names of a request's resources in JSON."""
    field = signal.message.DESCRIPTOR.fields_by_name[signal.resources]
    return field.name, field.json_name


def _has_logs(value: bytes) -> bool:
    """Return whether the items of a request in protobuf are log records, by the first field that tells."""
    try:
        for first, last in _nested(value, 0, len(value), 1):
            for scope_first, scope_last in _nested(value, first, last, 2):
                for item_first, item_last in _nested(value, scope_first, scope_last, 2):
                    for number, kind, _, _ in _fields(value, item_first, item_last):
                        if number in _LOG_TYPES and kind in (_LOG_TYPES[number], _SPAN_TYPES[number]):
                            return kind == _LOG_TYPES[number]
    except (IndexError, ValueError):
        pass  # The parser reports it.
    return False


def _nested(value: bytes, at: int, end: int, wanted: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the messages in a field."""
    for number, kind, first, last in _fields(value, at, end):
        if number == wanted and kind == _LENGTH_DELIMITED:
            yield first, last


def _fields(value: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, wire type and bounds of the fields of a message.

    Raises:
        ValueError, IndexError: if it is no protobuf.
    """
    while at < end:
        tag, at = _varint(value, at)
        kind, first = tag & 7, at
        if kind == 0:
            _, at = _varint(value, at)
        elif kind == _LENGTH_DELIMITED:
            size, first = _varint(value, at)
            at = first + size
        else:
            at += _WIDTHS.get(kind) or end
        if at > end:
            raise ValueError
        yield tag >> 3, kind, first, at


def _varint(value: bytes, at: int) -> tuple[int, int]:
    """Return a number, and the position after it."""
    number = shift = 0
    while True:
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > _MAX_VARINT_BITS:
            raise ValueError
