"""Many tests at once: adjusted probabilities, and the level of intervals of those that were selected.

The procedure of Benjamini and Yekutieli (2001) bounds the expected share of false findings under any dependence, which
the tests of documents that are served together have. The intervals of Benjamini and Yekutieli (2005) bound the share of
false ones among those of the findings.
"""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEVEL = 0.05
"""Expected share of false findings."""
_EULER = 0.5772156649015329
_EXACT = 10_000
"""Number of tests up to which the harmonic number is summed."""


def harmonic(number: int) -> float:
    """Return the sum of 1/k for k of 1 to a number.

    >>> harmonic(4) == 1 + 1 / 2 + 1 / 3 + 1 / 4, round(harmonic(1_000_000), 6)
    (True, 14.392727)
    """
    if number <= _EXACT:
        return float(sum(1 / each for each in range(1, number + 1)))
    return log(number) + _EULER + 1 / (2 * number)


def adjusted(log_p: Floats, tests: int) -> Floats:
    """Return the probabilities of Benjamini and Yekutieli.

    >>> adjusted(np.log([0.01, 0.02]), 2).round(3).tolist()
    [0.03, 0.03]

    Args:
        log_p: the logarithms of the lowest probabilities.
        tests: the number of all tests; the others have higher probabilities.
    """
    order = np.argsort(log_p, kind="stable")
    ranks = np.arange(1, len(log_p) + 1)
    stepped = log_p[order] + np.log(tests * harmonic(tests) / ranks)
    found = np.empty(len(log_p))
    found[order] = np.exp(np.minimum(0.0, np.minimum.accumulate(stepped[::-1])[::-1]))
    return found


def screened(p: Floats, slack: float, least: float) -> NDArray[np.bool_]:
    """Return which tests may be significant, from approximate probabilities.

    Args:
        p: an approximate probability of each test.
        slack: factor by which it may be too high.
        least: probability below which a test always passes.
    """
    order = np.sort(p)
    limits = slack * LEVEL * np.arange(1, len(p) + 1) / (len(p) * harmonic(len(p)))
    below = np.flatnonzero(order <= limits)
    return np.asarray(p <= max(least, order[below[-1]] if len(below) else 0.0))


def interval_miss(found: int, tests: int) -> float:
    """Return the probability with which the interval of a finding may miss, for 5 % of false ones.

    >>> interval_miss(1, 1), round(interval_miss(3, 100), 6)
    (0.05, 0.000289)
    """
    return LEVEL * found / (tests * harmonic(tests))
