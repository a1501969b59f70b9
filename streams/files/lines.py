"""Lines of JSON: the events of a JSONL file, one per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


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
