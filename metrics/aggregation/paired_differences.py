"""Paired comparison of two evaluations of the same events, for many slices.

The estimate is the mean of the events' differences, second side minus first. It has two statistics. Events that share a
session or a question form a cluster, within which differences may depend on each other.

- A 95 % interval: Student's, corrected for skewness (Hall, On the removal of skewness by transformation, 1992). It is
  as accurate as the studentised or bias-corrected bootstrap, to the second order, but computed from three sums, without
  a seed or resamples, in any order of events. If most differences are zero and some are large on one side, the plain
  percentile bootstrap covers less. With fewer than 30 changed events skewness is uncertain, and the wider of both
  limits, Student's and Hall's, is used. With clusters of several events it is at least Student's with the standard
  error and the freedom of `metrics.aggregation.clusters`. In simulations that covers 93 to 97 % where the interval for
  independent events covers 65 to 75 %; if the change grows with a cluster's size, or few clusters have skewed means,
  it covers some 92 %. With fewer than 5 effective clusters there is no interval.
- A p-value under the hypothesis that both sides are the same configuration, so that the two values of an event could
  be swapped and each sign of a difference is random (Fisher's randomisation test). It is exact up to 16 changed events;
  for more, the normal distribution is used, which has wider tails. The events of a cluster are swapped together.

Over many metrics and slices, Benjamini and Hochberg (1995) bound the share of false discoveries. Comparisons with fewer
than 6 changed events, which cannot reach 5 % with any signs, are left out beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import cbrt, erfc, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.aggregation.clusters import Clustered, Floats, Ints, clustered

Flags = NDArray[np.bool_]

FEWEST = 10
"""Minimum number of pairs for an interval: the skewness of fewer is unknown."""
FEWEST_CLUSTERS = 5
"""Minimum effective number of clusters for an interval."""
FEW_CLUSTERS = 30
"""Effective number of clusters below which intervals cover less than they should if clusters are skewed."""
FEWEST_CHANGED = 6
"""Minimum number of changed events, or clusters, for a p-value: that of fewer is always over 5 %."""
OTHERS = "(others)"
"""Name for the other values of a dimension, or labels of a category, if there are too many."""
RATE = 0.05
"""Accepted share of false discoveries."""
FEW_CHANGED = 30
"""Number of changed events from which skewness may make an interval narrower."""
_MISS = 0.025
"""Probability on either side of an interval."""
_EXACT = 16
"""Maximum number of changed events for which all signs are enumerated."""
_EQUAL = 1e-12
"""Variance below this share of the squares is the rounding error of equal differences."""
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric on one slice of the events that have it on both sides."""

    pairs: int
    before: float | None
    """Mean of the first side; None without pairs."""
    after: float | None
    mean: float | None
    """Mean of the differences, second side minus first."""
    low: float | None
    """Lower limit of the 95 % interval of the mean; None with fewer than 10 pairs or 5 effective clusters."""
    high: float | None
    effect: float | None
    """Mean of the differences divided by their standard deviation; None if they are all equal."""
    rose: int
    """Number of events whose value is higher on the second side."""
    fell: int
    p: float | None
    """The p-value; None with fewer than 6 changed events, or clusters."""
    clusters: int
    """Number of clusters: of sessions and questions, and events without them."""
    effective_clusters: float
    """Number of equally large clusters that would tell as much; the number of pairs if each event is by itself."""

    @property
    def interval(self) -> str:
        """The mean and its interval as text, as far as there are any: `+0.12 (+0.08 to +0.16)`."""
        mean = "" if self.mean is None else f"{self.mean:+.3g}"
        return mean if self.low is None else f"{mean} ({self.low:+.3g} to {self.high:+.3g})"


def differences(
    before: Floats, after: Floats, cells: Ints, slices: Flags, clusters: Ints | None = None
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
        clusters: the number of each event's cluster, from 0; None if each event is by itself.
    """
    both = ~(np.isnan(before) | np.isnan(after))
    if not both.all():
        before, after, cells = before[both], after[both], cells[both]
        clusters = None if clusters is None else clusters[both]
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
    found: list[Difference] = []
    for row, sums in enumerate(zip(*columns, strict=True)):
        few: Floats | None = None
        if clusters is not None and sums[0]:
            own = slices[row][cells]
            groups = clustered(change[own], clusters[own])
            if groups.count < round(sums[0]):
                found.append(_with_clusters(_difference(sums, middle, None), groups))
                continue
        if FEWEST_CHANGED <= sums[6] + sums[7] <= _EXACT:
            changes = change[slices[row][cells]]
            few = changes[changes != 0]
        found.append(_difference(sums, middle, few))
    return found


def _with_clusters(found: Difference, groups: Clustered) -> Difference:
    """Return a difference with the interval and the p-value of events in clusters."""
    low, high = found.low, found.high
    if groups.effective < FEWEST_CLUSTERS:
        low = high = None
    elif found.mean is not None and low is not None and high is not None:
        reach = _student(groups.effective - 1) * groups.error
        low, high = min(low, found.mean - reach), max(high, found.mean + reach)
    sums = groups.sums[groups.sums != 0]
    p = _p_value(len(sums), float(sums.sum()), float(sums @ sums), sums if len(sums) <= _EXACT else None)
    return replace(found, low=low, high=high, p=p, clusters=groups.count, effective_clusters=groups.effective)


def _difference(sums: Sequence[float], middle: float, few: Floats | None) -> Difference:
    """Return the difference of one slice of independent events from its sums."""
    pairs, before, total, squares, rest_squares, rest_cubes, rose, fell = sums
    count = round(pairs)
    if not count:
        return Difference(0, None, None, None, None, None, None, 0, 0, None, 0, 0.0)
    mean = total / pairs
    shift = mean - middle
    second = max(0.0, rest_squares / pairs - shift**2)
    if second * pairs <= _EQUAL * (squares + rest_squares):
        second = 0.0
    third = rest_cubes / pairs - 3 * shift * (rest_squares / pairs) + 2 * shift**3
    deviation = sqrt(second * pairs / (pairs - 1)) if count > 1 else 0.0
    changed = round(rose + fell)
    low, high = interval(count, changed, mean, deviation, third / second / sqrt(second) if second else 0.0)
    return Difference(
        count,
        before / pairs,
        (before + total) / pairs,
        mean,
        low,
        high,
        mean / deviation if deviation else None,
        round(rose),
        round(fell),
        _p_value(changed, total, squares, few),
        count,
        pairs,
    )


def interval(
    count: int, changed: int, mean: float, deviation: float, skewness: float
) -> tuple[float | None, float | None]:
    """Return the 95 % interval of a mean from the sample's moments; (None, None) for fewer than 10 values.

    `changed` is the number of values that are not 0. Without skewness it is Student's:

    >>> low, high = interval(10, 10, 0.0, 1.0, 0.0)
    >>> round(low, 3), round(high, 3), round(2.2622 / sqrt(10), 3)
    (-0.715, 0.715, 0.715)
    """
    if count < FEWEST:
        return None, None
    reach = _student(count - 1) / sqrt(count)
    skewness *= sqrt(count * (count - 1)) / (count - 2)
    below, above = _unskewed(reach, skewness, count), -_unskewed(-reach, skewness, count)
    if changed < FEW_CHANGED:
        below, above = max(below, reach), max(above, reach)
    return mean - deviation * below, mean + deviation * above


def _unskewed(place: float, skewness: float, count: int) -> float:
    """Return the studentised mean whose transform has this value: the inverse of Hall's cubic."""
    if abs(skewness) < 1e-6:
        return place
    return 3 / skewness * (cbrt(1 + skewness * (place - skewness / (6 * count))) - 1)


def _student(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's t (Fisher and Cornish, 1960).

    It is within 0.0003 from 9 degrees of freedom, and within 0.008 from 4.

    >>> round(_student(4), 3), round(_student(9), 3), round(_student(30), 3)
    (2.769, 2.262, 2.042)
    """
    z = NormalDist().inv_cdf(1 - _MISS)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def _p_value(changed: int, total: float, squares: float, few: Floats | None) -> float | None:
    """Return the probability that random signs give a sum at least as far from 0."""
    if changed < FEWEST_CHANGED or not squares:
        return None
    if few is None:
        return erfc(abs(total) / sqrt(2 * squares))
    sums = np.zeros(1)
    for size in np.abs(few):
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
