"""Reading back what an agent has to know: its changelog, or what stands in its input before its start."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import cached_property

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from typing_extensions import override

from ragweir.errors import Interrupted
from ragweir.streams.agent import Changelog
from ragweir.streams.kafka.client import build, reader_properties, settling
from ragweir.streams.kafka.messages import record_of
from ragweir.streams.records import Record
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_TIMEOUT_S = 2.0


class KafkaChangelog(Changelog):
    """The committed records of a partition of a topic of the topic table.

    The end is the one of uncommitted reading: the committed one is the last stable offset, which can lie behind what
    the group's committed offset already speaks of. What an open transaction holds back is waited for.

    So it lacks nothing that an earlier owner of the partition has committed or ever will, which an agent may rely on
    that compares its state with no offset, as the judge with its ledger:

    1. Each transaction that writes here commits the offsets of all inputs' partitions that its worker holds, under its
       generation in the group. Kafka refuses them of a worker that no longer owns the partitions, and with them the
       transaction.
    2. What such a worker had sent before is pending in the group, and Kafka does not answer committed offsets before
       it is decided. The runtime asks for them first, so that all transactions of earlier owners are decided by then.
    3. All records of a transaction are acknowledged before it is committed, and so stand before the high watermark,
       which is asked for after that. A new leader does not say it before it knows what the last one acknowledged.
    4. The marks of a commit reach this partition at a time of their own, perhaps after all that. Reading goes on until
       no transaction that began before the end is open.

    Iterating, and asking for the end, may raise Interrupted if told to stop meanwhile, and KafkaException if the broker
    answers with an error.
    """

    def __init__(
        self, settings: Settings, name: str, partition: int, stopped: Callable[[], bool], alive: Callable[[], None]
    ) -> None:
        self._settings, self._topic, self._partition = settings, settings.topics.prefix + name, partition
        self._stopped, self._alive = stopped, alive
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
            for record in _records(self._settings, start, self.end, self._stopped, self._alive):
                self.read += 1
                yield record


def preceding_records(
    settings: Settings, start: TopicPartition, horizon: int, stopped: Callable[[], bool], alive: Callable[[], None]
) -> Generator[Record]:
    """The committed records of a partition that stand at most so many offsets before its start.

    Raises:
        Interrupted: if told to stop meanwhile.
        KafkaException: if the broker answers with an error.
    """
    if start.offset > 0 and horizon > 0:
        first = TopicPartition(start.topic, start.partition, max(0, start.offset - horizon))
        yield from _records(settings, first, start.offset, stopped, alive)


def _records(
    settings: Settings, first: TopicPartition, end: int, stopped: Callable[[], bool], alive: Callable[[], None]
) -> Generator[Record]:
    """The committed records from the first offset, or the first that is left, to before the end."""
    consumer = build(Consumer, reader_properties(settings))
    try:
        consumer.assign([first])
        reached = 0
        while reached < end:
            message = consumer.poll(_TIMEOUT_S)
            alive()
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
    """The offset behind the last record, committed or not."""
    consumer = build(Consumer, {**reader_properties(settings), "isolation.level": "read_uncommitted"})
    try:
        while not stopped():
            try:
                return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT_S)[1]
            except KafkaException as error:
                if not settling(error) and error.args[0].code() != KafkaError._TIMED_OUT:
                    raise
        raise Interrupted
    finally:
        consumer.close()
