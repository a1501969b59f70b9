"""The workload of traces: sends their records to two topics, and deletes one and creates it again meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from confluent_kafka.cimpl import NewTopic

from chaos.events import EventSender
from chaos.reading import consumer, partitions_of
from chaos.topics import CALL_S, admin, recreate
from chaos.trace_events import TraceGenerator
from chaos.truth import Sending
from chaos.waiting import require, wait_for

_READ_S = 120.0


class TraceSources(EventSender):
    """Two topics: of traces without keys, and of traces whose ids are the keys, which is deleted now and then.

    Args:
        bootstrap: the brokers.
        prefix: prefix of all topics and groups.
        partitions: the numbers of partitions of both.
        generator: the generator of the traces.
        backlog_s: the time over which the records are spread that are written before the services start.
    """

    def __init__(
        self, bootstrap: str, prefix: str, partitions: tuple[int, int], generator: TraceGenerator, backlog_s: float
    ) -> None:
        super().__init__(bootstrap, f"{prefix}otlp-unkeyed")
        self.keyed, self._group = f"{prefix}otlp-keyed", f"{prefix}key"
        self._partitions = dict(zip((self.topic, self.keyed), partitions, strict=True))
        self._generator, self._backlog_s = generator, backlog_s
        self._sendings = iter(generator)
        self._next = next(self._sendings, None)
        self._lock = threading.Lock()
        self._held: list[Sending] | None = None
        """The records with keys that wait until their topic is back; None while it exists."""
        self._admin = admin(bootstrap)
        for topic in self._partitions:
            self._create(topic)

    def write_backlog(self) -> None:
        """Send the records of the time before the services start, which ends now by their timestamps."""
        start = time.time() - self._backlog_s
        while self._next is not None and self._next.at_s < self._backlog_s:
            self._send_next(start + self._next.at_s)
        self.flush()

    def dues(self) -> Iterator[float]:
        """Yield the time at which each further record is due, in seconds since the start."""
        while self._next is not None:
            yield self._next.at_s - self._backlog_s

    def send_next(self, _: float | None = None) -> None:
        """Send the next record, or keep it until its topic is back."""
        self._send_next(None)

    def _send_next(self, at_s: float | None) -> None:
        sending = self._next
        with self._lock:
            if sending is not None and sending.key is not None and self._held is not None:
                self._held.append(sending)
            elif sending is not None:
                self._send(sending, at_s)
        self._next = next(self._sendings, None)

    def _send(self, sending: Sending, at_s: float | None) -> None:
        """Send a record now, or with a timestamp of the past, at which it has arrived."""
        truth, time_s = self._generator.truth, time.time() if at_s is None else at_s
        truth.sent(sending, time_s)
        self.produce(
            self.topic if sending.key is None else self.keyed,
            sending.value,
            sending.key,
            arrived=lambda: truth.arrived(sending, time.time() if at_s is None else at_s),
            timestamp=int(time_s * 1_000),
        )

    def recreate(self, away_s: float) -> bool:
        """Delete the topic of keyed records once it was read, and create it again; return False if that took too long.

        Records that were not read would be lost with the topic, which no reader can prevent. Those of the meantime are
        sent once key has found the new topic: it cannot wait for records of a topic of which it does not know.
        """
        with self._lock:
            self.flush()
            self._held = []
        try:
            if not wait_for(self._is_read, _READ_S):
                return False
            recreate(self._bootstrap, self.keyed, lambda: self._create(self.keyed), away_s)
            require(self._is_found, _READ_S, f"key does not find {self.keyed} again")
        finally:
            with self._lock:
                self.reconnect()  # The client may know the deleted topic.
                held, self._held = self._held or [], None
                for each in held:
                    self._send(each, None)
        return True

    def _create(self, topic: str) -> None:
        wanted = NewTopic(topic, self._partitions[topic], 1)
        self._admin.create_topics([wanted], operation_timeout=CALL_S)[topic].result(CALL_S)

    def _read_to(self) -> dict[int, tuple[int, int]]:
        """Return the offset that key has committed, below 0 without one, and the end, by partition.

        A consumer is asked: librdkafka 2.16 ended this process by an assertion while an admin client polled both.

        Raises:
            KafkaException: if nobody answers, such as during another fault.
        """
        places = partitions_of(self.keyed, range(self._partitions[self.keyed]))
        asking = consumer(self._bootstrap, group=self._group)
        try:
            committed = asking.committed(places, timeout=CALL_S)
            ends = [asking.get_watermark_offsets(at, timeout=CALL_S, cached=False)[1] for at in places]
        finally:
            asking.close()
        return {at.partition: (at.offset, end) for at, end in zip(committed, ends, strict=True)}

    def _is_read(self) -> bool:
        return all(offset >= end for offset, end in self._read_to().values())

    def _is_found(self) -> bool:
        return all(offset >= 0 for offset, _ in self._read_to().values())
