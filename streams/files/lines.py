"""Lines of JSON: the events of a JSONL file, one per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Protocol

_BLOCK_BYTES = 1024 * 1024


class LineSource(Protocol):
    """A source of lines."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line with its line ending, or its first `size` bytes; empty at the end."""


def read_lines(source: LineSource, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    r"""Yield the lines of a file with their numbers, from 1, without blank ones.

    A line over `max_bytes` is cut to `max_bytes` + 1 bytes, which the decoder rejects for their size.

    >>> import io
    >>> list(read_lines(io.BytesIO(b"{}\n\n" + b"x" * 9 + b"\n[]"), max_bytes=4))
    [(1, b'{}'), (3, b'xxxxx'), (4, b'[]')]
    """
    number = 0
    while line := source.readline(max_bytes + 2):
        number += 1
        whole = line.endswith(b"\n")
        kept = line.rstrip(b"\r\n")
        while not whole and (rest := source.readline(1024 * 1024)):
            whole = rest.endswith(b"\n")
        if kept.strip():
            yield number, kept[: max_bytes + 1]


def line_at(file: BinaryIO, number: int, max_bytes: int) -> bytes | None:
    r"""Return the line of a number, as `read_lines` yields it, without reading the lines before it one by one.

    >>> import io
    >>> [line_at(io.BytesIO(b"{}\n\n" + b"x" * 9 + b"\n[]"), number, max_bytes=4) for number in (1, 2, 3, 4, 5)]
    [b'{}', None, b'xxxxx', b'[]', None]

    Args:
        file: the file, of which all is read from its start.
        number: number of the line, from 1.
        max_bytes: as `read_lines`.
    """
    if number < 1:
        return None
    before, start = number - 1, 0
    while before and (block := file.read(_BLOCK_BYTES)):
        ends = block.count(b"\n")
        if ends < before:
            before -= ends
            start += len(block)
            continue
        at = -1
        for _ in range(before):
            at = block.find(b"\n", at + 1)
        before, start = 0, start + at + 1
    if before:
        return None
    file.seek(start)
    first, line = next(read_lines(file, max_bytes), (0, b""))
    return line if first == 1 else None
