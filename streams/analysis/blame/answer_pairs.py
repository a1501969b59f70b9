"""Examples of a cause: bad answers that carry it, each beside a good one without it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.criterion import Criterion
from ragweir.streams.analysis.blame.event_table import EventTable
from ragweir.streams.analysis.blame.facets import NOT_HELD

EXAMPLES = 3
"""Number of bad answers of a cause that are shown, each beside a good one."""


class AnswerPairs:
    """Chooses bad answers of a cause, and good ones to compare them with."""

    def __init__(self, now: EventTable, criterion: Criterion) -> None:
        self._asked = now.asked()
        self._ids = now.ids
        column = now.columns()
        self._bad, self._question, self._session = column["bad"], column["text"], column["session"]
        self._stratum = np.stack([column[name] for name in ("hour", *NOT_HELD)], axis=1)
        values = np.asarray(now.values[0])[self._asked]
        self._badness = -values if criterion.higher_is_better else values

    def of(self, carrying: NDArray[np.int64]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return ids of the worst answers that carry a value, and of good ones without it.

        A good one answers the same question, by its id or its words, or else is of the same application, version and
        hour.
        """
        carrying = carrying[carrying < len(self._asked)]
        without = ~self._bad
        without[carrying] = False
        own = carrying[self._bad[carrying]]
        own = own[np.argsort(-self._badness[own], kind="stable")]
        bad: list[int] = []
        good: list[int] = []
        for place in own.tolist():
            if len(bad) == EXAMPLES:
                break
            if self._session[place] >= 0 and any(self._session[place] == self._session[each] for each in bad):
                continue
            bad.append(place)
            if (other := self._beside(place, without)) is not None:
                without[other] = False
                good.append(other)
        return self._named(bad), self._named(good)

    def _beside(self, place: int, without: NDArray[np.bool_]) -> int | None:
        asked = without & (self._question == self._question[place]) & (self._question >= 0)
        if asked.any():
            return int(np.argmax(asked))
        alike = without & (self._stratum == self._stratum[place]).all(axis=1)
        found = alike if alike.any() else without
        return int(np.argmin(np.where(found, self._badness, np.inf))) if found.any() else None

    def _named(self, places: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._ids[self._asked[each]] for each in places)
