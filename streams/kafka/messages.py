"""Messages of the Kafka client as records."""

from typing import cast

from confluent_kafka import Message

from ragweir.streams.records import Record, TopicPartition


def topic_partition_of(message: Message) -> TopicPartition:
    """Where a message, or an error about a partition, belongs."""
    return cast("str", message.topic()), cast("int", message.partition())


def record_of(message: Message) -> Record:
    """A message as a record; the client's types allow for messages that were never at a broker."""
    kind, timestamp = message.timestamp()
    offset = cast("int", message.offset())
    return Record(*topic_partition_of(message), offset, message.key(), message.value(), timestamp if kind else None)
