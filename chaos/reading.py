"""Reading: consumers of committed records, and the ends of partitions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

Ends = dict[tuple[str, int], int]
"""Offsets by topic and partition."""


def consumer(bootstrap: str, isolation: str = "read_committed", group: str = "chaos-checker") -> Consumer:
    """Return a consumer that is told the ends of partitions, and commits nothing."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )


def partitions_of(topic: str, partitions: Iterable[int]) -> list[TopicPartition]:
    """Return partitions of a topic, from their beginnings."""
    return [TopicPartition(topic, partition, 0) for partition in partitions]


def ends(bootstrap: str, isolation: str, partitions: Iterable[TopicPartition], within_s: float) -> Ends:
    """Return the high watermark of each partition; with `read_committed`, its last stable offset."""
    asking = consumer(bootstrap, isolation)
    try:
        return {
            (each.topic, each.partition): asking.get_watermark_offsets(each, timeout=within_s)[1] for each in partitions
        }
    finally:
        asking.close()


def headers_of(message: Message) -> dict[str, bytes]:
    """Return the headers of a message that have a value."""
    return {name: value for name, value in dict(message.headers() or ()).items() if isinstance(value, bytes)}


def read_partition(bootstrap: str, topic: str, partition: int, within_s: float = 60.0) -> Iterator[Message]:
    """Yield the committed records of a partition.

    Raises:
        TimeoutError: if an open transaction hides its end.
    """
    own = partitions_of(topic, [partition])
    end = ends(bootstrap, "read_uncommitted", own, within_s)[topic, partition]
    reader = consumer(bootstrap)
    try:
        reader.assign(own)
        reached, until = 0, time.monotonic() + within_s
        while reached < end:
            for message in reader.consume(1_000, 0.5):
                error = message.error()
                if error is None:
                    until = time.monotonic() + within_s
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    reached = message.offset() or 0
            if time.monotonic() > until:
                raise TimeoutError(f"an open transaction hides the end of {topic}/{partition}")
    finally:
        reader.close()
