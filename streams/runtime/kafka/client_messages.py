"""Converts messages of the Kafka client to records."""

from typing import cast

from confluent_kafka import Message

from ragweir.streams.runtime.records import Record, TopicPartition


def topic_partition_of(message: Message) -> TopicPartition:
    """Return the partition of a message, or of an error about a partition."""
    return cast("str", message.topic()), cast("int", message.partition())


def record_of(message: Message) -> Record:
    """Return the record of a message that was read."""
    kind, timestamp = message.timestamp()
    lost = False
    try:
        headers = message.headers()
    except (SystemError, UnicodeDecodeError):  # A second call would return tuples without a name, which crash Python.
        headers, lost = None, True
    return Record(
        cast("str", message.topic()),
        cast("int", message.partition()),
        cast("int", message.offset()),
        message.key(),
        message.value(),
        timestamp if kind else None,
        tuple(cast("list[tuple[str, bytes | None]]", headers)) if headers else (),
        lost,
    )
