"""Evaluated events as columns, with the values of facets that each carries, and who counts once.

A serving is an event that carries a value, such as a document. Events of one session, and answers to one question, are
no independent observations, so that of each session, and then of each question, one event counts on either side of a
comparison. Which one is decided by a hash of the event's id, whatever the order of the events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
Hashes = NDArray[np.uint64]
NONE = -1
"""The session or question of an event that has none."""
_ROW = np.uint64(0xFFFFFFFF)
_ROW_BITS = np.uint64(32)
_BLOCK = 1 << 18
"""Number of servings that are copied at once."""


@dataclass(frozen=True)
class Servings:
    """Events in the order of their hashes, and the values that they carry; see `ordered`."""

    bad: Mask
    """True for each bad event."""
    present: Mask
    """True for each event of the range that is asked about; false for those of the reference, if there is one."""
    stratum: Ints
    """Number of the stratum of each event."""
    session: Ints
    question: Ints
    """Numbers of the session and question of each event; NONE for none."""
    row: Codes
    """For each serving the place of its event, by value and place; an event carries a value once."""
    starts: Ints
    """The place of the first serving of each value, and the number of servings at the end."""
    facet: Ints
    """Number of the facet of each value, or of the kind of its facet."""
    schemes: Ints
    """For each facet, and each stratum, the number of the stratum in which its values are compared: that without what
    the facet itself decides."""
    given: Codes
    """The place of each event before it was put in order."""

    @classmethod
    def ordered(
        cls,
        bad: Mask,
        present: Mask,
        stratum: Ints,
        session: Ints,
        question: Ints,
        chance: Hashes,
        pairs: Hashes,
        facet: Ints,
        schemes: Ints,
    ) -> Servings:
        """Return events in the order of their hashes.

        Args:
            bad: see the field, as all that is not described here.
            present: see the field.
            stratum: see the field.
            session: see the field.
            question: see the field.
            chance: the hash of the id of each event, by which one is chosen of a session or question.
            pairs: the value and the place of the event of each serving, see `paired`. They are sorted in place, as a
                copy of them would be the largest part of the memory.
            facet: see the field.
            schemes: see the field.
        """
        given = np.argsort(chance, kind="stable").astype(np.int32)
        place = np.empty(len(given), np.uint64)
        place[given] = np.arange(len(given), dtype=np.uint64)
        for block in blocks(pairs):
            block[:] = (block & ~_ROW) | place[block & _ROW]
        pairs.sort()
        row, starts = _by_value(pairs, len(facet))
        flags = bad[given], present[given]
        return cls(*flags, stratum[given], session[given], question[given], row, starts, facet, schemes, given)

    @cached_property
    def counted(self) -> Mask:
        """Which events count if each session and question counts once in each stratum."""
        return self.once(self.stratum, np.arange(len(self.bad)))

    def served(self) -> Ints:
        """Return the number of present events of each value."""
        found = np.diff(self.starts)
        is_served = found > 0
        if is_served.any():
            first = self.starts[:-1][is_served]
            found[is_served] = np.add.reduceat(self.present[self.row], first, dtype=np.int64)
        return found

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


def paired(row: NDArray[np.integer], value: NDArray[np.integer]) -> Hashes:
    """Return servings as one number each: the number of the value, then the place of the event in 32 bits.

    >>> paired(np.array([5]), np.array([2])).tolist() == [2 * 2**32 + 5]
    True
    """
    return np.asarray((value.astype(np.uint64) << _ROW_BITS) | row.astype(np.uint64))


def value_of(pairs: Hashes) -> Hashes:
    """Return the values of servings that are numbers, see `paired`."""
    return np.asarray(pairs >> _ROW_BITS)


def blocks(pairs: Hashes) -> Iterator[Hashes]:
    """Yield parts of servings, in which they can be changed without a copy of them all."""
    for start in range(0, len(pairs), _BLOCK):
        yield pairs[start : start + _BLOCK]


def _by_value(pairs: Hashes, values: int) -> tuple[Codes, Ints]:
    """Return the places of the events of sorted servings, each once, and the first serving of each value."""
    row, size = np.empty(len(pairs), np.int32), 0
    served = np.zeros(values + 1, np.int64)
    before: np.uint64 | None = None
    for block in blocks(pairs):
        first = np.ones(len(block), bool)
        first[1:] = block[1:] != block[:-1]
        first[0] = before is None or block[0] != before
        before, own = block[-1], block[first]
        row[size : size + len(own)] = own & _ROW
        size += len(own)
        lowest = int(value_of(block[:1])[0])
        found = np.bincount((value_of(own) - np.uint64(lowest)).astype(np.int64))
        served[lowest + 1 : lowest + 1 + len(found)] += found
    return row[:size], np.cumsum(served)


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
