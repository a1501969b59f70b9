"""Certainty of a burn that is known from a sample: SLOs on judged metrics.

Only some events are judged, each with a known probability, and each counts with its weight, the inverse of that
probability. The share of bad events is an estimate then, and a burn is

- certain, if the share is above the threshold even under the favourable assumption: each event without a judgement
  that was selected (failed, expired) is good, and so is one more event of the usual weight;
- excluded, if it is below the threshold even under the adverse assumption, by which these events are bad;
- possible otherwise.

"Above" and "below" allow for chance by the bound of Chernoff (1952): if the share were the threshold t, a share as far
from it as s would have at most the probability exp(-n KL(s, t)), with n events of equal weight and the divergence of
Kullback and Leibler. This exponent is the evidence. Weights differ, so n is the number of events of equal weight with
the same variance: W / ((1 - t) b + t g) for the sum of weights W and the mean weights b and g, weighted by themselves,
of bad and of good events. The bound holds in both tails and for few events, unlike the normal approximation.

The rules of Prometheus compute the same from counters: `ragweir.streams.analysis.slo.alert_rules`.
"""

from __future__ import annotations

from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

OUTCOMES: Final = ("good", "bad", "missing", "unselected")
"""Outcomes of events that could be selected for the judge. `missing`: selected and not judged."""
GOOD, BAD, MISSING, UNSELECTED = range(len(OUTCOMES))

CERTAIN: Final = round(log(100_000), 2)
"""Evidence above which a burn is certain: a page is decided every minute, half a million times a year."""
EXCLUDED: Final = round(log(40), 2)
"""Evidence above which a burn is excluded, at 2.5 % as a limit of an interval of 95 %."""


def evidence(weights: Floats, squares: Floats, threshold: float, *, adverse: bool) -> Floats:
    """Return the evidence that the share of bad events is above the threshold; below it, the negative evidence.

    It is NaN if no event could be selected, and under the favourable assumption if none is bad.

    >>> weights, squares = np.array([[40.0], [60.0], [0.0], [0.0]]), np.array([[40.0], [60.0], [0.0], [0.0]])
    >>> (evidence(weights, squares, 0.3, adverse=False) > CERTAIN).tolist()
    [True]
    >>> (evidence(10 * weights, 100 * squares, 0.3, adverse=False) > CERTAIN).tolist()  # the weight is 10, not 1
    [True]
    >>> (evidence(weights / 10, squares / 10, 0.3, adverse=False) > CERTAIN).tolist()  # a tenth of the events
    [False]

    Args:
        weights: sums of the events' weights, one row for each outcome and one column for each window.
        squares: sums of the squares of the weights.
        threshold: a share between 0 and 1.
        adverse: true for the adverse assumption, false for the favourable one.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        one_more = squares.sum(axis=0) / weights.sum(axis=0)
        assumed = BAD if adverse else GOOD
        sums, sums_of_squares = weights[:MISSING].copy(), squares[:MISSING].copy()
        sums[assumed] += weights[MISSING] + one_more
        sums_of_squares[assumed] += squares[MISSING] + one_more**2
        total = sums.sum(axis=0)
        share = sums[BAD] / total
        own = sums_of_squares / sums
        events = total / ((1 - threshold) * own[BAD] + threshold * own[GOOD])
        divergence = share * np.log(share / threshold) + (1 - share) * np.log((1 - share) / (1 - threshold))
        return np.asarray(np.sign(share - threshold) * events * divergence)


def certain(weights: Floats, squares: Floats, threshold: float) -> NDArray[np.bool_]:
    """Return whether a burn above the threshold is certain in each window."""
    return np.asarray(evidence(weights, squares, threshold, adverse=False) > CERTAIN)


def excluded(weights: Floats, squares: Floats, threshold: float) -> NDArray[np.bool_]:
    """Return whether a burn above the threshold is excluded in each window; true without any event."""
    found = evidence(weights, squares, threshold, adverse=True)
    return np.asarray((found < -EXCLUDED) | (weights.sum(axis=0) == 0))
