"""An e-detector of shifts of a bounded mean, from the sums of successive windows.

For values y that are at most 1 below a centre m and a rate l below 1, exp(l(y - m) - psi(l)(y - m)^2) is at most
1 + l(y - m), where psi(l) = -log(1 - l) - l (Fan, Grama and Liu, 2015). So L = exp(l(S - n u) - psi(l)(Q - 2 m S +
n m^2)), with the count n, the sum S and the sum of squares Q of a window, is an e-value against "the mean is at most
u": its expectation is at most 1, for any distribution of the values. The sum over all first windows s of the product of
the L from s on, M = (1 + M) L, is an e-detector (Shin, Ramdas and Rinaldo, 2022, arXiv:2203.03532): without a shift, M
reaches c after c windows or more on average. The best l depends on the size of the shift; a mean of the M of several l,
and of both directions, is an e-detector too. A mean of their L would be one as well, but it forgets which l has done
well.

The unit of the values is the distance from the centre to the bound on the other side, as far below it as a value can
be: a mean near 1 that falls, or one near 0 that rises, shows in few events.

Events may count by weights w of at most 1, as those that a judge's rules select with a probability above that of the
random floor: with L = exp(A), exp(wA) - 1 is at most w(exp(A) - 1), so that the expectation remains at most 1.

Only sums enter, so the result is the same whatever the order of the events within a window, the number of partitions,
or the time at which late events were added.
"""

from __future__ import annotations

from copy import copy
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.shift.baseline import Baseline, Floats, Sums

Hours = NDArray[np.int64]
_DIRECTIONS = (0, 1)
"""Up and down."""
RATES: Floats = np.array([0.5**power for power in range(1, 9)])
"""The rates l: 0.5 finds large shifts in few events, the smallest one those of a hundredth."""

_LEAST_UNIT = 0.01
"""Minimum unit; with a smaller one, the rates would fit differences that are smaller than those of interest."""


class ShiftEvidence(NamedTuple):
    """The evidence for a shift after each window that has events."""

    windows: NDArray[np.intp]
    """Positions of these windows among those that were added."""
    log_up: Floats
    """Logarithm of the mean M of the rates, for a higher mean."""
    log_down: Floats

    def relative(self, threshold: float) -> Floats:
        """Return the logarithms of M by that of a threshold: 1 or more is an alarm up, -1 or less one down.

        M below 1, which is no evidence, gives 0.
        """
        return np.clip(self.log_both, 0, None) / log(threshold) * np.where(self.log_up >= self.log_down, 1, -1)

    @property
    def log_both(self) -> Floats:
        """Logarithm of the mean M of both directions."""
        return np.logaddexp(self.log_up, self.log_down) - log(2)


class ShiftDetector:
    """The e-detector of one metric: takes the sums of successive windows, and keeps a few numbers of each rate.

    The result does not depend on the number of calls in which the windows come.

    Args:
        known: the baseline, of earlier events.

    >>> minutes = np.full(120, 60.0)  # A value a second; after an hour the mean is 0.55 instead of 0.6.
    >>> means = np.repeat([0.6, 0.55], 60)
    >>> sums = Sums(minutes, minutes * means, minutes * (means**2 + 0.01))
    >>> detector = ShiftDetector(Baseline(0.6, (0.6,) * 24, 0.02, 14))
    >>> found = detector.extend(sums, np.arange(120) // 60)
    >>> int(np.argmax(found.relative(one_a_year(60, series=38)) <= -1)) - 60, detector.first
    (14, 60)
    """

    def __init__(self, known: Baseline) -> None:
        self._known = known
        shape = len(_DIRECTIONS), len(RATES)
        self._product: Floats = np.zeros(shape)
        """Logarithm of the product of L of all windows, by direction and rate."""
        self._starts: Floats = np.full(shape, -np.inf)
        """Logarithm of the sum over the windows of 1 by the product of those before."""
        self._lowest: Floats = np.full(shape, np.inf)
        """The lowest logarithm of a product of all windows before one, the first of the most probable shift."""
        self._first = np.zeros(shape, dtype=np.int64)
        self._passed = 0

    def copy(self) -> ShiftDetector:
        """Return a detector that goes on from the same windows."""
        return copy(self)  # The arrays are replaced, never changed.

    def extend(self, sums: Sums, hours: Hours) -> ShiftEvidence:
        """Add windows.

        Args:
            sums: the sums of the windows, oldest first; those without events change nothing.
            hours: the hour of the day of each window.
        """
        windows = np.flatnonzero(sums.counts > 0)
        passed, self._passed = self._passed, self._passed + len(sums.counts)
        if not len(windows):
            return ShiftEvidence(windows, np.empty(0), np.empty(0))
        values = _log_e_values(Sums(*(part[windows] for part in sums)), hours[windows], self._known)
        products = np.cumsum(np.concatenate([self._product[None], values]), axis=0)
        before, products = products[:-1], products[1:]
        starts = np.logaddexp.accumulate(np.concatenate([self._starts[None], -before]), axis=0)[1:]
        lowest = before.min(axis=0)
        lower = lowest < self._lowest
        self._first = np.where(lower, windows[before.argmin(axis=0)] + passed, self._first)
        self._lowest = np.where(lower, lowest, self._lowest)
        self._product, self._starts = products[-1], starts[-1]
        return ShiftEvidence(windows, *_log_means(products + starts))

    @property
    def first(self) -> int:
        """Position among all windows of the first one of the most probable shift, seen from the last window."""
        return int(self._first.ravel()[int((self._product + self._starts).argmax())])

    def relative(self, threshold: float) -> float:
        """Return `ShiftEvidence.relative` after the last window; 0 if none has events."""
        if not np.isfinite(self._starts).all():
            return 0.0
        up, down = _log_means((self._product + self._starts)[None])
        return float(ShiftEvidence(np.zeros(1, dtype=np.intp), up, down).relative(threshold)[0])


def one_a_year(window_s: float, series: int) -> float:
    """Return the threshold of M that gives at most one false alarm a year over all series, by its average run length.

    >>> one_a_year(60, series=2)
    1051200.0
    """
    return 365 * 86_400 / window_s * series


def _log_e_values(sums: Sums, hours: Hours, known: Baseline) -> Floats:
    """Return log L of each window, direction and rate, against a mean further from its baseline than the tolerance."""
    psi = -np.log1p(-RATES) - RATES
    found = []
    for side, means in ((sums, np.array(known.means)), (sums.mirrored(), 1 - np.array(known.means))):
        unit = max(float(means.max()), _LEAST_UNIT)
        centres = means[hours]
        above = (side.totals - side.counts * (centres + known.tolerance)) / unit
        apart = (side.squares - 2 * centres * side.totals + side.counts * centres**2) / unit**2
        found.append(RATES * above[:, None] - psi * apart[:, None])
    return np.stack(found, axis=1)


def _log_means(detectors: Floats) -> tuple[Floats, Floats]:
    """Return the logarithms of the mean M over the rates, up and down, of each window."""
    up, down = (np.logaddexp.reduce(detectors[:, side], axis=1) - log(len(RATES)) for side in _DIRECTIONS)
    return up, down
