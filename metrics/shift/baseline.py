"""The mean of earlier days from which a metric may shift, with a tolerance for the variation from day to day.

Means of days differ more than their events alone explain: topics, customers and weekdays change. A detector that knows
the mean of one week to within its events raises alarms on most days. So the tolerance is the half-width of a prediction
interval for the mean of one more day, whose chance of error is one a year over all metrics, and at least a fifth of the
standard deviation of the values. Means of the hours of a day differ too, in the same way each day: each hour has its
own mean.
"""

from __future__ import annotations

from math import sqrt
from statistics import stdev
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.aggregation.interval import beta_quantile

FEWEST_DAYS = 14
"""Minimum number of days with values."""
LEAST_SHIFT = 0.2
"""Minimum tolerance, in standard deviations of the values."""
HOURS = 24
_SIDES, _YEAR = 2, 365
_SHRINKAGE = 100.0
"""Number of events with the mean of all hours that each hour has in addition, so that few do not give it another."""

Floats = NDArray[np.float64]


class Sums(NamedTuple):
    """The sums of a metric over the events of intervals, as arrays of one shape, with its values scaled to 0 to 1."""

    counts: Floats
    """Numbers of events; of a judged metric those that its random floor would have selected."""
    totals: Floats
    squares: Floats
    """Sums of the squares, or numbers above them."""

    def mirrored(self) -> Sums:
        """Return the sums of 1 - y."""
        return Sums(self.counts, self.counts - self.totals, self.counts - 2 * self.totals + self.squares)


class Baseline(NamedTuple):
    """The mean of the values before a shift, scaled to 0 to 1."""

    mean: float
    means: tuple[float, ...]
    """The mean of each hour of the day (UTC)."""
    tolerance: float
    """The largest difference of means that is no shift."""
    days: int
    """Number of days with values."""


def baseline(days: Sums, series: int, named: Sums | None = None) -> Baseline | None:
    """Return the baseline of a metric; None if fewer than `FEWEST_DAYS` have values.

    Args:
        days: the sums of the days before those that are tested, with a row for each day and a column for each hour;
            days without events are ignored.
        series: number of series that are tested, which share one false alarm a year.
        named: the sums of the days that give the means instead, such as those of a run. If they are too few, the
            variation from day to day is that of `days`.

    >>> hours = np.full((15, HOURS), 50.0)
    >>> means = np.repeat([0.79, 0.8, 0.81] * 5, HOURS).reshape(hours.shape)
    >>> found = baseline(Sums(hours, hours * means, hours * (means**2 + 0.01)), series=38)
    >>> round(found.mean, 3), round(found.tolerance, 3), found.days
    (0.8, 0.048, 15)
    """
    known = _with_events(days)
    own = known if named is None else _with_events(named)
    spread = own if len(own.counts) >= FEWEST_DAYS else known
    number = len(own.counts)
    if not number or len(spread.counts) < FEWEST_DAYS:
        return None
    count, total, squares = (float(part.sum()) for part in own)
    mean = total / count
    means = (own.totals.sum(axis=0) + _SHRINKAGE * mean) / (own.counts.sum(axis=0) + _SHRINKAGE)
    deviation = sqrt(max(0.0, squares / count - mean * mean))
    apart = stdev((spread.totals.sum(axis=1) / spread.counts.sum(axis=1)).tolist()) * sqrt(1 + 1 / number)
    quantile = t_quantile(1 / (_SIDES * _YEAR * series), len(spread.counts) - 1)
    return Baseline(mean, tuple(means.tolist()), max(LEAST_SHIFT * deviation, quantile * apart), number)


def _with_events(days: Sums) -> Sums:
    known = days.counts.sum(axis=1) > 0
    return Sums(*(part[known] for part in days))


def t_quantile(tail: float, freedom: int) -> float:
    """Return the value that a variable of Student's distribution exceeds with a probability of at most a half.

    >>> round(t_quantile(0.025, 10), 4)
    2.2281
    """
    share = beta_quantile(2 * tail, freedom / 2, 0.5)
    return sqrt(freedom * (1 - share) / share)
