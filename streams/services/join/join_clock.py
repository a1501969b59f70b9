"""The clock of `join`: the time up to which all source partitions have been read, by the marks that `key` writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from ragweir.errors import Rejected
from ragweir.schemas.assembly import ClockMark, SourceMark

MAX_TIME_MS = 2**53
"""The latest time that is read, in epoch milliseconds: JSON numbers are exact below it."""


@dataclass(frozen=True, slots=True)
class JoinClock:
    """The newest marks of all source partitions, and the time that follows from them. It is replaced, never changed.

    The time is the minimum over all source partitions. It never decreases, and stands still while a source partition
    has no mark, such as a new one.

    >>> def mark(partition: int, time_ms: int) -> ClockMark:
    ...     newest = SourceMark(topic="otlp", partition=partition, time_ms=time_ms, caught_up=True)
    ...     return ClockMark(sources={"otlp": 2}, marks=(newest,))
    >>> clock = JoinClock()
    >>> for each in (mark(0, 50), mark(1, 40), mark(0, 90)):
    ...     clock = clock.after(each)
    ...     print(clock.time_ms)
    0
    40
    40
    """

    marks: tuple[SourceMark, ...] = ()
    """The newest mark of each source partition, in their order."""
    sources: Mapping[str, int] = field(default_factory=dict)
    """The number of partitions of each source topic, as in the newest mark."""
    time_ms: int = 0
    """The time, in epoch milliseconds; 0 before all source partitions have a mark."""

    def after(self, mark: ClockMark) -> JoinClock:
        """Return the clock after a mark; one of no partition changes nothing."""
        if not mark.marks:
            return self
        sources = mark.sources
        newest = {(each.topic, each.partition): each for each in self.marks}
        for each in mark.marks:
            before = newest.get((each.topic, each.partition))
            if before is None or before.time_ms <= each.time_ms:
                newest[each.topic, each.partition] = each
        known = {at: each for at, each in newest.items() if 0 <= at[1] < sources.get(at[0], 0)}
        time_ms = self.time_ms
        if known and len(known) == sum(sources.values()):
            time_ms = max(time_ms, min(each.time_ms for each in known.values()))
        return JoinClock(tuple(known[at] for at in sorted(known)), sources, time_ms)


def read_mark(value: bytes | None) -> ClockMark:
    """Read a clock mark.

    Raises:
        Rejected: if it is none.
    """
    if value is None:
        raise Rejected("tombstone", "the record has neither a key nor a value")
    try:
        mark = ClockMark.model_validate_json(value)
    except ValidationError:
        raise Rejected("invalid", "a record without a key, which is no clock mark") from None
    if any(count < 0 for count in mark.sources.values()):
        raise Rejected("invalid", "a clock mark with a negative number of partitions")
    if any(not 0 <= each.time_ms < MAX_TIME_MS for each in mark.marks):
        raise Rejected("invalid", "a clock mark with a time that is out of range")
    return mark
