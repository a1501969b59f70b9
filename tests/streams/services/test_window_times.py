"""Windows are held from `hold_h` before the watermark to a little after the newest event."""

from datetime import UTC, datetime, timedelta

import pytest

from ragweir.streams.services.aggregate.window_times import WindowTimes
from ragweir.streams.settings import WindowSettings

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize("hold_h", [0.5, 2.0])
@pytest.mark.parametrize("disorder_s", [0.0, 45.0])
def test_a_window_is_held_until_the_watermark_is_as_far_behind_its_end(hold_h: float, disorder_s: float) -> None:
    times = WindowTimes(WindowSettings(hold_h=hold_h, disorder_s=disorder_s))
    newest = times.newest(NOON + times.size + timedelta(hours=hold_h))
    assert newest is not None
    assert times.is_held(NOON, newest - MICROSECOND)
    assert not times.is_held(NOON, newest)


def test_a_window_that_is_ahead_of_the_newest_event_is_held_up_to_the_limit() -> None:
    """Clocks of producers differ."""
    times = WindowTimes(WindowSettings())
    last = NOON + times._held_after
    assert times.is_held(last, NOON)
    assert not times.is_held(last + MICROSECOND, NOON)
    assert times.is_held(last + timedelta(days=9), None), "nothing is known yet"


@pytest.mark.parametrize("second", [0, 1, 30, 59])
def test_no_more_windows_are_held_than_the_bound_says(second: int) -> None:
    times = WindowTimes(WindowSettings(hold_h=0.5))
    newest = NOON + timedelta(seconds=second)
    starts = [NOON + number * times.size for number in range(-200, 1)]
    held = [start for start in starts if times.is_held(start, newest)]
    assert times.most_held - 1 <= len(held) <= times.most_held
