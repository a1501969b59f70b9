"""Parquet files: each row becomes a JSON object with one field per column."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

import orjson

from ragweir.errors import UnreadableFile
from ragweir.streams.files.bytestreams import CHUNK_BYTES, OnBytes

MAGIC = b"PAR1"

_MEMORY = "512MB"
_MAX_SPOOLED_BYTES = 4 * 1024**3
"""Size of the largest file that is copied, since it is compressed or a pipe. Parquet is read from its end."""
_ROWS = 'select to_json("ragweir row")::blob from read_parquet($file) as "ragweir row"'
"""A column that has the name of the table would be taken for it."""


def read_parquet(
    file: Path,
    max_bytes: int,
    on_bytes: OnBytes,
    name: str,
    reported: int = 0,
) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of a Parquet file as JSON objects with their numbers, from 1.

    A row over `max_bytes` is cut to `max_bytes` + 1 bytes, which the decoder rejects for their size.

    Args:
        file: the file.
        max_bytes: the size of the largest whole event.
        on_bytes: called with the part of the file that the rows since the last call are, in bytes.
        name: the name of the file, for messages.
        reported: the number of bytes of which `on_bytes` knows already.

    Raises:
        UnreadableFile: if the file cannot be read.
    """
    size = file.stat().st_size
    with opened(file, name) as (db, parameters):
        # Timestamps with a zone are converted to UTC; those without are read as UTC, as in JSON.
        db.execute("set timezone = 'UTC'")
        counted = db.execute("select sum(num_rows) from parquet_file_metadata($file)", parameters).fetchone()
        total = int(counted[0] or 0) if counted else 0
        rows = db.execute(_ROWS, parameters)
        for number, (row,) in enumerate(iter(rows.fetchone, None), 1):
            yield number, _without_nan(row)[: max_bytes + 1]
            now = max(reported, size * number // max(total, number))
            on_bytes(now - reported)
            reported = now


@contextmanager
def opened(file: Path, name: str) -> Iterator[tuple[Any, dict[str, str]]]:
    """Give a connection of DuckDB, and the parameter of queries that names a file, for the length of a `with` block.

    Args:
        file: the file.
        name: the name of the file, for messages.

    Raises:
        UnreadableFile: if DuckDB is missing, or the file cannot be read.
    """
    try:
        import duckdb  # noqa: PLC0415 - not needed for other formats
    except ModuleNotFoundError:
        raise UnreadableFile("Parquet needs the package duckdb; pip install 'ragweir[compare]' brings it") from None
    with duckdb.connect(config={"memory_limit": _MEMORY, "autoinstall_known_extensions": "false"}) as db:
        try:
            yield db, {"file": escape(str(file))}
        except duckdb.Error as error:
            raise UnreadableFile(f"{name} cannot be read: {str(error).splitlines()[0]}") from None


def as_parquet(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> bytes:
    """Return rows as a Parquet file.

    Args:
        rows: the rows, as JSON data.
        columns: the columns, with their types.

    Raises:
        UnreadableFile: if DuckDB is missing.
    """
    with TemporaryDirectory(prefix="ragweir-") as folder:
        file, made = Path(folder, "rows.jsonl"), Path(folder, "rows.parquet")
        file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        types = ", ".join(f"{quoted(name)}: '{kind}'" for name, kind in columns.items())
        query = f"select * from read_json($file, format = 'newline_delimited', columns = {{{types}}})"  # noqa: S608
        with opened(file, "the rows") as (db, parameters):
            db.sql(query, params=parameters).write_parquet(str(made))
        return made.read_bytes()


def is_parquet(file: Path) -> bool:
    """Return true if a file begins as Parquet does."""
    with file.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def quoted(column: str) -> str:
    """Return the name of a column for a query.

    >>> print(quoted('a"b'))
    "a""b"
    """
    return '"' + column.replace('"', '""') + '"'


def _without_nan(row: bytes) -> bytes:
    """Return a row with null for NaN, which pandas writes for a missing number, and which JSON cannot hold.

    A row that Python cannot read is returned as it is, so that the decoder rejects it.

    >>> _without_nan(b'{"a":NaN,"b":"NaN"}')
    b'{"a": null, "b": "NaN"}'
    """
    if b"NaN" not in row:
        return row
    try:
        data = json.loads(row, parse_constant=lambda name: None if name == "NaN" else float(name))
        return json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # A column of JSON may be nested without bound, or hold an endless number.
        return row


@contextmanager
def spooled(content: io.BufferedReader, name: str) -> Iterator[Path]:
    """Give a temporary file with the content of a stream for the length of a `with` block.

    Raises:
        UnreadableFile: if it is too large.
    """
    size = 0
    with NamedTemporaryFile(prefix="ragweir-", suffix=".parquet") as copy:
        while chunk := content.read1(CHUNK_BYTES):
            size += len(chunk)
            if size > _MAX_SPOOLED_BYTES:
                most = f"{_MAX_SPOOLED_BYTES // 1024**3} GiB"
                raise UnreadableFile(f"{name} is Parquet of over {most}: save it as a file that is not compressed")
            copy.write(chunk)
        copy.flush()
        yield Path(copy.name)
