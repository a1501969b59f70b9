"""Duplicates: an id that occurred shortly before on the same partition, as when a producer sends an event again.

What counts is the place of the record that was read, not what was done with it before, so that the outcome is the same
whatever crashed. Each id is kept as 16 bytes of its hash: about 2 MB for 10,000 of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from ragweir.streams.records import TopicPartition

_Ids = dict[bytes, int]
"""The offset at which each id occurred last, in the order of offsets."""


@dataclass(slots=True)
class _Lane:
    """One partition."""

    next_offset: int = 0
    """Behind what is committed."""
    reached: int = 0
    ids: _Ids = field(default_factory=dict)
    pending: _Ids = field(default_factory=dict)
    """Of the batch in hand, which may have to be forgotten."""


class Duplicates:
    """Recognises ids that occurred in the last offsets of their partition.

    Args:
        horizon: how many offsets back an id counts; with 0 nothing is a duplicate.

    >>> duplicates = Duplicates(horizon=10)
    >>> [duplicates.met(("t", 0), offset, "a") for offset in (0, 10, 21)]
    [False, True, False]
    """

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self._lanes: dict[TopicPartition, _Lane] = {}

    def met(self, place: TopicPartition, offset: int, event_id: str) -> bool:
        """Whether the id occurred within the horizon before this offset; from now on it occurred here."""
        if not self.horizon:
            return False
        lane = self._lanes.setdefault(place, _Lane())
        name = _name(event_id)
        last = lane.pending.pop(name, None)
        if last is None:
            last = lane.ids.get(name)
        lane.pending[name] = offset
        return last is not None and offset - last <= self.horizon

    def passed(self, place: TopicPartition, offset: int) -> None:
        """A partition has been read up to here."""
        if self.horizon:
            self._lanes.setdefault(place, _Lane()).reached = offset + 1

    def settled(self, *, committed: bool) -> None:
        """Keep what the batch brought, or forget it."""
        for lane in self._lanes.values():
            if committed:
                lane.next_offset = lane.reached
                _take(lane, self.horizon)
            else:
                lane.reached = lane.next_offset
            lane.pending = {}

    def restore(self, place: TopicPartition, start: int, before: Iterable[tuple[int, str]]) -> None:
        """Take a partition over.

        Args:
            place: which.
            start: where reading begins.
            before: the offsets and ids of what stands before that, in order, within the horizon; not read if the
                partition comes back where it was left.
        """
        lane = self._lanes.get(place)
        if lane is not None and lane.next_offset == start:
            return
        lane = self._lanes[place] = _Lane(start, start)
        for offset, event_id in before:
            name = _name(event_id)
            lane.ids.pop(name, None)
            lane.ids[name] = offset

    def drop(self, places: Collection[TopicPartition]) -> None:
        """Partitions were given up; what is known of them stays, in case they come back where they were left."""
        for place in places:
            if place in self._lanes:
                self._lanes[place].pending = {}


def _take(lane: _Lane, horizon: int) -> None:
    ids = lane.ids
    if not lane.pending:
        return
    for name, offset in lane.pending.items():
        ids.pop(name, None)
        ids[name] = offset
    bound = next(reversed(ids.values())) + 1 - horizon
    while ids and (oldest := next(iter(ids.items())))[1] < bound:
        del ids[oldest[0]]


def _name(event_id: str) -> bytes:
    return blake2b(event_id.encode(), digest_size=16).digest()
