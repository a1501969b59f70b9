"""Counts of answers and of bad ones by application, by the rule of the rehearsal of SLOs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ragweir.streams.analysis.slo.row_outcomes import SloSums
from ragweir.streams.console.store.conditions import Conditions, between, rows_where
from ragweir.streams.console.store.layout import OTHER, microseconds, time_of
from ragweir.streams.console.store.row_ranges import Floats, Ints, RowColumns

_MOST = 1_000
"""Applications that are counted by themselves; further ones are counted together."""


@dataclass(frozen=True, slots=True)
class ApplicationCounts:
    """The answers of one application."""

    application: str | None
    events: int
    judged: int
    first: datetime
    last: datetime
    per_part: tuple[int, ...]
    """Number of its answers in each part of the time range, all parts of equal length."""
    slos: Mapping[str, SloSums]
    """The sums of each SLO for which one of its answers counts, as `ragweir slo rehearse --json` has them."""
    bad_per_part: Mapping[str, tuple[int, ...]]
    """Number of its bad answers in each part, by SLO."""


class _Totals:
    """Totals of each application and part of the time, by kind."""

    def __init__(self, parts: int, kinds: int) -> None:
        self._cells = parts, kinds
        self.values = np.zeros((0, *self._cells))

    def grow(self, applications: int) -> Self:
        """Make place for a number of applications."""
        if applications > len(self.values):
            more = np.zeros((applications - len(self.values), *self._cells))
            self.values = np.concatenate((self.values, more))
        return self

    def add(self, places: Ints, kinds: NDArray[Any], weights: Floats | None = None) -> None:
        """Add answers: 1 for each, or its weight.

        Args:
            places: the application and the part of each, as a number: application after application.
            kinds: the kind of each.
            weights: the weight of each.
        """
        codes = places * self._cells[1] + kinds
        self.values += np.bincount(codes, weights, self.values.size).reshape(self.values.shape)


class _SloTotals(NamedTuple):
    """Answers of an SLO, good and bad, and their weights."""

    events: _Totals
    weights: _Totals


class ApplicationCounting:
    """Counts the answers of a time range.

    Args:
        conditions: what conditions are made from.
        since: time of the first event.
        until: time before which events are.
        parts: number of equal parts of the time.
    """

    def __init__(self, conditions: Conditions, since: datetime, until: datetime, parts: int) -> None:
        self._conditions = conditions
        self._span = between(since, until)
        self._since, self._parts = microseconds(since), parts
        self._width = max(1, -(-(microseconds(until) - self._since) // parts))
        self._rows: dict[int, int] = {}
        """The row of each application, by the number of its name."""
        self._table = np.full(2, -1, np.int64)
        """The same as a table, from the lowest number on."""
        self._first, self._last = (np.full(_MOST + 1, limit, np.int64) for limit in (2**63 - 1, -(2**63)))
        self._seen = _Totals(parts, 2)
        """Scored and judged answers."""
        self._by_slo = {name: _SloTotals(_Totals(parts, 2), _Totals(parts, 2)) for name in conditions.objectives}

    def add(self, part: RowColumns) -> None:
        """Add the rows of a part of the store."""
        found = rows_where([self._span], part)
        if not found.any():
            return
        times = part.field("time_us")
        rows = self._rows_of(part.field("application"))
        places = np.clip((times - self._since) // self._width, 0, self._parts - 1)
        places += rows * self._parts
        applications = min(_MOST + 1, len(self._rows))
        kept = np.flatnonzero(found)
        self._seen.grow(applications).add(places[kept], part.field("judged")[kept])
        rows, times = rows[kept], times[kept]
        np.minimum.at(self._first, rows, times)
        np.maximum.at(self._last, rows, times)
        for name, objective in self._conditions.objectives.items():
            covered = rows_where(self._conditions.covered(objective), part, found)
            if covered.any():
                outcomes = self._conditions.outcomes(objective, part)
                counted = np.flatnonzero(covered & (outcomes.good | outcomes.bad))
                own, bad = places[counted], outcomes.bad[counted].view(np.int8)
                self._by_slo[name].events.grow(applications).add(own, bad)
                self._by_slo[name].weights.grow(applications).add(own, bad, outcomes.weights[counted])

    def _rows_of(self, numbers: Ints) -> Ints:
        """Return the row of each application, given by the number of its name."""
        places = numbers - OTHER
        most = int(places.max()) + 1
        if most > len(self._table):
            self._table = np.concatenate((self._table, np.full(most - len(self._table), -1, np.int64)))
        found = self._table[places]
        if (new := found < 0).any():
            for number in np.unique(numbers[new]).tolist():
                self._rows[number] = self._table[number - OTHER] = min(_MOST, len(self._rows))
            found = self._table[places]
        return found

    def counts(self) -> list[ApplicationCounts]:
        """Return the counts of each application, those with most answers first."""
        by_row = {row: number for number, row in self._rows.items()} | (
            {_MOST: OTHER} if len(self._rows) > _MOST else {}
        )
        applications = len(by_row)
        seen = self._seen.grow(applications).values.astype(np.int64)
        judged, per_part = seen[:, :, 1].sum(1).tolist(), seen.sum(2).tolist()
        slos = {
            name: _Shares.of(*(each.grow(applications).values for each in totals))
            for name, totals in self._by_slo.items()
        }
        found = []
        for row, number in by_row.items():
            if events := sum(per_part[row]):
                counted = {name: each for name, each in slos.items() if each.events[row]}
                found.append(
                    ApplicationCounts(
                        self._conditions.names.text(number),
                        events,
                        judged[row],
                        time_of(int(self._first[row])),
                        time_of(int(self._last[row])),
                        tuple(per_part[row]),
                        {name: each.sums(row) for name, each in counted.items()},
                        {name: tuple(each.bad_per_part[row]) for name, each in counted.items()},
                    )
                )
        return sorted(found, key=lambda each: (-each.events, each.application or ""))


class _Shares(NamedTuple):
    """The answers of an SLO by application."""

    events: list[int]
    bad_per_part: list[list[int]]
    weights: list[float]
    """Weights of good and bad answers."""
    bad_weights: list[float]

    @classmethod
    def of(cls, events: Floats, weights: Floats) -> _Shares:
        """Return them of the totals by application, part and outcome."""
        bad = events[:, :, 1].astype(np.int64)
        own = weights.sum(1)
        return cls(events.sum((1, 2)).astype(int).tolist(), bad.tolist(), own.sum(1).tolist(), own[:, 1].tolist())

    def sums(self, row: int) -> SloSums:
        """Return the sums of an application."""
        return SloSums(self.events[row], sum(self.bad_per_part[row]), self.bad_weights[row] / self.weights[row])
