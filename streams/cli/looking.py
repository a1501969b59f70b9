"""What `ragweir doctor` reads of topics: it joins no group and commits nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from schemas.judging import LedgerEntry
from streams.agents.agent import Record
from streams.kafka_client import build, reader_properties
from streams.runtimes.messages import received
from streams.settings import Settings

TIMEOUT_S = 5.0
_COUNTED = 2_000
"""Records that are read only to be counted, at most."""


def ledger(settings: Settings, topic: str, partitions: int, since_ms: int) -> list[LedgerEntry]:
    """The newest state of each of the ledger's accounts that has changed since a time."""
    accounts: dict[bytes | None, LedgerEntry] = {}
    with build(Consumer, reader_properties(settings)) as consumer:
        wanted = [TopicPartition(topic, partition, since_ms) for partition in range(partitions)]
        starts = [each for each in consumer.offsets_for_times(wanted, timeout=TIMEOUT_S) if each.offset >= 0]
        for record in _to_the_end(consumer, starts):
            accounts.pop(record.key, None)
            if record.value is not None:
                accounts[record.key] = LedgerEntry.model_validate(orjson.loads(record.value))
    return list(accounts.values())


def number_behind(settings: Settings, starts: Sequence[TopicPartition], offsets: int) -> str:
    """How many records there are from these places to the ends, in words.

    Offsets count the marks of transactions too, so that what is few is counted by reading it.

    Args:
        settings: where to read.
        starts: where the first of them may be.
        offsets: how many offsets there are.
    """
    if offsets > _COUNTED:
        return f"at most {offsets:,}"
    with build(Consumer, reader_properties(settings)) as consumer:
        return str(sum(1 for _ in _to_the_end(consumer, starts)))


def _to_the_end(consumer: Consumer, starts: Sequence[TopicPartition]) -> Iterator[Record]:
    """The committed records from here to the ends that the partitions have now.

    Raises:
        KafkaException: if the broker answers with an error, or not in time.
    """
    left = {(each.topic, each.partition) for each in starts}
    if starts:
        consumer.assign(list(starts))
    while left:
        message = consumer.poll(TIMEOUT_S)
        if message is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "a topic's end was not reached in time"))
        error = message.error()
        if error is None:
            yield received(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            left.discard((message.topic(), message.partition()))
        else:
            raise KafkaException(error)
