"""Evaluated events as columns, with the values of facets that each carries, and who counts once.

A serving is an event that carries a value, such as a document. Events of one session, and answers to one question, are
no independent observations, so that of each session, and then of each question, one event counts on either side of a
comparison. Which one is decided by a hash of the event's id, whatever the order of the events.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
NONE = -1
"""The session or question of an event that has none."""


@dataclass(frozen=True)
class Servings:
    """Events, and the values that they carry."""

    bad: Mask
    """True for each bad event."""
    present: Mask
    """True for each event of the range that is asked about; false for those of the reference, if there is one."""
    stratum: Ints
    """Number of the stratum of each event."""
    session: Ints
    question: Ints
    """Numbers of the session and question of each event; NONE for none."""
    chance: NDArray[np.uint64]
    """Hash of the id of each event, by which one is chosen of a session or question."""
    row: Codes
    value: Codes
    """For each serving the place of its event, and the number of the value."""
    facet: Ints
    """Number of the facet of each value, or of the kind of its facet."""
    schemes: Ints
    """For each facet, and each stratum, the number of the stratum in which its values are compared: that without what
    the facet itself decides."""

    def shuffled(self) -> Servings:
        """Return the same events in the order of their hashes, with the servings by value and event."""
        order = np.argsort(self.chance, kind="stable")
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order))
        row = place[self.row]
        by_value = np.lexsort((row, self.value))
        row, value = row[by_value], self.value[by_value]
        first = np.ones(len(row), bool)
        first[1:] = (row[1:] != row[:-1]) | (value[1:] != value[:-1])
        return replace(
            self,
            bad=self.bad[order],
            present=self.present[order],
            stratum=self.stratum[order],
            session=self.session[order],
            question=self.question[order],
            chance=self.chance[order],
            row=row[first],
            value=value[first],
        )

    @cached_property
    def starts(self) -> Ints:
        """The place of the first serving of each value, and the number of servings at the end."""
        return np.searchsorted(self.value, np.arange(len(self.facet) + 1)).astype(np.int64)

    @cached_property
    def counted(self) -> Mask:
        """Which events count if each session and question counts once in each stratum."""
        return self.once(self.stratum, np.arange(len(self.bad)))

    def events_of(self, value: int) -> Codes:
        """Return the places of the events that carry a value."""
        return self.row[self.starts[value] : self.starts[value + 1]]

    def carries(self, value: int) -> Mask:
        """Return which events carry a value."""
        found = np.zeros(len(self.bad), bool)
        found[self.events_of(value)] = True
        return found

    def once(self, group: Ints, rows: Codes | Ints) -> Mask:
        """Return which of some events count: of each group the first of a session, and of these of a question.

        Args:
            group: the group of each.
            rows: their places.
        """
        counts = first_of(group, self.session[rows])
        counts[counts] = first_of(group[counts], self.question[rows[counts]])
        return counts


def first_of(group: Ints, key: Ints) -> Mask:
    """Return which elements are the first of their group and key; one without a key always is.

    >>> first_of(np.array([0, 0, 1, 1, 1]), np.array([7, 7, 7, NONE, NONE])).tolist()
    [True, False, True, True, True]
    """
    found = key == NONE
    with_key = np.flatnonzero(~found)
    if len(with_key):
        pairs = group[with_key] * (int(key.max()) + 1) + key[with_key]
        found[with_key[np.unique(pairs, return_index=True)[1]]] = True
    return np.asarray(found)
