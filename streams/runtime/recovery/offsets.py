"""The committed and consumed offsets of the partitions that a worker holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeVar

import structlog
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import Interrupted, PermanentError
from ragweir.streams.runtime.kafka.client import is_transient
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record, TopicPartition

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

Answer = TypeVar("Answer", list[PartitionOffset], tuple[int, int])

_CALL_SECONDS = 2.0
_PAUSE_SECONDS = 0.1
_NEW_PARTITION_SECONDS = 10.0
"""Time to wait for an unknown partition; one that is deleted never becomes known."""


def ask_until_answered(ask: Callable[[float], Answer], stopped: Callable[[], bool]) -> Answer:
    """Call `ask` with a timeout until the broker answers without an error for any partition.

    The open transaction of a dead slot delays answers about committed offsets until it times out. A partition that was
    just added is assigned by one broker before the others know it.

    Raises:
        Interrupted: if `stopped` returns true meanwhile.
        KafkaException: if the broker answers with an error that is not transient.
    """
    began = machine.monotonic()
    while True:
        try:
            answer = ask(_CALL_SECONDS)
        except KafkaException as error:
            is_new = (
                error.args[0].name() == "_UNKNOWN_PARTITION" and machine.monotonic() - began < _NEW_PARTITION_SECONDS
            )
            if not is_new and not is_transient(error) and error.args[0].name() != "_TIMED_OUT":
                raise
        else:
            if all(getattr(each, "error", None) is None for each in answer):
                return answer
        if stopped():
            raise Interrupted
        machine.sleep(_PAUSE_SECONDS)


class OffsetTracker:
    """Tracks the offsets of the held partitions; records of other partitions are dropped.

    Args:
        start_from: the start of a partition without a committed offset.
        on_missed: called with a partition and the number of its records that retention deleted unread.
        starts: the starts of partitions without a committed offset, which `start_from` does not apply to.
    """

    def __init__(
        self,
        start_from: Literal["earliest", "latest"],
        on_missed: Callable[[TopicPartition, int], None],
        starts: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        self._start_from, self._on_missed, self._starts = start_from, on_missed, dict(starts)
        self.is_replay = bool(starts)
        """True if the starts of partitions were given."""
        self.committed: dict[TopicPartition, int] = {}
        """The committed offset of each held partition."""
        self.consumed: dict[TopicPartition, int] = {}
        """The next offset to read of each held partition."""
        self._sent: dict[TopicPartition, int] = {}
        self.uncommitted = False
        """True while the start of some partition is not committed, so that a restart could start elsewhere."""

    def begin_at_start(self, partition: TopicPartition) -> None:
        """Start a partition without a committed offset at its beginning, in spite of `start_from`."""
        self._starts[partition] = 0

    def start(
        self,
        consumer: Consumer,
        partitions: Iterable[PartitionOffset],
        stopped: Callable[[], bool],
        check: Callable[[Sequence[PartitionOffset]], list[PartitionOffset]] = list,
    ) -> list[tuple[int | None, PartitionOffset]]:
        """Add partitions; return the committed offset of each, None without one, and its start with the metadata.

        Args:
            consumer: the member of the group that holds the partitions.
            partitions: the partitions to add.
            stopped: returns true once the worker is to stop.
            check: returns the offsets to use instead of the committed offsets that Kafka answers.

        Raises:
            PermanentError: if a committed offset is beyond the partition's end.
            Interrupted: if `stopped` returns true meanwhile.
        """
        unknown = [PartitionOffset(each.topic, each.partition) for each in partitions]
        answered = ask_until_answered(lambda timeout: consumer.committed(unknown, timeout=timeout), stopped)
        committed = check(answered) if answered else answered
        if any(each.offset != was.offset for each, was in zip(committed, answered, strict=True)):
            self.uncommitted = True
        return [(each.offset if each.offset >= 0 else None, self.begin(consumer, each, stopped)) for each in committed]

    def begin(self, consumer: Consumer, at: PartitionOffset, stopped: Callable[[], bool]) -> PartitionOffset:
        """Add one partition at an offset, or at its start if that is negative; skip what retention has deleted."""
        low, high = ask_until_answered(lambda timeout: consumer.get_watermark_offsets(at, timeout=timeout), stopped)
        partition, offset = (at.topic, at.partition), at.offset
        if offset < 0:
            offset = self._starts.get(partition, low if self._start_from == "earliest" else high)
            self.uncommitted = True
        if offset < low:
            log.error("retention deleted records unread", topic=at.topic, partition=at.partition, missed=low - offset)
            self._on_missed(partition, low - offset)
            offset = low
            self.uncommitted = True
        elif offset > high:
            raise PermanentError(
                f"the committed offset {offset} of {at.topic}/{at.partition} is beyond its end {high}: the topic was "
                "recreated or lost records; reset the group's offsets with kafka-consumer-groups to go on"
            )
        self.committed[partition] = self.consumed[partition] = offset
        return PartitionOffset(at.topic, at.partition, offset, at.metadata or "")

    def on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions."""
        for partition in partitions:
            self.committed.pop(partition, None)
            self.consumed.pop(partition, None)

    def accept(self, record: Record) -> bool:
        """Advance the consumed offset; return False if the partition is not held or the record was consumed before."""
        consumed = self.consumed.get(record.topic_partition)
        if consumed is None or record.offset < consumed:
            return False
        self.consumed[record.topic_partition] = record.offset + 1
        return True

    def next_offsets(self, moved: Mapping[TopicPartition, int] = MappingProxyType({})) -> list[PartitionOffset]:
        """Return the offsets that a transaction sends: those of all held partitions, moved or not.

        Sending all of them lets the broker check that the worker still holds the partitions.

        Args:
            moved: the offset after the last record that the transaction settles, of each partition that has any.
        """
        self._sent = {partition: moved.get(partition, offset) for partition, offset in self.committed.items()}
        return [PartitionOffset(*partition, offset) for partition, offset in self._sent.items()]

    def on_commit(self) -> None:
        """Store the offsets that were sent last. Settled records that an agent held at an abort are not reread."""
        self.committed.update(self._sent)
        for partition, offset in self._sent.items():
            self.consumed[partition] = max(self.consumed[partition], offset)
        self.uncommitted = False

    def rewind(self) -> list[PartitionOffset]:
        """Reset the consumed offsets to the committed ones; return those to seek to."""
        moved = [
            PartitionOffset(*partition, offset)
            for partition, offset in self.committed.items()
            if self.consumed[partition] != offset
        ]
        self.consumed.update(self.committed)
        return moved
