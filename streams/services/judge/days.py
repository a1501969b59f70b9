"""The days (UTC) on which costs are booked, for the agent and for the thread that makes calls."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

AHEAD_S = 600.0
"""Seconds before midnight in which jobs reserve on the next day too: most of them end within this time."""


def day_of(now_s: float) -> str:
    """Return the day (UTC) of a time in epoch seconds.

    >>> day_of(0)
    '1970-01-01'
    """
    return datetime.fromtimestamp(now_s, UTC).date().isoformat()


def next_day(day: str) -> datetime:
    """Return the start of the day after.

    >>> next_day("2026-12-31").isoformat()
    '2027-01-01T00:00:00+00:00'
    """
    return datetime.combine(date.fromisoformat(day) + timedelta(days=1), datetime.min.time(), UTC)


class DayClock:
    """Returns the current day. Between two calls of `set` it follows a monotonic clock; any thread may call it.

    No day before the newest in the ledger is returned: after a clock was ahead for a while, each of the days in between
    would spend a budget. Entries of tomorrow do not count shortly before midnight, when jobs reserve on both days.

    Args:
        clock: monotonic seconds.
        fixed: the day on which all costs are booked; None if the days follow the time.

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
        self._set = 0.0, ""
        """The time less the clock's, and the newest day of the ledger: one tuple, so that threads see both change."""

    def set(self, now_s: float, newest: str) -> None:
        """Set the time, in epoch seconds, and the newest day of the ledger."""
        self._set = now_s - self._clock(), newest

    def today(self) -> str:
        """Return the day on which a call is booked that is sent now."""
        return self._day(0.0)

    def days(self) -> tuple[str, ...]:
        """Return the days on which a job reserves that starts now: today, and shortly before midnight tomorrow."""
        return tuple(dict.fromkeys((self._day(0.0), self._day(AHEAD_S))))

    def _day(self, ahead_s: float) -> str:
        if self._fixed is not None:
            return self._fixed
        ahead_of_clock_s, newest = self._set
        now_s = ahead_of_clock_s + self._clock()
        floor = newest if newest > day_of(now_s + AHEAD_S) else ""
        return max(day_of(now_s + ahead_s), floor)
