"""The 95 % interval of a bounded metric's weighted mean, from sums over judged events.

Events with probability 1 are known exactly. Of a random sample, the mean and the number of events that it represents
are uncertain.

- The mean lies within known bounds. Its lower limit assumes one more event in the sample, with the lowest probability
  and the lowest score, and is the 2.5 % quantile of the beta distribution with the resulting mean and variance; the
  upper limit is found in the same way. For scores of 0 and 1 and small probabilities this is the interval of Clopper
  and Pearson (1934); for others it approximates the bootstrap with a point at the bound (Gaffke, 2005; Learned-Miller
  and Thomas, 2019). Unlike the normal interval it allows for rare bad scores that have not been observed.
- The number is known where it was counted. Where it is not, it has the limits of a gamma distribution, as a Poisson
  count does, and both are combined by the method of Zou and Donner (2008).

`bench/coverage.py` simulates how many intervals cover the mean.
"""

from __future__ import annotations

from math import copysign, exp, lgamma, log, log1p, sqrt
from statistics import NormalDist
from typing import NamedTuple

FEWEST = 10.0
"""Minimum effective size of a random sample, with the assumed event, for an interval."""
_MISS = 0.025
"""Probability on either side of the interval."""
_Z = NormalDist().inv_cdf(1 - _MISS)
_EQUAL = 1e-9
"""Variance below this share of the squares is the rounding error of equal scores."""


class RandomSample(NamedTuple):
    """Sums over the events that were selected at random; see `ragweir.schemas.window.EstimateSums`."""

    events: float
    """The weight, which is the number of events that they represent."""
    total: float
    spread: float
    spread_sum: float
    spread_squares: float

    @property
    def mean(self) -> float:
        """The weighted mean."""
        return self.total / self.events

    @property
    def variance(self) -> float:
        """The variance of the mean."""
        return self._residual / self.events**2

    @property
    def correlation(self) -> float:
        """The correlation of the mean with the number of events; 0 if all have the same p."""
        scale = sqrt(self.spread * self._residual)
        return max(-1.0, min(1.0, (self.spread_sum - self.mean * self.spread) / scale)) if scale else 0.0

    @property
    def effective(self) -> float:
        """The effective sample size (Kish, 1965)."""
        return self.events**2 / (self.spread + self.events)

    @property
    def _residual(self) -> float:
        residual = self.spread_squares - 2 * self.mean * self.spread_sum + self.mean**2 * self.spread
        return residual if residual > _EQUAL * self.spread_squares else 0.0

    def one_more(self, value: float, probability: float) -> RandomSample:
        """Return the sample with one more event."""
        weight = 1 / probability
        spread = weight * (weight - 1)
        return RandomSample(
            self.events + weight,
            self.total + weight * value,
            self.spread + spread,
            self.spread_sum + spread * value,
            self.spread_squares + spread * value * value,
        )


def is_sufficient(drawn: RandomSample, least: float) -> bool:
    """Return whether a sample is large enough for an interval.

    Args:
        drawn: the sample, of at least one event.
        least: lowest probability of an event, below 1.
    """
    return drawn.one_more(0.0, least).effective >= FEWEST


def limit(
    known: int,
    known_sum: float,
    drawn: RandomSample,
    number: int | None,
    least: float,
    bounds: tuple[float, float],
    *,
    upper: bool,
) -> float:
    """Return the lower or upper limit of the mean of all events.

    Args:
        known: number of events with probability 1.
        known_sum: sum of their scores.
        drawn: a sample of the other events, sufficient as `is_sufficient` says.
        number: number of the other events, selected or not; None if it is not known.
        least: lowest probability of an event, below 1.
        bounds: bounds of the score.
        upper: True for the upper limit.

    >>> drawn = RandomSample(240.0, 216.0, 4560.0, 4104.0, 3693.6)  # 12 events that scored 0.9, each with p = 0.05
    >>> [round(limit(8, 1.6, drawn, number, 0.05, (0.0, 1.0), upper=False), 3) for number in (200, None)]
    [0.67, 0.672]
    """

    def mean(own: float, events: float) -> float:
        return (known_sum + own * events) / (known + events)

    own = _mean_limit(drawn, least, bounds, upper=upper)
    if number is not None:
        found = mean(own, number)
    else:
        best = mean(drawn.mean, drawn.events)
        fewer, more = (mean(drawn.mean, events) - best for events in _number_limits(drawn, least))
        together = drawn.correlation * copysign(1, more - fewer)
        if upper:
            found = best + _joined(mean(own, drawn.events) - best, max(fewer, more), together)
        else:
            found = best - _joined(best - mean(own, drawn.events), -min(fewer, more), together)
    return min(max(found, bounds[0]), bounds[1])


def _joined(one: float, other: float, correlation: float) -> float:
    """Return the combination of two errors."""
    return sqrt(max(0.0, one * one + other * other + 2 * correlation * one * other))


def _mean_limit(drawn: RandomSample, least: float, bounds: tuple[float, float], *, upper: bool) -> float:
    low, width = bounds[0], bounds[1] - bounds[0]
    worst = drawn.one_more(bounds[upper], least)
    place, variance = (worst.mean - low) / width, worst.variance / width**2
    if not 0 < place < 1 or variance == 0:  # All scores are at the bound.
        return worst.mean
    size = place * (1 - place) / variance
    return low + width * beta_quantile(1 - _MISS if upper else _MISS, place * size, (1 - place) * size)


def _number_limits(drawn: RandomSample, least: float) -> tuple[float, float]:
    more = drawn.one_more(0.0, least)
    return _gamma_quantile(-_Z, drawn.events, drawn.spread), _gamma_quantile(_Z, more.events, more.spread)


def _gamma_quantile(z: float, mean: float, variance: float) -> float:
    """Return the quantile at which the normal distribution has z, by the formula of Wilson and Hilferty (1931)."""
    shape = mean * mean / variance
    return mean * max(0.0, 1 - 1 / (9 * shape) + z / (3 * sqrt(shape))) ** 3


def beta_quantile(share: float, one: float, other: float) -> float:
    """Return the quantile of a beta distribution, to within 1e-9.

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
        # Newton's step, or bisection if that would leave the bracket.
        place = place - step if low < place - step < high else (low + high) / 2
    return place


def _beta_share(value: float, one: float, other: float, constant: float) -> float:
    """Return the share of a beta distribution below a value, by the continued fraction (Press et al., 2007, 6.4)."""
    front = exp(constant + one * log(value) + other * log1p(-value))
    if value < (one + 1) / (one + other + 2):
        return front * _fraction(value, one, other) / one
    return 1 - front * _fraction(1 - value, other, one) / other


def _fraction(value: float, one: float, other: float) -> float:
    """Evaluate the continued fraction by Lentz's method."""
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
