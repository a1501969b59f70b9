"""The workload: the traffic as it is sent, and the topic that it is sent to, which is made again and grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from chaos.checker import Checker
from chaos.events import Sender, Traffic
from ragweir.errors import RagweirError

_CALL_S = 30.0
_MADE_S = 60.0
_PAUSE_S = 0.2


class Workload:
    """Sends the traffic, record by record, and changes the topic under it.

    Args:
        bootstrap: the addresses of all brokers, past the proxy.
        topic: the interactions.
        traffic: draws the records.
        checker: is told which topic there is.
        create: creates the topic as it was at first, or raises while the one before is not gone.
    """

    def __init__(
        self, bootstrap: str, topic: str, traffic: Traffic, checker: Checker, create: Callable[[], object]
    ) -> None:
        self._bootstrap, self.topic = bootstrap, topic
        self._traffic, self._checker, self._create = traffic, checker, create
        self._first = traffic.partitions
        self._sender = Sender(bootstrap, topic)
        self._sending = threading.Lock()

    @property
    def sent(self) -> int:
        """How many records were sent."""
        return self._sender.sent

    @property
    def partitions(self) -> int:
        """How many partitions the topic has."""
        return self._traffic.partitions

    def send(self) -> None:
        """Send the next record; waits while sending is paused."""
        with self._sending:
            self._sender.send(self._traffic.draw())

    def flush(self) -> None:
        """Wait until all that was sent is in the topic.

        Raises:
            RuntimeError: if the brokers did not take a record.
        """
        with self._sending:
            self._sender.flush()

    @contextmanager
    def idle(self, partition: int) -> Iterator[None]:
        """Send nothing to one partition for the length of a `with` block."""
        with self._sending:
            self._traffic.idle = partition
        try:
            yield
        finally:
            with self._sending:
                self._traffic.idle = None

    def recreate(self, within_s: float) -> bool:
        """Delete the topic and make it again once all of it has come out; return whether it came to that.

        Records that were not read would be lost with the topic, which is no fault of whoever reads it.

        Args:
            within_s: how long the output is waited for.

        Raises:
            KafkaException: if Kafka refuses.
            RuntimeError: if the brokers did not take a record.
            TimeoutError: if the topic cannot be made again.
        """
        with self._sending:
            self._sender.flush()
            until = time.monotonic() + within_s
            while not self._checker.complete(self.sent):
                if time.monotonic() > until:
                    return False
                time.sleep(_PAUSE_S)
            before, admin = self._id(), self._admin()
            admin.delete_topics([self.topic], operation_timeout=_CALL_S)[self.topic].result(_CALL_S)
            self._make_again(before)
            self._wait_for_partitions(self._first)
            self._traffic.begin(self._first)
            self._sender.connect_anew()
            self._checker.recreated(self._traffic.number, self._first)
        return True

    def grow(self) -> None:
        """Add a partition to the topic, and begin to send to it at once.

        Raises:
            KafkaException: if Kafka refuses.
            RuntimeError: if the brokers did not take a record.
            TimeoutError: if the partition does not appear.
        """
        more, admin = self._traffic.partitions + 1, self._admin()
        admin.create_partitions([NewPartitions(self.topic, more)])[self.topic].result(_CALL_S)
        self._wait_for_partitions(more)
        with self._sending:
            self._sender.connect_anew()
            self._traffic.grow()
            self._checker.grown(more)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def _make_again(self, before: str) -> None:
        """Create the topic until it has another id than before: brokers may still know the one that is deleted."""
        until = time.monotonic() + _MADE_S
        while time.monotonic() < until:
            with suppress(KafkaException, RagweirError):
                self._create()
                if self._id() != before:
                    return
            time.sleep(_PAUSE_S)
        raise TimeoutError(f"{self.topic} cannot be made again")

    def _id(self) -> str:
        admin = self._admin()
        asked = admin.describe_topics(TopicCollection([self.topic]), request_timeout=_CALL_S)
        return str(asked[self.topic].result(_CALL_S).topic_id)

    def _wait_for_partitions(self, number: int) -> None:
        """Wait until every broker knows the topic as it is now, with a leader for each partition."""
        until = time.monotonic() + _MADE_S
        for address in self._bootstrap.split(","):
            admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
            while not self._knows(admin, number):
                if time.monotonic() > until:
                    raise TimeoutError(f"{self.topic} does not come to have {number} partitions")
                time.sleep(_PAUSE_S)

    def _knows(self, admin: AdminClient, number: int) -> bool:
        try:
            found = admin.list_topics(timeout=_CALL_S).topics.get(self.topic)
        except KafkaException:
            return False
        return (
            found is not None
            and len(found.partitions) == number
            and all(each.leader >= 0 for each in found.partitions.values())
        )
