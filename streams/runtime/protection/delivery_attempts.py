"""Delivery attempts: the number of processes that have died on the records after a committed offset.

The count is part of the offset's metadata. Before a process handles the first records of a partition, it commits the
unchanged offset with a count one higher; the commit of any progress resets the count to 0. A process that finds a count
above 0 replaces one that ended before it had handled its first records, and these records are suspects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.streams.runtime.records import Record, TopicPartition
from ragweir.streams.runtime.recovery.offset_metadata import MAX_COUNT, MAX_NOTE, OffsetMetadata

MAX_ATTEMPTS = 8
"""The attempts after which an agent that has no canary stops for good."""
_NONE = OffsetMetadata()


class DeliveryAttempts:
    """Counts the attempts of each held partition across processes.

    >>> attempts, start = DeliveryAttempts(), PartitionOffset("t", 0, 5, '{"attempts":1,"until":9}')
    >>> attempts.on_assigned(start, OffsetMetadata.parse(start.metadata)).attempts
    1
    >>> records = [Record("t", 0, offset, None, b"", None) for offset in (8, 9)]
    >>> attempts.suspects(records)
    [0]
    >>> attempts.begin(records, now_s=0.0)
    True
    >>> [each.metadata for each in attempts.with_metadata([start], {("t", 0): 5})]
    ['{"attempts":2,"until":10}']
    >>> moved = attempts.with_metadata([PartitionOffset("t", 0, 10)], {("t", 0): 5})
    >>> [each.metadata for each in moved]
    ['']
    """

    def __init__(self) -> None:
        self._stored: dict[TopicPartition, OffsetMetadata] = {}
        self._next: dict[TopicPartition, OffsetMetadata] = {}
        """The metadata that the next commit of each held partition writes, unless its offset moves."""
        self._started_s: dict[TopicPartition, float] = {}
        """The partitions whose first records this process handles, with the time at which it began."""
        self._survived: set[TopicPartition] = set()
        """The partitions whose first records this process has survived."""
        self.uncommitted = False
        """True while metadata has changed since the last commit."""

    @property
    def in_progress(self) -> bool:
        """True while this process handles the first records of some partition."""
        return bool(self._started_s)

    def on_assigned(self, start: PartitionOffset, stored: OffsetMetadata) -> OffsetMetadata:
        """Add a partition that starts at an offset, and return the metadata that is valid there.

        Args:
            start: the offset at which reading begins.
            stored: the metadata of the committed offset.
        """
        partition = start.topic, start.partition
        if stored.until <= start.offset:  # Reading begins after the suspects.
            stored = stored.without_attempts()
        self._stored[partition] = self._next[partition] = stored
        self._started_s.pop(partition, None)
        self._survived.discard(partition)
        return stored

    def on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions."""
        for partition in partitions:
            for table in (self._stored, self._next, self._started_s):
                table.pop(partition, None)
            self._survived.discard(partition)

    def suspects(self, records: Sequence[Record]) -> list[int]:
        """Return the indices of the records on which another process may have died."""
        until = {partition: stored.until for partition, stored in self._stored.items() if stored.attempts > 0}
        if not until:
            return []
        return [number for number, each in enumerate(records) if each.offset < until.get(each.topic_partition, 0)]

    def are_first(self, records: Iterable[Record]) -> bool:
        """Return whether some of the records are the first ones of their partition that this process handles."""
        partitions = {record.topic_partition for record in records}
        return not all(each in self._started_s or each in self._survived for each in partitions)

    def begin(self, records: Sequence[Record], now_s: float) -> bool:
        """Count an attempt for records before they are handled; return whether metadata must be committed first."""
        ends = {record.topic_partition: record.offset + 1 for record in records}
        for partition, end in ends.items():
            if partition in self._started_s or partition in self._survived:
                continue
            stored = self._stored.get(partition, _NONE)
            attempts, until = min(stored.attempts + 1, MAX_COUNT), max(stored.until, end)
            self._next[partition] = stored.model_copy(update={"attempts": attempts, "until": until})
            self._started_s[partition] = now_s
            self.uncommitted = True
        return bool(records) and self.uncommitted

    def mark_fatal(self, record: Record) -> None:
        """Store that a record becomes a dead letter of class `fatal`."""
        partition = record.topic_partition
        self._next[partition] = self._next.get(partition, _NONE).with_fatal(record.offset)

    def survive(self, is_safe: Callable[[TopicPartition, float, int], bool]) -> bool:
        """Reset the partitions that are safe by their time of begin and their count; return whether there are any."""
        safe = [
            each for each, started_s in self._started_s.items() if is_safe(each, started_s, self._next[each].attempts)
        ]
        for partition in safe:
            self._reset(partition)
        return bool(safe)

    def withdraw(self) -> bool:
        """Take back the attempts in progress, as the process stops in good order; return whether there were any."""
        for partition in self._started_s:
            stored, metadata = self._stored.get(partition, _NONE), self._next[partition]
            self._next[partition] = metadata.model_copy(update={"attempts": stored.attempts, "until": stored.until})
        withdrawn = bool(self._started_s)
        self.uncommitted |= withdrawn
        self._started_s.clear()
        return withdrawn

    def with_metadata(
        self,
        offsets: Iterable[PartitionOffset],
        committed: Mapping[TopicPartition, int],
        note: Callable[[TopicPartition], str] = lambda _: "",
    ) -> list[PartitionOffset]:
        """Return offsets to commit, each with its metadata.

        Args:
            offsets: the next offset of each partition.
            committed: the offsets that are committed now; a partition whose offset moves has no attempts.
            note: returns the agent's note of a partition.
        """

        def metadata(at: PartitionOffset) -> str:
            partition = at.topic, at.partition
            following = self._next.get(partition, _NONE)
            if at.offset != committed.get(partition):
                following = following.without_attempts()
            if (own := note(partition)[:MAX_NOTE]) != following.note:
                following = following.model_copy(update={"note": own})
            return following.text

        return [PartitionOffset(at.topic, at.partition, at.offset, metadata(at)) for at in offsets]

    def on_commit(self, offsets: Iterable[PartitionOffset], before: Mapping[TopicPartition, int]) -> None:
        """Reset the partitions whose committed offset has moved.

        Args:
            offsets: as `with_metadata` returned them.
            before: the committed offsets before this commit.
        """
        for at in offsets:
            partition = at.topic, at.partition
            if partition in self._next and at.offset != before.get(partition):
                self._reset(partition)
        self.uncommitted = False

    def _reset(self, partition: TopicPartition) -> None:
        self._next[partition] = self._next[partition].without_attempts()
        self._started_s.pop(partition, None)
        self._survived.add(partition)
        self.uncommitted = True
