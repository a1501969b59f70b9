"""Names of a store: the texts of its fields, and its metrics, by their numbers."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from ragweir.errors import BadQuery
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.console.store.answer_query import NESTED, AnswerQuery
from ragweir.streams.console.store.layout import NONE, OTHER, TERM_FIELDS, is_full

OTHERS = "(other)"
"""The text of a field that has more distinct texts than the store keeps."""
_DECISION = "decision."


def status_metric(suite: str) -> str:
    """Return the name of the column of a suite's states, each as its place in `STATUSES`."""
    return f"{_DECISION}status.{suite}"


def probability_metric(suite: str) -> str:
    """Return the name of the column of the probabilities with which a suite selects."""
    return f"{_DECISION}probability.{suite}"


def is_decision(name: str) -> bool:
    """Return whether a column is of a suite's decisions, not of a metric."""
    return name.startswith(_DECISION)


@dataclass(slots=True)
class Names:
    """The texts and metrics of a store by their numbers, as far as they were read."""

    terms: list[tuple[str, str]] = field(default_factory=list)
    """Field and text of each number."""
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    metrics: dict[str, int] = field(default_factory=dict)
    """The number of each metric."""
    metric_names: list[str] = field(default_factory=list)
    """The name of each metric by its number."""
    suites: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The numbers of the columns of states and probabilities, by suite."""
    decisions: set[int] = field(default_factory=set)
    """The numbers of all of these columns."""
    _counts: Counter[str] = field(default_factory=Counter)
    """Number of the texts of each field."""
    _characters: Counter[str] = field(default_factory=Counter)
    """Length of the texts of each field in sum."""
    _values: dict[int, dict[str, str]] = field(default_factory=dict)

    def read(self, db: sqlite3.Connection) -> None:
        """Read those that are new."""
        for number, place, text in db.execute(
            "select id, field, text from term where id >= ? order by id", (len(self.terms),)
        ):
            self.terms.append((TERM_FIELDS[place], text))
            self.numbers[TERM_FIELDS[place], text] = number
            self._counts[TERM_FIELDS[place]] += 1
            self._characters[TERM_FIELDS[place]] += len(text)
        for number, name in db.execute("select id, name from metric where id >= ? order by id", (len(self.metrics),)):
            self.metrics[name] = number
            self.metric_names.append(name)
            if is_decision(name):
                self.decisions.add(number)
        status = status_metric("")
        for number in sorted(self.decisions):
            suite = self.metric_names[number].removeprefix(status)
            if self.metric_names[number].startswith(status):
                self.suites[suite] = number, self.metrics[probability_metric(suite)]

    def text(self, number: int) -> str | None:
        """Return the text of a number."""
        return None if number == NONE else OTHERS if number == OTHER else self.terms[number][1]

    def values(self, number: int) -> dict[str, str]:
        """Return the labels or categories of a number."""
        if number < 0:
            return {}
        if number not in self._values:
            found = orjson.loads(self.terms[number][1])
            self._values[number] = {name: text for name, text in found.items() if text is not None}
        return self._values[number]

    def flags(self, number: int) -> tuple[str, ...]:
        """Return the flags of a number."""
        return () if number < 0 else tuple(orjson.loads(self.terms[number][1]))

    def of(self, field_name: str) -> Iterator[int]:
        """Yield the numbers of a field's texts."""
        return (number for number, (own, _) in enumerate(self.terms) if own == field_name)

    def of_values(self, name: str, values: frozenset[str]) -> tuple[str, list[int]]:
        """Return the field of a dimension, and the numbers of its texts that have one of some values.

        An empty value is that of rows without any.
        """
        own, _, key = name.partition(".")
        if own in NESTED:
            found = [number for number in self.of(own) if self.values(number).get(key, "") in values]
        else:
            found = [number for text in values if (number := self.numbers.get((own, text))) is not None]
        return own, found + [NONE] * ("" in values)

    def metric(self, name: str) -> int:
        """Return the number of a metric.

        Raises:
            BadQuery: if no answer has it.
        """
        if name not in self.metrics:
            raise BadQuery(f"no answer here has a metric {name!r}{nearest_hint(name, self.metrics)}")
        return self.metrics[name]

    def incomplete(self, query: AnswerQuery) -> tuple[str, ...]:
        """Return the dimensions of a query that have more values than are kept apart."""
        full = {name for name, number in self._counts.items() if is_full(number, self._characters[name])}
        return tuple(dict.fromkeys(name for name, _ in query.where if name.partition(".")[0] in full))
