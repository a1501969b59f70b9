"""Paired comparison of two evaluations of the same events, for many slices.

The estimate is the mean of the events' differences, second side minus first. It has two statistics.

- A 95 % interval: Student's, corrected for skewness (Hall, On the removal of skewness by transformation, 1992). It is
  as accurate as the studentised or bias-corrected bootstrap, to the second order, but computed from three sums, without
  a seed or resamples, in any order of events. If most differences are zero and some are large on one side, the plain
  percentile bootstrap covers less. With fewer than 30 changed events skewness is uncertain, and the wider of both
  limits, Student's and Hall's, is used.
- A p-value under the hypothesis that both sides are the same configuration, so that the two values of an event could
  be swapped and each sign of a difference is random (Fisher's randomisation test). It is exact up to 16 changed events;
  for more, the normal distribution is used, which has wider tails.

Events of one session or question are not independent, and intervals that ignore this are too narrow. Where events are
in clusters, clusters take the place of events, with the sums of their events' differences: signs are random by cluster,
and the variance of the mean is that of the jackknife over clusters (CV3; MacKinnon, Nielsen and Webb, Cluster-robust
inference, 2023). The freedom of Student's distribution follows from the effective number of clusters, (sum of sizes)^2
/ sum of squared sizes. The mean is then a ratio, whose denominator is random as well: Hall's correction has another
coefficient (`curvature`), and the wider of both limits is used.

Over many metrics and slices, Benjamini and Hochberg (1995) bound the share of false discoveries. Comparisons with fewer
than 6 changed events or clusters, which cannot reach 5 % with any signs, are left out beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np

from ragweir.metrics.aggregation.clusters import Clusters, Flags, Floats, Ints
from ragweir.metrics.aggregation.spread import Spread, interval

FEWEST_CHANGED = 6
"""Minimum number of changed clusters for a p-value: that of fewer is always over 5 %."""
OTHERS = "(others)"
"""Name for the other values of a dimension, or labels of a category, if there are too many."""
RATE = 0.05
"""Accepted share of false discoveries."""
_EXACT = 16
"""Maximum number of changed clusters for which all signs are enumerated."""
_EQUAL = 1e-12
"""Variance below this share of the squares is the rounding error of equal differences."""
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric on one slice of the events that have it on both sides."""

    pairs: int
    clusters: int
    """Number of clusters of the pairs; that of the pairs if they are independent."""
    before: float | None
    """Mean of the first side; None without pairs."""
    after: float | None
    mean: float | None
    """Mean of the differences, second side minus first."""
    low: float | None
    """Lower limit of the 95 % interval of the mean; None with fewer than 10 clusters, or if
    few of them have nearly all pairs."""
    high: float | None
    effect: float | None
    """Mean of the differences divided by their standard deviation; None if they are all equal."""
    rose: int
    """Number of events whose value is higher on the second side."""
    fell: int
    p: float | None
    """The p-value; None with fewer than 6 changed clusters."""

    @property
    def interval(self) -> str:
        """The mean and its interval as text, as far as there are any: `+0.12 (+0.08 to +0.16)`."""
        mean = "" if self.mean is None else f"{self.mean:+.3g}"
        return mean if self.low is None else f"{mean} ({self.low:+.3g} to {self.high:+.3g})"


def differences(
    before: Floats, after: Floats, cells: Ints, slices: Flags, clusters: Clusters | None = None
) -> list[Difference]:
    """Return the difference of one metric in each of several slices, which may overlap.

    >>> whole = np.ones((1, 1), dtype=bool)
    >>> found = differences(np.zeros(12), np.linspace(0.1, 1.2, 12), np.zeros(12, dtype=np.int64), whole)[0]
    >>> found.pairs, found.rose, found.p
    (12, 12, 0.00048828125)
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (0.65, 0.421, 0.879)

    Args:
        before: values of the first side, NaN for null.
        after: values of the second side, of the same events.
        cells: the cell of each event.
        slices: one row per slice, one column per cell; True for the cells of the slice.
        clusters: the clusters of the events, in the same slices; None for independent events.
    """
    both = ~(np.isnan(before) | np.isnan(after))
    if not both.all():
        before, after, cells = before[both], after[both], cells[both]
    change = after - before
    middle = float(change.mean()) if change.size else 0.0
    rest = change - middle
    member = slices.astype(np.float64)

    def totals(weights: Floats) -> list[float]:
        sums: list[float] = (member @ np.bincount(cells, weights, slices.shape[1])).tolist()
        return sums

    columns = (
        totals(np.ones_like(change)),
        totals(before),
        totals(change),
        totals(change * change),
        totals(rest * rest),
        totals(rest**3),
        totals((change > 0).astype(np.float64)),
        totals((change < 0).astype(np.float64)),
    )
    by_slice = iter(() if clusters is None else clusters.sums(both, change))
    found: list[Difference] = []
    for row, (pairs, first, total, squares, rest_squares, rest_cubes, rose, fell) in enumerate(
        zip(*columns, strict=True)
    ):
        own = next(by_slice, None)
        if not pairs:
            found.append(Difference(0, 0, None, None, None, None, None, None, 0, 0, None))
            continue
        mean = total / pairs
        shift = mean - middle
        second = max(0.0, rest_squares / pairs - shift**2)
        if second * pairs <= _EQUAL * (squares + rest_squares):
            second = 0.0
        deviation = sqrt(second * pairs / (pairs - 1)) if pairs > 1 else 0.0
        if own is not None:
            spread = Spread.of_clusters(own, mean, is_equal=not second)
        else:
            third = rest_cubes / pairs - 3 * shift * (rest_squares / pairs) + 2 * shift**3
            skewness = third / second / sqrt(second) if second else 0.0
            spread = Spread(round(pairs), round(rose + fell), squares, deviation, skewness)
        few: Floats | None = None
        if FEWEST_CHANGED <= spread.changed <= _EXACT:
            few = change[slices[row][cells]] if own is None else own.totals
        low, high = interval(mean, spread)
        found.append(
            Difference(
                pairs=round(pairs),
                clusters=spread.clusters,
                before=first / pairs,
                after=(first + total) / pairs,
                mean=mean,
                low=low,
                high=high,
                effect=mean / deviation if deviation else None,
                rose=round(rose),
                fell=round(fell),
                p=_p_value(total, spread, few),
            )
        )
    return found


def _p_value(total: float, spread: Spread, few: Floats | None) -> float | None:
    """Return the probability that random signs of the clusters give a sum at least as far from 0."""
    if spread.changed < FEWEST_CHANGED or not spread.squares:
        return None
    if few is None:
        return erfc(abs(total) / sqrt(2 * spread.squares))
    sums = np.zeros(1)
    for size in np.abs(few[few != 0]):
        sums = np.concatenate((sums + size, sums - size))
    return float(np.mean(np.abs(sums) >= abs(few.sum()) * (1 - _TIE)))


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p-values adjusted by the method of Benjamini and Hochberg; None stays None and does not count.

    If those of at most 0.05 are discoveries, on average no more than 5 % of them are false.

    >>> adjusted([0.01, None, 0.04, 0.03, 0.9])
    [0.04, None, 0.05333333333333334, 0.05333333333333334, 0.9]
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    found: list[float | None] = [None] * len(p_values)
    least = 1.0
    for rank in range(len(known), 0, -1):
        p, place = known[rank - 1]
        least = min(least, p * len(known) / rank)
        found[place] = least
    return found
