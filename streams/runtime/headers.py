"""Headers of records from outside: their limits, the trace context, and their escaping on dead letters.

A dead letter and a redriven event have headers of ragweir's, and those of the producer after them. A producer's header
whose name ragweir uses has `original-` before its name there, so that it cannot be taken for one of ragweir's.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragweir.schemas.codec.intake import HEADERS_CUT, TRACEPARENT_INVALID
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.trace_context import TRACEPARENT, TraceContext, parse_traceparent
from ragweir.streams.runtime.records import Headers

MAX_HEADERS = 64
"""Maximum number of a record's headers that are kept."""
MAX_HEADER_BYTES = 16 * 1024
"""Maximum size of their names and values together, in bytes."""

_ORIGINAL = "original-"
_ESCAPED_BYTES = MAX_HEADER_BYTES + MAX_HEADERS * len(_ORIGINAL)
_RESERVED = ("ragweir-", "ce_", _ORIGINAL)
"""Prefixes of the names that ragweir gives to headers."""
_CONTENT_TYPE, _SOURCE = "content-type", "ce_source"
_WRITTEN, _PUBLISHED = b"ragweir/", b"ragweir/publish"
"""Sources of the records that ragweir writes; what its publisher writes is the application's."""


@dataclass(frozen=True, slots=True)
class ReadHeaders:
    """The use of a record's headers for its events."""

    flags: tuple[str, ...] = ()
    """Flags of the events."""
    context: TraceContext | None = None
    """The valid trace context."""

    def applied(self, event: Interaction) -> Interaction:
        """Return an event with the flags, and with the ids of the trace context.

        The event's own `trace_id` and `span_id` come first, and the header's span id is used only with its trace.

        >>> event = Interaction(event_id="1", query="", response="", trace_id="own")
        >>> ReadHeaders(context=TraceContext("a", "b")).applied(event) == event
        True
        """
        context = self.context
        if context is not None and event.span_id is None and event.trace_id in (None, context.trace_id):
            event = event.with_flags(event.flags, context._asdict())
        return event.with_flags({*event.flags, *self.flags}) if self.flags else event


def kept_headers(headers: Headers, most_bytes: int = MAX_HEADER_BYTES) -> tuple[Headers, bool]:
    """Return the first headers within the limits, and true if others follow.

    >>> kept_headers((("a", b"1"), ("b", bytes(MAX_HEADER_BYTES)), ("c", None)))
    ((('a', b'1'),), True)
    """
    size = 0
    for number, (name, value) in enumerate(headers):
        size += len(name.encode()) + len(value or b"")
        if number == MAX_HEADERS or size > most_bytes:
            return headers[:number], True
    return headers, False


def read_headers(headers: Headers, *, is_lost: bool = False) -> ReadHeaders:
    """Return the flags and the trace context of a record's headers. Several `traceparent` headers are invalid.

    Args:
        headers: the headers.
        is_lost: true if there are others that cannot be read.

    >>> read_headers((("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),)).context.span_id
    '00f067aa0ba902b7'
    >>> read_headers((("traceparent", b"00-0-0-00"),)).flags
    ('traceparent_invalid',)
    """
    kept, is_cut = _producers(headers)
    parents = [value for name, value in kept if name == TRACEPARENT]
    context = parse_traceparent(parents[0]) if len(parents) == 1 else None
    flags = (HEADERS_CUT,) * (is_cut or is_lost) + (TRACEPARENT_INVALID,) * bool(parents and context is None)
    return ReadHeaders(flags, context)


def trace_headers(headers: Headers) -> Headers:
    """Return the headers to write with what is made of a record: its `traceparent`, if that is valid.

    >>> trace_headers((("a", b"1"), ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")))
    (('traceparent', b'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'),)
    """
    if not any(name == TRACEPARENT for name, _ in headers) or read_headers(headers).context is None:
        return ()
    return tuple(header for header in headers if header[0] == TRACEPARENT)


def producer_headers(headers: Headers) -> Headers:
    """Return the producer's headers as a dead letter or a redriven event has them, within the limits.

    Those of a record that ragweir wrote are escaped already, and the others of it are left out.

    >>> letter = (("ragweir-message", b"forged"), ("ce_id", b"7"), ("a", None))
    >>> producer_headers(letter)
    (('original-ragweir-message', b'forged'), ('original-ce_id', b'7'), ('a', None))
    >>> own = (("ce_source", b"ragweir/evaluate"), ("ragweir-message", b"m"))
    >>> producer_headers(own + producer_headers(letter)) == producer_headers(letter)
    True
    """
    kept, _ = _producers(headers)
    if _is_own(headers):
        return kept
    return tuple((_ORIGINAL + name if _is_reserved(name) else name, value) for name, value in kept)


def _producers(headers: Headers) -> tuple[Headers, bool]:
    """Return the producer's headers within the limits, under the names that they have, and true if some were cut."""
    if not _is_own(headers):
        return kept_headers(headers)
    theirs = tuple(header for header in headers if header[0].startswith(_ORIGINAL) or not _is_reserved(header[0]))
    return kept_headers(theirs, _ESCAPED_BYTES)


def _is_own(headers: Headers) -> bool:
    """Return whether ragweir wrote the record, by the first source of its CloudEvents headers."""
    source = next((value for name, value in headers if name == _SOURCE), None) or b""
    return source.startswith(_WRITTEN) and source != _PUBLISHED


def _is_reserved(name: str) -> bool:
    return name.startswith(_RESERVED) or name == _CONTENT_TYPE
