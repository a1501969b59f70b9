"""The times of windows: their start, their close, and how long a partition holds them."""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta

from ragweir.schemas.window import duration_s
from ragweir.streams.settings import WindowSettings

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WINDOWS_AHEAD = 60
"""Windows after the newest that are held too, for clocks that are ahead: event time does not reach them yet."""


def has_windows(time: datetime) -> bool:
    """Return whether there is room for windows around a time: not at either end of the calendar."""
    return MINYEAR < time.year < MAXYEAR


def start_of(time: datetime, length: timedelta) -> datetime:
    """Return the start of the window of a length that a time falls into.

    >>> start_of(datetime(2026, 11, 22, 10, 7, tzinfo=UTC), timedelta(minutes=5)).isoformat()
    '2026-11-22T10:05:00+00:00'
    """
    return time - (time - EPOCH) % length


def microseconds(time: datetime) -> int:
    """Return the microseconds of a time since 1970.

    >>> microseconds(datetime(1970, 1, 1, 0, 1, tzinfo=UTC))
    60000000
    """
    return (time - EPOCH) // timedelta(microseconds=1)


FIRST_US = microseconds(datetime(MINYEAR + 1, 1, 1, tzinfo=UTC))
END_US = microseconds(datetime(MAXYEAR, 1, 1, tzinfo=UTC))
"""The first time around which there is room for windows, and the first one after it without, as in `has_windows`."""


class WindowTimes:
    """The times of the base windows of a partition, given its newest event time."""

    def __init__(self, windows: WindowSettings) -> None:
        self.size = timedelta(seconds=duration_s(windows.sizes[0]))
        self._disorder = timedelta(seconds=windows.disorder_s)
        self._closes_after = self.size + timedelta(seconds=windows.grace_s)
        self.late_after_us = microseconds(EPOCH + self._disorder + self._closes_after)
        """Microseconds from the start of a window to the newest event time after which it is closed."""
        self._held_before = self._disorder + timedelta(hours=windows.hold_h) + self.size
        self._held_after = _WINDOWS_AHEAD * self.size
        self.most_held = int((self._held_before + self.size) / self.size)
        """The number of windows that are held where no clock is ahead."""

    def watermark(self, newest: datetime | None) -> datetime | None:
        """Return the watermark: the newest event time less the disorder."""
        return None if newest is None else newest - self._disorder

    def newest(self, watermark: datetime | None) -> datetime | None:
        """Return the newest event time of a watermark."""
        return None if watermark is None else watermark + self._disorder

    def is_closed(self, start: datetime, watermark: datetime | None) -> bool:
        """Return whether the watermark has passed the end of the window that starts then, and the grace after it."""
        return watermark is not None and start + self._closes_after <= watermark

    def is_current(self, start: datetime, newest: datetime | None) -> bool:
        """Return whether most events still go to the window that starts then."""
        return newest is not None and start <= newest and not self.is_closed(start, self.watermark(newest))

    def is_held(self, start: datetime, newest: datetime | None) -> bool:
        """Return whether a window is held: from `hold_h` before the watermark to a little after the newest event."""
        return newest is None or -self._held_before < start - newest <= self._held_after
