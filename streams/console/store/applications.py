"""Counts of answers and of bad ones by application, by the rule of the rehearsal of SLOs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from ragweir.streams.analysis.slo.row_outcomes import SloSums
from ragweir.streams.console.store.answer_query import AnswerQuery
from ragweir.streams.console.store.conditions import Conditions, rows_where
from ragweir.streams.console.store.layout import OTHER, microseconds, time_of
from ragweir.streams.console.store.row_ranges import Flags, Floats, Ints, RowRange

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
    """Totals by application and part of the time."""

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self.values = np.zeros((0, parts))

    def add(self, places: Ints, weights: Floats | Flags) -> None:
        """Add the events of a part of the store, by places in this table, row after row, and with their weights."""
        most = int(places.max(initial=-1)) // self._parts + 1
        if most > len(self.values):
            self.values = np.concatenate((self.values, np.zeros((most - len(self.values), self._parts))))
        self.values += np.bincount(places, weights, self.values.size).reshape(self.values.shape)

    def of(self, row: int) -> Floats:
        """Return the totals of an application by part."""
        return self.values[row] if row < len(self.values) else np.zeros(self._parts)


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
        self._span = conditions.of(AnswerQuery(since=since, until=until))
        self._since, self._parts = microseconds(since), parts
        self._width = max(1, -(-(microseconds(until) - self._since) // parts))
        self._rows: dict[int, int] = {}
        """The row of each application, by the number of its name."""
        self._table = np.full(2, -1, np.int64)
        """The same as a table, from the lowest number on."""
        self._first, self._last = (np.full(_MOST + 1, limit, np.int64) for limit in (2**63 - 1, -(2**63)))
        self._events, self._judged = _Totals(parts), _Totals(parts)
        self._by_slo = {name: tuple(_Totals(parts) for _ in range(4)) for name in conditions.objectives}
        """Good and bad answers, and their weights."""

    def add(self, part: RowRange) -> None:
        """Add the rows of a part of the store."""
        found = rows_where(self._span, part)
        if not found.any():
            return
        times = part.field("time_us")
        rows = self._rows_of(part.field("application"))
        places = np.clip((times - self._since) // self._width, 0, self._parts - 1)

        places += rows * self._parts

        def add(totals: _Totals, flags: Flags, weights: Floats | None = None) -> None:
            totals.add(places, flags if weights is None else np.where(flags, weights, 0.0))

        add(self._events, found)
        add(self._judged, found & (part.field("judged") == 1))
        np.minimum.at(self._first, rows[found], times[found])
        np.maximum.at(self._last, rows[found], times[found])
        for name, objective in self._conditions.objectives.items():
            covered = rows_where(self._conditions.covered(objective), part, found)
            if covered.any():
                outcomes = self._conditions.outcomes(objective, part)
                good, bad, of_good, of_bad = self._by_slo[name]
                add(good, covered & outcomes.good)
                add(bad, covered & outcomes.bad)
                add(of_good, covered & outcomes.good, outcomes.weights)
                add(of_bad, covered & outcomes.bad, outcomes.weights)

    def _rows_of(self, numbers: Ints) -> Ints:
        """Return the row of each application, given by the number of its name."""
        most = int(numbers.max()) - OTHER + 1
        if most > len(self._table):
            self._table = np.concatenate((self._table, np.full(most - len(self._table), -1, np.int64)))
        found = self._table[numbers - OTHER]
        if (new := found < 0).any():
            for number in np.unique(numbers[new]).tolist():
                self._rows[number] = self._table[number - OTHER] = min(_MOST, len(self._rows))
            found = self._table[numbers - OTHER]
        return found

    def counts(self) -> list[ApplicationCounts]:
        """Return the counts of each application, those with most answers first."""
        by_row = {row: number for number, row in self._rows.items()} | (
            {_MOST: OTHER} if len(self._rows) > _MOST else {}
        )
        found = [self._counts(row, number) for row, number in by_row.items() if self._events.of(row).any()]
        return sorted(found, key=lambda each: (-each.events, each.application or ""))

    def _counts(self, row: int, number: int) -> ApplicationCounts:
        slos, bad_per_part = {}, {}
        for name, totals in self._by_slo.items():
            good, bad, of_good, of_bad = (each.of(row) for each in totals)
            events, own = int(good.sum() + bad.sum()), int(bad.sum())
            if events:
                total = float(of_good.sum()) + float(of_bad.sum())
                slos[name] = SloSums(events, own, float(of_bad.sum()) / total)
                bad_per_part[name] = tuple(bad.astype(int).tolist())
        return ApplicationCounts(
            self._conditions.names.text(number),
            int(self._events.of(row).sum()),
            int(self._judged.of(row).sum()),
            time_of(int(self._first[row])),
            time_of(int(self._last[row])),
            tuple(self._events.of(row).astype(int).tolist()),
            slos,
            bad_per_part,
        )
