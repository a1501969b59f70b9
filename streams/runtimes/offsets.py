"""Where a worker stands: the next offset of each partition that it holds, and where a partition begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import structlog
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import Interrupted, PermanentError
from ragweir.streams.kafka.client import settling
from ragweir.streams.records import Record, TopicPartition

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


_PAUSE_S = 0.1


def ask_until_answered(
    ask: Callable[[float], list[PartitionOffset]], stopped: Callable[[], bool]
) -> list[PartitionOffset]:
    """Ask the broker again until it answers: a dead slot's open transaction holds offsets back for its timeout.

    Raises:
        Interrupted: if told to stop meanwhile.
        KafkaException: if the broker answers with an error that waiting does not mend.
    """
    while True:
        try:
            answer = ask(2.0)
        except KafkaException as error:
            if not settling(error) and error.args[0].name() != "_TIMED_OUT":
                raise
        else:
            if all(each.error is None for each in answer):
                return answer
        if stopped():
            raise Interrupted
        time.sleep(_PAUSE_S)


class OffsetTracker:
    """The next offset per held partition, as committed. Work for a partition that is not held is dropped."""

    def __init__(
        self,
        start_from: Literal["earliest", "latest"],
        on_missed: Callable[[TopicPartition, int], None],
        starts: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        self._start_from = start_from
        self._starts, self._bounded = dict(starts), bool(starts)
        """Where partitions without a committed offset start, as far as it is known."""
        self._on_missed = on_missed
        self._next: dict[TopicPartition, int] = {}
        self._reached: dict[TopicPartition, int] = {}
        self._sent: dict[TopicPartition, int] = {}
        self.uncommitted = False
        """Whether some partition's start is not yet committed: until it is, a restart could start elsewhere."""

    def __len__(self) -> int:
        return len(self._next)

    def partitions(self) -> list[TopicPartition]:
        """The partitions held."""
        return list(self._next)

    @property
    def bounded(self) -> bool:
        """True where the starts of partitions were given, as in a replay."""
        return self._bounded

    def begin_at_start(self, place: TopicPartition) -> None:
        """Let a partition without a committed offset begin at its start, whatever `start_from` says."""
        self._starts[place] = 0

    def start(
        self,
        consumer: Consumer,
        partitions: Iterable[PartitionOffset],
        stopped: Callable[[], bool],
        mended: Callable[[Sequence[PartitionOffset]], list[PartitionOffset]] = list,
    ) -> list[tuple[int | None, PartitionOffset]]:
        """Take partitions over: at their committed offset, else where `start_from` says.

        Gives for each its committed offset, None if there is none, and where it is to be read from, with the metadata
        of the commit. What Kafka says was committed is taken as `mended` gives it back.

        Raises:
            PermanentError: if a committed offset lies beyond the partition's end.
            Interrupted: if told to stop meanwhile.
        """
        wanted = [PartitionOffset(each.topic, each.partition) for each in partitions]
        answered = ask_until_answered(lambda timeout: consumer.committed(wanted, timeout=timeout), stopped)
        committed = mended(answered) if answered else answered
        if any(each.offset != was.offset for each, was in zip(committed, answered, strict=True)):
            self.uncommitted = True
        return [(each.offset if each.offset >= 0 else None, self.begin(consumer, each, stopped)) for each in committed]

    def begin(self, consumer: Consumer, at: PartitionOffset, stopped: Callable[[], bool]) -> PartitionOffset:
        """Begin one partition at an offset (none when negative), mending what retention has deleted."""
        low, high = self._watermarks(consumer, at, stopped)
        place, offset = (at.topic, at.partition), at.offset
        if offset < 0:
            offset = self._starts.get(place, low if self._start_from == "earliest" else high)
            self.uncommitted = True
        if offset < low:
            log.error("retention deleted records unread", topic=at.topic, partition=at.partition, missed=low - offset)
            self._on_missed(place, low - offset)
            offset = low
            self.uncommitted = True
        elif offset > high:
            raise PermanentError(
                f"the committed offset {offset} of {at.topic}/{at.partition} lies beyond its end {high}: the topic was "
                "recreated or lost records; reset the group's offsets with kafka-consumer-groups to go on"
            )
        self._next[place] = self._reached[place] = offset
        return PartitionOffset(at.topic, at.partition, offset, at.metadata or "")

    @staticmethod
    def _watermarks(consumer: Consumer, at: PartitionOffset, stopped: Callable[[], bool]) -> tuple[int, int]:
        found: list[tuple[int, int]] = []

        def ask(timeout: float) -> list[PartitionOffset]:
            found.append(consumer.get_watermark_offsets(at, timeout=timeout))
            return []

        ask_until_answered(ask, stopped)
        return found[-1]

    def drop(self, partitions: Iterable[PartitionOffset]) -> None:
        """Give partitions up."""
        for each in partitions:
            self._next.pop((each.topic, each.partition), None)
            self._reached.pop((each.topic, each.partition), None)

    def accept(self, record: Record) -> bool:
        """Whether a record that was read is the worker's to handle, and not one that it has had already."""
        place = (record.topic, record.partition)
        reached = self._reached.get(place)
        if reached is None or record.offset < reached:
            return False
        self._reached[place] = record.offset + 1
        return True

    def offsets(self, settled: Iterable[Record] = ()) -> list[PartitionOffset]:
        """Return the offsets that a transaction sends: the next one of every partition held, moved or not.

        Sending all of them lets the broker check that the worker still holds what it acts for.

        Args:
            settled: the records that the transaction settles, those of each partition in order.
        """
        moved = {record.topic_partition: record.offset + 1 for record in settled}
        self._sent = {place: moved.get(place, offset) for place, offset in self._next.items()}
        return _places(self._sent)

    def committed(self) -> None:
        """All that was sent is committed. What an agent had held since before an abort is not read again."""
        self._next.update(self._sent)
        for place, offset in self._sent.items():
            self._reached[place] = max(self._reached[place], offset)
        self.uncommitted = False

    def committed_all(self) -> Mapping[TopicPartition, int]:
        """Up to where every partition held is settled."""
        return self._next

    def consumed_all(self) -> list[PartitionOffset]:
        """How far every partition held was read."""
        return _places(self._reached)

    def back(self, place: TopicPartition, offset: int) -> None:
        """Forget that a partition was read beyond an offset."""
        self._reached[place] = offset

    def rewind(self) -> list[PartitionOffset]:
        """Where to seek to after an abort: the partitions that had moved, at their committed offsets."""
        moved = [
            PartitionOffset(topic, partition, offset)
            for (topic, partition), offset in self._next.items()
            if self._reached[topic, partition] != offset
        ]
        self._reached.update(self._next)
        return moved

    def consumed(self, place: TopicPartition) -> int:
        """The next offset of a partition held."""
        return self._reached[place]

    def committed_and_consumed(self, place: TopicPartition) -> tuple[int, int]:
        """Up to where a partition held is settled, and up to where it was read."""
        return self._next[place], self._reached[place]


def _places(offsets: Mapping[TopicPartition, int]) -> list[PartitionOffset]:
    return [PartitionOffset(topic, partition, offset) for (topic, partition), offset in offsets.items()]
