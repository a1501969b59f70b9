"""Tables of text, CSV and TSV: each row becomes a JSON object with one text per cell, named by the header row.

Empty cells are absent. Types are those of the fields that a row is read into: texts of numbers and times are read as
such, and a map can parse a cell that holds JSON.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import orjson

from ragweir.errors import UnreadableFile
from ragweir.streams.files.lines import LineSource
from ragweir.streams.files.schema_inference import is_usual

DELIMITERS = ",\t;|"

_MAX_ROWS = 16
"""Size of the largest row that is parsed, as a multiple of the largest event: a bound on quotes that are not closed."""
_MAX_NAME = 200
_QUOTED = re.compile(r'"[^"]*"')
_NUMBER = re.compile(r"[-+]?[0-9][0-9.,:]*")
_DATA = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?"  # a time
    r"|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|[\[{].*[\]}]"  # JSON
    r"|\S+(\s+\S+){2,}[.!]"  # a statement
)
"""Cells that are no names of columns, unless the row has usual names beside them."""
_ADVICE = "add a first row such as id,question,answer,passages"


def delimiter_of(header: str) -> str:
    """Return the most frequent delimiter outside of quotes; a comma if there is none.

    >>> delimiter_of("id;question;answer, if any"), delimiter_of('"a;b;c",d'), delimiter_of("id")
    (';', ',', ',')
    """
    plain = _QUOTED.sub("", header)
    return max(DELIMITERS, key=plain.count)


def read_table(
    source: LineSource, max_bytes: int, name: str = "the file", delimiter: str = ","
) -> Iterator[tuple[int, bytes]]:
    r"""Yield the rows after the header as JSON objects with their numbers, from 1, without blank ones.

    A row over `max_bytes` is cut to `max_bytes` + 1 bytes, which the decoder rejects for their size.

    >>> import io
    >>> list(read_table(io.BytesIO(b'id,answer\n1,"Ada,\nof course"\n2,\n'), max_bytes=99))
    [(1, b'{"id":"1","answer":"Ada,\\nof course"}'), (2, b'{"id":"2"}')]

    Args:
        source: lines in UTF-8.
        max_bytes: the size of the largest whole event.
        name: the name of the file, for messages.
        delimiter: separates the cells.

    Raises:
        UnreadableFile: if there is no header, or a row cannot be read, after the rows before it.
    """
    lines = _Lines(source, max_bytes * _MAX_ROWS, name)
    csv.field_size_limit(max(csv.field_size_limit(), max_bytes * _MAX_ROWS))
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    try:
        for cells in rows:
            lines.begin_row()
            if not cells:
                continue
            if header is None:
                header = _header(cells, name)
                continue
            lines.row += 1
            if len(cells) != len(header):
                raise lines.error(
                    f"has {len(cells)} cells and the header {len(header)}: is a delimiter or a quote missing?"
                )
            row = orjson.dumps({column: cell for column, cell in zip(header, cells, strict=True) if cell})
            yield lines.row, row[: max_bytes + 1]
    except csv.Error as error:
        lines.row += 1
        raise lines.error(f"cannot be read: {error}") from None


def _header(cells: Sequence[str], name: str) -> list[str]:
    """Return the names of the columns; nameless ones, such as the index that pandas writes, are named by their place.

    >>> _header(["", "query"], "x.csv")
    ['column_1', 'query']

    Raises:
        UnreadableFile: if the row is no header.
    """
    names = [cell.strip() or f"column_{place}" for place, cell in enumerate(cells, 1)]
    is_foreign = not any(map(is_usual, names))
    for place, cell in enumerate(names, 1):
        is_data = _NUMBER.fullmatch(cell) or len(cell) > _MAX_NAME or "\n" in cell
        if is_data or (is_foreign and _DATA.fullmatch(cell)):
            raise UnreadableFile(
                f"{name} has no header: its first row must name the columns, and cell {place} of it is no name; "
                f"{_ADVICE}"
            )
    twice = [each for each, count in Counter(names).items() if count > 1]
    if twice:
        places = [str(place) for place, each in enumerate(names, 1) if each == twice[0]]
        advice = f"rename one of them{is_foreign * f', or {_ADVICE}'}"
        raise UnreadableFile(f"{name}: the columns {' and '.join(places)} have the same name; {advice}")
    return names


class _Lines:
    """The lines of a table as text, within the limit of a row."""

    def __init__(self, source: LineSource, max_row_bytes: int, name: str) -> None:
        self._source, self._max_row_bytes, self._name = source, max_row_bytes, name
        self._line = self._row_bytes = 0
        self.row = 0
        """Number of the last row that was read, without the header."""

    def begin_row(self) -> None:
        """Begin another row."""
        self._row_bytes = 0

    def __iter__(self) -> Iterator[str]:
        while line := self._source.readline(self._max_row_bytes + 1):
            self._line += 1
            self._row_bytes += len(line)
            if self._row_bytes > self._max_row_bytes:
                self.row += 1
                raise self.error(f"is over {self._max_row_bytes:,} bytes: is a quote never closed?")
            if b"\0" in line:
                self.row += 1
                raise self.error("holds a zero byte: the file is damaged, or UTF-16 without a byte order mark")
            try:
                text = line.decode()
            except UnicodeDecodeError:
                self.row += 1
                raise self.error(
                    "is not UTF-8; if it comes from Windows, `iconv -f WINDOWS-1252 -t UTF-8` converts it"
                ) from None
            yield text

    def error(self, problem: str) -> UnreadableFile:
        """Return an error with its place."""
        return UnreadableFile(f"{self._name}: row {self.row} (line {self._line}) {problem}")
