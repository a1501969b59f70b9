"""Columns of segments that were read last, which pages ask for again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

_EACH_BYTES = 200
"""Memory that an entry takes beside its column."""


class ColumnCache:
    """Keeps columns in bounded memory, for any number of threads; the one that was asked for longest ago goes first.

    A column of a segment never changes: rows that others replace are marked elsewhere.

    >>> cache = ColumnCache(max_bytes=700)
    >>> [bytes(cache.get((1, first), lambda: memoryview(b"read"))) for first in (0, 0)]
    [b'read', b'read']
    >>> cache.get((1, 4_096), lambda: None), cache.bytes
    (None, 404)

    Args:
        max_bytes: limit of the memory.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self.bytes = max_bytes, 0
        self._lock = Lock()
        self._columns: OrderedDict[tuple[int, int], memoryview | None] = OrderedDict()

    def get(self, key: tuple[int, int], read: Callable[[], memoryview | None]) -> memoryview | None:
        """Return a column.

        Args:
            key: number of the column, and the first row of its segment.
            read: reads it; it returns None if the segment has no such column.
        """
        with self._lock:
            if key in self._columns:
                self._columns.move_to_end(key)
                return self._columns[key]
        found = read()
        with self._lock:
            if key not in self._columns:
                self._columns[key] = found
                self.bytes += _size(found)
            while self.bytes > self._max_bytes:
                self.bytes -= _size(self._columns.popitem(last=False)[1])
        return found

    def clear(self) -> None:
        """Forget all columns."""
        with self._lock:
            self._columns.clear()
            self.bytes = 0


def _size(column: memoryview | None) -> int:
    return _EACH_BYTES + (0 if column is None else column.nbytes)
