"""Weighted covering: of the values with an excess of bad events those that no others explain, each named once.

The next value is the one with the most evidence among the events, which weigh less the more causes they have. The
covering ends at the first without significant evidence. A value that shares nearly all of its events with a cause is
another name of it. One that is no worse without the causes' events is explained by them. One that is bad only where a
cause is present is within it, and one that is bad only with one version or other field of the events is named together
with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

import numpy as np

from ragweir.metrics.cause.cause import FEWEST, Cause
from ragweir.metrics.cause.comparisons import compared
from ragweir.metrics.cause.exact_tail import Floats, log_upper_tail
from ragweir.metrics.cause.risk_difference import difference_limits
from ragweir.metrics.cause.servings import Ints, Mask, Servings
from ragweir.metrics.cause.weighted_evidence import SIGNIFICANT, WeightedEvidence

SAME = 0.9
"""Share of their events from which two values are one cause."""
_NAMING = 0.01
"""Probability with which one of the findings is named although the causes explain it."""
_LEAST = 2.0
"""Standard errors from which two shares are compared exactly."""
_PART = 0.1
"""Part of a value's difference from which a cause that is served with it may explain it."""


class Covering:
    """The causes that are named so far.

    Args:
        rows: the events.
        fixed: for each facet, the facets whose values are the same in each of its strata.
        factorials: `log_factorials` of the number of events.
        has_reference: true to compare with the events that are not present.
    """

    def __init__(
        self, rows: Servings, fixed: Sequence[frozenset[int]], factorials: Floats, *, has_reference: bool
    ) -> None:
        self._rows, self._fixed, self._factorials = rows, fixed, factorials
        self._level = log(_NAMING)
        self._has_reference = has_reference
        self._causes: list[Cause] = []
        self._events: list[Mask] = []
        self._places: list[Ints] = []
        """Places of the events of each cause, without those of the reference."""

    def cover(self, findings: Sequence[Cause]) -> None:
        """Name findings, unless other causes explain them.

        Args:
            findings: the findings, the most certain one first.
        """
        self._level = log(_NAMING / max(1, len(findings)))
        evidence = WeightedEvidence(self._rows, findings)
        while (best := evidence.next()) is not None and best[1] >= SIGNIFICANT:
            named = len(self._causes)
            self._consider(findings[best[0]])
            if len(self._causes) > named:
                evidence.cover(self._places[-1])

    def _consider(self, cause: Cause) -> None:
        """Name a finding, unless the causes so far explain it or carry the same events."""
        own = self._rows.carries(cause.values[0])
        places = np.flatnonzero(own & self._rows.present)
        shared = [int(each[places].sum()) for each in self._events]
        for other, both in enumerate(shared):
            if both >= SAME * max(len(places), len(self._places[other])):
                self._causes[other].values.append(cause.values[0])
                return
        if self._is_named(cause, own, places):
            self._causes.append(cause)
            self._events.append(own)
            self._places.append(places)

    def _is_named(self, cause: Cause, own: Mask, places: Ints) -> bool:
        """Return whether a finding is worse than the causes explain."""
        facet = int(self._rows.facet[cause.values[0]])
        shared = [int(each[places].sum()) for each in self._events]
        holders = [self._events[other] for other, both in enumerate(shared) if both >= SAME * len(places)]
        return (
            self._is_apart(own, facet, self._explaining(cause, facet, len(places), shared))
            or any(self._is_worse_now(own & each, each & ~own, facet) for each in holders)
            or any(self._depends(other, own, facet) for other in range(len(self._causes)))
        )

    def _explaining(self, cause: Cause, facet: int, size: int, shared: Sequence[int]) -> list[Mask]:
        """Return the events of the causes that may explain a value.

        A cause may do so if it is more frequent with the value than in the rest, so that it makes a part of the
        difference. With a reference every cause may.
        """
        rest = max(1, len(self._rows.bad) - size)
        found = []
        for other, both in enumerate(shared):
            more = both / size - (len(self._places[other]) - both) / rest
            is_part = more * self._causes[other].difference >= _PART * cause.difference
            if self._has_reference or (is_part and self._facet(other) not in self._fixed[facet]):
                found.append(self._events[other])
        return found

    def _is_apart(self, own: Mask, facet: int, explaining: Sequence[Mask]) -> bool:
        """Return whether a value is worse without the events of the causes that may explain it."""
        if not explaining:
            return True
        others = np.logical_or.reduce(explaining)
        return self._is_worse(own & ~others, ~own & ~others, facet)

    def _depends(self, place: int, on: Mask, on_facet: int) -> bool:
        """Return whether a cause is worse with a value than without, and without it no worse than the rest."""
        places = self._places[place]
        with_it, bad = on[places], self._rows.bad[places]
        size, rest = int(with_it.sum()), int((~with_it).sum())
        share = float(bad.mean())
        spread = sqrt(share * (1 - share) * (1 / max(1, size) + 1 / max(1, rest)))
        if not size or not rest or bad[with_it].mean() - bad[~with_it].mean() <= _LEAST * spread:
            return False
        events = self._events[place]
        if not self._is_worse_now(events & on, events & ~on, on_facet):
            return False
        return not self._is_worse(events & ~on, ~events & ~on, self._facet(place))

    def narrow(self, values: Sequence[int], around: float) -> None:
        """Restrict causes that are bad with one of some values only to their events with it.

        Args:
            values: the values, of fields of which each event has one.
            around: standard errors from a difference to its limits.
        """
        level, self._level = self._level, self._level - log(max(1, len(values)))
        for place, cause in enumerate(self._causes):
            if self._holder(place) is None:
                self._narrow(place, [each for each in values if each not in cause.values], around)
        self._level = level

    def _narrow(self, place: int, values: Sequence[int], around: float) -> None:
        cause, own = self._causes[place], self._events[place]
        for value in values:
            on = self._rows.carries(value)
            if min(int((own & part).sum()) for part in (on, ~on)) < FEWEST:
                continue
            if self._depends(place, on, int(self._rows.facet[value])):
                both = own & on
                counts = compared(self._rows, both, on & ~own, self._facet(place))
                cause.values.append(value)
                cause.servings, cause.bad = int(both.sum()), int((both & self._rows.bad).sum())
                cause.difference, cause.low, cause.high = difference_limits(counts, around)
                cause.excess_bad = cause.difference * cause.servings
                self._events[place], self._places[place] = both, np.flatnonzero(both)
                return

    def ranked(self) -> list[Cause]:
        """Return the causes by their excess, each with the one that it is within."""
        order = sorted(range(len(self._causes)), key=lambda place: -self._causes[place].excess_bad)
        places = {place: number for number, place in enumerate(order)}
        for place, cause in enumerate(self._causes):
            holder = self._holder(place)
            cause.within = None if holder is None else places[holder]
        return [self._causes[place] for place in order]

    def _holder(self, place: int) -> int | None:
        """Return the smallest larger cause that a cause is within; None if it is within none."""
        size = len(self._places[place])
        found: list[tuple[int, int]] = []
        for other, events in enumerate(self._events):
            whole = len(self._places[other])
            if other == place or whole <= size:
                continue
            is_part = int(events[self._places[place]].sum()) >= SAME * size
            if is_part or self._depends(place, events, self._facet(other)):
                found.append((whole, other))
        return min(found)[1] if found else None

    def _facet(self, place: int) -> int:
        return int(self._rows.facet[self._causes[place].values[0]])

    def _is_worse(self, own: Mask, rest: Mask, facet: int) -> bool:
        """Return whether events of a value are worse than those that it is compared with."""
        if not self._has_reference:
            return self._is_worse_now(own, rest, facet)
        present = self._rows.present
        before = own & ~present
        return self._tail(own & present, before if before.any() else rest & ~present, facet)

    def _is_worse_now(self, own: Mask, rest: Mask, facet: int) -> bool:
        present = self._rows.present
        return self._tail(own & present, rest & present, facet)

    def _tail(self, own: Mask, rest: Mask, facet: int) -> bool:
        counts = compared(self._rows, own, rest, facet)
        return bool(len(counts.carried)) and log_upper_tail(counts, self._factorials) <= self._level
