"""Conditions of a query on the rows of a part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragweir.errors import BadQuery
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.analysis.slo.row_outcomes import RowOutcomes, row_outcomes
from ragweir.streams.console.store.answer_query import TIME, AnswerQuery, MetricRange
from ragweir.streams.console.store.layout import digest, document_digest, microseconds
from ragweir.streams.console.store.names import Names, probability_metric, status_metric
from ragweir.streams.console.store.row_ranges import Flags, Ints, RowColumns, RowRange
from ragweir.streams.services.aggregate.objectives import Objective

Condition = Callable[[RowRange], Flags]
ColumnCondition = Callable[[RowColumns], Flags]
"""A condition that needs no more of a part than its columns."""
_Part = TypeVar("_Part", bound=RowColumns)
_DIGESTS = {"session": "session_id", "question": "question_id", "trace": "trace_id"}
"""The fields that a query names by whole values."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The parts that conditions are made from.

    Args:
        names: texts and metrics of the store.
        objectives: the SLOs by name.
        labelled: digests of the events that have labels.
        with_feedback: digests of the events that have one of the values of each name; of all with feedback for none.
    """

    names: Names
    objectives: Mapping[str, Objective]
    labelled: Callable[[], Ints]
    with_feedback: Callable[[Mapping[str, Iterable[str]]], Ints]

    def of(self, query: AnswerQuery) -> list[Condition]:
        """Return the conditions of a query, the fastest ones first.

        Raises:
            BadQuery: if it names what the store does not have.
        """
        return list(self._conditions(query))

    def _conditions(self, query: AnswerQuery) -> Iterator[Condition]:
        if query.since is not None or query.until is not None:
            yield between(query.since, query.until)
        yield from self._dimensions(query.where)
        yield from _equals(query)
        for flag in query.flags:
            yield _one_of("flags", [each for each in self.names.of("flags") if flag in self.names.flags(each)])
        for each in query.ranges:
            yield _in_range(self.names.metric(each.metric), each)
        if query.slo is not None:
            yield from self._bad(query.slo)
        if query.labelled is not None:
            yield _among(self.labelled(), wanted=query.labelled)
        yield from self._feedback(query)
        yield from _searches(query)

    def _dimensions(self, where: Iterable[tuple[str, str]]) -> Iterator[ColumnCondition]:
        alternatives: dict[str, set[str]] = {}
        for name, value in where:
            alternatives.setdefault(name, set()).add(value)
        for name, values in alternatives.items():
            yield _one_of(*self.names.of_values(name, frozenset(values)))

    def _bad(self, name: str) -> Iterator[Condition]:
        if name not in self.objectives:
            raise BadQuery(f"there is no SLO {name!r}{nearest_hint(name, self.objectives)}")
        objective = self.objectives[name]
        yield from self.covered(objective)
        yield lambda part: self.outcomes(objective, part).bad

    def _feedback(self, query: AnswerQuery) -> Iterator[Condition]:
        if query.has_feedback is not None:
            yield _among(self.with_feedback({}), wanted=query.has_feedback)
        if query.given:
            alternatives = {name: [value for own, value in query.given if own == name] for name, _ in query.given}
            yield _among(self.with_feedback(alternatives), wanted=True)

    def keys(self, sort: str) -> Callable[[RowRange], NDArray[Any]]:
        """Return what gives the values by which the rows of a part are sorted.

        Raises:
            BadQuery: if no answer has the metric.
        """
        if sort == TIME:
            return lambda part: part.field("time_us")
        metric = self.names.metric(sort)
        return lambda part: part.metric(metric)

    def covered(self, objective: Objective) -> Iterator[ColumnCondition]:
        """Yield the conditions under which an answer counts for an SLO."""
        return self._dimensions(objective.slo.dimensions.items())

    def outcomes(self, objective: Objective, part: RowColumns) -> RowOutcomes:
        """Return the outcomes of the rows of a part, as if all had the dimensions of the SLO."""
        suite = objective.suite
        wanted = [objective.slo.metric, *((status_metric(suite), probability_metric(suite)) if suite else ("", ""))]
        numbers = [self.names.metrics.get(each) for each in wanted]
        columns = [np.full(part.rows, np.nan) if each is None else part.metric(each) for each in numbers]
        return row_outcomes(objective, *columns)


def rows_where(conditions: Iterable[Callable[[_Part], Flags]], part: _Part, of: Flags | None = None) -> Flags:
    """Return a flag for each row of a part, or of some of its rows, that counts and for which all conditions hold."""
    found = part.alive() if of is None else of.copy()
    for condition in conditions:
        found &= condition(part)
        if not found.any():
            break
    return found


def between(since: datetime | None, until: datetime | None) -> ColumnCondition:
    """Return the condition that an event is of a time range, whose end is not in it; None for no limit."""
    first = -(2**63) if since is None else microseconds(since)
    end = 2**63 - 1 if until is None else microseconds(until)

    def condition(part: RowColumns) -> Flags:
        if part.time_max < first or part.time_min >= end:
            return np.zeros(part.rows, np.bool_)
        times = part.field("time_us")
        return np.asarray((times >= first) & (times < end))

    return condition


def _equals(query: AnswerQuery) -> Iterator[Condition]:
    """Yield the conditions on whole values of fields."""
    for name, of in _DIGESTS.items():
        if (text := getattr(query, name)) is not None:
            yield _equal(of, digest(text))
    if query.judged is not None:
        yield _equal("judged", int(query.judged))


def _searches(query: AnswerQuery) -> Iterator[Condition]:
    """Yield the conditions that look for something in each row, which take longest."""
    if query.document is not None:
        yield _with_document(document_digest(query.document))
    if query.id_part is not None:
        yield _with_id_part(query.id_part.encode("utf-8", "surrogatepass"))


def _equal(name: str, value: int) -> ColumnCondition:
    return lambda part: np.asarray(part.field(name) == value)


def _one_of(name: str, numbers: Sequence[int]) -> ColumnCondition:
    if len(numbers) == 1:
        return _equal(name, numbers[0])
    own = np.array(numbers, np.int32)
    return lambda part: np.isin(part.field(name), own)


def _in_range(metric: int, wanted: MetricRange) -> Condition:
    low = -inf if wanted.low is None else wanted.low
    high = inf if wanted.high is None else wanted.high

    def condition(part: RowRange) -> Flags:
        values = part.metric(metric)
        return np.asarray((values >= low) & (values <= high))

    return condition


def _among(events: Ints, *, wanted: bool) -> Condition:
    return lambda part: np.isin(part.field("event"), events, invert=not wanted)


def _with_document(number: int) -> Condition:
    def condition(part: RowRange) -> Flags:
        counts, digests = part.documents()
        found = np.zeros(part.rows, np.bool_)
        places = np.flatnonzero(digests == number)
        if len(places):
            found[np.searchsorted(np.cumsum(counts), places, side="right")] = True
        return found

    return condition


def _places(text: bytes, data: memoryview) -> Ints:
    """Return the places of a text, in no order: its first bytes are compared as one number, at each offset of words.

    >>> sorted(_places(b"aba", memoryview(b"ababa-ab")).tolist())
    [0, 2]
    """
    width = 4 if len(text) >= 4 else 2 if len(text) >= 2 else 1
    first = int.from_bytes(text[:width], "little")
    found = []
    for offset in range(min(width, max(0, len(data) - len(text) + 1))):
        words = np.frombuffer(data, f"<u{width}", (len(data) - offset) // width, offset)
        found.append(np.flatnonzero(words == first) * width + offset)
    places = np.concatenate(found) if found else np.zeros(0, np.int64)
    places = places[places + len(text) <= len(data)]
    content = np.frombuffer(data, np.uint8)
    for at, byte in enumerate(text[width:], width):
        places = places[content[places + at] == byte]
    return places


def _with_id_part(text: bytes) -> Condition:
    def condition(part: RowRange) -> Flags:
        lengths, data = part.ids()
        found = np.zeros(part.rows, np.bool_)
        if len(places := _places(text, data)):
            ends = np.cumsum(lengths)
            rows = np.searchsorted(ends, places, side="right")
            found[rows[places + len(text) <= ends[rows]]] = True  # Not one that begins in an id and ends in the next.
        return found

    return condition
