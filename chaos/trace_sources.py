"""The sources of traces: sends their records, and deletes one source and creates it again meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from chaos.waiting import require, wait_for

_CALL_S = 30.0
_FLUSH_S = 300.0
_READ_S = 120.0
_TOPIC_S = 120.0
Arrived = Callable[[float], object]
"""Called with the time at which a record was acknowledged."""
Sent = Callable[[float], object]
"""Called with the time at which a record is about to be sent."""


class TraceSources:
    """Two topics: of traces without keys, and of traces whose ids are the keys, which is deleted now and then.

    Args:
        bootstrap: the brokers.
        unkeyed: the topic of records without keys.
        keyed: the topic of the others.
        partitions: the number of partitions of both.
        group: the group of key.
    """

    def __init__(self, bootstrap: str, unkeyed: str, keyed: str, partitions: Mapping[str, int], group: str) -> None:
        self._bootstrap, self._unkeyed, self._keyed, self._group = bootstrap, unkeyed, keyed, group
        self._partitions = partitions
        self._lock = threading.Lock()
        self._held: list[tuple[bytes, bytes, Sent, Arrived]] | None = None
        """The records with keys that wait until their topic is back; None while it exists."""
        self._error: KafkaError | None = None
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._producer = self._new_producer()
        for topic in partitions:
            self._create(topic)

    def close(self) -> None:
        """Forget what was not sent."""
        self._producer.purge()

    # Sending.

    def send(self, key: bytes | None, value: bytes, sent: Sent, arrived: Arrived, at_s: float | None = None) -> None:
        """Send a record, or keep it until its topic is back; `at_s` is its timestamp instead of the current time."""
        with self._lock:
            if key is not None and self._held is not None:
                self._held.append((key, value, sent, arrived))
            else:
                self._send(key, value, sent, arrived, at_s)

    def _send(self, key: bytes | None, value: bytes, sent: Sent, arrived: Arrived, at_s: float | None) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            self._error = error or self._error
            arrived(time.time() if at_s is None else at_s)

        topic, time_s = self._unkeyed if key is None else self._keyed, time.time() if at_s is None else at_s
        sent(time_s)
        while True:
            try:
                self._producer.produce(topic, value, key, timestamp=int(time_s * 1_000), on_delivery=delivered)
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)

    def poll(self, seconds: float) -> None:
        """Handle delivery reports for some time."""
        self._producer.poll(seconds)

    def flush(self) -> None:
        """Wait until all records are acknowledged.

        Raises:
            RuntimeError: if one is not accepted.
        """
        left = self._producer.flush(_FLUSH_S)
        if left or self._error is not None:
            raise RuntimeError(f"the broker did not accept all records: {self._error or f'{left} are left'}")

    def _new_producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": int(_FLUSH_S * 1_000),
                "reconnect.backoff.max.ms": 500,
                "queue.buffering.max.messages": 10_000,
                "log_level": 0,
            }
        )

    # The topic that is deleted.

    def recreate(self, away_s: float) -> bool:
        """Delete the topic of keyed records once it was read, and create it again; return False if that took too long.

        Records that were not read would be lost with the topic, which no reader can prevent. Those of the meantime are
        sent once key has found the new topic: it cannot wait for records of a topic of which it does not know.
        """
        with self._lock:
            self.flush()
            self._held = []
        try:
            if not wait_for(self._is_read, _READ_S) or not wait_for(self._delete, _TOPIC_S):
                return False
            time.sleep(away_s)
            require(lambda: self._create(self._keyed), _TOPIC_S, f"{self._keyed} cannot be created again")
            require(self._is_found, _TOPIC_S, f"key does not find {self._keyed} again")
        finally:
            with self._lock:
                # The client may know the deleted topic.
                self.flush()
                self._producer = self._new_producer()
                held, self._held = self._held or [], None
                for each in held:
                    self._send(*each, None)
        return True

    def _create(self, topic: str) -> bool:
        """Create a topic; return False if a deleted one of the name is left, or nobody answers during another fault."""
        wanted = NewTopic(topic, self._partitions[topic], 1)
        with suppress(KafkaException, TimeoutError):
            self._admin.create_topics([wanted], operation_timeout=_CALL_S)[topic].result(_CALL_S)
            return True
        return False

    def _delete(self) -> bool:
        """Delete the topic of keyed records; return False if nobody answers."""
        try:
            self._admin.delete_topics([self._keyed], operation_timeout=_CALL_S)[self._keyed].result(_CALL_S)
        except TimeoutError:
            return False
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART)  # An earlier call has done it.
        return True

    def _read_to(self) -> dict[int, tuple[int, int]]:
        """Return the offset that key has committed, below 0 without one, and the end, by partition.

        A consumer is asked: librdkafka 2.16 ended this process by an assertion while an admin client polled both.

        Raises:
            KafkaException: if nobody answers, such as during another fault.
        """
        places = [TopicPartition(self._keyed, number) for number in range(self._partitions[self._keyed])]
        asking = Consumer({"bootstrap.servers": self._bootstrap, "group.id": self._group, "log_level": 0})
        try:
            committed = asking.committed(places, timeout=_CALL_S)
            ends = [asking.get_watermark_offsets(at, timeout=_CALL_S, cached=False)[1] for at in places]
        finally:
            asking.close()
        return {at.partition: (at.offset, end) for at, end in zip(committed, ends, strict=True)}

    def _is_read(self) -> bool:
        return all(offset >= end for offset, end in self._read_to().values())

    def _is_found(self) -> bool:
        return all(offset >= 0 for offset, _ in self._read_to().values())
