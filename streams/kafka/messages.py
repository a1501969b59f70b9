"""Converts messages of the Kafka client to records."""

from typing import cast

from confluent_kafka import Message

from ragweir.streams.records import Record, TopicPartition


def topic_partition_of(message: Message) -> TopicPartition:
    """Return the partition of a message, or of an error about a partition."""
    return cast("str", message.topic()), cast("int", message.partition())


def record_of(message: Message) -> Record:
    """Return the record of a message that was read."""
    kind, timestamp = message.timestamp()
    offset = cast("int", message.offset())
    stamp_ms = timestamp if kind else None
    record = *topic_partition_of(message), offset, message.key(), message.value(), stamp_ms
    try:
        return Record(*record, tuple(cast("list[tuple[str, bytes | None]]", message.headers() or [])))
    except (SystemError, UnicodeDecodeError):  # A second call would return tuples without a name, which crash Python.
        return Record(*record, headers_lost=True)
