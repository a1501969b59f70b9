"""The counts by which values of facets are compared: of all values, or of one among some events.

Without a reference a value's events are compared with the rest of their stratum; with one, with the events of the
reference that carry the same value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.cause.exact_tail import StratumCounts
from ragweir.metrics.cause.servings import Ints, Mask, Servings

Floats = NDArray[np.float64]
_BATCH = 500_000
"""Number of servings whose counts are made at once."""


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """The counts of all values that have enough servings, by value and stratum."""

    values: Ints
    """Numbers of the values."""
    starts: Ints
    """Place of the first row of each value, and the number of rows at the end."""
    counts: StratumCounts
    """Counts in which each session and question counts once."""
    servings: Ints
    servings_bad: Ints
    """Events of each value, and bad ones of them; all count."""
    excess: Floats
    """Bad events of each value beyond as many as the share of those that it is compared with gives."""

    def of(self, place: int) -> StratumCounts:
        """Return the counts of the value at a place."""
        own = slice(self.starts[place], self.starts[place + 1])
        return StratumCounts(*(each[own] for each in self.counts))

    def normal(self) -> Floats:
        """Return how many standard deviations each value's number of bad events is above the expected one."""
        n, x, m, y = (each.astype(float) for each in self.counts)
        size, bad = n + m, x + y
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = np.where(m > 0, n * bad / size, x)
            variance = np.where((m > 0) & (size > 1), n * m * bad * (size - bad) / (size**2 * (size - 1)), 0.0)
        above, spread = self._summed(x - expected), self._summed(variance)
        return np.asarray(above / np.sqrt(np.maximum(spread, 1e-12)))

    def compared(self) -> Floats:
        """Return how much there is to compare for each value; 0 if nothing is."""
        n, _, m, _ = (each.astype(float) for each in self.counts)
        return self._summed(n * m / np.maximum(n + m, 1.0))

    def _summed(self, each: Floats) -> Floats:
        return np.add.reduceat(each, self.starts[:-1]) if len(self.values) else np.zeros(0)


def all_values(rows: Servings, fewest: int, *, has_reference: bool) -> ValueCounts:
    """Return the counts of all values with at least so many servings.

    Args:
        rows: the events in the order of their hashes.
        fewest: minimum number of servings.
        has_reference: true to compare with the events of the reference.
    """
    values = np.flatnonzero(rows.served() >= fewest)
    compared_with = ~rows.present if has_reference else rows.present
    shown, whole = _totals(rows, rows.counted & compared_with), _totals(rows, compared_with)
    # Many servings at once would take ten times the memory of the columns themselves.
    batch = np.cumsum(rows.starts[values + 1] - rows.starts[values]) // _BATCH
    of_batch = _against_itself if has_reference else _against_the_rest
    parts = [of_batch(rows, values[batch == each], shown, whole) for each in np.unique(batch).tolist()]
    if not parts:
        none = np.zeros(0, np.int64)
        return ValueCounts(
            values, np.zeros(1, np.int64), StratumCounts(none, none, none, none), none, none, np.zeros(0)
        )
    ends = np.cumsum([0, *(len(each.counts.carried) for each in parts)])
    starts = [each.starts[:-1] + end for each, end in zip(parts, ends, strict=False)]
    return ValueCounts(
        values,
        np.append(np.concatenate(starts), ends[-1]),
        StratumCounts(*(np.concatenate(each) for each in zip(*(part.counts for part in parts), strict=True))),
        np.concatenate([each.servings for each in parts]),
        np.concatenate([each.servings_bad for each in parts]),
        np.concatenate([each.excess for each in parts]),
    )


class _Batch:
    """The servings of some values, by value and stratum."""

    def __init__(self, rows: Servings, values: Ints) -> None:
        self.values, self.rows = values, rows
        self.row = np.concatenate([rows.events_of(each) for each in values.tolist()])
        value, strata = np.repeat(values, rows.starts[values + 1] - rows.starts[values]), rows.schemes.shape[1]
        where = rows.schemes[rows.facet[value], rows.stratum[self.row]]
        keys, place = np.unique(value * strata + where, return_inverse=True)
        self.place, self.value = place.astype(np.int64), value
        self.owner = keys // strata
        self.at = (rows.facet[self.owner], keys % strata)
        """The facet and stratum of each row of counts."""
        self.now, self.bad = rows.present[self.row], rows.bad[self.row]

    def count(self, mask: Mask) -> tuple[Ints, Ints]:
        """Return the number of servings of each row of counts, and of bad ones."""
        size = len(self.owner)
        found = (np.bincount(self.place[chosen], minlength=size) for chosen in (mask, mask & self.bad))
        all_of_them, bad = (each.astype(np.int64) for each in found)
        return all_of_them, bad

    def once(self, mask: Mask, group: Ints) -> Mask:
        """Return which of some servings count if each session and question counts once in a group."""
        found = np.zeros(len(mask), bool)
        found[mask] = self.rows.once(group[mask], self.row[mask])
        return found

    def counts(self, rest: tuple[Ints, Ints], all_rest: tuple[Ints, Ints]) -> ValueCounts:
        """Return the counts, with those of the events that the values are compared with."""
        served, bad = self.count(self.now)
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond: Floats = np.where(all_rest[0] > 0, bad - served * all_rest[1] / all_rest[0], 0.0)
        starts = np.append(np.searchsorted(self.owner, self.values), len(self.owner)).astype(np.int64)
        all_served, all_bad, excess = (np.add.reduceat(each, starts[:-1]) for each in (served, bad, beyond))
        counts = StratumCounts(*self.count(self.once(self.now, self.value)), *rest)
        return ValueCounts(self.values, starts, counts, all_served, all_bad, excess)


_Totals = tuple[Ints, Ints]


def _against_the_rest(rows: Servings, values: Ints, shown: _Totals, whole: _Totals) -> ValueCounts:
    """Return the counts of values against the rest of their strata."""
    own = _Batch(rows, values)
    carrying = own.count(rows.counted[own.row] & own.now), own.count(own.now)
    rest, all_rest = (
        (total[0][own.at] - less[0], total[1][own.at] - less[1])
        for total, less in zip((shown, whole), carrying, strict=True)
    )
    return own.counts(rest, all_rest)


def _against_itself(rows: Servings, values: Ints, shown: _Totals, whole: _Totals) -> ValueCounts:
    """Return the counts of values against the events of the reference that carry the same value.

    A value that the reference lacks is compared with the whole stratum of the reference.
    """
    own = _Batch(rows, values)
    carrying = own.count(own.once(~own.now, own.place)), own.count(~own.now)
    known = np.bincount(own.owner, carrying[0][0], minlength=len(rows.facet))[own.owner] > 0
    rest, all_rest = (
        (np.where(known, less[0], total[0][own.at]), np.where(known, less[1], total[1][own.at]))
        for total, less in zip((shown, whole), carrying, strict=True)
    )
    return own.counts(rest, all_rest)


def _totals(rows: Servings, mask: Mask) -> tuple[Ints, Ints]:
    """Return the number of events, and of bad ones, of each stratum of each facet's scheme."""
    strata = rows.schemes.shape[1]
    found = []
    for chosen in (mask, mask & rows.bad):
        fine = np.bincount(rows.stratum[chosen], minlength=strata)
        found.append(np.stack([np.bincount(each, fine, minlength=strata).astype(np.int64) for each in rows.schemes]))
    return found[0], found[1]


def compared(rows: Servings, carried: Mask, rest: Mask, facet: int) -> StratumCounts:
    """Return the counts by which some events are compared with others.

    Args:
        rows: the events in the order of their hashes.
        carried: which events carry the value.
        rest: which events they are compared with.
        facet: the facet that decides in which strata.
    """
    scheme, strata = rows.schemes[facet], rows.schemes.shape[1]
    own, other = np.flatnonzero(carried), np.flatnonzero(rest)
    own = own[rows.once(np.zeros(len(own), np.int64), own)]
    # Of most events those that count are nearly all of those that would, and are known.
    many = 2 * len(other) > len(rest)
    other = other[rows.counted[other] if many else rows.once(rows.stratum[other], other)]

    def count(places: Ints) -> Ints:
        return np.bincount(scheme[rows.stratum[places]], minlength=strata).astype(np.int64)

    found = (count(own), count(own[rows.bad[own]]), count(other), count(other[rows.bad[other]]))
    met = (found[0] > 0) & (found[2] > 0)
    return StratumCounts(*(each[met] for each in found))
