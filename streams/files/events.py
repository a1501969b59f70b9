"""Events of a file in any format that is read, as JSON."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ragweir.errors import UnreadableFile
from ragweir.streams.files import otlp
from ragweir.streams.files.bytestreams import DAMAGE, ByteSource, OnBytes, open_bytes, unread
from ragweir.streams.files.formats import PAGES, Format, recognise
from ragweir.streams.files.json_values import read_values
from ragweir.streams.files.lines import read_lines
from ragweir.streams.files.parquet import read_parquet, spooled
from ragweir.streams.files.text_tables import read_table

Events = Iterator[tuple[int, bytes]]
_HEAD_BYTES = 1024 * 1024
_BUFFER_BYTES = 256 * 1024
_TOLD_LINES = 512
"""Lines after which progress is reported."""


def read_events(file: Path, max_bytes: int, on_bytes: OnBytes = lambda _: None) -> Events:
    """Yield the events of a file as JSON with their numbers, from 1; a larger event is cut to `max_bytes` + 1 bytes.

    The file holds JSON lines, a JSON array, JSON objects, CSV, TSV or Parquet, each plain or compressed by gzip or
    Zstandard; text may be UTF-8, UTF-16 or UTF-32. Objects with a list `data` and at most `meta` beside it are pages
    of an API, whose elements are the events. The number is that of the line, of the element or of the data row.
    A file of OpenTelemetry data yields its export requests, each in protobuf or JSON.

    Args:
        file: the file.
        max_bytes: the size of the largest whole event.
        on_bytes: called with the number of bytes of each read of the file, compressed as they are.

    Raises:
        UnreadableFile: if the file cannot be read, after the events before the fault.
    """
    try:
        with file.open("rb") as stream:
            yield from EventReader(stream, str(file), max_bytes, on_bytes)
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read: {error.strerror}") from None


def is_plain(file: Path) -> bool:
    """Return true if a file is JSON lines that any program reads: not compressed, in UTF-8 without byte order mark.

    Raises:
        UnreadableFile: if the file cannot be read, or has another format than those that are read.
    """
    try:
        with file.open("rb") as stream:
            if stream.peek(len(BOM_UTF8)).startswith(BOM_UTF8):
                return False
            reader = EventReader(stream, str(file), _HEAD_BYTES)
            next(iter(reader), None)
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read: {error.strerror}") from None
    return reader.format == Format()


def scan_events(file: Path, max_bytes: int, on_bytes: OnBytes = lambda _: None) -> Events:
    """Yield the events of a file as `read_events` does; plain JSON lines without the layers that read other formats.

    Raises:
        UnreadableFile: as `read_events`.
        OSError: if the file cannot be read.
    """
    if not is_plain(file):
        yield from read_events(file, max_bytes, on_bytes)
        return
    with file.open("rb", _BUFFER_BYTES) as stream:
        told = 0
        for number, line in enumerate(iter(partial(stream.readline, max_bytes), b""), 1):
            if not number % _TOLD_LINES:
                on_bytes(stream.tell() - told)
                told = stream.tell()
            if not line.isspace():
                yield number, line
        on_bytes(stream.tell() - told)


class EventReader:
    r"""The events of an open file, whose format is known once the first one is read.

    >>> import io
    >>> reader = EventReader(io.BytesIO(b'id,answer\n1,Ada\n'), "answers", max_bytes=99)
    >>> list(reader), str(reader.format)
    ([(1, b'{"id":"1","answer":"Ada"}')], 'CSV')

    Args:
        stream: the file, which is read from its present position and need not be seekable.
        name: the name of the file, for messages; its suffix helps to recognise the format.
        max_bytes: the size of the largest whole event.
        on_bytes: called with the number of bytes of each read of the file, compressed as they are.
    """

    def __init__(self, stream: ByteSource, name: str, max_bytes: int, on_bytes: OnBytes = lambda _: None) -> None:
        self._stream, self._name, self._max_bytes, self._on_bytes = stream, name, max_bytes, on_bytes
        self._counted = 0
        self.format = Format()
        self.number = 0
        """The number of the last event that was read."""

    def __iter__(self) -> Events:
        """Yield the events with their numbers, once.

        Raises:
            UnreadableFile: if the content cannot be read, after the events before the fault.
            OSError: if the file cannot be read.
        """
        try:
            with ExitStack() as stack:
                for number, value in self._events(stack):
                    self.number = number
                    yield number, value
        except DAMAGE as error:
            how = "ends early" if isinstance(error, EOFError) else "is damaged"
            raise UnreadableFile(f"{self._name}: the compressed data {how}, {self._place}") from None
        except UnicodeDecodeError as error:
            raise UnreadableFile(f"{self._name} is not valid {error.encoding.upper()}, {self._place}") from None

    def _count(self, count: int) -> None:
        self._counted += count
        self._on_bytes(count)

    @property
    def _place(self) -> str:
        return f"after {self.format.unit} {self.number:,}"

    def _events(self, stack: ExitStack) -> Events:
        name, max_bytes = self._name, self._max_bytes
        content, layers = open_bytes(self._stream, name, self._count)
        found, head = recognise(content, name)
        self.format = Format(found.name, found.unit, found.delimiter, layers)
        content = unread(head, content)
        if found.has_traces:
            max_bytes = otlp.MAX_REQUEST_BYTES
        if found.name.endswith("JSON lines"):
            return read_lines(content, max_bytes)
        if found.name.endswith("JSON") or found.name == PAGES:
            return read_values(content, max_bytes, name, pages=found.name == PAGES)
        if found.has_traces:
            return otlp.read_requests(content, name, found.name)
        if found.delimiter:
            return read_table(content, max_bytes, name, found.delimiter)
        if not layers and (path := _regular_file(self._stream)) is not None:
            return read_parquet(path, max_bytes, self._on_bytes, name, self._counted)
        return read_parquet(stack.enter_context(spooled(content, name)), max_bytes, lambda _: None, name)


def _regular_file(stream: ByteSource) -> Path | None:
    """Return the path of a stream that is a regular file; None if it is a pipe, or has none."""
    path = getattr(stream, "name", None)
    return Path(path) if isinstance(path, str) and Path(path).is_file() else None
