"""Events of a file in any format that is read, as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragweir.errors import PermanentError
from ragweir.streams.sources.lines import read_lines


def read_events(file: Path, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield the events of a file as JSON with their numbers, from 1; a larger event is cut to `max_bytes` + 1 bytes.

    Raises:
        PermanentError: if the file cannot be read.
    """
    try:
        if file.suffix.lower() == ".parquet":
            yield from _parquet_rows(file)
        else:
            with file.open("rb") as source:
                yield from read_lines(source, max_bytes, str(file))
    except OSError as error:
        raise PermanentError(f"{file} cannot be read: {error.strerror}") from None


def _parquet_rows(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of a Parquet file as JSON objects with one field per column."""
    try:
        import duckdb  # noqa: PLC0415 - not needed for JSON lines
    except ModuleNotFoundError:
        raise PermanentError("Parquet needs the package duckdb; pip install 'ragweir[compare]' brings it") from None
    with duckdb.connect(config={"memory_limit": "512MB", "autoinstall_known_extensions": "false"}) as db:
        try:
            # Timestamps with a zone are converted to UTC; those without are read as UTC, as in JSON.
            db.execute("set timezone = 'UTC'")
            rows = db.execute("select to_json(t)::blob from read_parquet($file) t", {"file": str(file)})
            for number, (row,) in enumerate(iter(rows.fetchone, None), 1):
                yield number, row
        except duckdb.Error as error:
            raise PermanentError(f"{file} cannot be read: {str(error).splitlines()[0]}") from None
