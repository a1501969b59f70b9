"""Reads back the records that an agent needs at an assignment: its changelog, and the input before its start."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import cached_property

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from typing_extensions import override

from ragweir.errors import Interrupted
from ragweir.streams.runtime.agent import Changelog
from ragweir.streams.runtime.kafka.client import build, reader_properties
from ragweir.streams.runtime.kafka.client_messages import record_of
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.recovery.offsets import ask_until_answered
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_POLL_SECONDS = 2.0


class KafkaChangelog(Changelog):
    """The committed records of a partition of a topic of the topic table.

    The end is the high watermark. The last stable offset can be before records that the group's committed offset
    covers; records of an open transaction are waited for.

    The changelog is complete: it has all records that earlier owners of the partition have committed or ever will. An
    agent may rely on that instead of comparing its state with an offset, as judge does with its ledger:

    1. Each transaction that writes here commits the offsets of all inputs' partitions that its worker holds, under its
       generation in the group. Kafka rejects them from a worker that no longer owns the partitions, and with them the
       transaction.
    2. Offsets that such a worker has sent before are pending in the group, and Kafka does not answer committed offsets
       before they are decided. The runtime asks for them first, so that all transactions of earlier owners are decided
       by then.
    3. All records of a transaction are acknowledged before it is committed, and so are before the high watermark, which
       is read after that. A new leader answers it only once it has what the last leader acknowledged.
    4. The commit markers may reach this partition later. Reading goes on until no transaction that began before the end
       is open.

    Iterating and `end` raise Interrupted if `stopped` returns true meanwhile, and KafkaException if the broker answers
    with an error.
    """

    def __init__(self, settings: Settings, name: str, partition: int, stopped: Callable[[], bool]) -> None:
        self._settings, self._topic, self._partition = settings, settings.topics.prefix + name, partition
        self._stopped = stopped
        self.read = 0
        """The number of records that were read."""

    @cached_property
    @override
    def end(self) -> int:
        return _end(self._settings, self._topic, self._partition, self._stopped)

    @override
    def since(self, first: int) -> Iterator[Record]:
        if first < self.end:
            start = TopicPartition(self._topic, self._partition, first)
            for record in _records(self._settings, start, self.end, self._stopped):
                self.read += 1
                yield record


def preceding_records(
    settings: Settings, start: TopicPartition, warm_up: int, stopped: Callable[[], bool]
) -> Generator[Record]:
    """Yield the committed records of at most `warm_up` offsets before a partition's start.

    Raises:
        Interrupted: if `stopped` returns true meanwhile.
        KafkaException: if the broker answers with an error.
    """
    if start.offset > 0 and warm_up > 0:
        first = TopicPartition(start.topic, start.partition, max(0, start.offset - warm_up))
        yield from _records(settings, first, start.offset, stopped)


def _records(settings: Settings, first: TopicPartition, end: int, stopped: Callable[[], bool]) -> Generator[Record]:
    """Yield the committed records from an offset, or the first one after it that is left, to before the end."""
    consumer = build(Consumer, reader_properties(settings))
    try:
        consumer.assign([first])
        reached = 0
        while reached < end:
            message = consumer.poll(_POLL_SECONDS)
            if stopped():
                raise Interrupted
            if message is None:
                log.info("waiting for an open transaction to end", topic=first.topic, partition=first.partition)
                continue
            offset, error = message.offset() or 0, message.error()
            if error is None:
                if offset < end:
                    yield record_of(message)
                reached = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                reached = offset
            elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # No group is joined, so no right is needed.
                raise KafkaException(error)
    finally:
        consumer.close()


def _end(settings: Settings, topic: str, partition: int, stopped: Callable[[], bool]) -> int:
    """Return the high watermark."""
    consumer = build(Consumer, {**reader_properties(settings), "isolation.level": "read_uncommitted"})
    try:
        at = TopicPartition(topic, partition)
        return ask_until_answered(lambda timeout: consumer.get_watermark_offsets(at, timeout=timeout), stopped)[1]
    finally:
        consumer.close()
