"""The days (UTC) on which costs are booked: by a time that the agent is told, for it and for the thread that calls."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

AHEAD_S = 600.0
"""The time in seconds before midnight from which jobs reserve on the next day too: most of them end within it."""


def day_of(now_s: float) -> str:
    """The day (UTC) of a time, as budgets know it.

    >>> day_of(0)
    '1970-01-01'
    """
    return datetime.fromtimestamp(now_s, UTC).date().isoformat()


def next_day(day: str) -> datetime:
    """When the day after begins.

    >>> next_day("2026-12-31").isoformat()
    '2027-01-01T00:00:00+00:00'
    """
    return datetime.combine(date.fromisoformat(day) + timedelta(days=1), datetime.min.time(), UTC)


class DayClock:
    """Says which day it is. It goes on by a monotonic clock between two calls of `set`; any thread may ask it.

    A day that the ledger knows is not followed by an earlier one, whatever becomes of the time: else a clock that was
    ahead for a while would have each of the days in between spend a budget. Entries of tomorrow are no sign of that
    shortly before midnight, when jobs reserve on both days.

    Args:
        clock: seconds that never go back.
        fixed: the one day on which all costs are booked; without one the days follow the time.

    >>> days = DayClock(lambda: 0.0)
    >>> days.set(3 * 86_400 - 60.0, newest="1970-01-04")
    >>> days.today(), days.days()
    ('1970-01-03', ('1970-01-03', '1970-01-04'))
    >>> days.set(86_400.0, newest="1970-01-04")
    >>> days.days()
    ('1970-01-04',)
    """

    def __init__(self, clock: Callable[[], float], fixed: str | None = None) -> None:
        self._clock, self._fixed = clock, fixed
        self._told = 0.0, ""
        """The time less the clock's, and the newest day of the ledger: one value, so that no thread sees half of it."""

    def set(self, now_s: float, newest: str) -> None:
        """Take note of the time, in epoch seconds, and of the newest day that the ledger knows."""
        self._told = now_s - self._clock(), newest

    def today(self) -> str:
        """Return the day on which a call is booked that goes out now."""
        return self._day(0.0)

    def days(self) -> tuple[str, ...]:
        """Return the days on which a job reserves that begins now: today, and the next shortly before midnight."""
        return tuple(dict.fromkeys((self._day(0.0), self._day(AHEAD_S))))

    def _day(self, ahead_s: float) -> str:
        if self._fixed is not None:
            return self._fixed
        ahead_of_clock_s, newest = self._told
        now_s = ahead_of_clock_s + self._clock()
        floor = newest if newest > day_of(now_s + AHEAD_S) else ""
        return max(day_of(now_s + ahead_s), floor)
