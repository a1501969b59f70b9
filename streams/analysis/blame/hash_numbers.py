"""Numbers for hashes, in which servings take half of the memory of hashes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.cause.cause import FEWEST
from ragweir.metrics.cause.servings import Hashes, Ints


class HashNumbers:
    """The hashes of documents, chunks and labels with their numbers, facets and numbers of servings."""

    def __init__(self) -> None:
        self._hashes = np.zeros(0, np.uint64)
        """The hashes in their order."""
        self._number = np.zeros(0, np.int32)
        """The number of each of them."""
        self._facet = np.zeros(0, np.int16)
        self._served = np.zeros(0, np.int64)
        """The facet of each number, and its servings."""

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def served(self) -> int:
        """The number of servings of all hashes."""
        return int(self._served.sum())

    def add(self, hashes: Hashes, facets: NDArray[np.int16]) -> NDArray[np.int32]:
        """Add servings, and return the numbers of their hashes; new ones have the next numbers.

        >>> numbers = HashNumbers()
        >>> [numbers.add(np.array(own, np.uint64), np.zeros(2, np.int16)).tolist() for own in ([7, 9], [8, 9])]
        [[0, 1], [2, 1]]
        """
        found, first, place = np.unique(hashes, return_index=True, return_inverse=True)
        at = np.searchsorted(self._hashes, found)
        is_new = np.append(self._hashes, np.uint64(0))[at] != found
        is_new |= at == len(self)
        number = np.empty(len(found), np.int32)
        number[~is_new] = self._number[at[~is_new]]
        number[is_new] = len(self) + np.arange(int(is_new.sum()))
        self._hashes = np.insert(self._hashes, at[is_new], found[is_new])
        self._number = np.insert(self._number, at[is_new], number[is_new])
        self._facet = np.append(self._facet, facets[first[is_new]])
        self._served = np.append(self._served, np.zeros(int(is_new.sum()), np.int64))
        self._served[number] += np.bincount(place.ravel())
        return number[place.ravel()]

    def keep(self, kept: NDArray[np.bool_]) -> Ints:
        """Keep some of the hashes in their order, and return the new number of each number; -1 for none."""
        before = self._number[kept]
        numbers = np.full(len(self), -1, np.int64)
        numbers[before] = np.arange(len(before))
        self._hashes, self._number = self._hashes[kept], np.arange(len(before), dtype=np.int32)
        self._facet, self._served = self._facet[before], self._served[before]
        return numbers

    def is_kept(self, level: int) -> NDArray[np.bool_]:
        """Return which hashes, in their order, are kept if half of them are dropped so many times."""
        return is_kept(self._hashes, level)

    def enough(self) -> tuple[Hashes, NDArray[np.int16]]:
        """Return the hashes with enough servings, in their order, and their facets."""
        tested = self._served[self._number] >= FEWEST
        return self._hashes[tested], self._facet[self._number[tested]]

    def places(self, hashes: Hashes) -> Ints:
        """Return the place of the hash of each number among some that are in order; -1 for none."""
        places = np.full(len(self), -1, np.int64)
        own = np.searchsorted(self._hashes, hashes)
        same = np.append(self._hashes, np.uint64(0))[own] == hashes
        same &= own < len(self)
        places[self._number[own[same]]] = np.flatnonzero(same)
        return places


def is_kept(hashes: Hashes, level: int) -> NDArray[np.bool_]:
    """Return which hashes are kept if half of them are dropped so many times."""
    return np.asarray((hashes & np.uint64((1 << level) - 1)) == 0)
