"""Clusters of events that are not independent of each other, such as those of one session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class ClusterSums(NamedTuple):
    """Sums over each cluster's events in one slice."""

    sizes: Floats
    """Numbers of events."""
    totals: Floats
    """Sums of the events' values."""


class Clusters:
    """The events of all clusters, by slice.

    Args:
        numbers: the cluster of each event, from 0.
        cells: the cell of each event.
        slices: one row per slice, one column per cell; True for the cells of the slice.
    """

    def __init__(self, numbers: Ints, cells: Ints, slices: Flags) -> None:
        # Events of one cluster and cell are a part, which a slice holds as a whole.
        codes, self._parts = np.unique(numbers * slices.shape[1] + cells, return_inverse=True)
        clusters, of_part = np.divmod(codes, slices.shape[1])
        self._size = len(codes)
        self._inside = [np.flatnonzero(row[of_part]) for row in slices]
        self._groups = [_renumbered(clusters[inside]) for inside in self._inside]

    def sums(self, known: Flags, values: Floats) -> Iterator[ClusterSums]:
        """Yield the sums of each slice, over the clusters that have a known event in it.

        Args:
            known: True for the events that are counted.
            values: the values of these events.
        """
        parts = self._parts[known]
        columns = [_sums(parts, weights, self._size) for weights in (np.ones(len(parts)), values)]
        for inside, groups in zip(self._inside, self._groups, strict=True):
            own = [column[inside] for column in columns]
            sizes, totals = own if groups is None else [_sums(groups, column) for column in own]
            met = sizes > 0
            yield ClusterSums(sizes[met], totals[met])


def _sums(groups: Ints, values: Floats, least: int = 0) -> Floats:
    return np.asarray(np.bincount(groups, values, least), dtype=np.float64)


def _renumbered(clusters: Ints) -> Ints | None:
    """Return ascending numbers as those from 0 on; None if no number is there twice."""
    firsts = np.append(clusters[:1] >= 0, clusters[1:] != clusters[:-1])
    return None if firsts.all() else np.cumsum(firsts) - 1


def joined(fields: Sequence[Ints]) -> Ints:
    """Return the number of each event's cluster, from 0. Events with the same value of a field are in one cluster.

    This goes on from event to event: where a session asked two questions, all events of both questions are one cluster.

    >>> joined([np.array([7, 7, 0, 8, 0]), np.array([0, 5, 5, 0, 0])]).tolist()
    [0, 0, 0, 1, 2]

    Args:
        fields: a number for each event's value of each field; 0 for none, which is not the same as another 0.
    """
    labels = np.arange(len(fields[0]))
    for field in fields:
        events = np.flatnonzero(field)
        _, firsts, groups = np.unique(field[events], return_index=True, return_inverse=True)
        labels = _connected(labels, events, events[firsts][groups])
    return np.unique(labels, return_inverse=True)[1]


def _connected(labels: Ints, one: Ints, other: Ints) -> Ints:
    """Return labels with pairs of events under one label; the label of an event is the lowest event of its cluster."""
    while True:
        first, second = labels[one], labels[other]
        if (first == second).all():
            return labels
        # Each cluster goes to the lowest one that it is connected with, and then to where that one has gone.
        np.minimum.at(labels, np.maximum(first, second), np.minimum(first, second))
        while (labels != (further := labels[labels])).any():
            labels = further
