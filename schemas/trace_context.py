"""Trace context: the `traceparent` header of W3C Trace Context."""

from __future__ import annotations

import re
from typing import NamedTuple

TRACEPARENT = "traceparent"
"""Name of the header."""
_VERSION_00 = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")


class TraceContext(NamedTuple):
    """The ids of a `traceparent`."""

    trace_id: str
    span_id: str


def parse_traceparent(value: bytes | None) -> TraceContext | None:
    """Return the ids of a `traceparent` of version 00, in lower case as the specification requires; None if invalid.

    >>> parse_traceparent(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").span_id
    '00f067aa0ba902b7'
    >>> parse_traceparent(b"00-00000000000000000000000000000000-00f067aa0ba902b7-01") is None
    True
    """
    if value is None or (match := _VERSION_00.fullmatch(value)) is None:
        return None
    return TraceContext(match[1].decode(), match[2].decode())
