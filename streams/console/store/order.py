"""The order of a list of answers, and the page of it that a query asks for."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np

from ragweir.streams.console.store.answer_query import AnswerQuery, Cursor
from ragweir.streams.console.store.row_ranges import Floats, Ints, RowRange


class PageRows:
    """Keeps the rows of a page, in bounded memory.

    Rows are ordered by key, those without one last, and newer rows are before older ones of the same key.

    Args:
        query: the order, the place where the page begins or ends, and its length.
    """

    def __init__(self, query: AnswerQuery) -> None:
        self._down = not query.ascending
        self._backwards = query.before is not None
        self._most = query.limit + 1
        """One more than the page has: whether there are further rows."""
        place = query.before if self._backwards else query.after
        self._place = None if place is None else self._ranked(np.array([place.key]), np.array([place.row]))
        self._keys, self._rows = np.empty(0), np.empty(0, np.int64)

    def _ranked(self, keys: Floats, rows: Ints) -> tuple[Floats, Ints]:
        """Return the ranks of rows: the page has the smallest ones."""
        ranks = np.where(np.isinf(keys), inf, -keys if self._down else keys)
        return (-ranks, rows) if self._backwards else (ranks, -rows)

    def add(self, part: RowRange, places: Ints, keys: Callable[[], Floats]) -> None:
        """Add rows of a part, given by their places in it.

        Args:
            part: the part.
            places: the rows.
            keys: returns the key of each row of the part; NaN for none.
        """
        if not len(places):
            return
        own = keys()[places].astype(np.float64)
        own[np.isnan(own)] = inf
        ranks, rows = self._ranked(own, places + part.first)
        if self._place is not None:
            (key,), (row,) = self._place
            wanted = (ranks > key) | ((ranks == key) & (rows > row))
            ranks, rows = ranks[wanted], rows[wanted]
        if len(self._keys) == self._most:
            wanted = ranks <= self._keys[-1]
            ranks, rows = ranks[wanted], rows[wanted]
        if len(ranks):
            ranks, rows = np.concatenate((self._keys, ranks)), np.concatenate((self._rows, rows))
            first = np.lexsort((rows, ranks))[: self._most]
            self._keys, self._rows = ranks[first], rows[first]

    @property
    def more(self) -> bool:
        """True if there are rows beyond the page, in its direction."""
        return len(self._keys) == self._most

    def cursors(self) -> list[Cursor]:
        """Return the places of the rows of the page, in order."""
        ranks, rows = self._keys[: self._most - 1], self._rows[: self._most - 1]
        if self._backwards:
            ranks, rows = -ranks[::-1], rows[::-1]
        else:
            rows = -rows
        keys = np.where(np.isinf(ranks), inf, -ranks if self._down else ranks)
        return [Cursor(key, row) for key, row in zip(keys.tolist(), rows.tolist(), strict=True)]
