"""Causes: the values that carry an excess of bad events, each named once.

Every value with enough servings is tested. A normal approximation decides which tests are made exactly: its tail is too
small by factors of 10 to 1,300 where a million values are tested. Of the most certain findings those are causes that no
others explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import erfc, log, nan, sqrt
from statistics import NormalDist

import numpy as np

from ragweir.metrics.cause.cause import FEWEST, Cause
from ragweir.metrics.cause.comparisons import ValueCounts, all_values
from ragweir.metrics.cause.covering import Covering
from ragweir.metrics.cause.exact_tail import Floats, StratumCounts, log_factorials, log_upper_tail
from ragweir.metrics.cause.multiplicity import LEVEL, adjusted, harmonic, interval_miss, screened
from ragweir.metrics.cause.risk_difference import difference_limits
from ragweir.metrics.cause.servings import Servings

BEST = 200
"""Number of findings, the most certain ones, among which causes are named."""
_SLACK, _ALWAYS = 20.0, 1e-3
_LIKELIEST = 8


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
    findings = []
    for each in best.tolist():
        place = int(candidates[each])
        numbers = int(counts.servings[place]), int(counts.servings_bad[place]), float(counts.excess[place])
        limits = difference_limits(counts.of(place), around)
        findings.append(
            Cause([int(counts.values[place])], *numbers, *limits, float(p_adjusted[each]), float(log_p[each]))
        )
    named = Covering(rows, fixed, factorials, has_reference=has_reference)
    named.cover(findings)
    if not has_reference:
        named.narrow([each for each in counts.values.tolist() if int(rows.facet[each]) in fields], around)
    found.causes = named.ranked()
    return found


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
