"""The share of answers with a property, with its 95 % limits, from answers that were drawn with known chances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, sqrt
from typing import NamedTuple

from ragweir.metrics.aggregation.interval import RandomSample, beta_quantile, limit

_MISS = 0.025
"""Probability on either side of an interval."""
_SMALL = 1e-6
"""Chance to which the highest one is scaled."""
_ALIKE = 1e-6
"""Relative difference up to which chances count as equal, as they are rounded."""


class Limits(NamedTuple):
    """A number with its 95 % limits."""

    value: float
    low: float
    high: float
    n: int
    """Number of labels that it rests on."""

    @property
    def complement(self) -> Limits:
        """The limits of 1 minus the number."""
        return Limits(1 - self.value, 1 - self.high, 1 - self.low, self.n)


class Observed(NamedTuple):
    """One answer."""

    holds: bool | None
    """True if it has the property; None if that is not known."""
    chance: float
    """Chance with which it was observed, up to a factor that all answers share."""


def clopper_pearson(hits: float, number: float) -> tuple[float, float]:
    """Return the 95 % limits of a share by Clopper and Pearson (1934).

    >>> [round(each, 4) for each in clopper_pearson(3, 20)], clopper_pearson(0, 0)
    ([0.0321, 0.3789], (0.0, 1.0))
    """
    low = beta_quantile(_MISS, hits, number - hits + 1) if hits else 0.0
    high = beta_quantile(1 - _MISS, hits + 1, number - hits) if hits < number else 1.0
    return low, high


class Measured(NamedTuple):
    """The least and the greatest number from 0 to 1 that one answer may have; they differ if it is not known."""

    low: float
    high: float
    chance: float
    """Chance with which it was observed, up to a factor that all answers share."""


def share(answers: Sequence[Observed], least: float = inf) -> Limits | None:
    """Return the share of answers with a property; None if it is known of none.

    Args:
        answers: the answers.
        least: the lowest chance that such an answer could have had, if none of them had it.

    The lower limit takes the property of an answer of which it is not known for absent, the upper limit for present.
    With equal chances the limits are those of Clopper and Pearson, else those of `metrics.aggregation.interval`.

    >>> [round(each, 4) for each in share([Observed(True, 0.1), Observed(False, 0.1), Observed(None, 0.1)])]
    [0.5, 0.0084, 0.9916, 2]
    """
    known = [each for each in answers if each.holds is not None]
    if not known:
        return None
    hits, unknown = sum(each.holds is True for each in known), len(answers) - len(known)
    chances = [each.chance for each in answers]
    least = min(least, *chances)
    if max(chances) - least <= _ALIKE * max(chances):
        low, _ = clopper_pearson(hits, len(answers))
        _, high = clopper_pearson(hits + unknown, len(answers))
        return Limits(hits / len(known), low, high, len(known))
    value = sum(1 / each.chance for each in known if each.holds) / sum(1 / each.chance for each in known)
    bounds = [Measured(float(each.holds is True), float(each.holds is not False), each.chance) for each in answers]
    low, high = (_weighted_limit(bounds, least, upper=upper) for upper in (False, True))
    return Limits(value, min(low, value), max(high, value), len(known))


def mean(answers: Sequence[Measured], least: float = inf) -> Limits | None:
    """Return the mean of numbers from 0 to 1; None if none is known. Its limits are those of weighted shares.

    >>> [round(each, 4) for each in mean([Measured(0.04, 0.04, 0.1), Measured(0.64, 0.64, 0.2)])[::3]]
    [0.24, 2]

    Args:
        answers: the answers.
        least: the lowest chance that such an answer could have had, if none of them had it.
    """
    known = [each for each in answers if each.low == each.high]
    if not known:
        return None
    least = min(least, *(each.chance for each in answers))
    value = sum(each.low / each.chance for each in known) / sum(1 / each.chance for each in known)
    low, high = (_weighted_limit(answers, least, upper=upper) for upper in (False, True))
    return Limits(value, min(low, value), max(high, value), len(known))


def _weighted_limit(answers: Sequence[Measured], least: float, *, upper: bool) -> float:
    sample = RandomSample(0.0, 0.0, 0.0, 0.0, 0.0)
    # Chances have a factor that is not known, so that none counts as 1, with which a sample would have no variance.
    scale = _SMALL / max(each.chance for each in answers)
    for each in answers:
        sample = sample.one_more(each.high if upper else each.low, scale * each.chance)
    return limit(0, 0.0, sample, round(sample.events), scale * least, (0.0, 1.0), upper=upper)


def combined(function: Callable[..., float], *numbers: Limits) -> tuple[float, float]:
    """Return the 95 % limits of a function of independent numbers, by the method of Zou and Donner (2008).

    A number's contribution to a limit is the distance that the function moves when the number alone moves to its less
    favourable limit.

    >>> low, high = combined(lambda one, other: one + other, Limits(0.3, 0.2, 0.4, 9), Limits(0.2, 0.17, 0.24, 9))
    >>> round(low, 4), round(high, 4)
    (0.3956, 0.6077)
    """
    values = [each.value for each in numbers]
    best = function(*values)
    below = above = 0.0
    for place, each in enumerate(numbers):
        moved = [function(*values[:place], end, *values[place + 1 :]) for end in (each.low, each.high)]
        below += max(0.0, best - min(moved)) ** 2
        above += max(0.0, max(moved) - best) ** 2
    return best - sqrt(below), best + sqrt(above)
