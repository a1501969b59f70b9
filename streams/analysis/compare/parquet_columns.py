"""Evaluations in Parquet whose scores are columns: read as they are, and not through JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ragweir.metrics.aggregation.clusters import Floats
from ragweir.streams.files.bytestreams import OnBytes
from ragweir.streams.files.parquet import opened, quoted

_NUMBERS = frozenset("BOOLEAN TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE".split())
"""Types that become numbers."""
_BLOCK_ROWS = 512


def score_columns(file: Path, name: str) -> Mapping[str, bool]:
    """Return the names of the scores, with false for those that are null everywhere.

    There is none if they are no struct of numbers, and have to be read through JSON.

    Raises:
        UnreadableFile: if the file cannot be read. All functions raise it.
    """
    with opened(file, name) as (db, parameters):
        types = _types(db, "*", parameters)
        if not types.get("scores", "").startswith("STRUCT("):
            return {}
        scores = _types(db, "scores.*", parameters)
        # A column that is null everywhere may have any type.
        others = [f"count(scores.{quoted(each)})" for each, kind in scores.items() if kind not in _NUMBERS]
        counted = db.execute(_query(", ".join(others) or "0"), parameters).fetchone()
    return {} if any(counted or ()) else {each: kind in _NUMBERS for each, kind in scores.items()}


def scores(file: Path, name: str, columns: Mapping[str, bool], rows: int) -> Iterator[tuple[str, Floats]]:
    """Yield each score of all rows, NaN for null."""
    if not columns:  # Of a file that is no Parquet, for which nobody needs DuckDB.
        return
    with opened(file, name) as (db, parameters):
        for each, has_values in columns.items():
            if has_values:
                query = _query(f"cast(scores.{quoted(each)} as double) as found")
                yield each, np.ma.filled(db.execute(query, parameters).fetchnumpy()["found"], np.nan)
            else:
                yield each, np.full(rows, np.nan)


def lines(
    file: Path, name: str, fields: Sequence[str], line: Callable[..., Any], on_bytes: OnBytes
) -> Iterator[list[Any]]:
    """Yield the rows of a file in blocks, without their scores.

    Args:
        file: the file.
        name: its display name.
        fields: the fields that are read, as far as the file has them.
        line: makes a row of the values of its fields, by name.
        on_bytes: called with the part of the file that was read since the last call, in bytes.
    """
    size = file.stat().st_size
    with opened(file, name) as (db, parameters):
        types = _types(db, "*", parameters)
        present = [each for each in fields if each in types]
        counted = db.execute("select sum(num_rows) from parquet_file_metadata($file)", parameters).fetchone()
        total, read, told = int(counted[0] or 0), 0, 0
        rows = db.execute(_query(", ".join(map(quoted, present)) or "null"), parameters)
        for block in iter(partial(rows.fetchmany, _BLOCK_ROWS), []):
            yield [line(**dict(zip(present, row, strict=False))) for row in block]
            read += len(block)
            now = size * read // max(total, read)
            on_bytes(now - told)
            told = now


def _query(what: str) -> str:
    return f"select {what} from read_parquet($file)"  # noqa: S608 - names are quoted


def _types(db: Any, what: str, parameters: dict[str, str]) -> dict[str, str]:
    """Return the types of columns by their names."""
    return {column: kind for column, kind, *_ in db.execute(f"describe {_query(what)}", parameters).fetchall()}
