"""Causes: the values that carry an excess of bad events, each named once.

Every value with enough servings is tested. A normal approximation decides which tests are made exactly: its tail is too
small by factors of 10 to 1,300 where a million values are tested. Findings are named from the most certain one on. One
that shares nearly all of its events with a cause is another name of it. One that is no longer worse without the causes'
events is explained by them. One that is bad only where a cause is present is within it, and one that is bad only with
one version or other field of the events is named together with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import erfc, log, nan, sqrt
from statistics import NormalDist

import numpy as np

from ragweir.metrics.cause.comparisons import ValueCounts, all_values, compared
from ragweir.metrics.cause.exact_tail import Floats, StratumCounts, log_factorials, log_upper_tail
from ragweir.metrics.cause.multiplicity import LEVEL, adjusted, harmonic, interval_miss, screened
from ragweir.metrics.cause.risk_difference import risk_difference
from ragweir.metrics.cause.servings import Ints, Mask, Servings

FEWEST = 20
"""Minimum number of servings of a value that is tested."""
SAME = 0.9
"""Share of their events from which two values are one cause."""
BEST = 200
"""Number of findings, the most certain ones, among which causes are named."""
_SLACK, _ALWAYS = 20.0, 1e-3
_NAMING = 0.01
"""Probability with which one of the findings is named although the causes explain it."""
_LIKELIEST = 8
_LEAST = 2.0
"""Standard errors from which two shares are compared exactly."""
_PART = 0.1
"""Part of a value's difference from which a cause that is served with it may explain it."""


@dataclass(slots=True)
class Cause:
    """A value, or several that the same events carry, with an excess of bad events."""

    values: list[int]
    """Numbers of the values, the most certain one first."""
    servings: int
    """Events that carry it."""
    bad: int
    """Bad ones of them."""
    excess_bad: float
    """Bad events beyond as many as the share of those that it is compared with gives."""
    difference: float
    low: float
    high: float
    """Difference of the shares of bad events, with its limits."""
    p_adjusted: float
    log_p: float
    within: int | None = None
    """Place of the cause that it is a part of, in the list of causes."""


@dataclass(slots=True)
class FoundCauses:
    """The causes by their excess, and how much was tested."""

    causes: list[Cause] = field(default_factory=list)
    tested: int = 0
    """Number of values with enough servings."""
    significant: int = 0
    """Number of values with a significant excess."""
    enough: bool = False
    """True if a value would be found that made all of its events bad."""


def causes(
    rows: Servings,
    fixed: Sequence[frozenset[int]],
    fields: frozenset[int] = frozenset(),
    *,
    has_reference: bool = False,
) -> FoundCauses:
    """Return the causes of bad events.

    Args:
        rows: the events.
        fixed: for each facet, the facets whose values are the same in each of its strata.
        fields: facets of which an event has one value, as those of which a cause may be bad with one value only.
        has_reference: true if events are there that are not present, with which the values are compared.
    """
    rows = rows.shuffled()
    counts = all_values(rows, FEWEST, has_reference=has_reference)
    tests = len(counts.values)
    factorials = log_factorials(len(rows.bad))
    found = FoundCauses(tested=tests, enough=_enough(counts, factorials))
    normal = np.array([erfc(each / sqrt(2)) / 2 for each in counts.normal().tolist()])
    candidates = np.flatnonzero(screened(normal, _SLACK, _ALWAYS)) if tests else np.zeros(0, np.int64)
    log_p = np.array([log_upper_tail(counts.of(each), factorials) for each in candidates.tolist()])
    p_adjusted = adjusted(log_p, tests) if len(log_p) else log_p
    significant = np.flatnonzero((p_adjusted <= LEVEL) & (counts.excess[candidates] > 0))
    found.significant = len(significant)
    best = significant[np.argsort(log_p[significant], kind="stable")][:BEST]
    around = -NormalDist().inv_cdf(interval_miss(len(significant), tests) / 2) if len(significant) else nan
    named = _Named(rows, fixed, log(_NAMING / max(1, len(best))), factorials, has_reference=has_reference)
    for each in best.tolist():
        place = int(candidates[each])
        numbers = int(counts.servings[place]), int(counts.servings_bad[place]), float(counts.excess[place])
        limits = _limits(counts.of(place), around)
        named.consider(
            Cause([int(counts.values[place])], *numbers, *limits, float(p_adjusted[each]), float(log_p[each]))
        )
    if not has_reference:
        named.narrow([each for each in counts.values.tolist() if int(rows.facet[each]) in fields], around)
    found.causes = named.ranked()
    return found


def _limits(counts: StratumCounts, around: float) -> tuple[float, float, float]:
    """Return the difference with its limits, so many standard errors around it."""
    difference, error = risk_difference(counts)
    return difference, max(-1.0, difference - around * error), min(1.0, difference + around * error)


def _enough(counts: ValueCounts, factorials: Floats) -> bool:
    """Return whether a value would be found if all of its events, and as many others as are now, were bad."""
    tests = len(counts.values)
    weights = counts.compared()
    for place in np.argsort(-weights, kind="stable")[:_LIKELIEST].tolist():
        n, x, m, y = counts.of(place)
        # Where all others are bad as well, nothing would be worse than they are.
        whole = StratumCounts(n, n, m, np.where(y + x >= n + m, m, y))
        if weights[place] and log_upper_tail(whole, factorials) <= log(LEVEL / (tests * harmonic(tests))):
            return True
    return False


class _Named:
    """The causes that are named so far."""

    def __init__(
        self, rows: Servings, fixed: Sequence[frozenset[int]], level: float, factorials: Floats, *, has_reference: bool
    ) -> None:
        self._rows, self._fixed, self._level, self._factorials = rows, fixed, level, factorials
        self._has_reference = has_reference
        self._causes: list[Cause] = []
        self._events: list[Mask] = []
        self._places: list[Ints] = []
        """Places of the events of each cause, without those of the reference."""

    def consider(self, cause: Cause) -> None:
        """Name a finding, unless the causes so far explain it."""
        own = self._rows.carries(cause.values[0])
        places = np.flatnonzero(own & self._rows.present)
        shared = [int(each[places].sum()) for each in self._events]
        for other, both in enumerate(shared):
            if both >= SAME * max(len(places), len(self._places[other])):
                self._causes[other].values.append(cause.values[0])
                return
        facet = int(self._rows.facet[cause.values[0]])
        holders = [self._events[other] for other, both in enumerate(shared) if both >= SAME * len(places)]
        if (
            self._is_apart(own, facet, self._explaining(cause, facet, len(places), shared))
            or any(self._is_worse_now(own & each, each & ~own, facet) for each in holders)
            or any(self._depends(other, own, facet) for other in range(len(self._causes)))
        ):
            self._causes.append(cause)
            self._events.append(own)
            self._places.append(places)

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
                cause.difference, cause.low, cause.high = _limits(counts, around)
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
