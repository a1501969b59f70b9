"""Recognises the format of a file by its content, and by its name where the content leaves a choice."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import PurePath

import orjson
from typing_extensions import override

from ragweir.errors import UnreadableFile
from ragweir.streams.files import otlp, parquet
from ragweir.streams.files.json_values import is_page, may_become_page
from ragweir.streams.files.text_tables import delimiter_of

PAGES = "JSON pages"
"""The name of the format of pages of an API."""
SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".pb", ".binpb", ".otlp")
"""Suffixes of data files, which may be followed by one of `COMPRESSED`."""
COMPRESSED = (".gz", ".zst", ".zstd")

_JSON_SUFFIXES = frozenset({".jsonl", ".ndjson", ".json"})
_TABLE_SUFFIXES = frozenset({".csv", ".tsv"})
_MAX_HEAD_BYTES = 64 * 1024
_CONTINUED = (b"{", b"[", b",", b":")
"""Ends of the first line of an object that goes over several lines."""
_BRACKETS = re.compile(rb"\s*+\[?\s*+\{?\s{0,1024}+")
_COLUMN = re.compile(r"[^\W\d][\w .\-/()\[\]#:]{0,60}")


@dataclass(frozen=True, slots=True)
class Format:
    """The format of a file.

    >>> str(Format("CSV", "row", layers=("UTF-16", "gzip")))
    'CSV (UTF-16, gzip)'
    """

    name: str = "JSON lines"
    """JSON lines, JSON, JSON pages, CSV, TSV or Parquet; or one that begins with OTLP."""
    unit: str = "line"
    """The name of that which is numbered: a line, an element, a row or a request."""
    delimiter: str = ""
    """The delimiter of a table of text."""
    layers: tuple[str, ...] = ()
    """The encoding, if it is not UTF-8, and the compression, if any."""

    @property
    def has_traces(self) -> bool:
        """True if the file holds OpenTelemetry data, in which each record is an export request."""
        return self.name.startswith("OTLP")

    @override
    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.layers)})" if self.layers else self.name


def suffix_of(name: str) -> str:
    """Return the suffix of a file's name before that of a compression.

    >>> suffix_of("a/b.CSV.gz"), suffix_of("b.tar.gz"), suffix_of("-")
    ('.csv', '.tar', '')
    """
    path = PurePath(name.lower())
    return PurePath(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def recognise(content: io.BufferedReader, name: str) -> tuple[Format, bytes]:
    """Return the format of a text, of Parquet or of OpenTelemetry data, and the bytes that were read to find it out.

    No more is read than the first line that is not blank, or two of them if that is no JSON, or the head of these; of
    JSON over several lines the lines that tell, and of what begins like a page 64 KiB more.

    Args:
        content: the file, decompressed and in UTF-8.
        name: the name of the file.

    Raises:
        UnreadableFile: if the content is UTF-16 without a byte order mark.
    """
    head = content.read(len(parquet.MAGIC))
    if head == parquet.MAGIC:
        return Format("Parquet", "row"), head
    if otlp.may_be_binary(head):
        head += content.read(otlp.HEAD_BYTES)
        if binary := otlp.binary_format(head):
            return Format(binary, "request"), head
    if _is_utf_16(head[: len(parquet.MAGIC)]):
        raise UnreadableFile(f"{name} looks like UTF-16 without a byte order mark; save it as UTF-8")
    while b"\n" not in head.lstrip() and len(head) < _MAX_HEAD_BYTES and (line := content.readline(_MAX_HEAD_BYTES)):
        head += line
    first, suffix = head.strip().partition(b"\n")[0].rstrip(), suffix_of(name)
    if first.startswith((b"[", b"{")):
        return _json(content, head, first)
    if suffix in _JSON_SUFFIXES or not first:
        return Format(), head
    return _table(content, head, first.decode(errors="replace"), suffix)


def _json(content: io.BufferedReader, head: bytes, first: bytes) -> tuple[Format, bytes]:
    """Return the format of JSON that begins with a line, and the bytes that were read."""
    if first.startswith(b"{") and not _is_continued(first):
        if is_page(first):
            return Format(PAGES, "element"), head
        return Format("OTLP JSON lines" if otlp.is_json(first) else "JSON lines"), head
    if first.startswith(b"{") and not head.endswith(b"\n"):
        head += content.readline(_MAX_HEAD_BYTES)
    while _is_undecided(head) and (line := content.readline(_MAX_HEAD_BYTES)):
        head += line
    if is_page(head):  # An event may begin like one.
        head += content.read(_MAX_HEAD_BYTES)
        if is_page(head):
            return Format(PAGES, "element"), head
    return Format("OTLP JSON" if otlp.is_json(head) else "JSON", "element"), head


def _is_undecided(head: bytes) -> bool:
    return bool(_BRACKETS.fullmatch(head)) or (len(head) < _MAX_HEAD_BYTES and may_become_page(head))


def _table(content: io.BufferedReader, head: bytes, first: str, suffix: str) -> tuple[Format, bytes]:
    """Return the format of a text that begins with a line and is no JSON, and the bytes that were read."""
    delimiter = "\t" if suffix == ".tsv" else delimiter_of(first)
    table = Format("TSV" if delimiter == "\t" else "CSV", "row", delimiter)
    if suffix in _TABLE_SUFFIXES:
        return table, head
    if _is_header(first, delimiter):
        second = content.readline(_MAX_HEAD_BYTES)
        return Format() if second.lstrip().startswith(b"{") else table, head + second
    return Format(), head


def _is_utf_16(head: bytes) -> bool:
    """Return true if every other byte is zero.

    >>> _is_utf_16("id".encode("utf-16-le")), _is_utf_16("id".encode("utf-16-be")), _is_utf_16(bytes(4))
    (True, True, False)
    """
    return len(head) > 1 and (set(head[::2]) == {0}) != (set(head[1::2]) == {0})


def _is_continued(line: bytes) -> bool:
    """Return true if an object goes on after its first line; a line that is cut off ends anywhere else."""
    if not line.endswith(_CONTINUED):
        return False
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return True
    return False


def _is_header(line: str, delimiter: str) -> bool:
    r"""Return true if a line can only be the header of a table.

    >>> _is_header("id,question,answer", ","), _is_header("not json, really!", ","), _is_header("id", ",")
    (True, False, False)
    """
    names = [name.strip().strip('"') for name in line.split(delimiter)]
    return len(names) > 1 and len(set(names)) == len(names) and all(map(_COLUMN.fullmatch, names))
