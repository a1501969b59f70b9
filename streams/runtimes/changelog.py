"""Reading an agent's state back: a partition of its changelog, from the beginning to its true end."""

from __future__ import annotations

from collections.abc import Callable, Generator

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streams.agents.agent import Record
from streams.kafka_client import build, reader_properties, settling
from streams.runtimes.messages import received
from streams.runtimes.positions import Interrupted
from streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_TIMEOUT_S = 2.0


def changelog(
    settings: Settings, topic: str, partition: int, stopped: Callable[[], bool], alive: Callable[[], None]
) -> Generator[Record]:
    """The committed records of a changelog's partition.

    The end is the one of uncommitted reading: the committed one is the last stable offset, which can lie behind what
    the group's committed offset already speaks of. What an open transaction holds back is waited for.

    Raises:
        Interrupted: if told to stop meanwhile.
        KafkaException: if the broker answers with an error.
    """
    end = _end(settings, topic, partition, stopped)
    if end == 0:
        return
    consumer = build(Consumer, reader_properties(settings))
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(_TIMEOUT_S)
            alive()
            if stopped():
                raise Interrupted
            if message is None:
                log.info("waiting for an open transaction to end", topic=topic, partition=partition)
                continue
            error = message.error()
            if error is None:
                yield received(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            elif (message.offset() or 0) >= end:
                return
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
