"""Publishes events."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from ragweir.errors import PermanentError
from ragweir.streams.runtime.kafka.client import Connection, build, connected_admin, publisher_properties
from ragweir.streams.settings import Settings


class BlockingPublisher:
    """A producer of commands.

    Leaving its block waits until Kafka has acknowledged all events.

    Args:
        settings: all settings.
        topic: full name of the topic; the interactions topic by default.

    Raises:
        PermanentError: on entering if the topic does not exist, on leaving if Kafka has rejected an event.
        Unreachable: if no broker answers.
    """

    def __init__(self, settings: Settings, topic: str | None = None) -> None:
        self.topic = topic or f"{settings.topics.prefix}interactions"
        self._settings = settings
        self._rejected: list[KafkaError] = []

    def __enter__(self) -> Self:
        """Check that the topic exists, and make the producer."""
        if self.topic not in connected_admin(self._settings)[1]:
            raise PermanentError(f"there is no topic {self.topic}; `ragweir topics create` makes it")
        self._producer = build(Producer, publisher_properties(self._settings, Connection(quiet=True)))
        return self

    def send(self, value: bytes | None, key: bytes | None) -> None:
        """Send one event; wait while the producer's queue is full."""
        while True:
            try:
                self._producer.produce(self.topic, value=value, key=key, on_delivery=self._delivered)
                break
            except BufferError:
                self._producer.poll(0.5)
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._rejected.append(error)

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        """Wait until each event is acknowledged, rejected or timed out."""
        while self._producer.flush(1.0):
            pass
        if self._rejected and kind is None:
            raise PermanentError(f"Kafka did not accept {len(self._rejected)} of the events: {self._rejected[0].str()}")
