"""Files of OpenTelemetry data: export requests of traces and log records, in every form in which they are written.

In protobuf a file holds one request or several concatenated ones, requests that are delimited by their lengths as
varints (OTLP's file format), or requests behind their lengths in four bytes (the Collector's file exporter, whose
requests may also be JSON, and each compressed by Zstandard). In JSON it holds one request, an array, or lines.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Mapping

from ragweir.errors import UnreadableFile

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""Size of the largest request of a file that is read, decompressed."""
PROTOBUF, DELIMITED, FRAMED = "OTLP", "OTLP (delimited)", "OTLP (length-prefixed)"
"""Names of the binary formats."""

HEAD_BYTES = 64
"""Bytes of a file's beginning that tell whether it is one of these."""
_MAX_VARINT_BYTES = 10
_LENGTH_BYTES = 4
_ASCII = 0x7E
_CONTROLS = frozenset(range(0x20)) - frozenset(b"\t\n\r")
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_JSON = re.compile(rb'\s*+\[?\s*+\{\s*+"resource_?(?:spans|logs|metrics)"', re.IGNORECASE)
_DATA, _RESOURCE, _SCOPE = 0x0A, 0x0A, 0x12
"""Tags of fields: the data of a resource in a request; the resource and the data of a scope in those."""
_TAGS: Mapping[int, frozenset[int]] = {
    1: frozenset({_RESOURCE, _SCOPE, 0x1A}),
    2: frozenset({0x0A, 0x10, 0x12, 0x1A}),
}
"""Tags that may come first in the data of a resource, and in its resource or first scope."""


def is_json(head: bytes) -> bool:
    r"""Return true if a text begins as a request in JSON, or an array of them.

    >>> is_json(b'{\n  "resourceSpans": ['), is_json(b'{"query": "resourceSpans"}')
    (True, False)
    """
    return _JSON.match(head) is not None


def binary_format(head: bytes) -> str:
    r"""Return the name of the binary format that begins like this; an empty text if none does.

    >>> request = bytes.fromhex("0a060a0012020a00")
    >>> binary_format(request), binary_format(b"\x08" + request), binary_format(b"\0\0\0\x08" + request)
    ('OTLP', 'OTLP (delimited)', 'OTLP (length-prefixed)')
    >>> binary_format(b"\n\n\n\n{}"), binary_format(b'{"event_id": 1}')
    ('', '')
    """
    if _is_request(head):
        return PROTOBUF
    size, body = int.from_bytes(head[:_LENGTH_BYTES], "big"), head[_LENGTH_BYTES:]
    if 0 < size <= MAX_REQUEST_BYTES and (body.startswith(_ZSTANDARD) or is_json(body) or _is_request(body, size)):
        return FRAMED
    if (found := _varint(head, 0)) is not None and _is_request(head[found[1] :], found[0]):
        return DELIMITED
    return ""


def may_be_binary(head: bytes) -> bool:
    r"""Return true if the first bytes, of which there are four or more, are not those of a text for certain.

    >>> may_be_binary(b"\n{}\n"), may_be_binary(b"id,a"), may_be_binary(bytes.fromhex("0a060a00"))
    (False, False, True)
    """
    if len(head) < _LENGTH_BYTES:
        return False
    if head[0] == _DATA:
        found = _varint(head, 1)
        return found is None or found[1] >= len(head) or head[found[1]] in _TAGS[1]
    return any(byte > _ASCII or byte in _CONTROLS for byte in head)


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """Return a varint and the place after it; None if it does not end."""
    value = 0
    for place, byte in enumerate(data[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:  # The last byte has no high bit.
            return value, at + place + 1
    return None


def _is_request(head: bytes, size: int | None = None) -> bool:
    """Return true if the fields at the beginning, one within the other, are those of a request and fit its size."""
    outer = _field(head, 0, frozenset({_DATA}), size)
    inner = outer and _field(head, outer[0], _TAGS[1], outer[1])
    # An empty resource has nothing within it, and a short head may end before that.
    return bool(inner and (inner[1] == 0 or inner[0] >= len(head) or head[inner[0]] in _TAGS[2]))


def _field(head: bytes, at: int, tags: frozenset[int], room: int | None) -> tuple[int, int] | None:
    """Return the place and the size of a field that begins with one of these tags; None if there is none that fits."""
    found = _varint(head, at + 1) if at < len(head) and head[at] in tags else None
    if found is None or (room is not None and found[0] > room - (found[1] - at)):
        return None
    return found[1], found[0]


def read_requests(content: io.BufferedReader, name: str, form: str) -> Iterator[tuple[int, bytes]]:
    r"""Yield the requests of a binary file with their numbers, from 1.

    Each resource of a request in `PROTOBUF` is a request of its own, so that concatenated files can be read, and no
    more memory is needed than for one of them.

    >>> content = io.BufferedReader(io.BytesIO(b"\0\0\0\2{}\0\0\0\2[]"))
    >>> list(read_requests(content, "traces", FRAMED))
    [(1, b'{}'), (2, b'[]')]

    Args:
        content: the file, decompressed.
        name: the name of the file, for messages.
        form: the name of its format.

    Raises:
        UnreadableFile: if the file ends within a request, something else is between two of them, or one is over
            `MAX_REQUEST_BYTES`.
    """
    number = 0
    try:
        while (body := _next(content, form)) is not None:
            number += 1
            yield number, body
    except _Damage as damage:
        raise UnreadableFile(f"{name}: {damage}, after {number:,} whole requests") from None


class _Damage(Exception):
    pass


def _next(content: io.BufferedReader, form: str) -> bytes | None:
    first = content.read(1)
    if not first:
        return None
    if form == FRAMED:
        size = int.from_bytes(first + _exactly(content, _LENGTH_BYTES - 1), "big")
        return _decompressed(_body(content, size))
    if form == DELIMITED:
        return _body(content, _read_varint(content, first)[0])
    if first[0] != _DATA:
        raise _Damage("something follows that is no data of a resource")
    size, raw = _read_varint(content, content.read(1))
    return first + raw + _body(content, size)


def _read_varint(content: io.BufferedReader, raw: bytes) -> tuple[int, bytes]:
    """Return a varint, and its bytes."""
    while (found := _varint(raw, 0)) is None:
        if len(raw) >= _MAX_VARINT_BYTES:
            raise _Damage("a length is damaged")
        raw += _exactly(content, 1)
    return found[0], raw


def _body(content: io.BufferedReader, size: int) -> bytes:
    if size > MAX_REQUEST_BYTES:
        raise _Damage(f"a request is over the limit of {MAX_REQUEST_BYTES:,} bytes, or its length is damaged")
    return _exactly(content, size)


def _exactly(content: io.BufferedReader, size: int) -> bytes:
    data = content.read(size)
    if len(data) < size:
        raise _Damage("the file ends within a request")
    return data


def _decompressed(body: bytes) -> bytes:
    if not body.startswith(_ZSTANDARD):
        return body
    try:
        with zstd.ZstdFile(io.BytesIO(body)) as source:
            data = source.read(MAX_REQUEST_BYTES + 1)
    except (EOFError, zstd.ZstdError):
        raise _Damage("a request is compressed by Zstandard and damaged") from None
    if len(data) > MAX_REQUEST_BYTES:
        raise _Damage(f"a request is over the limit of {MAX_REQUEST_BYTES:,} bytes when it is decompressed")
    return data
