"""Reads records again at the offsets where Kafka has put them, by one consumer that is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ragweir.streams.runtime.kafka.client import build, reader_properties
from ragweir.streams.runtime.kafka.client_messages import topic_partition_of
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import Settings

_TIMEOUT_SECONDS = 10.0
_FETCH_MS = 5
_WAIT_SECONDS = 0.1

Written = Mapping[int, Mapping[int, bytes]]
"""The values of records by partition and offset."""


class ReadBack:
    """Reads what was written to a topic.

    Args:
        settings: all settings.
        topic: the full name of the topic.
    """

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._consumer: Consumer | None = None

    def holds(self, written: Written) -> bool:
        """Return whether the topic has these values at these offsets; false if it does not say so within 10 s.

        Raises:
            KafkaException: if it answers with an error.
        """
        if self._consumer is None:
            # A fetch at the end of a partition, which the next one waits for, is answered soon.
            self._consumer = build(Consumer, {**reader_properties(self._settings), "fetch.wait.max.ms": _FETCH_MS})
        missing = {partition: dict(values) for partition, values in written.items() if values}
        self._consumer.assign([TopicPartition(self._topic, each, min(own)) for each, own in missing.items()])
        try:
            return self._returns(self._consumer, missing)
        finally:
            self._consumer.unassign()

    def _returns(self, consumer: Consumer, missing: dict[int, dict[int, bytes]]) -> bool:
        until = machine.monotonic() + _TIMEOUT_SECONDS
        while missing and machine.monotonic() < until:
            if (message := consumer.poll(_WAIT_SECONDS)) is None:
                continue
            if (error := message.error()) is not None:
                if error.code() not in (KafkaError._PARTITION_EOF, KafkaError.GROUP_AUTHORIZATION_FAILED):
                    raise KafkaException(error)
                continue
            partition = topic_partition_of(message)[1]
            own = missing.get(partition, {})
            value = own.pop(cast("int", message.offset()), None)
            if value is not None and value != message.value():
                return False
            if not own:
                missing.pop(partition, None)
        return not missing
