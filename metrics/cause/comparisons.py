"""The counts by which values of facets are compared: of all at once, or of one among some events.

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
_Column = NDArray[np.generic]


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
    present = rows.present[rows.row]
    served = np.bincount(rows.value[present], minlength=len(rows.facet))
    values = np.flatnonzero(served >= fewest)
    asked = np.zeros(len(rows.facet), bool)
    asked[values] = True
    kept = np.flatnonzero(asked[rows.value])
    row, value = rows.row[kept], rows.value[kept].astype(np.int64)
    now, strata = present[kept], rows.schemes.shape[1]
    where = rows.schemes[rows.facet[value], rows.stratum[row]]
    keys, place = np.unique(value * strata + where, return_inverse=True)
    bad = rows.bad[row]
    picked = np.zeros(len(row), bool)
    picked[now] = rows.once(value[now], row[now])

    def count(mask: Mask) -> Ints:
        return np.bincount(place[mask], minlength=len(keys)).astype(np.int64)

    owner, stratum = keys // strata, keys % strata
    served_here, served_bad = count(now), count(now & bad)
    if has_reference:
        counted = np.zeros(len(row), bool)
        counted[~now] = rows.once(place[~now].astype(np.int64), row[~now])
        rest, rest_bad = count(counted), count(counted & bad)
        all_rest, all_rest_bad = count(~now), count(~now & bad)
        # A value that the reference lacks is compared with the whole stratum of the reference.
        absent = np.isin(owner, values[np.bincount(owner, rest, minlength=len(rows.facet))[values] == 0])
        shown = _totals(rows, rows.once(rows.stratum, np.arange(len(rows.bad))) & ~rows.present)
        whole = _totals(rows, ~rows.present)
        at = (rows.facet[owner], stratum)
        rest, rest_bad = (np.where(absent, s[at], own) for s, own in zip(shown, (rest, rest_bad), strict=True))
        all_rest, all_rest_bad = (
            np.where(absent, w[at], own) for w, own in zip(whole, (all_rest, all_rest_bad), strict=True)
        )
    else:
        chosen = rows.once(rows.stratum, np.arange(len(rows.bad)))
        at = (rows.facet[owner], stratum)
        shown, whole = _totals(rows, chosen), _totals(rows, np.ones(len(chosen), bool))
        rest, rest_bad = (s[at] - count(m) for s, m in zip(shown, (chosen[row], chosen[row] & bad), strict=True))
        all_rest, all_rest_bad = (w[at] - own for w, own in zip(whole, (served_here, served_bad), strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = np.where(all_rest > 0, served_bad - served_here * all_rest_bad / all_rest, 0.0)
    starts = np.searchsorted(owner, np.append(values, len(rows.facet))).astype(np.int64)
    ends = starts[:-1] if len(values) else np.zeros(0, np.int64)
    served, served_bad = (np.add.reduceat(e, ends) if len(ends) else e for e in (served_here, served_bad))
    excess: Floats = np.add.reduceat(beyond, ends) if len(ends) else beyond
    counts = StratumCounts(count(picked), count(picked & bad), rest, rest_bad)
    return ValueCounts(values, starts, counts, served, served_bad, excess)


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
    other = other[rows.once(rows.stratum[other], other)]

    def count(places: Ints) -> Ints:
        return np.bincount(scheme[rows.stratum[places]], minlength=strata).astype(np.int64)

    found = (count(own), count(own[rows.bad[own]]), count(other), count(other[rows.bad[other]]))
    met = (found[0] > 0) & (found[2] > 0)
    return StratumCounts(*(each[met] for each in found))
