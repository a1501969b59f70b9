"""Reads the committed records of a topic without a group, up to the ends that it has at the start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import stamina
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ragweir.errors import PermanentError, Unreachable
from ragweir.streams.runtime.kafka.client import build, connected_admin, is_transient, reader_properties
from ragweir.streams.runtime.kafka.client_messages import record_of, topic_partition_of
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import Settings

_TIMEOUT_SECONDS = 10.0
_WAIT_SECONDS = 0.1
_BATCH = 1_000

OnProgress = Callable[[int], None]
"""A progress callback, called with the number of offsets or bytes since its last call."""

Watch = Callable[[str, int], OnProgress]
"""Shows the progress of a task, from its name and its total; returns a callback for each step."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of a topic to read: those of each partition from its start to before its end.

    >>> offset_range = OffsetRange("t", {0: 0, 1: 5}, {0: 9, 1: 7})
    >>> len(offset_range), offset_range.newest(3).starts, offset_range.since({0: 8}).starts
    (11, {0: 6, 1: 5}, {0: 8, 1: 5})
    """

    topic: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    def __len__(self) -> int:
        return sum(max(0, end - self.starts[partition]) for partition, end in self.ends.items())

    def newest(self, count: int) -> OffsetRange:
        """Return the range of the last offsets of each partition."""
        return self.since({partition: end - count for partition, end in self.ends.items()})

    def since(self, starts: Mapping[int, int]) -> OffsetRange:
        """Return the range without the offsets before these ones."""
        later = {partition: max(start, starts.get(partition, 0)) for partition, start in self.starts.items()}
        return replace(self, starts=later)


def topics(settings: Settings) -> Mapping[str, int]:
    """Return the partition counts of all topics; may raise what `partition_counts` raises."""
    return connected_admin(settings)[1]


def topic_id(settings: Settings, topic: str) -> str:
    """Return Kafka's id of a topic, which one that is created with its name later does not have.

    Raises:
        Unreachable: if no broker answers.
        KafkaException: if there is no such topic, or Kafka answers with another error.
    """
    admin, _ = connected_admin(settings)
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT_SECONDS)
    return str(described[topic].result(2 * _TIMEOUT_SECONDS).topic_id)


def offset_range(
    settings: Settings,
    topic: str,
    *,
    partitions: Collection[int] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    committed: bool = True,
) -> OffsetRange:
    """Return the offsets that a topic has now.

    Args:
        settings: all settings.
        topic: its full name.
        partitions: the partitions to include; None for all.
        since_ms: excludes records that were written before, epoch milliseconds.
        until_ms: excludes records that were written then or later.
        committed: true to end before the first open transaction.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if there is no such topic, or authentication failed.
    """
    admin, present = connected_admin(settings)
    if topic not in present:
        raise PermanentError(f"there is no topic {topic}, or it may not be seen; `ragweir topics create` makes ours")
    asked = [TopicPartition(topic, each) for each in (range(present[topic]) if partitions is None else partitions)]
    spec: Any = OffsetSpec  # Its methods have no types.
    lows = _offsets(admin, asked, spec.earliest())
    ends = _offsets(admin, asked, spec.latest(), committed=committed)

    def written(at_ms: int) -> dict[int, int]:
        found = _offsets(admin, asked, spec.for_timestamp(at_ms))
        # A negative offset: no record is that new.
        return {each: min(offset, ends[each]) if offset >= 0 else ends[each] for each, offset in found.items()}

    starts = lows if since_ms is None else written(since_ms)
    return OffsetRange(topic, starts, ends if until_ms is None else written(until_ms))


@stamina.retry(on=is_transient, attempts=None, timeout=_TIMEOUT_SECONDS, wait_initial=0.05, wait_max=0.5)
def _offsets(
    admin: AdminClient, partitions: Collection[TopicPartition], spec: Any, *, committed: bool = True
) -> dict[int, int]:
    wanted = dict.fromkeys(partitions, spec)
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    found = admin.list_offsets(wanted, isolation_level=level, request_timeout=_TIMEOUT_SECONDS)
    return {each.partition: found[each].result().offset for each in partitions}


def read(settings: Settings, wanted: OffsetRange, moved: OnProgress = lambda _: None) -> Iterator[Record]:
    """Yield the records of a range, in order within each partition.

    `moved` is called with the number of offsets since its last call.

    Raises:
        Unreachable: if Kafka returns nothing for some seconds.
        KafkaException: if it answers with an error.
    """
    at = {
        partition: wanted.starts[partition] for partition, end in wanted.ends.items() if wanted.starts[partition] < end
    }
    if not at:
        return
    consumer = build(Consumer, reader_properties(settings))
    try:
        consumer.assign([TopicPartition(wanted.topic, partition, offset) for partition, offset in at.items()])
        while at:
            for message in _messages(consumer, wanted.topic):
                partition = topic_partition_of(message)[1]
                if partition not in at:  # Later records may arrive before the pause takes effect.
                    continue
                end, reached = wanted.ends[partition], cast("int", message.offset())
                if message.error() is not None:  # The end has commit markers or compacted records.
                    reached = end
                elif reached < end:
                    yield record_of(message)
                    reached += 1
                moved(min(reached, end) - at[partition])
                at[partition] = reached
                if reached >= end:
                    del at[partition]
                    consumer.pause([TopicPartition(wanted.topic, partition)])
    finally:
        consumer.close()


def _messages(consumer: Consumer, topic: str) -> list[Message]:
    """Return the next messages, with those that report a partition's end."""
    began = machine.monotonic()
    while machine.monotonic() - began < _TIMEOUT_SECONDS:
        # `consume` alone waits for a whole batch, which the last records of a range never fill.
        if (first := consumer.poll(_WAIT_SECONDS)) is None:
            continue
        messages = [message for message in (first, *consumer.consume(_BATCH, 0)) if _is_relevant(message)]
        if messages:
            return messages
    raise Unreachable(f"the topic {topic} returned nothing for {_TIMEOUT_SECONDS:.0f} s")


def _is_relevant(message: Message) -> bool:
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:  # No group is joined, so no right is needed.
        return False
    raise KafkaException(error)
