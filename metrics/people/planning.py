"""The number of labels at which the rate of bad answers is known well enough, before anybody has labelled."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from ragweir.metrics.people.agreement import rate_limits
from ragweir.metrics.people.sampling import Floats, chances
from ragweir.metrics.people.shares import Limits, clopper_pearson


class AssumedShares(NamedTuple):
    """Shares of bad answers that are assumed while there are no labels."""

    flagged: float = 0.5
    """Share among the answers that the metric calls bad."""
    passed: float = 0.1
    """Share among the answers that the metric calls good."""


ASSUMED = AssumedShares()


class JudgedAnswers(NamedTuple):
    """The answers that labels can be drawn from: the chance with which each was judged, by verdict."""

    bad: Floats
    good: Floats


def halves(count: int, bad: int, good: int) -> tuple[int, int]:
    """Return how many answers are drawn from each verdict: half of each, and what one lacks from the other.

    >>> halves(100, 500, 500), halves(100, 20, 500), halves(100, 3, 4), halves(3, 9, 9)
    ((50, 50), (20, 80), (3, 4), (2, 1))
    """
    own = min(ceil(count / 2), bad)
    other = min(count - own, good)
    return min(count - other, bad), other


def labels_needed(width: float, flagged: Limits, judged: JudgedAnswers, assumed: AssumedShares = ASSUMED) -> int | None:
    """Return the number of labels with which the limits of the rate of bad answers are expected to be close enough.

    None if even labels of all judged answers do not suffice, as the share of events that the metric calls bad is
    uncertain too.

    Args:
        width: maximum difference of the limits.
        flagged: the share of all events that the metric calls bad.
        judged: the judged answers.
        assumed: shares of bad answers. The nearer they are to a half, the more labels are needed.

    >>> import numpy as np
    >>> answers = JudgedAnswers(np.full(400, 0.1), np.full(1600, 0.1))
    >>> [labels_needed(width, Limits(0.2, 0.18, 0.22, 0), answers) for width in (0.2, 0.1, 0.01)]
    [68, 246, None]
    """
    most = len(judged.bad) + len(judged.good)
    if _expected_width(most, flagged, judged, assumed) > width:
        return None
    least = 1
    while least < most:
        middle = (least + most) // 2
        if _expected_width(middle, flagged, judged, assumed) > width:
            least = middle + 1
        else:
            most = middle
    return most


def _expected_width(count: int, flagged: Limits, judged: JudgedAnswers, assumed: AssumedShares) -> float:
    numbers = halves(count, len(judged.bad), len(judged.good))
    own, other = (_expected(*each) for each in zip(numbers, judged, assumed, strict=True))
    found = rate_limits(flagged, own, other, count)
    return found.high - found.low


def _expected(number: int, chance: Floats, bad: float) -> Limits:
    """Return the limits of a share where the expected number of the labelled answers is bad.

    Where chances differ, they are those of as many labels as the effective size of the sample (Kish, 1965).
    """
    if not number:
        return Limits(bad, 0.0, 1.0, 0)
    drawn = chances(1 / chance, number)
    effective = float((1 / chance).sum() ** 2 / (1 / (chance**2 * drawn)).sum())
    return Limits(bad, *clopper_pearson(bad * effective, effective), number)
