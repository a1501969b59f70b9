"""Interval of a mean of differences from their spread over events, or over clusters of events."""

from __future__ import annotations

from dataclasses import dataclass
from math import cbrt, sqrt
from statistics import NormalDist

from ragweir.metrics.aggregation.clusters import ClusterSums

FEWEST = 10
"""Minimum number of clusters for an interval: the skewness of fewer is unknown."""
FEW_CHANGED = 30
"""Number of changed events from which skewness may make an interval narrower."""
_LEAST_FREEDOM = 4.0
"""Minimum freedom of Student's distribution for an interval; fewer come from clusters of very different sizes."""
_MISS = 0.025
"""Probability on either side of an interval."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Variation of the differences of one slice over its clusters; an event by itself is a cluster of one."""

    clusters: int
    changed: int
    """Number of clusters whose differences do not add up to 0."""
    squares: float
    """Sum of squares of the clusters' sums of differences."""
    deviation: float
    """The standard error of the mean, multiplied by the root of the number of clusters."""
    skewness: float
    curvature: float = 0.0
    """Correlation of the clusters' sums and sizes, by the coefficient of variation of the sizes."""
    freedom: float | None = None
    """Freedom of Student's distribution; None for the number of clusters less one."""

    @classmethod
    def of_clusters(cls, sums: ClusterSums, mean: float, *, is_equal: bool) -> Spread:
        """Return the spread of one slice over its clusters; `is_equal` if all differences are the same."""
        sizes, totals = sums
        count, pairs = len(sizes), float(sizes.sum())
        changed = totals[totals != 0]
        squares = float(changed @ changed)
        rest = totals - mean * sizes
        variance = float(rest @ rest) / count
        if is_equal or count == 1 or not variance:
            return cls(count, len(changed), squares, 0.0, 0.0)
        # Without a cluster, the mean of the others differs by its rest divided by the number of their events.
        without = rest / (1 - sizes / pairs)
        size = pairs / count
        return cls(
            clusters=count,
            changed=len(changed),
            squares=squares,
            deviation=sqrt(float(without @ without) * (count - 1)) / count / size,
            skewness=float(rest**2 @ rest) / count / variance / sqrt(variance),
            curvature=float(rest @ sizes) / count / size / sqrt(variance),
            freedom=pairs**2 / float(sizes @ sizes) - 1,
        )


def interval(mean: float, spread: Spread) -> tuple[float | None, float | None]:
    """Return the 95 % interval of a mean; (None, None) for fewer than 10 clusters, or almost all events in a few.

    Without skewness it is Student's:

    >>> low, high = interval(0.0, Spread(10, 10, 10.0, 1.0, 0.0))
    >>> round(low, 3), round(high, 3), round(2.2622 / sqrt(10), 3)
    (-0.715, 0.715, 0.715)
    """
    count = spread.clusters
    freedom = count - 1 if spread.freedom is None else spread.freedom
    if count < FEWEST or freedom < _LEAST_FREEDOM:
        return None, None
    reach = _student(freedom) / sqrt(count)
    correction = sqrt(count * (count - 1)) / (count - 2)
    skewness, curvature = spread.skewness * correction, spread.curvature * correction
    below, above = _unskewed(reach, skewness, curvature, count), -_unskewed(-reach, skewness, curvature, count)
    if spread.changed < FEW_CHANGED or spread.freedom is not None:
        below, above = max(below, reach), max(above, reach)
    return mean - spread.deviation * below, mean + spread.deviation * above


def _unskewed(place: float, skewness: float, curvature: float, count: int) -> float:
    """Return the studentised mean whose transform has this value: the inverse of Hall's cubic."""
    coefficient, shifted = skewness - 3 * curvature, place - skewness / (6 * count)
    if abs(coefficient) < 1e-6:
        return shifted
    return 3 / coefficient * (cbrt(1 + coefficient * shifted) - 1)


def _student(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's t (Fisher and Cornish, 1960).

    It is within 0.0003 from 9 degrees of freedom, and within 0.008 from 4.

    >>> round(_student(9), 3), round(_student(30), 3)
    (2.262, 2.042)
    """
    z = NormalDist().inv_cdf(1 - _MISS)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
