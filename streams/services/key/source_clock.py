"""The clocks of source partitions: the times up to which `key` has read them, which its marks tell `join`.

A mark must not be later than a record that is still to be read, or `join` would close traces whose spans wait there. So
there are two sources of it, and the later one counts:

- the time at which the partition's end was confirmed, see `ragweir.streams.runtime.agent_parts.InputProgress.on_ends`;
- before the end is reached, the median of the timestamps of the newest records. A minority of producers whose clocks
  are wrong cannot move it. Timestamps in the future show no progress and are left out.

A clock never goes back. Its time is committed with the offset, so that the next owner of the partition goes on from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median_low

_NEWEST = 63
"""Number of the newest timestamps whose median counts."""
_FEWEST = 9
"""Number of timestamps below which one producer may be the majority, so that their median does not count."""


@dataclass(frozen=True, slots=True)
class SourceClock:
    """The clock of one partition after a transaction.

    >>> clock = SourceClock().advance(list(range(100, 120)), None, 1_000)
    >>> clock.time_ms, clock.caught_up
    (109, False)
    >>> clock = clock.advance([], 500, 1_000)
    >>> clock.time_ms, clock.caught_up
    (500, True)
    >>> clock.advance([400] * 100, None, 1_000).time_ms
    500
    """

    time_ms: int | None = None
    """Time up to which the partition was read, in epoch milliseconds; None while it is unknown."""
    caught_up: bool = False
    """True if the partition was read to its end at that time."""
    newest: tuple[int, ...] = ()
    """Timestamps of the newest records."""

    def advance(self, timestamps: Sequence[int], confirmed_ms: int | None, now_ms: int) -> SourceClock:
        """Return the clock after more records.

        Args:
            timestamps: the timestamps of the records, without those in the future.
            confirmed_ms: the time at which the end was confirmed; None if it was not.
            now_ms: the current time.
        """
        newest = tuple(deque((*self.newest, *timestamps), _NEWEST)) if timestamps else self.newest
        times = [(median_low(newest), False)] if timestamps and len(newest) >= _FEWEST else []
        times += [(confirmed_ms, True)] if confirmed_ms is not None else []
        advanced = replace(self, newest=newest)
        for time_ms, caught_up in times:
            if advanced.time_ms is None or min(time_ms, now_ms) > advanced.time_ms:
                advanced = replace(advanced, time_ms=min(time_ms, now_ms), caught_up=caught_up)
        return advanced
