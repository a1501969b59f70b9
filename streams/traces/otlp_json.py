"""OTLP in JSON, converted to the messages of its protobuf form.

OTLP's JSON is not the JSON of protobuf: ids are hex digits. Names of fields may be in lowerCamelCase or snake_case,
64-bit integers texts or numbers, and enums numbers or names, whichever a program writes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from ragweir.errors import Rejected

MAX_DEPTH = 80
"""Maximum depth of messages within one another. Protobuf reads at most 100."""
_HEX = frozenset({"trace_id", "span_id", "parent_span_id"})
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_DIGITS = re.compile(r"[+-]?[0-9]{1,20}")


class _Field(NamedTuple):
    name: str
    is_repeated: bool
    is_message: bool
    convert: Callable[[Any], Any]
    """Returns a scalar of the field's type; raises ValueError or TypeError."""


def fill(message: Message, data: Mapping[str, Any]) -> None:
    """Set the fields of a message from parsed JSON; unknown names and nulls are left out.

    >>> from opentelemetry.proto.trace.v1.trace_pb2 import Span
    >>> span = Span()
    >>> fill(span, {"traceId": "0AF7651916CD43DD8448EB211C80319C", "kind": "SPAN_KIND_SERVER", "endTimeUnixNano": "5"})
    >>> span.trace_id.hex(), span.kind, span.end_time_unix_nano
    ('0af7651916cd43dd8448eb211c80319c', 2, 5)

    Raises:
        Rejected: if a value has another type than its field, or is nested too deeply.
    """
    _fill(message, data, MAX_DEPTH)


def _fill(message: Message, data: Any, depth: int) -> None:
    if not isinstance(data, dict):
        raise Rejected("unreadable", f"not OTLP: {message.DESCRIPTOR.name} is no object")
    if depth == 0:
        raise Rejected("unreadable", f"not readable as OTLP: nested more than {MAX_DEPTH} deep")
    fields = _fields(message.DESCRIPTOR)
    for key, value in data.items():
        field = fields.get(key)
        if field is None or value is None:
            continue
        try:
            _set(message, field, value, depth)
        except (ValueError, TypeError, OverflowError):
            raise Rejected("unreadable", f"not OTLP: {field.name} of {message.DESCRIPTOR.name} is not valid") from None


def _set(message: Message, field: _Field, value: Any, depth: int) -> None:
    if not field.is_repeated:
        if not field.is_message:
            setattr(message, field.name, field.convert(value))
        else:
            inner = getattr(message, field.name)
            inner.SetInParent()
            _fill(inner, value, depth - 1)
        return
    if not isinstance(value, list):
        raise TypeError
    repeated = getattr(message, field.name)
    for each in value:
        if not field.is_message:
            repeated.append(field.convert(each))
        else:
            # A null in a list stands for a value, so that it is not left out.
            _fill(repeated.add(), {} if each is None else each, depth - 1)


@cache
def _fields(descriptor: Descriptor) -> Mapping[str, _Field]:
    """Return the fields of a message by both of their names."""
    fields = {}
    for each in descriptor.fields:
        field = _Field(each.name, each.is_repeated, each.message_type is not None, _converter(each))
        fields[each.name] = fields[each.json_name] = field
    return fields


def _converter(field: FieldDescriptor) -> Callable[[Any], Any]:
    """Return the function that converts a scalar."""
    if field.cpp_type in _INTEGERS:
        low, high = _INTEGERS[field.cpp_type]
        return lambda value: _integer(value, low, high)
    if field.enum_type is not None:
        names = {name: value.number for name, value in field.enum_type.values_by_name.items()}
        # A name that later versions add is unspecified here.
        return lambda value: names.get(value, 0) if isinstance(value, str) else _integer(value, -(2**31), 2**31 - 1)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _id if field.name in _HEX else _bytes
    return _SCALARS.get(field.cpp_type, lambda value: value)


def _integer(value: Any, low: int, high: int) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError
    return value


def _float(value: Any) -> float:
    # JSON has no NaN and no infinity: these are texts, and so may numbers be.
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


_SCALARS: Mapping[int, Callable[[Any], Any]] = {
    FieldDescriptor.CPPTYPE_DOUBLE: _float,
    FieldDescriptor.CPPTYPE_STRING: _text,
    FieldDescriptor.CPPTYPE_BOOL: _bool,
}


def _id(value: Any) -> bytes:
    """Return the bytes of an id; none for anything but hex digits, such as the base64 of protobuf's own JSON."""
    try:
        return binascii.unhexlify(_text(value))
    except ValueError:
        return b""


def _bytes(value: Any) -> bytes:
    text = _text(value)
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_" if {"-", "_"} & set(text) else None)


def parse(value: bytes) -> Mapping[str, Any]:
    """Parse JSON.

    Raises:
        Rejected: if it is no JSON object.
    """
    try:
        data = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise Rejected(
            "unreadable", f"neither OTLP in protobuf nor JSON: {error.msg} at character {error.pos}"
        ) from None
    if not isinstance(data, dict):
        raise Rejected("unreadable", "not OTLP: the JSON is no object")
    return data
