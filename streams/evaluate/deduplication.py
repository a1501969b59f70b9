"""Duplicates: an id that occurred shortly before on the same partition, as when a producer sends an event again.

Only the positions of events count, not what was done with them before, so that the outcome is the same whatever
crashed. Each id is kept as 16 bytes of its hash: about 2.5 MB for 10,000 of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from ragweir.streams.records import EventPosition, TopicPartition

_Ids = dict[bytes, EventPosition]
"""The position at which each id occurred last, in the order of positions."""


@dataclass(slots=True)
class _PartitionIds:
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
    >>> [duplicates.seen(("t", 0), position, "a") for position in ((0, 0), (0, 0), (0, 1), (10, 0), (21, 0))]
    [False, False, True, True, False]
    """

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self._lanes: dict[TopicPartition, _PartitionIds] = {}

    def seen(self, place: TopicPartition, position: EventPosition, event_id: str) -> bool:
        """Return whether the id occurred within the horizon before this position; from now on it occurred here."""
        if not self.horizon:
            return False
        lane = self._lanes.setdefault(place, _PartitionIds())
        name = _name(event_id)
        last = lane.pending.pop(name, None)
        if last is None:
            last = lane.ids.get(name)
        lane.pending[name] = position
        return last is not None and last < position and position[0] - last[0] <= self.horizon

    def advance(self, place: TopicPartition, offset: int) -> None:
        """A partition has been read up to here."""
        if self.horizon:
            self._lanes.setdefault(place, _PartitionIds()).reached = offset + 1

    def settled(self, *, committed: bool) -> None:
        """Keep what the batch brought, or forget it."""
        for lane in self._lanes.values():
            if committed:
                lane.next_offset = lane.reached
                _take(lane, self.horizon)
            else:
                lane.reached = lane.next_offset
            lane.pending = {}

    def restore(self, place: TopicPartition, start: int, before: Iterable[tuple[EventPosition, str]]) -> None:
        """Take a partition over.

        Args:
            place: which.
            start: where reading begins.
            before: the positions and ids of the events before that, in order, within the horizon; not read if the
                partition comes back where it was left.
        """
        lane = self._lanes.get(place)
        if lane is not None and lane.next_offset == start:
            return
        lane = self._lanes[place] = _PartitionIds(start, start)
        for position, event_id in before:
            name = _name(event_id)
            lane.ids.pop(name, None)
            lane.ids[name] = position

    def drop(self, places: Collection[TopicPartition]) -> None:
        """Partitions were given up; what is known of them stays, in case they come back where they were left."""
        for place in places:
            if place in self._lanes:
                self._lanes[place].pending = {}


def _take(lane: _PartitionIds, horizon: int) -> None:
    ids = lane.ids
    if not lane.pending:
        return
    for name, position in lane.pending.items():
        ids.pop(name, None)
        ids[name] = position
    bound = next(reversed(ids.values()))[0] + 1 - horizon
    while ids and (oldest := next(iter(ids.items())))[1][0] < bound:
        del ids[oldest[0]]


def _name(event_id: str) -> bytes:
    return blake2b(event_id.encode(), digest_size=16).digest()
