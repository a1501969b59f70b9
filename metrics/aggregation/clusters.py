"""Clusters: events that depend on each other, since they share a session or a question.

A mean over such events is less certain than over as many independent ones. Its variance is estimated by leaving out
each cluster in turn (the jackknife), and its quantile is that of Student's t, with one degree of freedom fewer than the
effective number of clusters, the square of the number of events by the sum of the squares of the clusters' sizes: for
clusters of one size it is their number, and few large ones make it small.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Clustered:
    """The changes of one slice by cluster."""

    count: int
    """Number of clusters."""
    effective: float
    """Effective number of clusters."""
    sums: Floats
    """Sum of each cluster's changes."""
    error: float
    """Standard error of the mean of all events; 0 for one cluster."""


def clustered(change: Floats, clusters: Ints) -> Clustered:
    """Return the changes of some events by cluster.

    >>> found = clustered(np.array([0.0, 1.0, 2.0, 4.0, 6.0]), np.array([0, 1, 2, 3, 3]))
    >>> found.count, round(found.effective, 3), found.sums.tolist()
    (4, 3.571, [0.0, 1.0, 2.0, 10.0])

    Args:
        change: the change of each event.
        clusters: the number of each event's cluster, from 0.
    """
    sizes = np.bincount(clusters)
    met = np.flatnonzero(sizes)
    sums: Floats = np.bincount(clusters, change)[met].astype(np.float64)
    counts = sizes[met].astype(np.float64)
    events = float(len(change))
    # Without cluster c the mean is (total - sum_c) / (events - size_c).
    without = (sums - counts * change.mean()) / (1 - counts / events) / events if len(met) > 1 else np.zeros(1)
    error = sqrt((len(met) - 1) / len(met) * float(without @ without))
    return Clustered(len(met), events**2 / float(counts @ counts), sums, error)


def components(first: Ints, second: Ints) -> Ints:
    """Return the cluster of each event: events that share either key, directly or through others, have the same one.

    >>> components(np.array([7, 7, 0, 8, 0]), np.array([0, 5, 5, 0, 0])).tolist()
    [0, 0, 0, 1, 2]

    Args:
        first: a key of each event; 0 for none. An event without any key is a cluster of its own.
        second: another key of each event.
    """
    (ones, one), (others, other) = (np.unique(key, return_inverse=True) for key in (first, second))
    parents = list(range(len(ones) + len(others)))
    other = other + len(ones)

    def root(key: int) -> int:
        while parents[key] != key:
            parents[key] = key = parents[parents[key]]
        return key

    both = (first != 0) & (second != 0)
    for code in np.unique(one[both] * len(parents) + other[both]).tolist():
        key, same = divmod(code, len(parents))
        parents[root(same)] = root(key)
    roots = np.array([root(key) for key in range(len(parents))], dtype=np.int64)
    own = len(parents) + np.arange(len(first))
    found = np.where(first != 0, roots[one], np.where(second != 0, roots[other], own))
    _, places, numbers = np.unique(found, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(places))[numbers])
