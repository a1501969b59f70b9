"""The frame of Confluent's serializers: a zero, the schema's id in four bytes, and the data."""

from __future__ import annotations

from typing import NamedTuple

from ragweir.errors import Rejected

HEAD_BYTES = 5
"""Size of the zero and the id."""


class SchemaFrame(NamedTuple):
    """The parts of a record's value."""

    schema_id: int
    data: bytes
    """For Protobuf it begins with the message's indexes."""


def schema_id(value: bytes | None) -> int | None:
    """Return the id of the schema that a value names; None if it names none.

    >>> schema_id(bytes([0, 0, 0, 1, 2, 9])), schema_id(b"{}"), schema_id(None)
    (258, None, None)
    """
    if value is None or len(value) < HEAD_BYTES or value[0] != 0:
        return None
    return int.from_bytes(value[1:HEAD_BYTES], "big")


def framed(schema_id: int, data: bytes) -> bytes:
    r"""Return the value of a record.

    >>> framed(258, b"A")
    b'\x00\x00\x00\x01\x02A'
    """
    return b"\0" + schema_id.to_bytes(HEAD_BYTES - 1, "big") + data


def unframed(value: bytes | None, max_bytes: int) -> SchemaFrame:
    """Return the parts of a value.

    >>> unframed(bytes([0, 0, 0, 0, 7, 65]), 100)
    SchemaFrame(schema_id=7, data=b'A')

    Raises:
        Rejected: if it has no frame or is longer than `max_bytes`.
    """
    if value is None:
        raise Rejected("tombstone", "the record has no value")
    if len(value) > max_bytes:
        raise Rejected("too_large", f"the event is over the limit of {max_bytes} bytes")
    number = schema_id(value)
    if number is None:
        why = "JSON without a schema id" if value[:1] in (b"{", b"[") else "its first byte is not 0"
        raise Rejected("unknown_schema", f"not a record of a Schema Registry: {why}")
    return SchemaFrame(number, value[HEAD_BYTES:])
