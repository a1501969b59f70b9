"""The interface through which blame reads events, of files and of the topic `documents` alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class EventTable(Protocol):
    """Events with verdicts of one criterion, and the values that they carry."""

    @property
    def with_events(self) -> bool:
        """True if the interactions were read as well."""

    @property
    def lacking_events(self) -> int:
        """Number of evaluations whose interactions were not read."""

    @property
    def unknown(self) -> frozenset[str]:
        """The facets whose values are not known."""

    @property
    def ids(self) -> Sequence[str]:
        """The id of each event, or the place of its interaction."""

    @property
    def times(self) -> Any:
        """Times of the events, in seconds."""

    @property
    def values(self) -> Sequence[Any]:
        """Values of the criterion's metric, as the only element."""

    def __len__(self) -> int:
        """Return the number of events, with and without a verdict."""

    def asked(self) -> NDArray[np.int64]:
        """Return the events that have a verdict."""

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the events that have a verdict."""

    def taken_pairs(self) -> NDArray[np.uint64]:
        """Return the values that the events carry, see `ragweir.metrics.cause.servings.paired`.

        It is called once: the caller may change them.
        """
