"""The workload: sends interactions to their topic, and recreates and grows the topic."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka.cimpl import NewPartitions

from chaos.checker import Checker
from chaos.events import EventSender, Generator
from chaos.topics import CALL_S, admin, recreate, wait_for_partitions
from chaos.waiting import wait_for


class Workload(EventSender):
    """Sends the generator's records one by one, changes their topic meanwhile, and informs the checker of changes.

    `create` creates the topic as it was at first, or raises while the deleted one still exists. Methods raise
    KafkaException if brokers reject a change, TimeoutError if it does not take effect, and RuntimeError if brokers did
    not accept a record.
    """

    def __init__(
        self, bootstrap: str, topic: str, generator: Generator, checker: Checker, create: Callable[[], object]
    ) -> None:
        super().__init__(bootstrap, topic)
        self.generator, self._checker, self._create = generator, checker, create
        self._first_partitions = generator.partitions
        self._lock = threading.Lock()

    def send_next(self, due_ms: float | None = None) -> None:
        """Send the next record, whose event ends when it is due; wait while sending is paused."""
        with self._lock:
            self.send(self.generator.draw(due_ms))

    @contextmanager
    def idle(self, partition: int) -> Iterator[None]:
        """Send nothing to one partition for the length of a `with` block."""
        with self._lock:
            self.generator.idle = partition
        try:
            yield
        finally:
            with self._lock:
                self.generator.idle = None

    def recreate(self, within_s: float) -> bool:
        """Delete the topic and create it again once all of it was processed; return False if that took too long.

        Records that were not read would be lost with the topic, which no reader can prevent.
        """
        with self._lock:
            self.flush()
            if not wait_for(lambda: self._checker.complete(self.sent), within_s):
                return False
            recreate(self._bootstrap, self.topic, self._create)
            wait_for_partitions(self._bootstrap, self.topic, self._first_partitions)
            self.generator.restart(self._first_partitions)
            self.reconnect()
            self._checker.recreated(self.generator.number, self._first_partitions)
        return True

    def grow(self) -> bool:
        """Add a partition to the topic, and send to it from then on; return True."""
        more = self.generator.partitions + 1
        asked = admin(self._bootstrap)
        asked.create_partitions([NewPartitions(self.topic, more)])[self.topic].result(CALL_S)
        wait_for_partitions(self._bootstrap, self.topic, more)
        with self._lock:
            self.reconnect()
            self.generator.partitions = more
            self._checker.grown(more)
        return True
