"""Scores of data frames of pandas and polars; neither is imported unless the frame is one of its own."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sized
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray
from typing_extensions import override

from ragweir.errors import Rejected
from ragweir.metrics.metric import Metric
from ragweir.schemas.codec.mapping.unmatched import unmatched_paths
from ragweir.schemas.codec.ready_maps import READY_MAPS
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.interaction import Interaction
from ragweir.streams.files.schema_inference import propose
from ragweir.streams.library.arguments import MapArgument, SettingsArgument, map_of
from ragweir.streams.library.python_values import as_json
from ragweir.streams.library.scoring import scorer
from ragweir.streams.runtime.text.terminal import printable

_ROWS = 256
"""Rows that are Python values at a time."""
_SAMPLE = 100
"""Rows in which the paths of a map are looked for."""
_SHOWN_PATHS = 3

Texts = list[str | None]
Column = NDArray[np.float64] | Texts


class DataFrame(Sized, Protocol):
    """A data frame of pandas or polars."""

    @property
    def columns(self) -> Any:
        """The names of the columns."""

    def head(self, n: int = ..., /) -> Any:
        """Return the first rows."""


FrameT = TypeVar("FrameT", bound=DataFrame)


class _Library(ABC):
    """A library of data frames."""

    @abstractmethod
    def rows(self, frame: Any, fields: frozenset[str] | None) -> Iterator[Mapping[Any, Any]]:
        """Yield the rows as mappings, of these columns; None for all."""

    @abstractmethod
    def frame(self, columns: dict[str, Column], like: Any) -> Any:
        """Make a frame of columns, which it takes out of the dictionary."""


class _Pandas(_Library):
    @override
    def rows(self, frame: Any, fields: frozenset[str] | None) -> Iterator[Mapping[Any, Any]]:
        if fields is not None:
            frame = frame.loc[:, [name in fields for name in frame.columns]]
        for start in range(0, len(frame), _ROWS):
            yield from frame.iloc[start : start + _ROWS].to_dict("records")

    @override
    def frame(self, columns: dict[str, Column], like: Any) -> Any:
        pandas = sys.modules["pandas"]
        made = {
            name: pandas.array(column, dtype="string") if isinstance(column, list) else column
            for name, column in columns.items()
        }
        return pandas.DataFrame(made, index=like.index, copy=False)


class _Polars(_Library):
    @override
    def rows(self, frame: Any, fields: frozenset[str] | None) -> Iterator[Mapping[Any, Any]]:
        if fields is not None:
            known = [name for name in frame.columns if name in fields]
            if not known:  # A frame without columns has no rows in polars.
                yield from ({} for _ in range(len(frame)))
                return
            frame = frame.select(known)
        for part in frame.iter_slices(_ROWS):
            yield from part.iter_rows(named=True)

    @override
    def frame(self, columns: dict[str, Column], like: Any) -> Any:
        polars = sys.modules["polars"]
        made = []
        for name in list(columns):  # One at a time, since polars copies them.
            column = columns.pop(name)
            kind = polars.String if isinstance(column, list) else polars.Float64
            made.append(polars.Series(name, column, dtype=kind, nan_to_null=True))
        return polars.DataFrame(made)


_LIBRARIES: Mapping[str, _Library] = {"pandas": _Pandas(), "polars": _Polars()}


def library_of(frame: object) -> str | None:
    """Return the library of a data frame: "pandas", "polars" or None."""
    for name in _LIBRARIES:
        library = sys.modules.get(name)  # Whoever has a frame of it has imported it.
        if library is not None and isinstance(frame, library.DataFrame):
            return name
    return None


def rows_of(frame: Any, fields: frozenset[str] | None) -> Iterator[Mapping[Any, Any]]:
    """Yield the rows of a data frame as mappings, of these columns; None for all.

    Raises:
        TypeError: if it is no data frame of pandas or polars.
        ValueError: if two columns have the same name, or a name has several parts.
    """
    name = library_of(frame)
    if name is None:
        lazy = "; collect() it first" if hasattr(frame, "collect") else ""
        raise TypeError(f"a data frame of pandas or polars is needed, not a {type(frame).__name__}{lazy}")
    columns = list(frame.columns)
    if wrong := next((each for each in columns if isinstance(each, tuple) or columns.count(each) > 1), None):
        raise ValueError(f"the name {wrong!r} of a column has several parts, or is that of two; rename the columns")
    return _LIBRARIES[name].rows(frame, fields)


def _sample(rows: Any) -> Iterator[object]:
    """Yield the rows of a frame as parsed JSON, without those that cannot be written as JSON."""
    for row in rows_of(rows, None):
        with suppress(Rejected):
            yield orjson.loads(as_json(row))


class _Scores:
    """The columns of the scores of a number of rows."""

    def __init__(self, metrics: Mapping[str, Metric], rows: int) -> None:
        self.event_id: Texts = [None] * rows
        self.rejected: Texts = [None] * rows
        self.flags: Texts = [None] * rows
        labels = {name for name, metric in metrics.items() if metric.unit == "category"}
        self.names = tuple(metrics)
        self.categories: dict[str, Texts] = {name: [None] * rows for name in labels}
        self.scores = {name: np.full(rows, np.nan) for name in metrics if name not in labels}
        self._texts: dict[str, str] = {}
        """Reasons, flags and labels: each text is kept once."""

    def put(self, number: int, result: Evaluation | Rejected) -> None:
        """Set a row."""
        if isinstance(result, Rejected):
            self.rejected[number] = self._text(result.message)
            return
        self.event_id[number] = result.event_id
        if result.flags:
            self.flags[number] = self._text(", ".join(result.flags))
        for name, value in result.scores.items():
            if value is not None:
                self.scores[name][number] = value
        for name, label in result.categories.items():
            if label is not None:
                self.categories[name][number] = self._text(label)

    def take(self) -> dict[str, Column]:
        """Return the columns in their order, and hold them no longer."""
        every = self.scores | self.categories
        metrics: dict[str, Column] = {name: every[name] for name in self.names}
        self.scores, self.categories = {}, {}
        return {"event_id": self.event_id, **metrics, "flags": self.flags, "rejected": self.rejected}

    def _text(self, text: str) -> str:
        return self._texts.setdefault(text, text)


def _propose_map(sample: list[object]) -> None:
    """Warn of a frame without rows that can be scored, if a map may read them."""
    if {"query", "response"} <= (rules := propose(sample)).keys():
        warnings.warn(f"no row could be scored; try map={printable(repr(rules), None)}", stacklevel=3)


def score_frame(frame: FrameT, *, map: MapArgument = None, settings: SettingsArgument = None) -> FrameT:
    """Score the rows of a data frame of pandas or polars.

    >>> import pandas, ragweir
    >>> frame = pandas.DataFrame({"event_id": ["a", ""], "query": ["Who?", "Who?"], "response": ["Ada.", "Ada."],
    ...                           "contexts": [["Ada wrote it."], ["It rained."]]})
    >>> scores = ragweir.score_frame(frame)
    >>> float(scores.loc[0, "context_support"]), scores.loc[1, "rejected"]  # doctest: +ELLIPSIS
    (1.0, 'event_id: empty; ...')

    Cells may hold lists, arrays, mappings, timestamps and missing values. A row is what `score` takes: values in cells
    that are missing are null, so that a row without a query or a response is scored as one whose content was not
    captured.

    Args:
        frame: the data frame, one event a row. Without a map, its columns are the fields of an interaction by their
            names (`event_id`, `query`, `response`, `contexts`, ...); other columns are not read.
        map: see `score`; paths begin with the name of a column.
        settings: see `score`.

    Warns:
        UserWarning: of a path in a map of one's own that leads to nothing in the first 100 rows, and of a map that may
            read a frame of which no row could be scored.

    Returns:
        A frame of the same library, with a row for each row, in order, and with the same index in pandas. Its columns
        are `event_id`; each metric that needs no judge, as a float (booleans as 1 and 0, NaN in pandas and null in
        polars where there is no value) or as text for labels; `flags`, which names the repairs of the event; and
        `rejected`, the reason why a row could not be scored, null if it was.

    Raises:
        ConfigurationError: if the map or a setting is wrong.
        TypeError: if it is no data frame of pandas or polars.
        ValueError: if two columns have the same name.
    """
    fields = frozenset(Interaction.model_fields) if map is None else None
    rows = rows_of(frame, fields)
    found = scorer(map, settings)
    if map is not None and (isinstance(map, Mapping) or str(map) not in READY_MAPS):
        for unmatched in unmatched_paths(map_of(map), list(_sample(frame.head(_SAMPLE))))[:_SHOWN_PATHS]:
            warnings.warn(f"the map, {printable(str(unmatched), None)}", stacklevel=2)
    scores = _Scores(found.catalogue.free, len(frame))
    for number, result in enumerate(found.scores(rows)):
        scores.put(number, result)
    if map is None and None not in scores.rejected:
        _propose_map(list(_sample(frame.head(_SAMPLE))))
    return _LIBRARIES[library_of(frame) or ""].frame(scores.take(), frame)  # type: ignore[no-any-return]
