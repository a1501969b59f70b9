"""Converts messages of the Kafka client to records."""

from typing import cast

from confluent_kafka import Message

from ragweir.streams.records import Headers, Record, TopicPartition


def topic_partition_of(message: Message) -> TopicPartition:
    """Return the partition of a message, or of an error about a partition."""
    return cast("str", message.topic()), cast("int", message.partition())


def record_of(message: Message) -> Record:
    """Return the record of a message that was read."""
    kind, timestamp = message.timestamp()
    stamp_ms = timestamp if kind else None
    headers: Headers = ()
    lost = False
    try:
        headers = tuple(message.headers() or ())  # type: ignore[arg-type]  # What is read has no text as a value.
    except (SystemError, UnicodeDecodeError):  # A second call would return tuples without a name, which crash Python.
        lost = True
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    # A message that was read has all of them.
    return Record(topic, partition, offset, message.key(), message.value(), stamp_ms, headers, lost)  # type: ignore[arg-type]
