"""Streams of bytes: decompresses gzip and Zstandard, removes byte order marks, and recodes UTF-16 and UTF-32 as UTF-8.

Each layer reads no more of the one below than it is asked for, so that a pipe is read as it is written, and memory does
not depend on the size of a file, compressed or not.
"""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import zlib
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import BinaryIO, Protocol

from typing_extensions import Buffer, override

from ragweir.errors import UnreadableFile

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHUNK_BYTES = 32 * 1024
"""Size of the buffer between two layers."""
DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, zstd.ZstdError)
"""Errors of compressed data that is damaged or ends early."""

OnBytes = Callable[[int], object]

_MAGIC_BYTES = 6


class ByteSource(Protocol):
    """A stream that can be read as it comes."""

    def read1(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes with one read; empty at the end."""


_COMPRESSED: Mapping[bytes, tuple[str, Callable[[BinaryIO], ByteSource]]] = {
    b"\x1f\x8b": ("gzip", lambda source: gzip.GzipFile(fileobj=source)),
    b"\x28\xb5\x2f\xfd": ("Zstandard", zstd.ZstdFile),
}
_UNKNOWN: Mapping[bytes, str] = {
    b"\xfd7zXZ\x00": "is compressed (xz); decompress it first",
    b"BZh": "is compressed (bzip2); decompress it first",
    b"\x04\x22\x4d\x18": "is compressed (lz4); decompress it first",
    b"PK\x03\x04": "is a zip archive or a spreadsheet; unpack it, or save it as CSV",
    b"ORC": "is an ORC file; save it as Parquet",
    b"Obj\x01": "is an Avro file; save it as Parquet or JSON lines",
    b"SQLite": "is a database; export the table as CSV",
}
"""Other formats by their first bytes. Their lines would be rejected one by one, with reasons that explain nothing."""
_MARKS: Mapping[bytes, str] = {
    codecs.BOM_UTF32_LE: "UTF-32-LE",  # Before UTF-16, whose mark it begins with.
    codecs.BOM_UTF32_BE: "UTF-32-BE",
    codecs.BOM_UTF16_LE: "UTF-16-LE",
    codecs.BOM_UTF16_BE: "UTF-16-BE",
    codecs.BOM_UTF8: "",
}


class _Raw(io.RawIOBase):
    """Base of layers, which return the bytes of one read."""

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        data = self.next_bytes(len(view))
        view[: len(data)] = data
        return len(data)

    @abstractmethod
    def next_bytes(self, size: int) -> bytes:
        """Return at most `size` bytes; empty at the end."""


class _Counted(_Raw):
    def __init__(self, source: ByteSource, on_bytes: OnBytes) -> None:
        self._source, self._on_bytes = source, on_bytes

    @override
    def next_bytes(self, size: int) -> bytes:
        data = self._source.read1(size)
        self._on_bytes(len(data))
        return data


class _Unread(_Raw):
    """Bytes that were read already, and then those of a source."""

    def __init__(self, head: bytes, source: ByteSource) -> None:
        self._head, self._source = head, source

    @override
    def next_bytes(self, size: int) -> bytes:
        if not self._head:
            return self._source.read1(size)
        data, self._head = self._head[:size], self._head[size:]
        return data


class _Recoded(_Raw):
    """Text of another encoding as UTF-8.

    Raises:
        UnicodeDecodeError: if it is not valid, or ends within a character.
    """

    def __init__(self, source: ByteSource, encoding: str) -> None:
        self._source, self._decoder = source, codecs.getincrementaldecoder(encoding)()
        self._ready = b""

    @override
    def next_bytes(self, size: int) -> bytes:
        data = b" "
        while not self._ready and data:
            data = self._source.read1(CHUNK_BYTES)
            self._ready = self._decoder.decode(data, final=not data).encode()
        ready, self._ready = self._ready[:size], self._ready[size:]
        return ready


def _buffered(layer: _Raw) -> io.BufferedReader:
    return io.BufferedReader(layer, CHUNK_BYTES)


def unread(head: bytes, source: ByteSource) -> io.BufferedReader:
    """Return a stream of the bytes that were read of a source already, and of the others.

    >>> import io
    >>> unread(b"ab", io.BytesIO(b"cd")).read()
    b'abcd'
    """
    return _buffered(_Unread(head, source))


def open_bytes(source: ByteSource, name: str, on_bytes: OnBytes) -> tuple[io.BufferedReader, tuple[str, ...]]:
    r"""Return the content of a file, decompressed and in UTF-8, and the names of its encoding and compression.

    >>> import gzip, io
    >>> text, layers = open_bytes(io.BytesIO(gzip.compress("\ufeffä".encode("utf-16-le"))), "x.gz", lambda _: None)
    >>> text.read().decode(), layers
    ('ä', ('UTF-16', 'gzip'))

    Args:
        source: the file.
        name: the name of the file, for messages.
        on_bytes: called with the number of bytes of each read of the file.

    Raises:
        UnreadableFile: if the file's beginning is that of another format.
    """
    content, compression = _decompressed(_buffered(_Counted(source, on_bytes)), name)
    head = content.read(_MAGIC_BYTES)
    if compression and _decompressor(head):
        raise UnreadableFile(f"{name} is compressed twice; decompress it first")
    mark = next((mark for mark in _MARKS if head.startswith(mark)), b"")
    rest, encoding = unread(head[len(mark) :], content), _MARKS.get(mark, "")
    if encoding:
        rest = _buffered(_Recoded(rest, encoding))
    return rest, tuple(filter(None, (encoding[:6], compression)))


def _decompressor(head: bytes) -> tuple[str, Callable[[BinaryIO], ByteSource]] | None:
    return next((found for magic, found in _COMPRESSED.items() if head.startswith(magic)), None)


def _decompressed(content: io.BufferedReader, name: str) -> tuple[io.BufferedReader, str]:
    head = content.read(_MAGIC_BYTES)
    content = unread(head, content)
    if problem := next((problem for magic, problem in _UNKNOWN.items() if head.startswith(magic)), None):
        raise UnreadableFile(f"{name} {problem}")
    if (found := _decompressor(head)) is None:
        return content, ""
    compression, decompress = found
    return unread(b"", decompress(content)), compression
