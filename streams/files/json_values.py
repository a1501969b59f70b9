"""JSON values that go over several lines: the elements of an array, objects one after another, or those of pages.

The bytes of each element are passed on as they are. A scan of brackets and strings finds where it ends, so that an
element of any size, depth or content costs no more memory than the limit. A page, as Langfuse's API answers, is an
object with the list `data` and at most `meta` beside it; a file holds one or more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

from ragweir.errors import UnreadableFile
from ragweir.streams.files.bytestreams import CHUNK_BYTES, ByteSource

_NOT_SPACE = re.compile(rb"[^ \t\r\n]")
_BRACKET = re.compile(rb'["{}\[\]]')
_BRACKET_OR_COMMA = re.compile(rb'["{}\[\],]')
_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
"""The rest of a string, to its closing quote, the end of the chunk, or a backslash that ends the chunk."""
_OPENING, _CLOSING = b"{[", b"}]"
_META = rb'"meta"\s*+:\s*+\{(?:[^{}"]|"(?:[^"\\]|\\.)*+")*+\}'
_PAGE = re.compile(rb"\s*+\{\s*+(?:" + _META + rb'\s*+,\s*+)?+"data"\s*+:\s*+\[', re.DOTALL)
"""The beginning of a page, up to its first element."""
_PAGE_END = re.compile(rb"\s*+(?:,\s*+" + _META + rb"\s*+)?+\}\s*+", re.DOTALL)
_NEXT_PAGE = re.compile(_PAGE_END.pattern + _PAGE.pattern, re.DOTALL)
_ELEMENT_OR_END = re.compile(rb"\s*+[{\]]")
_PART_OF_PAGE = re.compile(
    rb"\s*+\{\s*+(?:(?:" + _META + rb'\s*+,\s*+)?+(?:"data"\s*+(?::\s*+(?:\[\s*+)?)?)?|"meta"(?!.*\}\s*+,).*+)',
    re.DOTALL,
)
_MAX_BETWEEN_BYTES = 64 * 1024
"""The most bytes between the lists of two pages."""


def is_page(head: bytes) -> bool:
    """Return true if a text begins with a page; of one that is whole, all names are known.

    >>> is_page(b'{"meta": {"page": 1}, "data": [{"id": 1}'), is_page(b'{"data": [{}]}'), is_page(b'{"data": [1]}')
    (True, True, False)
    >>> is_page(b'{"data": [{}], "question": "Who?"}')
    False
    """
    found = _PAGE.match(head)
    if found is None or not _ELEMENT_OR_END.match(head, found.end()):
        return False
    try:
        return set(orjson.loads(head)) <= {"data", "meta"}
    except orjson.JSONDecodeError:
        return True


def may_become_page(head: bytes) -> bool:
    """Return true if more of a text decides whether it is a page.

    >>> may_become_page(b'{"meta": {'), may_become_page(b'{"data":'), may_become_page(b'{"data": 1')
    (True, True, False)
    """
    return _PART_OF_PAGE.fullmatch(head) is not None


def read_values(
    source: ByteSource, max_bytes: int, name: str = "the file", *, pages: bool = False
) -> Iterator[tuple[int, bytes]]:
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
        pages: true if the file holds pages, whose elements are read.

    Raises:
        UnreadableFile: if the file ends within an element or array, or something else is between two of them.
    """
    scanner = _Scanner(max_bytes, name, _PAGE if pages else None)
    while chunk := source.read1(CHUNK_BYTES):
        yield from scanner.scan(chunk)
    scanner.end()


class _Scanner:
    """The place within the JSON of a file."""

    def __init__(self, max_bytes: int, name: str, page: re.Pattern[bytes] | None) -> None:
        self._max_bytes, self._name, self._page = max_bytes, name, page
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
                begin = self._begin if self._page is None else self._begin_page
                if (begun := begin(chunk, at)) is None:
                    return
                at, start = begun
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

    def _begin(self, chunk: bytes, at: int) -> tuple[int, int] | None:
        """Begin an array or an object at the top; return the place after its bracket, and that of its first element."""
        if (found := _NOT_SPACE.search(chunk, at)) is None:
            return None
        if found[0] not in (b"[", b"{"):
            raise UnreadableFile(
                f"{self._name}: something that is neither a JSON object nor an array follows element {self._number}"
            )
        self._depth, self._in_array, self._after_comma = 1, found[0] == b"[", False
        return found.end(), found.start() + self._in_array

    def _begin_page(self, chunk: bytes, at: int) -> tuple[int, int] | None:
        """Begin the list of a page; return the place after its bracket, twice."""
        if (found := (self._page or _PAGE).match(chunk, at)) is None:
            self._rest = chunk[at:]
            if len(self._rest) > _MAX_BETWEEN_BYTES:
                raise self._no_page()
            return None
        self._page, self._depth, self._in_array, self._after_comma = _NEXT_PAGE, 1, True, False
        return found.end(), found.end()

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
        if self._page is not None and not _PAGE_END.fullmatch(self._rest):
            raise self._no_page()

    def _no_page(self) -> UnreadableFile:
        return UnreadableFile(
            f"{self._name}: after element {self._number}, where the list `data` of a page ends, neither the end of the "
            "page, with `meta` at most before it, nor another page follows"
        )
