"""Sending by a command that may be stopped anywhere: in transactions that also tell how far it has come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ragweir.errors import PermanentError
from ragweir.streams.kafka.client import Connection, Identity, build, producer_properties
from ragweir.streams.records import Headers
from ragweir.streams.settings import Settings

_TIMEOUT_S = 30.0
_ROOM_S = 1.0


class TransactionalSender:
    """A producer of transactions; there is one at a time, wherever it runs.

    Whoever else was sending by the same name is shut out, and what it left open is aborted.

    Args:
        settings: of the Kafka and the topics.
        name: of the transactional id.
        what: is sent, for people.

    Raises:
        PermanentError: if Kafka does not take it, here or at the end of a block; the same command goes on where it is.
    """

    def __init__(self, settings: Settings, name: str, what: str) -> None:
        identity = Identity(name, 0, settings.topics.prefix, host="only")
        self._producer = build(Producer, producer_properties(settings, identity, Connection(quiet=True)))
        self._what = what
        self._undelivered: KafkaError | None = None
        try:
            self._producer.init_transactions(_TIMEOUT_S)
        except KafkaException as error:
            raise PermanentError(f"Kafka begins no transaction: {error.args[0].str()}") from None

    def produce(self, topic: str, value: bytes, key: bytes | None, headers: Headers = ()) -> None:
        """Add a record; waits while the producer's queue is full."""
        while True:
            try:
                return self._producer.produce(topic, value, key, headers=list(headers), on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(_ROOM_S)

    def add_offsets(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Add the offsets that the consumer's group is to commit."""
        group = consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(list(offsets), group, _TIMEOUT_S)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and self._undelivered is None:
            self._undelivered = error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is added in a `with` block is taken, or nothing is."""
        try:
            self._producer.begin_transaction()
            yield
            self._producer.commit_transaction(_TIMEOUT_S)
        except BaseException as error:
            with suppress(KafkaException):
                self._producer.abort_transaction(_TIMEOUT_S)
            if not isinstance(error, KafkaException):
                raise
            why = (self._undelivered or error.args[0]).str()
            raise PermanentError(
                f"Kafka does not take {self._what} ({why}); the same command goes on where it is"
            ) from None
