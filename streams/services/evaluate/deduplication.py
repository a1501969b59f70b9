"""Duplicates: events whose id occurred shortly before on the same partition, as when a producer sends an event again.

Only the positions of events count, so a crash does not change the result. Each id is kept as 16 bytes of its hash:
about 2.5 MB for 10,000 of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from ragweir.streams.runtime.records import EventPosition, TopicPartition

_Ids = dict[bytes, EventPosition]
"""The last position of each id, in the order of positions."""


@dataclass(slots=True)
class _PartitionIds:
    next_offset: int = 0
    """The offset after the committed records."""
    reached: int = 0
    """The offset after the records that were read."""
    ids: _Ids = field(default_factory=dict)
    pending: _Ids = field(default_factory=dict)
    """The ids of the current batch."""

    def add(self, ids: Iterable[tuple[bytes, EventPosition]]) -> None:
        """Add the positions of ids, which become the newest."""
        for name, position in ids:
            self.ids.pop(name, None)
            self.ids[name] = position


class Duplicates:
    """Recognises ids that occurred in the last offsets of their partition.

    Args:
        horizon: the number of offsets back within which an id counts; with 0 no event is a duplicate.

    >>> duplicates = Duplicates(horizon=10)
    >>> [duplicates.seen(("t", 0), position, "a") for position in ((0, 0), (0, 0), (0, 1), (10, 0), (21, 0))]
    [False, False, True, True, False]
    """

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self._partitions: dict[TopicPartition, _PartitionIds] = {}

    def seen(self, topic_partition: TopicPartition, position: EventPosition, event_id: str) -> bool:
        """Return whether the id occurred within the horizon before this position, and record that it occurred here."""
        if not self.horizon:
            return False
        partition = self._partitions.setdefault(topic_partition, _PartitionIds())
        name = _digest(event_id)
        last = partition.pending.pop(name, None)
        if last is None:
            last = partition.ids.get(name)
        partition.pending[name] = position
        return last is not None and last < position and position[0] - last[0] <= self.horizon

    def advance(self, topic_partition: TopicPartition, offset: int) -> None:
        """Record that a partition has been read up to an offset."""
        if self.horizon:
            self._partitions.setdefault(topic_partition, _PartitionIds()).reached = offset + 1

    def commit(self) -> None:
        """Keep the ids of the current batch, and forget those beyond the horizon."""
        for partition in self._partitions.values():
            partition.next_offset = partition.reached
            if partition.pending:
                ids = partition.ids
                partition.add(partition.pending.items())
                bound = next(reversed(ids.values()))[0] + 1 - self.horizon
                while ids and (oldest := next(iter(ids.items())))[1][0] < bound:
                    del ids[oldest[0]]
            partition.pending = {}

    def abort(self) -> None:
        """Forget the ids of the current batch."""
        for partition in self._partitions.values():
            partition.reached, partition.pending = partition.next_offset, {}

    def restore(
        self, topic_partition: TopicPartition, start: int, preceding: Iterable[tuple[EventPosition, str]]
    ) -> None:
        """Take a partition over whose reading begins at an offset.

        The preceding positions and ids, in order, are not read if the partition returns at the offset of its state.
        """
        partition = self._partitions.get(topic_partition)
        if partition is None or partition.next_offset != start:
            partition = self._partitions[topic_partition] = _PartitionIds(start, start)
            partition.add((_digest(event_id), position) for position, event_id in preceding)

    def drop(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Give partitions up. Their ids are kept, in case they return at the same offset."""
        for each in topic_partitions:
            if each in self._partitions:
                self._partitions[each].pending = {}


def _digest(event_id: str) -> bytes:
    return blake2b(event_id.encode(), digest_size=16).digest()
