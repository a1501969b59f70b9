"""The difference of two shares of bad events over strata, by Mantel and Haenszel, with its standard error.

The variance is that of Sato (1989), which holds for many small strata as for few large ones. That of Greenland and
Robins (1985) is 0 for strata in which one event carries the value, as most documents have in most hours.
"""

from __future__ import annotations

from math import nan, sqrt

import numpy as np

from ragweir.metrics.cause.exact_tail import StratumCounts


def risk_difference(found: StratumCounts) -> tuple[float, float]:
    """Return the difference and its standard error; (nan, nan) if there is nothing to compare with.

    >>> counts = StratumCounts(*(np.array([each]) for each in (100, 35, 900, 45)))
    >>> [round(each, 4) for each in risk_difference(counts)]
    [0.3, 0.0482]
    """
    n, x, m, y = (each.astype(float) for each in found)
    total = np.maximum(n + m, 1.0)
    weight = float((n * m / total).sum())
    if not weight:
        return nan, nan
    difference = float(((x * m - y * n) / total).sum()) / weight
    spread = (n**2 * y - m**2 * x + n * m * (m - n) / 2) / total**2
    within = (x * (m - y) + y * (n - x)) / (2 * total)
    variance = (difference * float(spread.sum()) + float(within.sum())) / weight**2
    return difference, sqrt(max(0.0, variance))


def difference_limits(found: StratumCounts, around: float) -> tuple[float, float, float]:
    """Return the difference with its limits, so many standard errors around it."""
    difference, error = risk_difference(found)
    return difference, max(-1.0, difference - around * error), min(1.0, difference + around * error)
