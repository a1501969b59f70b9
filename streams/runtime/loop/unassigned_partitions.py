"""Finds partitions of the inputs that no member of the group is assigned, and joins the group again.

A restarted static member gets its old assignment back without a rebalance. If it leads the group, it sees no change of
the partition count and does not ask for a rebalance, so that a partition added before its start stays unread. Java's
client compares the assignment with the topics in this case (KIP-814); librdkafka does not. A member that leaves the
group and joins again causes the rebalance.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Mapping, Sequence

import structlog
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset
from confluent_kafka.admin import AdminClient

from ragweir.streams.runtime.kafka.client import Connection, build, client_properties
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import TopicPartition
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_CALL_SECONDS = 2.0
_CHECK_SECONDS = 5.0
"""Time between two checks while some partition has no committed offset."""
_STAGGER_SECONDS = 5.0
"""Time by which each member of the group waits longer than the one before it, in the order of ids."""
_MAX_DELAY_SECONDS = 600.0


class _Backoff:
    """Decides when to join the group again: later with each attempt, and one member of the group after the other.

    >>> backoff = _Backoff()
    >>> [backoff.is_due(now_s, member=1) for now_s in (100, 105, 110)]
    [False, False, True]
    >>> [backoff.is_due(now_s, member=1) for now_s in (115, 125, 130)]
    [False, False, True]
    >>> backoff.interrupt()
    >>> [backoff.is_due(now_s, member=1) for now_s in (135, 155, 160)]
    [False, False, True]
    >>> backoff.end()
    >>> [backoff.is_due(now_s, member=0) for now_s in (200, 205)]
    [False, True]
    """

    def __init__(self) -> None:
        self._found_s: float | None = None
        self._delay_s = _STAGGER_SECONDS

    def is_due(self, now_s: float, member: int) -> bool:
        """Return whether to join again now, as the member with this number, while partitions are unassigned."""
        if self._found_s is None:
            self._found_s = now_s
        if now_s - self._found_s < self._delay_s + member * _STAGGER_SECONDS:
            return False
        self._found_s, self._delay_s = None, min(2 * self._delay_s, _MAX_DELAY_SECONDS)
        return True

    def interrupt(self) -> None:
        """Restart the delay: all partitions are assigned, or a rebalance is in progress."""
        self._found_s = None

    def end(self) -> None:
        """Reset the delay: all partitions are read."""
        self._found_s, self._delay_s = None, _STAGGER_SECONDS


class UnassignedPartitions:
    """Joins the group again when a partition of the inputs is not assigned to any of its members.

    Every partition that was ever assigned has a committed offset. While all `partitions`, by the current count of each
    input, have one, there are no checks, nor while the connection is lost.
    """

    def __init__(
        self,
        settings: Settings,
        consumer: Consumer,
        group: str,
        partitions: Callable[[], Mapping[str, int]],
        connection: Connection,
        rejoin: Callable[[], None],
    ) -> None:
        self._settings, self._consumer, self._group = settings, consumer, group
        self._partitions, self._connection, self._rejoin = partitions, connection, rejoin
        self._started: dict[str, int] = {}
        """The partition count of each topic when all partitions had committed offsets."""
        self._check_at = 0.0
        self._backoff = _Backoff()

    def tick(self) -> None:
        """Check every few seconds whether partitions are unassigned. Block for at most some seconds."""
        now = machine.monotonic()
        if now < self._check_at or self._connection.lost_reason:
            return
        self._check_at = now + _CHECK_SECONDS
        partitions = self._partitions()
        self._started = {name: count for name, count in self._started.items() if name in partitions}
        grown = {name: count for name, count in partitions.items() if count != self._started.get(name)}
        if not grown:
            return
        try:
            not_started = self._not_started(grown)
            unassigned, member = self._unassigned(not_started)
        except KafkaException as error:  # The next check asks again.
            log.debug("the group's state is unknown", reason=error.args[0].str())
            return
        if not not_started:
            self._backoff.end()
        elif not unassigned:
            self._backoff.interrupt()
        elif self._backoff.is_due(now, member):
            by_topic = {name: [number for topic, number in unassigned if topic == name] for name, _ in unassigned}
            log.warning("partitions are assigned to no worker; joining the group again", partitions=by_topic)
            self._rejoin()

    def _not_started(self, topics: Mapping[str, int]) -> list[TopicPartition]:
        """Return the partitions without a committed offset."""
        wanted = [PartitionOffset(name, number) for name, count in topics.items() for number in range(count)]
        answered = self._consumer.committed(wanted, timeout=_CALL_SECONDS)
        if errors := [each.error for each in answered if each.error is not None]:
            raise KafkaException(errors[0])
        left = [(each.topic, each.partition) for each in answered if each.offset < 0]
        self._started |= {name: topics[name] for name in topics.keys() - {topic for topic, _ in left}}
        return left

    def _unassigned(self, partitions: Sequence[TopicPartition]) -> tuple[list[TopicPartition], int]:
        """Return those of the partitions that no member is assigned, and this member's number in the group.

        During a rebalance none are returned, as it may assign them.
        """
        if not partitions:
            return [], 0
        # A new client has live brokers only. describe_consumer_groups, the successor of list_groups, aborts the process
        # if the connection to the coordinator breaks at the wrong moment (librdkafka issue 4605).
        admin = build(AdminClient, client_properties(self._settings, Connection(quiet=True)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            groups = admin.list_groups(self._group, timeout=_CALL_SECONDS)
        members: dict[str, bytes | None] = {
            str(member.id): member.assignment
            for group in groups
            if group.state == "Stable" and group.error is None
            for member in group.members
        }
        own = self._consumer.memberid()
        if own not in members:
            return [], 0
        assigned = {each for assignment in members.values() for each in assigned_partitions(assignment)}
        return [each for each in partitions if each not in assigned], sorted(members).index(own)


def assigned_partitions(assignment: bytes | None) -> list[TopicPartition]:
    r"""Decode a member's assignment, as Kafka's consumer protocol encodes it.

    >>> assigned_partitions(b"\0\0" b"\0\0\0\1" b"\0\1t" b"\0\0\0\2" b"\0\0\0\0" b"\0\0\0\3" b"\0\0\0\0")
    [('t', 0), ('t', 3)]
    >>> assigned_partitions(None)
    []
    """
    partitions: list[TopicPartition] = []
    if not assignment:
        return partitions
    (topics,), at = struct.unpack_from(">i", assignment, 2), 6
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", assignment, at)
        name = assignment[at + 2 : at + 2 + length].decode()
        (count,) = struct.unpack_from(">i", assignment, at + 2 + length)
        at += 2 + length + 4
        partitions += [(name, number) for number in struct.unpack_from(f">{count}i", assignment, at)]
        at += 4 * count
    return partitions
