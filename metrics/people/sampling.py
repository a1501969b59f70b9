"""A sample of a fixed size in which the chance of each answer is proportional to a size of its own."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def chances(sizes: Sequence[float] | Floats, count: int) -> Floats:
    """Return the chances of being drawn, which are proportional to sizes, at most 1, and have the sum `count`.

    >>> chances([1.0, 1.0, 2.0, 40.0], 3).tolist()
    [0.5, 0.5, 1.0, 1.0]

    Args:
        sizes: a positive size of each answer.
        count: number of answers to draw, at most as many as there are.
    """
    own = np.asarray(sizes, dtype=np.float64)
    found = np.ones(len(own))
    free = np.ones(len(own), dtype=np.bool_)
    while free.any():
        left = count - (len(own) - int(free.sum()))
        found[free] = left * own[free] / own[free].sum()
        certain = free & (found >= 1)
        if not certain.any():
            break
        found[certain] = 1.0
        free &= ~certain
    return found


def systematic(probabilities: Floats, randomness: Random) -> list[int]:
    """Draw places with these probabilities, and as many as their sum says, by systematic sampling in random order.

    The places are in random order too, so that any first part of them is a fair one.

    >>> len(systematic(chances([1.0] * 90 + [9.0] * 10, 20), Random(1)))
    20
    """
    order = list(range(len(probabilities)))
    randomness.shuffle(order)
    ends = np.cumsum(probabilities[order])
    ends[-1:] = round(float(ends[-1])) if len(ends) else 0.0  # Rounding errors neither add nor lose an answer.
    steps = np.floor(ends + randomness.random())
    found = [order[place] for place in np.flatnonzero(np.diff(steps, prepend=0.0)).tolist()]
    randomness.shuffle(found)
    return found
