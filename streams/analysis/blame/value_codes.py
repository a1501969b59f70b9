"""Numbers for the values of facets, at most so many at once."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from ragweir.metrics.cause.coded_facets import shortened

LONGEST = 200
"""Number of characters of a value that are kept; a longer one has a digest in place of its end."""
MOST_FACETS = 200
"""Number of facets, such as names of labels, that are kept, the first ones."""
DROPPED = -1
"""The number of a value that is left out."""


class ValueCodes:
    """The values of facets with their numbers.

    Above the limit half of the values of facets with many values are left out, chosen by hash, and then half of the
    rest, so that what is left is a random part of them, the same one of every file.

    Args:
        most: the limit.
        kept: facets of which no value is left out.
    """

    def __init__(self, most: int, kept: frozenset[str]) -> None:
        self._most, self._kept = most, kept
        self._codes: dict[str, dict[str, int]] = {}
        self._numbers: dict[str, int] = {}
        self.full = False
        """True if a facet was left out, since there are too many."""
        self._size = 0
        self._level = 0
        self.facets: list[str] = []
        """The facets by number."""
        self.names: list[str | None] = []
        """The value of each number; None if it is left out."""
        self.facet: list[int] = []
        """The number of the facet of each value's number."""

    @property
    def share(self) -> float:
        """The share of the values that is kept, of facets with many values."""
        return 0.5**self._level

    def code(self, facet: str, value: str) -> int:
        """Return the number of a value; DROPPED if it is left out.

        >>> codes = ValueCodes(1000, frozenset())
        >>> codes.code("document", "a"), codes.code("document", "b"), codes.code("document", "a"), codes.names
        (0, 1, 0, ['a', 'b'])
        """
        value = shortened(value, LONGEST)
        if (own := self._codes.get(facet)) is None:
            if self.facet_number(facet) == DROPPED:
                return DROPPED
            own = self._codes[facet] = {}
        found = own.get(value)
        if found is not None:
            return found
        if facet not in self._kept and self._leaves_out(value):
            return DROPPED
        found = own[value] = len(self.names)
        self.names.append(value)
        self.facet.append(self._numbers[facet])
        self._size += 1
        if self._size > self._most:
            self._drop_level()
            return found if self.names[found] is not None else DROPPED
        return found

    def facet_number(self, facet: str) -> int:
        """Return the number of a facet; DROPPED if there are too many."""
        if facet not in self._numbers:
            if len(self.facets) == MOST_FACETS:
                self.full = True
                return DROPPED
            self._numbers[facet] = len(self.facets)
            self.facets.append(facet)
        return self._numbers[facet]

    def add_hashes(self, facets: Sequence[int], names: Sequence[str], level: int) -> int:
        """Add values that are known by their hashes alone, and return the number of the first of them.

        Args:
            facets: the number of each one's facet.
            names: the hashes as text.
            level: number of times that half of them were left out.
        """
        first = len(self.names)
        self.names += names
        self.facet += facets
        self._level = max(self._level, level)
        return first

    def _leaves_out(self, value: str) -> bool:
        return self._level > 0 and crc32(value.encode(errors="replace")) % (1 << self._level) != 0

    def _drop_level(self) -> None:
        """Leave out half of the values that are kept by hash."""
        self._level += 1
        for facet, own in self._codes.items():
            if facet in self._kept:
                continue
            for value in [each for each in own if self._leaves_out(each)]:
                self.names[own.pop(value)] = None
                self._size -= 1
