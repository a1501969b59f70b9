"""The 95 % interval of a bounded metric's weighted mean, from sums over the events that were judged.

The events that were certain to be judged are known, and nothing about them is uncertain. Of those drawn by lot two
things are: their mean, and how many they stand for.

- The mean lies within known bounds. Its lower limit assumes one more drawn event, of the least probability, that scored
  the lower bound, and is the 2.5 % quantile of the beta distribution with the mean and variance that the sample then
  has; the upper limit likewise. For scores of 0 and 1 and small probabilities that is the interval of Clopper and
  Pearson (1934); for others it approximates the bootstrap with a point at the bound (Gaffke, 2005; Learned-Miller and
  Thomas, 2019). So a rare bad score that was not met yet is allowed for, as by the textbook's interval it is not.
- Their number has the limits of a gamma distribution, as a Poisson count does.

Both are combined as Zou and Donner (2008) do. `tests/metrics/test_estimate.py` simulates what comes of it.
"""

from __future__ import annotations

from math import copysign, exp, lgamma, log, log1p, sqrt
from statistics import NormalDist
from typing import NamedTuple

FEWEST = 10.0
"""What rests on fewer events drawn by lot, the assumed one among them, gets no interval: it would say too little."""
_MISS = 0.025
"""On either side."""
_Z = NormalDist().inv_cdf(1 - _MISS)
_EQUAL = 1e-9
"""Variance below this part of the squares is what rounding leaves of equal scores."""


class Drawn(NamedTuple):
    """Sums over the events that were drawn by lot, each with its probability p and score y."""

    events: float
    """Sum of 1/p: for how many they stand."""
    total: float
    """Sum of y/p."""
    spread: float
    """Sum of (1 - p)/p²."""
    spread_sum: float
    """Sum of y(1 - p)/p²."""
    spread_squares: float
    """Sum of y²(1 - p)/p²."""

    @property
    def mean(self) -> float:
        """Their weighted mean."""
        return self.total / self.events

    @property
    def variance(self) -> float:
        """Of the mean."""
        return self._residual / self.events**2

    @property
    def correlation(self) -> float:
        """Of the mean with the number of events; 0 when all have the same p."""
        scale = sqrt(self.spread * self._residual)
        return max(-1.0, min(1.0, (self.spread_sum - self.mean * self.spread) / scale)) if scale else 0.0

    @property
    def effective(self) -> float:
        """How many events of equal weight would tell as much (Kish, 1965)."""
        return self.events**2 / (self.spread + self.events)

    @property
    def _residual(self) -> float:
        residual = self.spread_squares - 2 * self.mean * self.spread_sum + self.mean**2 * self.spread
        return residual if residual > _EQUAL * self.spread_squares else 0.0

    def one_more(self, value: float, probability: float) -> Drawn:
        """With one more event."""
        weight = 1 / probability
        spread = weight * (weight - 1)
        return Drawn(
            self.events + weight,
            self.total + weight * value,
            self.spread + spread,
            self.spread_sum + spread * value,
            self.spread_squares + spread * value * value,
        )


def interval(
    known: int, known_sum: float, drawn: Drawn, least: float, bounds: tuple[float, float]
) -> tuple[float, float] | None:
    """The limits of the mean of all events; None if they would rest on too few.

    Args:
        known: how many events were certain to be judged.
        known_sum: of their scores.
        drawn: those drawn by lot, at least one.
        least: the least probability, below 1, with which an event could have been drawn.
        bounds: the least and the greatest score there can be.

    >>> drawn = Drawn(240.0, 216.0, 4560.0, 4104.0, 3693.6)  # 12 events that scored 0.9, each with p = 0.05
    >>> low, high = interval(8, 1.6, drawn, 0.05, (0.0, 1.0))
    >>> round(low, 3), round(high, 3)
    (0.672, 0.9)
    """
    if drawn.one_more(bounds[0], least).effective < FEWEST:
        return None

    def mean(own: float, events: float) -> float:
        return (known_sum + own * events) / (known + events)

    best = mean(drawn.mean, drawn.events)
    fewer, more = (mean(drawn.mean, events) - best for events in _number_limits(drawn, least))
    together = drawn.correlation * copysign(1, more - fewer)
    below = best - mean(_mean_limit(drawn, least, bounds, upper=False), drawn.events)
    above = mean(_mean_limit(drawn, least, bounds, upper=True), drawn.events) - best
    low = best - _joined(below, -min(fewer, more), together)
    high = best + _joined(above, max(fewer, more), together)
    return max(bounds[0], low), min(bounds[1], high)


def _joined(one: float, other: float, correlation: float) -> float:
    """How far two errors lead together."""
    return sqrt(max(0.0, one * one + other * other + 2 * correlation * one * other))


def _mean_limit(drawn: Drawn, least: float, bounds: tuple[float, float], *, upper: bool) -> float:
    low, width = bounds[0], bounds[1] - bounds[0]
    worst = drawn.one_more(bounds[upper], least)
    place, variance = (worst.mean - low) / width, worst.variance / width**2
    if not 0 < place < 1 or variance == 0:  # All scores lie at the bound.
        return worst.mean
    size = place * (1 - place) / variance
    return low + width * beta_quantile(1 - _MISS if upper else _MISS, place * size, (1 - place) * size)


def _number_limits(drawn: Drawn, least: float) -> tuple[float, float]:
    more = drawn.one_more(0.0, least)
    return _gamma_quantile(-_Z, drawn.events, drawn.spread), _gamma_quantile(_Z, more.events, more.spread)


def _gamma_quantile(z: float, mean: float, variance: float) -> float:
    """By the formula of Wilson and Hilferty (1931), for the quantile at which the normal distribution has z."""
    shape = mean * mean / variance
    return mean * max(0.0, 1 - 1 / (9 * shape) + z / (3 * sqrt(shape))) ** 3


def beta_quantile(share: float, one: float, other: float) -> float:
    """The value below which a beta distribution has this share, to within 1e-9.

    >>> round(beta_quantile(0.025, 12, 1), 6), round(0.025 ** (1 / 12), 6)
    (0.735352, 0.735352)
    """
    constant = lgamma(one + other) - lgamma(one) - lgamma(other)
    low, high = 0.0, 1.0
    mean = one / (one + other)
    spread = sqrt(mean * (1 - mean) / (one + other + 1))
    place = min(max(mean + NormalDist().inv_cdf(share) * spread, mean / 4), (3 + mean) / 4)
    while high - low > 1e-9:
        error = _beta_share(place, one, other, constant) - share
        if error > 0:
            high = place
        else:
            low = place
        density = exp(constant + (one - 1) * log(place) + (other - 1) * log1p(-place))
        step = error / density if density else 1.0
        if abs(step) < 1e-10:
            break
        # Newton's step, or half the way where that would leave what is left.
        place = place - step if low < place - step < high else (low + high) / 2
    return place


def _beta_share(value: float, one: float, other: float, constant: float) -> float:
    """The share of a beta distribution below a value, by the continued fraction (Press et al., 2007, 6.4)."""
    front = exp(constant + one * log(value) + other * log1p(-value))
    if value < (one + 1) / (one + other + 2):
        return front * _fraction(value, one, other) / one
    return 1 - front * _fraction(1 - value, other, one) / other


def _fraction(value: float, one: float, other: float) -> float:
    """Lentz's way of evaluating it."""
    tiny = 1e-300
    lower = 1 / _away(1 - (one + other) * value / (one + 1), tiny)
    upper, found = 1.0, lower
    for step in range(1, 10_000):
        even = step * (other - step) * value / ((one + 2 * step - 1) * (one + 2 * step))
        odd = -(one + step) * (one + other + step) * value / ((one + 2 * step) * (one + 2 * step + 1))
        change = 1.0
        for term in (even, odd):
            lower = 1 / _away(1 + term * lower, tiny)
            upper = _away(1 + term / upper, tiny)
            change = lower * upper
            found *= change
        if abs(change - 1) < 1e-12:
            break
    return found


def _away(number: float, tiny: float) -> float:
    return number if abs(number) > tiny else tiny
