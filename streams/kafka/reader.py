"""Reading what a topic holds now: without a group, committed records only, up to the ends that it had at the start."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import stamina
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ragweir.errors import PermanentError, Unreachable
from ragweir.streams.kafka.client import Connection, ask, build, client_properties, reader_properties, settling
from ragweir.streams.kafka.messages import record_of, topic_partition_of
from ragweir.streams.records import Record
from ragweir.streams.settings import Settings

_TIMEOUT_S = 10.0
_WAIT_S = 0.1
_AT_ONCE = 1_000
"""Records taken from the client at a time."""

Moved = Callable[[int], None]
"""Is told how many more offsets have been passed."""


@dataclass(frozen=True, slots=True)
class StoredRecord(Record):
    """A record as a topic keeps it, with its headers."""

    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """What of a topic is to be read: of each partition the offsets from its start to before its end.

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
        """Only the last so many offsets of each partition."""
        return self.since({partition: end - count for partition, end in self.ends.items()})

    def since(self, starts: Mapping[int, int]) -> OffsetRange:
        """Not before these offsets."""
        later = {partition: max(start, starts.get(partition, 0)) for partition, start in self.starts.items()}
        return replace(self, starts=later)


def topics(settings: Settings) -> Mapping[str, int]:
    """All topics with their numbers of partitions.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if signing in failed.
    """
    return _ask(settings)[1]


def offset_range(
    settings: Settings,
    topic: str,
    *,
    partitions: Collection[int] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    committed: bool = True,
) -> OffsetRange:
    """What a topic holds now; of all its partitions unless some are named.

    Args:
        settings: how to reach Kafka.
        topic: its full name.
        partitions: which are meant.
        since_ms: leave out what was written before, epoch milliseconds.
        until_ms: leave out what was written then or later.
        committed: whether it ends where the first transaction begins that is still open.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if there is no such topic, or signing in failed.
    """
    admin, present = _ask(settings)
    if topic not in present:
        raise PermanentError(f"there is no topic {topic}, or it may not be seen; `ragweir topics create` makes ours")
    places = [TopicPartition(topic, each) for each in (range(present[topic]) if partitions is None else partitions)]
    spec: Any = OffsetSpec  # Its methods have no types.
    lows = _offsets(admin, places, spec.earliest())
    ends = _offsets(admin, places, spec.latest(), committed=committed)

    def written(at_ms: int) -> dict[int, int]:
        found = _offsets(admin, places, spec.for_timestamp(at_ms))
        # Nothing is as young as that where it gives no offset.
        return {each: min(offset, ends[each]) if offset >= 0 else ends[each] for each, offset in found.items()}

    starts = lows if since_ms is None else written(since_ms)
    return OffsetRange(topic, starts, ends if until_ms is None else written(until_ms))


def _ask(settings: Settings) -> tuple[AdminClient, Mapping[str, int]]:
    connection = Connection(quiet=True)
    admin = build(AdminClient, client_properties(settings, connection))
    return admin, ask(admin, connection)


@stamina.retry(on=settling, attempts=None, timeout=_TIMEOUT_S, wait_initial=0.05, wait_max=0.5)
def _offsets(
    admin: AdminClient, places: Collection[TopicPartition], which: Any, *, committed: bool = True
) -> dict[int, int]:
    wanted = dict.fromkeys(places, which)
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    found = admin.list_offsets(wanted, isolation_level=level, request_timeout=_TIMEOUT_S)
    return {place.partition: found[place].result().offset for place in places}


def read(settings: Settings, span: OffsetRange, moved: Moved = lambda _: None) -> Iterator[StoredRecord]:
    """The records of a span, in order within each partition. Joins no group and commits nothing.

    Raises:
        Unreachable: if Kafka gives nothing for some seconds.
        KafkaException: if it answers with an error.
    """
    at = {partition: span.starts[partition] for partition, end in span.ends.items() if span.starts[partition] < end}
    if not at:
        return
    consumer = build(Consumer, reader_properties(settings))
    try:
        consumer.assign([TopicPartition(span.topic, partition, offset) for partition, offset in at.items()])
        while at:
            for message in _messages(consumer, span.topic):
                partition = topic_partition_of(message)[1]
                if partition not in at:  # Others may be writing all the while.
                    continue
                end, reached = span.ends[partition], cast("int", message.offset())
                if message.error() is not None:  # It ends in marks, or in what compaction left out.
                    reached = end
                elif reached < end:
                    yield _kept(message)
                    reached += 1
                moved(min(reached, end) - at[partition])
                at[partition] = reached
                if reached >= end:
                    del at[partition]
                    consumer.pause([TopicPartition(span.topic, partition)])
    finally:
        consumer.close()


def _messages(consumer: Consumer, topic: str) -> list[Message]:
    """The next messages, among them those that tell of a partition's end."""
    asked = time.monotonic()
    while time.monotonic() - asked < _TIMEOUT_S:
        messages = [message for message in consumer.consume(_AT_ONCE, _WAIT_S) if _is_news(message)]
        if messages:
            return messages
    raise Unreachable(f"the topic {topic} gave nothing for {_TIMEOUT_S:.0f} s")


def _is_news(message: Message) -> bool:
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:  # No group is joined, so no right to it is needed.
        return False
    raise KafkaException(error)


def _kept(message: Message) -> StoredRecord:
    record = record_of(message)
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    place = record.topic, record.partition, record.offset
    return StoredRecord(*place, record.key, record.value, record.timestamp_ms, tuple(headers))
