"""The dead letter: a record that could not be evaluated, with the reason."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from ragweir.errors import ErrorClass
from ragweir.schemas.interaction import RecordPart

HEAD_BYTES = 64 * 1024
"""Number of bytes that a dead letter has of a record over the size limit."""

_PREFIX = "ragweir-"


class DeadLetter(RecordPart):
    """The reason why a record was rejected, and its position. It is written as headers; the value is the record's own.

    `message` never quotes the record. For a record over the size limit the value is its first 64 KiB, and `length` and
    `sha256` are those of the whole. For a record with several rejected events, the first dead letter has the value;
    the values of the others are empty, and their `length` is that of the whole.
    """

    error_class: ErrorClass
    """Class of the error."""
    message: str
    """Reason; it never quotes the record."""
    source_topic: str
    """Topic of the record."""
    source_partition: int
    """Partition of the record."""
    source_offset: int
    """Offset of the record."""
    source_index: int | None = None
    """Index of the event within the record, which may hold several; absent where it is 0."""
    source_timestamp: int | None = None
    """The record's timestamp, in epoch milliseconds."""
    length: int | None = None
    """Length of the whole value, in bytes; absent if the dead letter has all of it."""
    sha256: str | None = None
    """SHA-256 of the whole value, in hex digits; absent if the dead letter has all of it."""

    def headers(self) -> list[tuple[str, bytes]]:
        """Return the headers of the dead letter's record, without those of fields that are None."""
        return [(_PREFIX + name.replace("_", "-"), str(value).encode()) for name, value in self if value is not None]

    @classmethod
    def from_headers(cls, headers: Iterable[tuple[str, bytes | None]]) -> DeadLetter:
        """Read a dead letter from the headers of its record; other headers are ignored.

        >>> letter = DeadLetter(error_class="not_json", message="m", source_topic="t", source_partition=0,
        ...                     source_offset=7)
        >>> DeadLetter.from_headers(letter.headers()) == letter
        True

        Raises:
            pydantic.ValidationError: if the headers are not those of a dead letter.
        """
        named = {
            name.removeprefix(_PREFIX).replace("-", "_"): value.decode()
            for name, value in headers
            if name.startswith(_PREFIX) and value is not None
        }
        return cls.model_validate(named)


def kept_bytes(value: bytes | None, max_bytes: int) -> tuple[bytes | None, int | None, str | None]:
    """Return the value of a dead letter's record; if it is over `max_bytes`, its head, and its length and SHA-256.

    >>> kept_bytes(b"abc", 3)
    (b'abc', None, None)
    >>> kept_bytes(b"abcd", 3)[1]
    4
    """
    if value is None or len(value) <= max_bytes:
        return value, None, None
    return value[:HEAD_BYTES], len(value), hashlib.sha256(value).hexdigest()
