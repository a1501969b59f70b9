"""Drift of a judge, by anchors: answers that people have labelled, judged again and again.

A baseline has some runs of each anchor, and each day some more. If the judge has not changed, all runs of one anchor
are alike: given its hits in both, those of the day have a hypergeometric distribution, whatever the anchor's own chance
of a hit is. The test statistic is the sum of the day's hits over the bad anchors (the judge's sensitivity) or over the
good ones (its specificity), whose distribution is the convolution of these. A judge may vary from day to day without
drifting; once enough days show this variance, it is added. `bench/anchors.py` simulates false alarms and power.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import comb, erf, sqrt
from statistics import NormalDist, fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.aggregation.interval import beta_quantile

BASELINE_RUNS, BASELINE_A_DAY = 10, 2
"""Number of runs of a baseline, in all and on one day."""
RUNS_A_DAY = 3
"""Number of runs on a day after the baseline."""
ALPHA = 1 / 1460
"""Chance of a false alarm of one side of one test: four of them a day make one alarm a year."""
ENOUGH_DAYS = 30
"""Number of days from which their variance is used."""
MOST_DAYS = 60
"""Number of the newest days by which it is estimated."""
_WIDEST = 6.0
"""Standard deviations of the days' variance that are added on each side."""
Floats = NDArray[np.float64]


class Hits(NamedTuple):
    """Hits of one anchor in a number of runs. A hit is a verdict of the judge that is the people's."""

    hits: int
    runs: int


class DriftTest(NamedTuple):
    """The test of one day."""

    rate: float
    """Share of hits among the day's runs."""
    expected: float
    """Share that is expected without drift."""
    low: float
    """Lowest share that is no drift."""
    high: float
    """Highest share that is no drift."""
    days: int
    """Number of days by which the variance from day to day is known; 0 if it is not."""

    @property
    def drift(self) -> int:
        """-1 if the rate is lower than without drift, 1 if it is higher, else 0."""
        return (self.rate > self.high) - (self.rate < self.low)


def noise(anchors: Iterable[Hits]) -> float | None:
    """Return the share of pairs of runs of one anchor in which the judge's verdicts differ; None without a pair.

    >>> noise([Hits(2, 3), Hits(3, 3)])
    0.3333333333333333
    """
    pairs = differing = 0
    for hits, runs in anchors:
        pairs += runs * (runs - 1) // 2
        differing += hits * (runs - hits)
    return differing / pairs if pairs else None


def day_variance(days: Sequence[Sequence[Hits]]) -> float | None:
    """Return the variance of a judge's rate from day to day, beyond that of the runs; None before `ENOUGH_DAYS`.

    It is half the mean square of the differences between one day and the next (von Neumann, 1941), so that a drift,
    which is one step, does not hide the next one; less the variance of the runs within a day.

    Args:
        days: the hits of each anchor on each day, in the order of the days.
    """
    days = [day for day in days if sum(each.runs for each in day)][-MOST_DAYS:]
    if len(days) < ENOUGH_DAYS:
        return None
    rates = [_rate(day) for day in days]
    total = fmean((later - earlier) ** 2 for earlier, later in pairwise(rates)) / 2
    within = fmean(
        sum(h * (n - h) / (n - 1) for h, n in day if n > 1) / sum(each.runs for each in day) ** 2 for day in days
    )
    return max(0.0, total - within)


def drift_test(
    baseline: Sequence[Hits], day: Sequence[Hits], earlier: Sequence[Sequence[Hits]] = (), baseline_days: int = 1
) -> DriftTest | None:
    """Test whether a judge's hits of a day are those of its baseline; None if no anchor has runs in both.

    Args:
        baseline: the hits of each anchor in the baseline.
        day: the hits of the same anchors on the day.
        earlier: their hits on each day between the two, in the order of the days.
        baseline_days: number of days over which the baseline was spread.

    >>> steady = drift_test([Hits(9, 10)] * 100, [Hits(3, 3)] * 70 + [Hits(2, 3)] * 30)
    >>> steady.drift, round(steady.rate, 2), round(steady.low, 3), round(steady.high, 3)
    (0, 0.9, 0.847, 0.947)
    >>> drift_test([Hits(9, 10)] * 100, [Hits(3, 3)] * 40 + [Hits(2, 3)] * 60).drift
    -1
    """
    pairs = [(b, d) for b, d in zip(baseline, day, strict=True) if b.runs and d.runs]
    if not pairs:
        return None
    runs = sum(d.runs for _, d in pairs)
    chances = _distribution(pairs)
    variance, known = day_variance(earlier), 0
    if variance is not None:
        known = min(MOST_DAYS, sum(any(each.runs for each in own) for own in earlier))
        # The day's hits are compared with the baseline's, of which the mean varies with its days, too.
        apart = fmean(b.runs / (b.runs + d.runs) for b, d in pairs) ** 2 * (1 + 1 / baseline_days)
        chances, first = _widened(chances, sqrt(variance * apart) * runs * _caution(known))
    else:
        first = 0
    below = np.cumsum(chances)
    above = np.cumsum(chances[::-1])[::-1]
    low = first + int(np.searchsorted(below, ALPHA, side="right"))
    high = first + len(chances) - 1 - int(np.searchsorted(above[::-1], ALPHA, side="right"))
    expected = sum(d.runs * (b.hits + d.hits) / (b.runs + d.runs) for b, d in pairs)
    return DriftTest(
        sum(d.hits for _, d in pairs) / runs,
        expected / runs,
        max(0.0, low / runs),
        min(1.0, high / runs),
        known,
    )


def _rate(day: Sequence[Hits]) -> float:
    return sum(each.hits for each in day) / sum(each.runs for each in day)


def _distribution(pairs: Sequence[tuple[Hits, Hits]]) -> Floats:
    """Return the probabilities of 0, 1, ... hits on the day, given each anchor's hits in baseline and day together."""
    size = 1 << sum(d.runs for _, d in pairs).bit_length()
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    kinds = Counter((b.hits + d.hits, b.runs + d.runs, d.runs) for b, d in pairs)
    for (hits, runs, own), number in kinds.items():
        ways = [comb(hits, x) * comb(runs - hits, own - x) / comb(runs, own) for x in range(own + 1)]
        spectrum *= np.fft.rfft(ways, size) ** number
    found: Floats = np.fft.irfft(spectrum, size)[: sum(d.runs for _, d in pairs) + 1]
    return np.clip(found, 0.0, None)


def _widened(chances: Floats, deviation: float) -> tuple[Floats, int]:
    """Return the probabilities with a normal variance added, and the number of hits of the first of them."""
    reach = int(_WIDEST * deviation) + 1
    if not deviation:
        return chances, 0
    ends = [erf((x - 0.5) / (deviation * sqrt(2))) / 2 for x in range(-reach, reach + 2)]
    return np.convolve(chances, np.diff(ends)), -reach


def _caution(days: int) -> float:
    """Return the factor by which a deviation is widened because few days show it: that of Student's distribution.

    The differences of n days have about 2 (n - 1) / 3 degrees of freedom (von Neumann, 1941).
    """
    freedom = 2 * (days - 1) / 3
    beta = beta_quantile(2 * ALPHA, freedom / 2, 0.5)
    return sqrt(freedom * (1 - beta) / beta) / NormalDist().inv_cdf(1 - ALPHA)
