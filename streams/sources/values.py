"""JSON values that go over several lines: the elements of an array, or objects one after another.

The bytes of each element are passed on as they are. A scan of brackets and strings finds where it ends, so that an
element of any size, depth or content costs no more memory than the limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragweir.errors import UnreadableFile
from ragweir.streams.sources.bytestreams import CHUNK_BYTES, ByteSource

_NOT_SPACE = re.compile(rb"[^ \t\r\n]")
_BRACKET = re.compile(rb'["{}\[\]]')
_BRACKET_OR_COMMA = re.compile(rb'["{}\[\],]')
_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
"""The rest of a string, to its closing quote, the end of the chunk, or a backslash that ends the chunk."""
_OPENING, _CLOSING = b"{[", b"}]"


def read_values(source: ByteSource, max_bytes: int, name: str = "the file") -> Iterator[tuple[int, bytes]]:
    r"""Yield the elements of an array, or the objects of a file, with their numbers, from 1.

    An element over `max_bytes` is cut to `max_bytes` + 1 bytes, which the decoder rejects for their size.

    >>> import io
    >>> list(read_values(io.BytesIO(b'[{"a": [1,\n 2]}, "]" ,\n3]'), max_bytes=99))
    [(1, b'{"a": [1,\n 2]}'), (2, b'"]"'), (3, b'3')]
    >>> list(read_values(io.BytesIO(b'{"a":\n 1}\n{"b": 12345}'), max_bytes=4))
    [(1, b'{"a":'), (2, b'{"b":')]

    Args:
        source: JSON in UTF-8.
        max_bytes: the size of the largest whole element.
        name: the name of the file, for messages.

    Raises:
        UnreadableFile: if the file ends within an element or array, or something else is between two of them.
    """
    scanner = _Scanner(max_bytes, name)
    while chunk := source.read1(CHUNK_BYTES):
        yield from scanner.scan(chunk)
    scanner.end()


class _Scanner:
    """The place within the JSON of a file."""

    def __init__(self, max_bytes: int, name: str) -> None:
        self._max_bytes, self._name = max_bytes, name
        self._number = 0
        self._depth = 0
        """Brackets that are open, with that of the array."""
        self._in_array = self._in_string = self._after_comma = False
        self._kept = bytearray()
        """The head of the element."""
        self._rest = b""

    def scan(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the elements that end in the next bytes."""
        chunk, self._rest = self._rest + chunk, b""
        at = start = 0
        while at < len(chunk):
            if self._in_string:
                at = self._pass_string(chunk, at)
                if self._rest:
                    break
                continue
            if self._depth == 0:
                found = _NOT_SPACE.search(chunk, at)
                if found is None:
                    return
                start = self._begin(found[0], found.start())
                at = found.end()
                continue
            pattern = _BRACKET_OR_COMMA if self._in_array and self._depth == 1 else _BRACKET
            found = pattern.search(chunk, at)
            if found is None:
                break
            at = found.end()
            if self._is_end(found[0]):
                # The closing bracket of an object belongs to it, that of the array and a comma do not.
                self._keep(chunk[start : at if not self._in_array else found.start()])
                yield from self._element(found[0])
                start = at
        if self._depth:
            self._keep(chunk[start : len(chunk) - len(self._rest)])

    def _pass_string(self, chunk: bytes, at: int) -> int:
        found = _STRING.match(chunk, at)
        at = found.end() if found else at
        if at < len(chunk):
            if chunk[at] == ord("\\"):
                self._rest = chunk[at:]
            else:
                self._in_string = False
            at += 1
        return at

    def _begin(self, first: bytes, at: int) -> int:
        """Begin an array or an object at the top; return the place where its first element begins."""
        if first not in (b"[", b"{"):
            raise UnreadableFile(
                f"{self._name}: something that is neither a JSON object nor an array follows element {self._number}"
            )
        self._depth, self._in_array, self._after_comma = 1, first == b"[", False
        return at + self._in_array

    def _is_end(self, found: bytes) -> bool:
        """Follow a bracket, quote or comma; return whether an element ends with it."""
        if found == b'"':
            self._in_string = True
        elif found in _OPENING:
            self._depth += 1
        elif found in _CLOSING:
            self._depth -= 1
        return found == b"," or self._depth == 0

    def _element(self, end: bytes) -> Iterator[tuple[int, bytes]]:
        value = bytes(self._kept)
        self._kept.clear()
        # Numbers and texts have white space around them; whatever is too large stays so.
        stripped = value.strip() if len(value) <= self._max_bytes else value.lstrip()
        if stripped or end == b"," or self._after_comma:
            self._number += 1
            yield self._number, stripped
        self._after_comma = end == b","

    def _keep(self, part: bytes) -> None:
        if not self._kept:
            part = part.lstrip()
        self._kept += part[: max(0, self._max_bytes + 1 - len(self._kept))]

    def end(self) -> None:
        """Check that nothing is open.

        Raises:
            UnreadableFile: if the file ends within an element or array.
        """
        if self._depth:
            where = f"element {self._number + 1}" if self._kept or self._depth > 1 else "the array"
            raise UnreadableFile(f"{self._name} ends within {where}, after {self._number} whole ones: it was cut off")
