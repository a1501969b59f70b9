"""Two sides' evaluations in columns, paired by event id: DuckDB reads them, keeps them on disk and joins them.

Files are read twice: once for the names of metrics, which nobody can know beforehand, once for the values. Memory does
not grow with the number of metrics, since one is taken out at a time. `bench/compare.py` has the figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from ragweir.errors import PermanentError
from ragweir.metrics.aggregation.comparison import OTHERS, Floats, Ints

MOST_METRICS = 2_000
"""Names of metrics, or of categories; more are refused."""
MOST_VALUES = 20
"""Values of a dimension, or labels of a category, that stand for themselves; the rest counts together."""
NONE = "(none)"

_SIDES = ("a", "b")
_MEMORY = "512MB"

# What stands in braces is ours: the names of tables and columns, which parameters cannot be.
_KEYS = """
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
_MET = """
create or replace temp table met as
select place, case when x = y then x else x || ' → ' || y end as v from (
    select place, coalesce(nullif(a.{column}, ''), $none) as x, coalesce(nullif(b.{column}, ''), $none) as y
    from pairs join a on a.rowid = pairs.a join b on b.rowid = pairs.b
)
"""
_VALUES = "select v from met group by v order by count(*) desc, v limit $most"
_VALUED = "select coalesce(list_position($known, v) - 1, len($known))::bigint as v from met order by place"
_IDS = "select event_id from a where rowid in (select unnest($lines::bigint[])) order by list_position($lines, rowid)"


@dataclass(frozen=True, slots=True)
class Side:
    """What one side holds."""

    name: str
    records: int
    events: int
    """Distinct ids; the newest record of each counts."""
    only: int
    """Events that the other side has not."""
    catalogue_versions: dict[str, int]
    """How many of the events were evaluated by which."""


class Pairing:
    """The pairs of two files, in the order of their event ids, so that the order of lines makes no difference.

    Args:
        files: of both sides, JSON lines; of several records with the same id the last one counts.
        names: of both sides, for messages.
        by: the dimensions that are wanted: fields of the evaluation, or `labels.NAME`.
        folder: for what does not fit into memory.

    Raises:
        PermanentError: if a file is not one of evaluations.
    """

    def __init__(self, files: Sequence[Path], names: Sequence[str], by: Sequence[str], folder: Path) -> None:
        own: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "temp_directory": str(folder),
            "autoinstall_known_extensions": "false",
        }
        self._db = duckdb.connect(str(folder / "pairs.duckdb"), config=own)
        self._by, self._names = tuple(by), tuple(names)
        found = [row for file, name in zip(files, names, strict=True) for row in self._keys(file, name)]
        self.metrics = _sorted(metric for metric, _ in found)
        self.categories = _sorted(category for _, category in found)
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
        """Give everything up."""
        self._db.close()

    def _keys(self, file: Path, name: str) -> list[Any]:
        with _told(name):
            return self._rows(_KEYS, {"file": escape(str(file))})

    def _read(self, file: Path, columns: Mapping[str, str]) -> duckdb.DuckDBPyRelation:
        return self._db.read_json(escape(str(file)), format="newline_delimited", columns=dict(columns))

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
        with _told(name):
            self._read(file, columns).project(", ".join(parts)).create(side)
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
        """What each side holds."""
        first, second = (self._side(side, name) for side, name in zip(_SIDES, self._names, strict=True))
        return first, second

    def _side(self, side: str, name: str) -> Side:
        records, events = self._rows(_COUNTS, side=side)[0]
        versions = dict(self._rows(_VERSIONS, {"none": NONE}, side=side))
        return Side(name, records, events, events - len(self), versions)

    def values(self, metric: str) -> tuple[Floats, Floats]:
        """A metric of all pairs on both sides, NaN where there is none."""
        column = f"m{self.metrics.index(metric)}"
        before, after = (self._column(_NUMBERS, side=side, column=column)[self._lines[side]] for side in _SIDES)
        return np.where(np.isfinite(before), before, np.nan), np.where(np.isfinite(after), after, np.nan)

    def labels(self, category: str) -> tuple[list[str], Ints, Ints]:
        """A category's labels, the most frequent first, and the label's number of all pairs; -1 where there is none."""
        column = f"c{self.categories.index(category)}"
        known = [label for (label,) in self._rows(_LABELS, {"most": MOST_VALUES}, column=column)]
        before, after = (
            self._column(_LABELLED, {"known": known}, side=side, column=column)[self._lines[side]] for side in _SIDES
        )
        return _with_others(known, max(before.max(initial=-1), after.max(initial=-1))), before, after

    def dimension(self, name: str) -> tuple[list[str], Ints]:
        """A dimension's values, the most frequent first, and the value's number of all pairs.

        The value of a pair whose sides differ is `before → after`.
        """
        self._rows(_MET, {"none": NONE}, column=f"d{self._by.index(name)}")
        known = [value for (value,) in self._rows(_VALUES, {"most": MOST_VALUES})]
        numbers = self._column(_VALUED, {"known": known})
        return _with_others(known, numbers.max(initial=-1)), numbers

    def event_ids(self, places: Sequence[int]) -> list[str]:
        """The ids of some pairs."""
        lines = self._lines["a"][list(places)].tolist()
        return [event_id for (event_id,) in self._rows(_IDS, {"lines": lines})] if lines else []


def _sorted(names: Iterable[str | None]) -> tuple[str, ...]:
    found = sorted({name for name in names if name is not None})
    if len(found) > MOST_METRICS or len({name.lower() for name in found}) < len(found):
        raise PermanentError(
            f"the metrics are over {MOST_METRICS}, or the names of two differ in upper and lower case only"
        )
    return tuple(found)


def _with_others(known: list[str], most: int) -> list[str]:
    return [*known, OTHERS] if most >= len(known) else known


def _quoted(name: str) -> str:
    """A name as SQL has it; a label's with its field.

    >>> _quoted('a"b'), _quoted("labels.region")
    ('"a""b"', 'labels."region"')
    """
    field, dot, key = name.partition(".") if name.startswith("labels.") else ("", "", name)
    quoted = key.replace('"', '""')
    return f'{field}{dot}"{quoted}"'


def _structs(fields: Mapping[str, tuple[Iterable[str], str]]) -> dict[str, str]:
    """The columns for objects, of which some keys are wanted.

    >>> _structs({"scores": (["a", "b"], "DOUBLE"), "labels": ([], "VARCHAR")})
    {'scores': 'STRUCT("a" DOUBLE, "b" DOUBLE)'}
    """
    return {
        field: "STRUCT({})".format(", ".join(f"{_quoted(key)} {kind}" for key in keys))
        for field, (keys, kind) in fields.items()
        if keys
    }


@contextmanager
def _told(name: str) -> Iterator[None]:
    """DuckDB's errors in one sentence, which quotes nothing of the file."""
    try:
        yield
    except duckdb.Error as error:
        near = re.search(r"in line (\d+)", str(error))
        place = f"near line {near[1]}" if near else "somewhere"
        raise PermanentError(
            f"{name} cannot be read as evaluations in JSON lines: something else stands {place}"
        ) from None
