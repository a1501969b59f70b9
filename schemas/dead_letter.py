"""The dead letter: a record that could not become an evaluation, with the reason, so that nothing is lost."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from ragweir.errors import ErrorClass
from ragweir.schemas.interaction import RecordPart

HEAD_BYTES = 64 * 1024
"""How much of a record over the size limit is kept."""

_PREFIX = "ragweir-"


class DeadLetter(RecordPart):
    """Why a record was refused and where it was read. Travels as headers; the record's own bytes are the value.

    `message` never quotes the record. Of a record over the size limit the value is the first 64 KiB, and `length` and
    `sha256` are those of the whole. Of a record with several refused events the first dead letter has the value; those
    of the others are empty, and `length` is that of the whole.
    """

    error_class: ErrorClass
    message: str
    source_topic: str
    source_partition: int
    source_offset: int
    source_index: int | None = None
    """The place of the event within the record, which may hold several; absent where it is 0."""
    source_timestamp: int | None = None
    """The record's own time, epoch milliseconds."""
    length: int | None = None
    sha256: str | None = None

    def headers(self) -> list[tuple[str, bytes]]:
        """The headers that it travels as; what is None is left out."""
        return [(_PREFIX + name.replace("_", "-"), str(value).encode()) for name, value in self if value is not None]

    @classmethod
    def from_headers(cls, headers: Iterable[tuple[str, bytes | None]]) -> DeadLetter:
        """Read it back from a record's headers; other headers are passed over.

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
    """What a dead letter keeps of a value: all of it, or over `max_bytes` its head with its length and SHA-256.

    >>> kept_bytes(b"abc", 3)
    (b'abc', None, None)
    >>> kept_bytes(b"abcd", 3)[1]
    4
    """
    if value is None or len(value) <= max_bytes:
        return value, None, None
    return value[:HEAD_BYTES], len(value), hashlib.sha256(value).hexdigest()
