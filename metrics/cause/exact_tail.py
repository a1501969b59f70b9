"""The exact conditional tail of a count over strata: a sum of hypergeometric variables.

In a stratum of N events with K bad ones, the number of bad ones among n chosen at random is hypergeometric. The sum
over strata has the convolution of their distributions. These are tilted by a factor to the power of the count, which
moves their mass to the observed count, so that a tail of 1e-400 is as exact as one of 0.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, inf, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_NEGLIGIBLE = 150.0
"""Logarithm of the part of a distribution's highest probability from which others are left out."""


class StratumCounts(NamedTuple):
    """The counts of one or more strata, each an array with one element for each stratum."""

    carried: Ints
    """Events that carry the value."""
    carried_bad: Ints
    """Bad ones of them."""
    rest: Ints
    """Events that are compared with."""
    rest_bad: Ints
    """Bad ones of them."""


def log_factorials(most: int) -> Floats:
    """Return the logarithms of the factorials of 0 to a number.

    >>> log_factorials(4).round(4).tolist()
    [0.0, 0.0, 0.6931, 1.7918, 3.1781]
    """
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])


def log_upper_tail(found: StratumCounts, factorials: Floats, negligible: float = _NEGLIGIBLE) -> float:
    """Return the logarithm of the probability of as many bad events as were found, or more.

    Ten of 20 events are bad, five carry the value, and all of these are bad: C(10, 5) of C(20, 5) choices.

    >>> found = StratumCounts(*(np.array([each]) for each in (5, 5, 15, 5)))
    >>> round(exp(log_upper_tail(found, log_factorials(20))), 6) == round(252 / 15504, 6)
    True

    Args:
        found: the counts by stratum; strata without any event to compare with add nothing.
        factorials: `log_factorials` of the number of events of the largest stratum, or more.
        negligible: logarithm of the part of a stratum's highest probability from which others are left out.
    """
    compared = (found.carried > 0) & (found.rest > 0)
    n, bad, m, rest_bad = (each[compared].tolist() for each in found)
    observed = sum(bad)
    if not observed:
        return 0.0
    tilt = _tilt(found, compared)
    shift, scale = 0, 0.0
    sums: Floats = np.ones(1)
    for own, of, other, other_of in zip(n, bad, m, rest_bad, strict=True):
        low, logs = _log_probabilities(own, own + other, of + other_of, factorials)
        logs = logs + tilt * np.arange(low, low + len(logs))
        top = float(logs.max())
        kept = np.flatnonzero(logs > top - negligible)
        sums = np.convolve(sums, np.exp(logs[kept[0] : kept[-1] + 1] - top))
        high = float(sums.max())
        sums /= high
        shift, scale = shift + low + int(kept[0]), scale + top + log(high)
    place = observed - shift
    if place <= 0:
        return 0.0
    tail = float(sums[place:] @ np.exp(-tilt * np.arange(max(0, len(sums) - place))))
    if tail > 0:
        return min(0.0, log(tail) + scale - tilt * float(observed))
    return -inf if negligible == inf else log_upper_tail(found, factorials, inf)


def _log_probabilities(drawn: int, events: int, bad: int, factorials: Floats) -> tuple[int, Floats]:
    """Return the lowest possible count of bad events, and the logarithms of the probabilities from it on."""
    low, high = max(0, drawn - (events - bad)), min(drawn, bad)
    counts = np.arange(low, high + 1)
    logs = (
        factorials[bad] - factorials[counts] - factorials[bad - counts]
        + factorials[events - bad] - factorials[drawn - counts] - factorials[events - bad - drawn + counts]
        - factorials[events] + factorials[drawn] + factorials[events - drawn]
    )  # fmt: skip
    return low, logs


def _tilt(found: StratumCounts, compared: NDArray[np.bool_]) -> float:
    """Return the exponent that moves the expected count near the one that was found; 0 if it is not above it."""
    n, bad, m, rest_bad = (each[compared].astype(float) for each in found)
    observed, drawn = float(bad.sum()), float(n.sum())
    expected = float((n * (bad + rest_bad) / (n + m)).sum())
    if observed <= expected:
        return 0.0
    highest = float(np.minimum(n, bad + rest_bad).sum())
    share, most = min(observed / drawn, 1 - 0.5 / drawn), expected / drawn
    if observed >= highest:  # All the mass has to be at the end of the range.
        share = min(1 - 0.1 / drawn, share + 0.4 / drawn)
    return log(share / (1 - share) * (1 - most) / most)


def upper_tail(strata: Iterable[tuple[int, int, int, int]]) -> float:
    """Return the probability of as many bad events as were found, or more, from the counts of each stratum.

    >>> round(upper_tail([(5, 5, 15, 5), (1, 0, 3, 1)]), 6)
    0.050116
    """
    table = np.array(list(strata), dtype=np.int64).reshape(-1, 4)
    most = int((table[:, 0] + table[:, 2]).max(initial=0))
    return exp(log_upper_tail(StratumCounts(*table.T), log_factorials(most)))
