"""Fetches single records by their positions, with one consumer that is kept."""

from __future__ import annotations

from threading import BoundedSemaphore, Lock

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ragweir.errors import PermanentError, Unreachable
from ragweir.streams.runtime.kafka.client import build, reader_properties
from ragweir.streams.runtime.kafka.client_messages import record_of
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import Settings

_TIMEOUT_SECONDS = 2.0
_MOST_AT_ONCE = 4
"""Threads that fetch or wait for it. One more is turned away at once, so that waiting ones do not pile up."""
_POLL_SECONDS = 0.1
_GONE = (KafkaError._PARTITION_EOF, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)


class RecordFetcher:
    """Fetches records for any number of threads, one at a time. The consumer is in no group.

    Args:
        settings: all settings.
    """

    def __init__(self, settings: Settings) -> None:
        # A record that retention deleted is an error, and not the first record that is left.
        self._properties = {**reader_properties(settings), "auto.offset.reset": "error"}
        self._lock = Lock()
        self.places = BoundedSemaphore(_MOST_AT_ONCE)
        """The places of threads, of which a fetch takes one."""
        self._consumer: Consumer | None = None

    def fetch(self, topic: str, partition: int, offset: int) -> Record | None:
        """Return the record at a position; None if retention or compaction deleted it, or it never was there.

        Raises:
            Unreachable: if no broker answers within two seconds, other threads wait for one as long, or are too many.
            PermanentError: if Kafka answers with another error.
        """
        if not self.places.acquire(blocking=False):
            raise Unreachable("other pages are waiting for Kafka; load this one again")
        try:
            return self._fetched(topic, partition, offset)
        finally:
            self.places.release()

    def _fetched(self, topic: str, partition: int, offset: int) -> Record | None:
        until = machine.monotonic() + _TIMEOUT_SECONDS
        if not self._lock.acquire(timeout=_TIMEOUT_SECONDS):
            raise Unreachable("other pages are waiting for Kafka; load this one again")
        try:
            if self._consumer is None:
                self._consumer = build(Consumer, self._properties)
            self._consumer.assign([TopicPartition(topic, partition, offset)])
            return self._polled(self._consumer, (topic, partition, offset), until)
        except KafkaException as error:
            raise PermanentError(f"Kafka: {error.args[0].str()}") from None
        finally:
            self._lock.release()

    def _polled(self, consumer: Consumer, at: tuple[str, int, int], until: float) -> Record | None:
        while machine.monotonic() < until:
            if (message := consumer.poll(_POLL_SECONDS)) is None:
                continue
            error = message.error()
            if error is None:
                record = record_of(message)
                # Messages of the assignment before this one may still be in the queue.
                if (record.topic, record.partition) == at[:2] and record.offset >= at[2]:
                    return record if record.offset == at[2] else None
            elif error.code() in _GONE:
                return None
            elif error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART):
                raise PermanentError(f"{at[0]} cannot be read: {error.str()}")
        raise Unreachable(f"Kafka has not answered within {_TIMEOUT_SECONDS:.0f} s; load the page again")

    def close(self) -> None:
        """Close the consumer."""
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None
