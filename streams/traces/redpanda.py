"""Spans as Redpanda writes them to its topic `redpanda.otel_traces`: one in a record, with its resource and scope.

The form is `redpanda.otel.v1.Span` (https://github.com/redpanda-data/common-go, redpanda-otel-exporter/proto), in
Protobuf or in the JSON of Protobuf, whose ids are base64, with or without the frame of a Schema Registry. Its fields
are those of an OTLP span by other numbers, and what is below them is OTLP: the schema itself is not needed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from ragweir.errors import Rejected
from ragweir.streams.traces import otlp_json

_RESOURCE, _RESOURCE_URL, _SCOPE, _SCOPE_URL, _TRACE_ID = 1, 2, 3, 4, 5
_NUMBERS: Mapping[int, int] = {
    _TRACE_ID: 1, 6: 2, 7: 3, 8: 4, 9: 16, 10: 5, 11: 6, 12: 7, 13: 8, 14: 9, 15: 10, 16: 11, 17: 12, 18: 13, 19: 14,
    20: 15,
}  # fmt: skip
"""Numbers of the fields of OTLP's span by those of Redpanda's."""
_IDS = (("traceId", "trace_id", 16), ("spanId", "span_id", 8), ("parentSpanId", "parent_span_id", 8))
_FRAME_BYTES = 5
"""Size of the frame: a zero, with which no OTLP begins, and the schema's id."""
_FIRST_MESSAGE = b"\0"
"""The indexes of Protobuf's frame: the first message of the schema, which is the span."""
_LENGTH_DELIMITED = 2

Field = tuple[int, int, int, int]
"""Number, wire type, and the bounds of the payload."""


def unframed(value: bytes) -> bytes:
    r"""Return a value without the frame of a Schema Registry, if it has one.

    >>> unframed(b"\0\0\0\0\x07{}"), unframed(b"\0\0\0\0\x07\0\x52\1a"), unframed(b"{}")
    (b'{}', b'R\x01a', b'{}')

    Raises:
        Rejected: if there is nothing in the frame.
    """
    if not value.startswith(b"\0"):
        return value
    data = value[_FRAME_BYTES:]
    data = data if data.startswith(b"{") else data.removeprefix(_FIRST_MESSAGE)
    if not data:
        raise Rejected(
            "unreadable", "neither OTLP nor a span of Redpanda: a Schema Registry's frame with nothing in it"
        )
    return data


def is_span(data: Mapping[str, Any]) -> bool:
    """Return whether parsed JSON is a span of its own."""
    return all(not data.keys().isdisjoint(names) for names in (("traceId", "trace_id"), ("spanId", "span_id")))


def from_json(data: Mapping[str, Any]) -> TracesData:
    """Return the export request of a span in JSON.

    >>> from_json({"traceId": "S/kvNXezTaajzpKdDg5HNg=="}).resource_spans[0].scope_spans[0].spans[0].trace_id.hex()
    '4bf92f3577b34da6a3ce929d0e0e4736'

    Raises:
        Rejected: if a value has another type than its field, or is nested too deeply.
    """
    fields = dict(data)
    for name, other, size in _IDS:
        fields[name] = _hex(fields.pop(other, None) or fields.get(name), size)
    message = TracesData()
    resource = message.resource_spans.add()
    scope = resource.scope_spans.add()
    for holder, name in ((resource, "resource"), (scope, "scope")):
        url = next((data[key] for key in (f"{name}SchemaUrl", f"{name}_schema_url") if key in data), None)
        otlp_json.fill(holder, {name: fields.pop(name, None), "schemaUrl": url})
    otlp_json.fill(scope.spans.add(), fields)
    return message


def _hex(value: Any, size: int) -> Any:
    """Return an id as OTLP's JSON has it: that of Protobuf is base64."""
    if not isinstance(value, str) or len(value) == 2 * size:
        return value
    try:
        found = base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        return value
    return found.hex() if len(found) == size else value


def from_protobuf(value: bytes, fields: Iterable[Field]) -> TracesData | None:
    """Return the export request of a span in Protobuf; None if it is none.

    Args:
        value: the message.
        fields: its fields; those of an export request have only the numbers below a trace id's.

    Raises:
        DecodeError: if what is in it is not OTLP.
    """
    found = list(fields)
    if not any(number == _TRACE_ID for number, *_ in found):
        return None
    message = TracesData()
    resource = message.resource_spans.add()
    scope = resource.scope_spans.add()
    span: list[bytes] = []
    for number, kind, first, last in found:
        payload = value[first:last]
        if number in _NUMBERS:
            size = _varint(len(payload)) if kind == _LENGTH_DELIMITED else b""
            span += [_varint(_NUMBERS[number] << 3 | kind), size, payload]
        elif kind == _LENGTH_DELIMITED and number in (_RESOURCE, _SCOPE):
            (resource.resource if number == _RESOURCE else scope.scope).MergeFromString(payload)
        elif kind == _LENGTH_DELIMITED and number in (_RESOURCE_URL, _SCOPE_URL):
            (resource if number == _RESOURCE_URL else scope).schema_url = payload.decode(errors="replace")
    scope.spans.add().ParseFromString(b"".join(span))
    return message


def _varint(number: int) -> bytes:
    r"""Return a number in the form of Protobuf.

    >>> _varint(5), _varint(300)
    (b'\x05', b'\xac\x02')
    """
    digits: list[int] = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])
