"""Limits the time for which records wait for schemas that the registry may not have, by the source of the records."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

WAIT_SECONDS = 60.0
"""Time for which a source may wait."""
REGAINED = 0.1
"""The part of all time that a source regains."""
MAX_SOURCES = 10_000
"""Maximum number of sources that are known; the one that has not waited for longest is forgotten."""
_MAX_STEP_SECONDS = 1.0
"""The longest time between two calls of a source that waits."""


@dataclass(slots=True)
class _Waited:
    at_s: float
    seconds: float = 0.0
    waits: bool = False


class WaitBudget:
    """The times for which sources have waited.

    >>> budget = WaitBudget()
    >>> [budget.may_wait("a", float(second)) for second in (0, 1, 66, 67)]
    [True, True, True, True]
    >>> any(budget.may_wait("a", 68.0 + second) for second in range(60, 80)), budget.may_wait("b", 90.0)
    (True, True)
    """

    def __init__(self) -> None:
        self._sources: OrderedDict[Hashable, _Waited] = OrderedDict()

    def may_wait(self, source: Hashable, now_s: float, *, is_counted: bool = True) -> bool:
        """Return whether a source may wait from now on; it is called again while it does.

        Args:
            source: the source.
            now_s: monotonic seconds.
            is_counted: False if the time until the next call is not limited.
        """
        waited = self._sources.setdefault(source, _Waited(now_s))
        self._sources.move_to_end(source)
        if len(self._sources) > MAX_SOURCES:
            self._sources.popitem(last=False)
        passed_s = now_s - waited.at_s
        lost_s = min(passed_s, _MAX_STEP_SECONDS) if waited.waits else 0.0
        waited.at_s, waited.seconds = now_s, max(0.0, waited.seconds + lost_s - REGAINED * passed_s)
        may = waited.seconds < WAIT_SECONDS or not is_counted
        waited.waits = may and is_counted
        return may
