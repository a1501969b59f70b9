"""The values that events carry, of which those that are known by hashes are tested if they have enough servings."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.cause.servings import Codes, Hashes, Ints, blocks, paired, value_of
from ragweir.streams.analysis.blame.hash_numbers import HashNumbers, is_kept

_HASHED = np.uint64(1 << 63)
"""The bit of a serving whose value is the number of a hash, not a code."""
_ROW = np.uint64(0xFFFFFFFF)
_TOGETHER = 1 << 18
"""Number of servings whose hashes get numbers at once."""
_MOST_SERVINGS = 12
"""Most servings of hashes for each one that may be held."""


class CarriedValues:
    """Servings in 8 bytes each; a hash has a number in place of a code until it is known whether it is tested.

    Args:
        most: number of different hashes that are held; above it whole levels are dropped.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pairs = array("Q")
        self._numbers = HashNumbers()
        self._waiting: list[tuple[Codes, Hashes, NDArray[np.int16]]] = []
        self._together = 0
        self.level = 0
        """Number of times that half of the hashes were dropped."""

    def add(self, row: Codes, code: Codes) -> None:
        """Add servings of values that have codes."""
        self._pairs.frombytes(paired(row, code).tobytes())

    def add_hashes(self, row: Codes, hashes: Hashes, facet: NDArray[np.int16]) -> None:
        """Add servings of values that are known by their hashes."""
        self._waiting.append((row, hashes, facet))
        self._together += len(row)
        if self._together >= _TOGETHER:
            self.number()

    def number(self) -> None:
        """Give numbers to the hashes that came last, and drop levels while there are more than may be held."""
        if self._waiting:
            row, hashes, facet = (np.concatenate(each) for each in zip(*self._waiting, strict=True))
            self._waiting, self._together = [], 0
            kept = is_kept(hashes, self.level)
            numbers = self._numbers.add(hashes[kept], facet[kept])
            self._pairs.frombytes((paired(row[kept], numbers) | _HASHED).tobytes())
        while len(self._numbers) > self._most or self._numbers.served > _MOST_SERVINGS * self._most:
            self.drop_to(self.level + 1)

    def drop_to(self, level: int) -> None:
        """Drop hashes, so that half of them are left out so many times."""
        if level > self.level:
            self.level = level
            self._replace(self._numbers.keep(self._numbers.is_kept(level)), _HASHED)

    def enough(self) -> tuple[Hashes, NDArray[np.int16]]:
        """Return the hashes with enough servings, in their order, and their facets."""
        return self._numbers.enough()

    def name_hashes(self, hashes: Hashes, first: int) -> None:
        """Give codes to hashes: the place of each among some that are in order, after the first code; drop others."""
        places = self._numbers.places(hashes)
        self._replace(np.where(places < 0, -1, places + first), np.uint64(0))
        self._numbers = HashNumbers()

    def taken(self) -> Hashes:
        """Return the servings, see `paired`, and forget them."""
        pairs, self._pairs = np.frombuffer(self._pairs, np.uint64), array("Q")
        return pairs

    def _replace(self, numbers: Ints, bit: np.uint64) -> None:
        # An array cannot be made shorter while another one shares its memory.
        del self._pairs[_replaced(np.frombuffer(self._pairs, np.uint64), numbers, bit) :]


def _replaced(pairs: Hashes, numbers: Ints, bit: np.uint64) -> int:
    """Replace the numbers of hashes in place, without those whose number is below 0; return how many servings are left.

    Args:
        pairs: the servings.
        numbers: the number in place of each one.
        bit: the bit that the servings get.
    """
    size = 0
    for block in blocks(pairs):
        own = block.copy()
        hashed = np.flatnonzero(own >= _HASHED)
        number = numbers[value_of(own[hashed] & ~_HASHED).astype(np.int64)]
        own[hashed] = paired(own[hashed] & _ROW, np.maximum(number, 0)) | bit
        kept = np.ones(len(own), bool)
        kept[hashed[number < 0]] = False
        own = own[kept]
        pairs[size : size + len(own)] = own
        size += len(own)
    return size
