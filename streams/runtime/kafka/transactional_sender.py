"""Sends records in transactions, with the offsets of a command's progress, so that it may be stopped at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ragweir.errors import PermanentError
from ragweir.streams.runtime.kafka.client import Connection, Identity, producer_properties
from ragweir.streams.runtime.kafka.transactional_producer import TransactionalProducer
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Headers
from ragweir.streams.settings import Settings

_TIMEOUT_SECONDS = 30.0
_QUEUE_SECONDS = 1.0


class TransactionalSender:
    """A producer of transactions, of which one can send at a time.

    It fences an earlier sender of the same name and aborts its open transaction.

    Args:
        settings: all settings.
        name: the name in the transactional id.
        what: a noun for the records, for messages.
        on_delivery: is called with the report of each record that the brokers took.

    Raises:
        PermanentError: if Kafka answers with an error, here or at the end of a transaction.
    """

    def __init__(
        self, settings: Settings, name: str, what: str, on_delivery: Callable[[Message], object] | None = None
    ) -> None:
        identity = Identity(name, 0, settings.topics.prefix, host="only")
        properties = producer_properties(settings, identity, Connection(quiet=True))
        reports = {"delivery.report.only.error": on_delivery is None}
        producer = TransactionalProducer(settings, properties | reports)
        self._what, self._on_delivery = what, on_delivery
        self._undelivered: KafkaError | None = None
        try:
            producer.initialise(lambda: producer.client.init_transactions(_TIMEOUT_SECONDS))
        except KafkaException as error:
            raise PermanentError(f"Kafka begins no transaction: {error.args[0].str()}") from None
        self._producer = producer.client

    def produce(self, topic: str, value: bytes, key: bytes | None, headers: Headers = ()) -> None:
        """Add a record; wait while the producer's queue is full."""
        while True:
            try:
                return self._producer.produce(topic, value, key, headers=list(headers), on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(_QUEUE_SECONDS)

    def add_offsets(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Add the offsets that the consumer's group is to commit."""
        group = consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(list(offsets), group, _TIMEOUT_SECONDS)

    def flush(self) -> None:
        """Wait for the reports of all records; those that have none in time fail with the transaction."""
        until = machine.monotonic() + _TIMEOUT_SECONDS
        # The client's `flush` calls further reports after a fatal error, which replaces the error by a SystemError.
        while len(self._producer) and machine.monotonic() < until:
            self._producer.poll(_QUEUE_SECONDS)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            if self._on_delivery is not None:
                self._on_delivery(message)
        elif self._undelivered is None:
            self._undelivered = error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything that is added in a `with` block, or abort it after an error."""
        try:
            self._producer.begin_transaction()
            yield
            self._producer.commit_transaction(_TIMEOUT_SECONDS)
        except BaseException as error:
            with suppress(KafkaException):
                self._producer.abort_transaction(_TIMEOUT_SECONDS)
            if not isinstance(error, KafkaException):
                raise
            reason = (self._undelivered or error.args[0]).str()
            raise PermanentError(
                f"Kafka does not accept {self._what} ({reason}); the same command goes on where it stopped"
            ) from None
