"""Lines of JSON: the events of a JSONL file, one per line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from ragweir.errors import PermanentError

_COMPRESSED = "is compressed ({}); decompress it first"
_SEVERAL_LINES = "holds JSON that goes over several lines; one event per line is read, as `jq -c` writes them"
_UTF_16 = "is UTF-16 text; save it as UTF-8"
_OTHER_FORMATS: Mapping[bytes, str] = {
    b"\x1f\x8b": _COMPRESSED.format("gzip"),
    b"\x28\xb5\x2f\xfd": _COMPRESSED.format("zstd"),
    b"\xfd7zXZ\x00": _COMPRESSED.format("xz"),
    b"BZh": _COMPRESSED.format("bzip2"),
    b"\x04\x22\x4d\x18": _COMPRESSED.format("lz4"),
    b"PK\x03\x04": _COMPRESSED.format("zip"),
    b"PAR1": "is a Parquet file; only `ragweir replay` reads those, if they are named .parquet",
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
}
"""Other formats by their first bytes. Their lines would be rejected one by one, with reasons that explain nothing."""


class LineSource(Protocol):
    """A source of lines."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line with its line ending, or its first `size` bytes; empty at the end."""


def _format_problem(first: bytes) -> str | None:
    """Return the reason why a file with this first line has no JSON lines; None if it may have."""
    if first.strip() in (b"[", b"{"):
        return _SEVERAL_LINES
    return next((problem for magic, problem in _OTHER_FORMATS.items() if first.startswith(magic)), None)


def read_lines(file: LineSource, max_bytes: int, name: str = "the file") -> Iterator[tuple[int, bytes]]:
    r"""Yield the lines of a file with their numbers, from 1, without blank ones.

    A line over `max_bytes` is cut to `max_bytes` + 1 bytes, which the decoder rejects for their size.

    Args:
        file: a source of JSON lines.
        max_bytes: the size of the largest whole line.
        name: the name of the file, for messages.

    Raises:
        PermanentError: if the file's beginning is that of another format.

    >>> import io
    >>> list(read_lines(io.BytesIO(b"{}\n\n" + b"x" * 9 + b"\n[]"), max_bytes=4))
    [(1, b'{}'), (3, b'xxxxx'), (4, b'[]')]
    """
    number = 0
    while line := file.readline(max_bytes + 2):
        number += 1
        if number == 1 and (problem := _format_problem(line)):
            raise PermanentError(f"{name} {problem}")
        whole = line.endswith(b"\n")
        kept = line.rstrip(b"\r\n")
        while not whole and (rest := file.readline(1024 * 1024)):
            whole = rest.endswith(b"\n")
        if kept.strip():
            yield number, kept[: max_bytes + 1]
