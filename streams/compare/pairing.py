"""Pairing of two sides' evaluations by event id, in DuckDB, as columns.

Files are read twice: first for the names of metrics, then for their values. One metric is taken out at a time, so that
memory does not grow with their number; `bench/compare.py` measures it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragweir.errors import PermanentError
from ragweir.metrics.aggregation.comparison import OTHERS, Floats, Ints
from ragweir.streams.compare.comparison import Side
from ragweir.streams.sources.events import is_plain, read_events

try:
    import duckdb
except ModuleNotFoundError:
    raise PermanentError("comparing needs the package duckdb; pip install 'ragweir[compare]' brings it") from None

MAX_METRICS = 2_000
"""Limit for the metrics, and for the categories, of both sides."""
MAX_VALUES = 20
"""Values of a dimension, or labels of a category, that are counted separately; the rest is counted together."""
NONE = "(none)"

_SIDES = ("a", "b")
_MEMORY = "512MB"
_MAX_BYTES = 16 * 1024 * 1024
"""Size of the largest evaluation; DuckDB reads no longer lines."""

# Names of tables and columns are formatted into the queries, since parameters cannot be names.
_KEYS_QUERY = """
select distinct unnest(json_keys(scores)), unnest(json_keys(categories))
from read_json($file, format='newline_delimited', columns={{scores: 'JSON', categories: 'JSON'}})
"""
_PAIRS = """
create table newest_a as select event_id, max(rowid) as line from a group by event_id;
create table newest_b as select event_id, max(rowid) as line from b group by event_id;
create table pairs as
    select row_number() over (order by event_id) - 1 as place, newest_a.line as a, newest_b.line as b
    from newest_a join newest_b using (event_id)
"""
_LINES = "select a, b from pairs order by place"
_COUNTS = "select (select count(*) from {side}), (select count(*) from newest_{side})"
_NAMELESS = "select count(*) from {side} where event_id is null or event_id = ''"
_VERSIONS = """
select coalesce(catalogue_version, $none), count(*) from {side} join newest_{side} on {side}.rowid = line
group by 1 order by 1
"""
_NUMBERS = "select coalesce({column}, 'nan'::double) as v from {side}"
_LABELS = """
select v from (select {column} as v from a union all select {column} from b) where v is not null
group by v order by count(*) desc, v limit $most
"""
_LABELLED = """
select case when {column} is null then -1
       else coalesce(list_position($known, {column}) - 1, len($known)) end::bigint as v from {side}
"""
_DIMENSION = """
create or replace temp table dimension as
select place, case when x = y then x else x || ' → ' || y end as v from (
    select place, coalesce(nullif(a.{column}, ''), $none) as x, coalesce(nullif(b.{column}, ''), $none) as y
    from pairs join a on a.rowid = pairs.a join b on b.rowid = pairs.b
)
"""
_VALUES = "select v from dimension group by v order by count(*) desc, v limit $most"
_VALUED = "select coalesce(list_position($known, v) - 1, len($known))::bigint as v from dimension order by place"
_IDS = "select event_id from a where rowid in (select unnest($lines::bigint[])) order by list_position($lines, rowid)"


class Pairing:
    """Pairs of two files, ordered by event id, so that the order of lines makes no difference.

    Args:
        files: evaluations in any format that is read; of several records with the same id the last one counts.
        names: display names of the sides.
        by: dimensions to read: fields of the evaluation, or `labels.NAME`.
        folder: directory of the database, and of copies of files that are no plain JSON lines.
        on_progress: called with the part of a file that is copied, and its name.

    Raises:
        PermanentError: if a file does not hold evaluations.
    """

    def __init__(
        self,
        files: Sequence[Path],
        names: Sequence[str],
        by: Sequence[str],
        folder: Path,
        on_progress: Callable[[float, str], None] = lambda _, __: None,
    ) -> None:
        files = [
            _json_lines(file, name, folder / f"{side}.jsonl", on_progress)
            for file, name, side in zip(files, names, _SIDES, strict=True)
        ]
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "temp_directory": str(folder),
            "autoinstall_known_extensions": "false",
        }
        self._db = duckdb.connect(str(folder / "pairs.duckdb"), config=config)
        self._by, self._names = tuple(by), tuple(names)
        keys: list[Any] = []
        for file, name in zip(files, names, strict=True):
            with _readable_errors(name):
                keys += self._rows(_KEYS_QUERY, {"file": escape(str(file))})
        self.metrics = _sorted(metric for metric, _ in keys)
        self.categories = _sorted(category for _, category in keys)
        if not self.metrics and not self.categories:
            raise PermanentError(f"neither {names[0]} nor {names[1]} holds scores; `ragweir score` makes evaluations")
        for side, file, name in zip(_SIDES, files, names, strict=True):
            self._load(side, file, name)
        self._db.execute(_PAIRS)
        lines = self._db.execute(_LINES).fetchnumpy()
        self._lines: dict[str, Ints] = {side: np.asarray(lines[side], dtype=np.int64) for side in _SIDES}

    def __len__(self) -> int:
        return len(self._lines["a"])

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _load(self, side: str, file: Path, name: str) -> None:
        labels = [key for dimension in self._by for field, _, key in [dimension.partition(".")] if key]
        columns = {dimension: "VARCHAR" for dimension in self._by if "." not in dimension}
        columns |= {"event_id": "VARCHAR", "catalogue_version": "VARCHAR"}
        columns |= _structs({"labels": (labels, "VARCHAR"), "categories": (self.categories, "VARCHAR")})
        columns |= _structs({"scores": (self.metrics, "DOUBLE")})
        parts = ["event_id", "catalogue_version"]
        parts += [f"{_quoted(name)} as d{place}" for place, name in enumerate(self._by)]
        parts += [f"scores.{_quoted(key)} as m{place}" for place, key in enumerate(self.metrics)]
        parts += [f"categories.{_quoted(key)} as c{place}" for place, key in enumerate(self.categories)]
        with _readable_errors(name):
            source = self._db.read_json(escape(str(file)), format="newline_delimited", columns=columns)
            source.project(", ".join(parts)).create(side)
        if nameless := self._rows(_NAMELESS, side=side)[0][0]:
            raise PermanentError(
                f"{nameless} of the lines of {name} have no event_id; it must be a file of evaluations"
            )

    def _rows(self, template: str, parameters: Mapping[str, object] | None = None, **names: str) -> list[Any]:
        return self._db.execute(template.format(**names), parameters).fetchall()

    def _column(self, template: str, parameters: Mapping[str, object] | None = None, **names: str) -> NDArray[Any]:
        found = self._db.execute(template.format(**names), parameters).fetchnumpy()["v"]
        return np.asarray(found)

    def sides(self) -> tuple[Side, Side]:
        """Return the contents of each side."""
        first, second = (self._side(side, name) for side, name in zip(_SIDES, self._names, strict=True))
        return first, second

    def _side(self, side: str, name: str) -> Side:
        records, events = self._rows(_COUNTS, side=side)[0]
        versions = dict(self._rows(_VERSIONS, {"none": NONE}, side=side))
        return Side(name, records, events, events - len(self), versions)

    def values(self, metric: str) -> tuple[Floats, Floats]:
        """Return a metric of all pairs on both sides; NaN for none."""
        column = f"m{self.metrics.index(metric)}"
        before, after = (self._column(_NUMBERS, side=side, column=column)[self._lines[side]] for side in _SIDES)
        return np.where(np.isfinite(before), before, np.nan), np.where(np.isfinite(after), after, np.nan)

    def labels(self, category: str) -> tuple[list[str], Ints, Ints]:
        """Return a category's labels by descending frequency, and the numbers of all pairs' labels; -1 for none."""
        column = f"c{self.categories.index(category)}"
        known = [label for (label,) in self._rows(_LABELS, {"most": MAX_VALUES}, column=column)]
        before, after = (
            self._column(_LABELLED, {"known": known}, side=side, column=column)[self._lines[side]] for side in _SIDES
        )
        return _with_others(known, max(before.max(initial=-1), after.max(initial=-1))), before, after

    def dimension(self, name: str) -> tuple[list[str], Ints]:
        """Return a dimension's values by descending frequency, and the numbers of all pairs' values.

        A pair whose sides differ has the value `before → after`.
        """
        self._rows(_DIMENSION, {"none": NONE}, column=f"d{self._by.index(name)}")
        known = [value for (value,) in self._rows(_VALUES, {"most": MAX_VALUES})]
        numbers = self._column(_VALUED, {"known": known})
        return _with_others(known, numbers.max(initial=-1)), numbers

    def event_ids(self, places: Sequence[int]) -> list[str]:
        """Return the event ids of some pairs."""
        lines = self._lines["a"][list(places)].tolist()
        return [event_id for (event_id,) in self._rows(_IDS, {"lines": lines})] if lines else []


def _json_lines(file: Path, name: str, copy: Path, on_progress: Callable[[float, str], None]) -> Path:
    """Return a file that DuckDB reads: the file itself, if it is plain JSON lines, or its events as a copy."""
    if is_plain(file):
        return file
    size, done = max(1, file.stat().st_size), 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        on_progress(done / size, f"reading {name}")

    with copy.open("wb") as lines:
        for _, value in read_events(file, _MAX_BYTES, on_bytes):
            # Line ends within the value are between its tokens.
            lines.write(value.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
    return copy


def _sorted(names: Iterable[str | None]) -> tuple[str, ...]:
    found = sorted({name for name in names if name is not None})
    if len(found) > MAX_METRICS or len({name.lower() for name in found}) < len(found):
        raise PermanentError(
            f"the metrics are over {MAX_METRICS}, or the names of two differ in upper and lower case only"
        )
    return tuple(found)


def _with_others(known: list[str], most: int) -> list[str]:
    return [*known, OTHERS] if most >= len(known) else known


def _quoted(name: str) -> str:
    """Return a name as a SQL identifier; a label's with its field.

    >>> _quoted('a"b'), _quoted("labels.region")
    ('"a""b"', 'labels."region"')
    """
    field, dot, key = name.partition(".") if name.startswith("labels.") else ("", "", name)
    quoted = key.replace('"', '""')
    return f'{field}{dot}"{quoted}"'


def _structs(fields: Mapping[str, tuple[Iterable[str], str]]) -> dict[str, str]:
    """Return the columns of objects, with the types of the given keys.

    >>> _structs({"scores": (["a", "b"], "DOUBLE"), "labels": ([], "VARCHAR")})
    {'scores': 'STRUCT("a" DOUBLE, "b" DOUBLE)'}
    """
    return {
        field: "STRUCT({})".format(", ".join(f"{_quoted(key)} {kind}" for key in keys))
        for field, (keys, kind) in fields.items()
        if keys
    }


@contextmanager
def _readable_errors(name: str) -> Iterator[None]:
    """Replace errors of DuckDB by one sentence that does not quote the file."""
    try:
        yield
    except duckdb.Error as error:
        near = re.search(r"in line (\d+)", str(error))
        place = f"near line {near[1]}" if near else "somewhere"
        raise PermanentError(f"{name} cannot be read as evaluations in JSON lines: something else is {place}") from None
