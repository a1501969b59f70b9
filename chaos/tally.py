"""The tally: how often each record of the interactions came out in one output, and whether in order."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from chaos.findings import Found

Place = tuple[int, int]
"""A partition of the interactions and an offset in it; of a topic that is made again a lane (see `chaos.oracle`)."""
_MOST = 255


class Tally:
    """Counts what one output holds, by the place in the interactions that each record speaks of.

    Args:
        found: where faults are noted.
        ordered: whether what comes of one partition has to keep its order within each output partition.
    """

    def __init__(self, found: Found, *, ordered: bool) -> None:
        self._found = found
        self._ordered = ordered
        self._counts: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._numbers: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        self._reached: dict[Place, int] = {}
        self.distinct = 0

    def add(self, place: Place, output: int, number: int) -> None:
        """One record of the output: whence it comes, its own partition, and the number that it tells."""
        partition, offset = place
        counts, numbers = self._counts[partition], self._numbers[partition]
        if offset >= len(counts):
            more = offset + 1 - len(counts)
            counts.extend(bytes(more))
            numbers.extend([0] * more)
        self._found.found += 1
        if counts[offset]:
            self._found.add("duplicated", f"{partition}/{offset}")
        else:
            self.distinct += 1
            lane = partition, output
            if self._ordered and offset < self._reached.get(lane, -1):
                self._found.add("reordered", f"{partition}/{offset} behind {self._reached[lane]}")
            self._reached[lane] = max(offset, self._reached.get(lane, -1))
        counts[offset] = min(_MOST, counts[offset] + 1)
        numbers[offset] = number

    def holds(self, place: Place) -> bool:
        """Return whether a record of this place has come out."""
        partition, offset = place
        counts = self._counts.get(partition, b"")
        return offset < len(counts) and counts[offset] > 0

    def compare(self, expected: Callable[[int], Iterator[tuple[bool, int]]], partitions: Iterable[int]) -> None:
        """Note what is missing, and what is there and should not be or tells another number.

        Args:
            expected: for a partition, by offset, whether something should be there and its number.
            partitions: of the interactions.
        """
        for partition in sorted({*partitions, *self._counts}):
            counts, numbers = self._counts[partition], self._numbers[partition]
            reached = -1
            for reached, (wanted, number) in enumerate(expected(partition)):
                there = reached < len(counts) and counts[reached] > 0
                self._found.expected += wanted
                if wanted and not there:
                    self._found.add("lost", f"{partition}/{reached}")
                elif there and not wanted:
                    self._found.add("wrong", f"{partition}/{reached} should not be there")
                elif there and numbers[reached] != number:
                    self._found.add("wrong", f"{partition}/{reached} tells {numbers[reached]}, not {number}")
            for offset in range(reached + 1, len(counts)):
                if counts[offset]:
                    self._found.add("wrong", f"{partition}/{offset} was never produced")
