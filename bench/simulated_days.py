"""Simulated days of a metric: made with numpy alone.

Events come as a Poisson process that follows the hours of the day. The mean of their values follows the hours too, in
the same way each day, and differs from day to day; from some minute on it may have shifted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MINUTES = 1440
_HIGHEST = 0.98
"""The highest mean of a minute, and 1 less the lowest."""


@dataclass(frozen=True)
class MetricKind:
    """One kind of metrics."""

    name: str
    mean: float
    steps: int
    """Number of equal steps between the values, which are those of a binomial distribution; 0 for two near values."""
    spread: float = 0.05
    """Distance of the two near values from the mean."""

    @property
    def deviation(self) -> float:
        """Standard deviation of the values."""
        return self.spread if not self.steps else (self.mean * (1 - self.mean) / self.steps) ** 0.5


class MetricMinutes(NamedTuple):
    """Count, sum and sum of squares of the values of each minute."""

    counts: Floats
    totals: Floats
    squares: Floats


def simulated_minutes(
    kind: MetricKind,
    days: int,
    chance: np.random.Generator,
    *,
    per_second: float = 1.0,
    pattern: float = 0.0,
    between_days: float = 0.0,
    shift: float = 0.0,
    at_minute: int = 0,
) -> MetricMinutes:
    """Return the minutes of some days.

    Args:
        kind: the metric.
        days: number of days.
        chance: draws the events.
        per_second: mean number of events in a second; at night it is a fifth of that of noon.
        pattern: amplitude of the daily pattern, in standard deviations of the values.
        between_days: standard deviation of the days' means, in the same unit.
        shift: size of the shift, in the same unit.
        at_minute: minute in which it begins.
    """
    minutes = np.arange(days * MINUTES)
    of_day = 2 * np.pi * (minutes % MINUTES) / MINUTES
    means = kind.mean + kind.deviation * (
        pattern * np.sin(of_day)
        + np.repeat(chance.normal(0, between_days, days), MINUTES)
        + shift * (minutes >= at_minute)
    )
    means = np.clip(means, 1 - _HIGHEST, _HIGHEST)
    rates = 60 * per_second * (1 - 2 / 3 * np.cos(of_day))
    if kind.steps:
        values = np.linspace(0, 1, kind.steps + 1)[:, None]
        shares = np.array(
            [_ways(kind.steps, k) * means**k * (1 - means) ** (kind.steps - k) for k in range(kind.steps + 1)]
        )
    else:
        values, shares = means + np.array([[-kind.spread], [kind.spread]]), np.full((2, len(means)), 0.5)
    numbers = chance.poisson(rates * shares).astype(np.float64)
    return MetricMinutes(numbers.sum(axis=0), (numbers * values).sum(axis=0), (numbers * values**2).sum(axis=0))


def _ways(number: int, chosen: int) -> float:
    return float(np.prod([(number - k) / (k + 1) for k in range(chosen)]))
