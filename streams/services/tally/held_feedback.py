"""The newest feedback of each answer, name and giver of a partition, and the windows that count it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from itertools import takewhile
from struct import Struct
from sys import intern
from typing import NamedTuple

from ragweir.schemas.feedback import FeedbackValue, KeyedFeedback, joined_key

Labels = tuple[tuple[str, str], ...]
"""The value of each dimension."""
OTHER = "__other__"
"""The value that counts those beyond the most of a window."""
_MOST_VALUES = 100
_ORDER = Struct(">QQIQ")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_BEFORE_EPOCH = 2**62
"""Added to times, so that those before 1970 are no negative numbers."""


class WindowOf(NamedTuple):
    """The window of an answer."""

    start: datetime
    """The hour of the answer, in UTC."""
    labels: Labels


class Held(NamedTuple):
    """The newest feedback of one answer, name and giver."""

    order: bytes
    """Ordered as `ReceivedFeedback.order`, in less memory."""
    window: WindowOf
    name: str
    value: str | None
    """The value as it is counted; None if the feedback was taken back."""
    written_ms: int
    """Timestamp of its record, epoch milliseconds."""


def counted_value(value: FeedbackValue) -> str | None:
    """Return the text under which a value is counted: numbers have three significant digits; None for null.

    >>> counted_value(True), counted_value(4), counted_value(0.123456), counted_value("down"), counted_value(None)
    ('true', '4', '0.123', 'down', None)
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:.3g}"
    return value


def packed_order(feedback: KeyedFeedback) -> bytes:
    """Return the order of feedback as bytes."""
    time, received, partition, offset = feedback.order
    times = [(each - _EPOCH) // _MICROSECOND + _BEFORE_EPOCH for each in (time, received)]
    return _ORDER.pack(*times, partition, offset)


def window_of(feedback: KeyedFeedback) -> WindowOf:
    """Return the window of feedback: the hour of its answer, and the answer's dimensions."""
    start = feedback.event_time.replace(minute=0, second=0, microsecond=0)
    return WindowOf(start, tuple(feedback.dimensions.items()))


@lru_cache(maxsize=4_096)
def _shared(window: WindowOf) -> WindowOf:
    """Return the same window as before: many feedback has it."""
    return window


def short_key(feedback: KeyedFeedback) -> bytes:
    """Return what stands for an answer, name and giver in memory: 128 bits of a hash."""
    return blake2b(joined_key(feedback.event_id, feedback.name, feedback.giver), digest_size=16).digest()


class HeldFeedback:
    """The state of one partition: the newest feedback by key, oldest record first, and the counts by window."""

    def __init__(self) -> None:
        self.newest: dict[bytes, Held] = {}
        self.counts: dict[WindowOf, dict[str, dict[str, int]]] = {}

    @staticmethod
    def held_of(feedback: KeyedFeedback, written_ms: int) -> Held:
        """Return feedback as it is held; feedback of one window shares it."""
        value = counted_value(feedback.value)
        return Held(
            packed_order(feedback),
            _shared(window_of(feedback)),
            intern(feedback.name),
            value and intern(value),
            written_ms,
        )

    def put(self, key: bytes, held: Held) -> Held | None:
        """Hold feedback in place of an earlier one, which is returned; None if there was none."""
        before = self.newest.pop(key, None)
        self.newest[key] = held
        if before is not None:
            self._count(before, -1)
        self._count(held, 1)
        return before

    def undo(self, key: bytes, before: Held | None) -> None:
        """Hold what was held before `put`."""
        self._count(self.newest.pop(key), -1)
        if before is not None:
            self.newest[key] = before
            self._count(before, 1)

    def _count(self, held: Held, number: int) -> None:
        if held.value is not None:
            names = self.counts.setdefault(held.window, {})
            values = names.setdefault(held.name, {})
            values[held.value] = values.get(held.value, 0) + number
            if not values[held.value]:
                del values[held.value]
            if not values:
                del names[held.name]
            if not names:
                del self.counts[held.window]

    def categories(self, window: WindowOf) -> dict[str, dict[str, int]]:
        """Return the counts of a window by name and value, of each name the most frequent values and the others."""
        found: dict[str, dict[str, int]] = {}
        for name, values in sorted(self.counts.get(window, {}).items()):
            ranked = sorted(values.items(), key=lambda each: (-each[1], each[0]))
            found[name] = dict(sorted(ranked[:_MOST_VALUES]))
            if rest := sum(number for _, number in ranked[_MOST_VALUES:]):
                found[name][OTHER] = found[name].get(OTHER, 0) + rest
        return found

    def forget(self, before_ms: int) -> None:
        """Forget feedback whose records are older; it counts in no window any more."""
        old = list(takewhile(lambda key: self.newest[key].written_ms < before_ms, self.newest))
        for key in old:
            self._count(self.newest.pop(key), -1)
