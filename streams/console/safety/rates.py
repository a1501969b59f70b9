"""A limit on how often one person may do a thing: so many at once, and so many a second after that."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from ragweir.streams.runtime.machine import machine

_MOST_PEOPLE = 1_024
"""People who are remembered; the one who was seen least recently is forgotten first."""


class Rate:
    """A rate limit for each person, as a bucket of tokens.

    >>> now = [0.0]
    >>> rate = Rate(at_once=2, per_second=0.5, clock=lambda: now[0])
    >>> [rate.admits("Ada") for _ in range(3)], rate.admits("Bo")
    ([True, True, False], True)
    >>> now[0] += 2
    >>> rate.admits("Ada"), rate.admits("Ada")
    (True, False)

    Args:
        at_once: number of times at once.
        per_second: number of times a second after that.
        clock: seconds that never go back.
    """

    def __init__(self, at_once: int, per_second: float, clock: Callable[[], float] = machine.monotonic) -> None:
        self._most, self._per_second, self._clock = at_once, per_second, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The number of times that each person had left, and when that was."""

    def admits(self, person: str) -> bool:
        """Return whether a person may do it once more, and count it."""
        now = self._clock()
        left, at = self._left.pop(person, (float(self._most), now))
        left = min(float(self._most), left + (now - at) * self._per_second)
        self._left[person] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _MOST_PEOPLE:
            self._left.popitem(last=False)
        return left >= 1
