"""When alerts of SLOs fire, by the sums of each minute: the conditions of the rules, on arrays.

Of an SLO on a metric that every event has, the share of bad events is counted. Of one on a judged metric it is
estimated by the events' weights, and the conditions are those of `ragweir.streams.analysis.slo.certainty`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ragweir.streams.analysis.slo.burns import BURNS, Burn
from ragweir.streams.analysis.slo.certainty import BAD, CERTAIN, EXCLUDED, GOOD, OUTCOMES, evidence, excluded
from ragweir.streams.analysis.slo.minutes import MILLION, CountColumns, Floats, Ints, WeightColumns

Flags = NDArray[np.bool_]
_Array = TypeVar("_Array", Ints, Floats)

_LONGEST_MINUTES = max(burn.long_m for burn in BURNS)
_TAIL_MINUTES = max(burn.short_m for burn in BURNS)
"""Time after the last event in which an alert can still fire."""


@dataclass(frozen=True, slots=True)
class ActivePeriod:
    """Successive minutes in which alerts can fire; other minutes have no events within any long window."""

    first: int
    events: Ints
    """Running totals, starting with 0 before the first minute."""
    bad: Ints
    weights: tuple[Floats, Floats] | None = None
    """Of an SLO on a judged metric the running totals of weights and of their squares, one row for each outcome."""

    @property
    def known(self) -> tuple[Floats, Floats]:
        """The running totals of bad events and of good and bad ones, by their weights if they have some."""
        if self.weights is None:
            return self.bad.astype(np.float64), self.events.astype(np.float64)
        sums = self.weights[0]
        return sums[BAD], sums[GOOD] + sums[BAD]

    def within(self, totals: _Array, length_m: int) -> _Array:
        """Return the increase over a window that ends with each minute."""
        ends = np.arange(1, totals.shape[-1])
        increase: _Array = totals[..., ends] - totals[..., np.maximum(0, ends - length_m)]
        return increase

    def shares(self, length_m: int) -> Floats:
        """Return the share of bad events in a window that ends with each minute; NaN without events."""
        bad, events = (self.within(totals, length_m) for totals in self.known)
        return np.asarray(np.divide(bad, events, out=np.full(len(events), np.nan), where=events > 0))

    def firing(self, burn: Burn, threshold: float) -> Flags:
        """Return whether an alert fires at the end of each minute."""
        enough = self.within(self.bad, burn.long_m) > burn.bad
        if self.weights is None:
            over = (self.shares(burn.long_m) > threshold) & (self.shares(burn.short_m) > threshold)
        else:
            over = ~excluded(*self._weights(burn.short_m), threshold)
            if burn.certain:
                over &= self._evidence(burn, threshold) > CERTAIN
            else:
                over &= self.shares(burn.long_m) > threshold
        return np.asarray(over & enough)

    def closeness(self, burn: Burn, threshold: float) -> Floats:
        """Return the least fulfilled condition of an alert at the end of each minute, as value divided by limit."""
        enough = self.within(self.bad, burn.long_m) / (burn.bad + 1)
        if self.weights is None:
            over = np.fmin(self.shares(burn.long_m), self.shares(burn.short_m)) / threshold
        else:
            weights, squares = self._weights(burn.short_m)
            against = np.fmax(-evidence(weights, squares, threshold, adverse=True), EXCLUDED)
            possible = np.where(weights.sum(axis=0) > 0, EXCLUDED / against, 0.0)
            burns = self._evidence(burn, threshold) / CERTAIN if burn.certain else self.shares(burn.long_m) / threshold
            over = np.maximum(np.fmin(possible, np.nan_to_num(burns)), 0.0)
        return np.minimum(np.nan_to_num(over), enough)

    def _weights(self, length_m: int) -> tuple[Floats, Floats]:
        """Return the sums of weights and of their squares in a window that ends with each minute."""
        if self.weights is None:
            raise ValueError("the SLO is on a metric that every event has")
        weights, squares = (self.within(totals, length_m) / MILLION for totals in self.weights)
        return weights, squares

    def _evidence(self, burn: Burn, threshold: float) -> Floats:
        return evidence(*self._weights(burn.long_m), threshold, adverse=False)


def active_periods(counts: CountColumns, weights: WeightColumns | None, end: int) -> Iterator[ActivePeriod]:
    """Yield the periods in which alerts can fire, in order.

    Args:
        counts: good and bad events.
        weights: sums of weights, if the metric is judged.
        end: the minute after the last one of the history.
    """
    minutes = counts.minutes if weights is None else weights.minutes
    for own in np.split(minutes, np.flatnonzero(np.diff(minutes) > _LONGEST_MINUTES) + 1):
        if not len(own):
            continue
        first, last = int(own[0]), min(int(own[-1]) + _TAIL_MINUTES, end - 1)
        length = last - first + 1
        places = _places(counts.minutes, first, last)
        at = counts.minutes[places] - first
        events, bad = (_totals(column[places], at, length) for column in (counts.events, counts.bad))
        yield ActivePeriod(first, events, bad, None if weights is None else _weight_totals(weights, first, length))


def _weight_totals(weights: WeightColumns, first: int, length: int) -> tuple[Floats, Floats]:
    places = _places(weights.minutes, first, first + length - 1)
    found = np.zeros((2, len(OUTCOMES), length + 1))
    sums = np.array((weights.sums, weights.squares))
    found[:, :, weights.minutes[places] - first + 1] = sums[:, :, places]
    totals = np.cumsum(found, axis=2)
    return totals[0], totals[1]


def _places(minutes: Ints, first: int, last: int) -> slice:
    return slice(*np.searchsorted(minutes, (first, last + 1)))


def _totals(values: Ints, at: Ints, length: int) -> Ints:
    found = np.zeros(length + 1, dtype=np.int64)
    found[at + 1] = values
    return np.cumsum(found)
