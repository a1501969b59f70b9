"""The tally: how often each record of the interactions has output of one kind, and whether in order."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable

from chaos.findings import Found

Source = tuple[int, int]
"""A record of the interactions: the index of its log (see `chaos.oracle`), and its offset."""
_MAX = 255


class Tally:
    """Counts the records of one output by their source, and adds defects to its findings.

    If ordered, outputs of one partition must keep their order within each output partition.
    """

    def __init__(self, found: Found, *, ordered: bool) -> None:
        self._found = found
        self._ordered = ordered
        self._counts: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._numbers: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        self._reached: dict[tuple[int, int], int] = {}
        self.distinct = 0

    def add(self, source: Source, partition: int, number: int) -> None:
        """Add a record of the output: its source, its own partition, and the event's number."""
        log, offset = source
        counts, numbers = self._counts[log], self._numbers[log]
        if (more := offset + 1 - len(counts)) > 0:
            counts.extend(bytes(more))
            numbers.extend([0] * more)
        self._found.found += 1
        if counts[offset]:
            self._found.add("duplicated", f"{log}/{offset}")
        else:
            self.distinct += 1
            reached = self._reached.get((log, partition), -1)
            if self._ordered and offset < reached:
                self._found.add("reordered", f"{log}/{offset} after {reached}")
            self._reached[log, partition] = max(offset, reached)
        counts[offset] = min(_MAX, counts[offset] + 1)
        numbers[offset] = number

    def has(self, source: Source) -> bool:
        """Return True if there is output of this source."""
        log, offset = source
        counts = self._counts.get(log, b"")
        return offset < len(counts) and counts[offset] > 0

    def compare(self, expected: Callable[[int], Iterable[tuple[bool, int]]], logs: Iterable[int]) -> None:
        """Add the defects: output that is missing, unexpected, or has another number.

        For a log, `expected` returns by offset True if there should be output, and the event's number.
        """
        for log in sorted({*logs, *self._counts}):
            offset = -1
            for offset, (wanted, number) in enumerate(expected(log)):
                exists = self.has((log, offset))
                self._found.expected += wanted
                if wanted and not exists:
                    self._found.add("lost", f"{log}/{offset}")
                elif exists and not wanted:
                    self._found.add("wrong", f"{log}/{offset} should have no output")
                elif exists and self._numbers[log][offset] != number:
                    self._found.add("wrong", f"{log}/{offset} has number {self._numbers[log][offset]}, not {number}")
            for more in range(offset + 1, len(self._counts[log])):
                if self._counts[log][more]:
                    self._found.add("wrong", f"{log}/{more} was never produced")
