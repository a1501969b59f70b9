"""Finds partitions of the inputs that no member of the group is assigned, and joins the group again.

A restarted static member gets its old assignment back without a rebalance. If it leads the group, it knows the current
number of partitions from the start and sees no change that would make it ask for a rebalance, so a partition that was
added in between stays unread. Java's client compares the assignment with the topics in this case (KIP-814); librdkafka
does not. A member that leaves the group and joins again causes the rebalance.
"""

from __future__ import annotations

import struct
import time
import warnings
from collections.abc import Callable, Mapping, Sequence

import structlog
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset
from confluent_kafka.admin import AdminClient

from ragweir.streams.kafka.client import Connection, build, client_properties
from ragweir.streams.records import TopicPartition
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_CALL_S = 2.0
_EVERY_S = 5.0
"""The time in seconds between two checks while some partition has no committed offset."""
_TURN_S = 5.0
"""The time in seconds by which each member of the group waits longer than the one before it, in the order of ids."""
_LONGEST_S = 600.0


class Backoff:
    """Says when to join the group again: later with each attempt, and one member of the group after the other.

    >>> backoff = Backoff()
    >>> [backoff.is_due(now_s, turn=1) for now_s in (100, 105, 110)]
    [False, False, True]
    >>> [backoff.is_due(now_s, turn=1) for now_s in (115, 125, 130)]
    [False, False, True]
    >>> backoff.interrupt()
    >>> [backoff.is_due(now_s, turn=1) for now_s in (135, 155, 160)]
    [False, False, True]
    >>> backoff.end()
    >>> [backoff.is_due(now_s, turn=0) for now_s in (200, 205)]
    [False, True]
    """

    def __init__(self) -> None:
        self._found_s: float | None = None
        self._delay_s = _TURN_S

    def is_due(self, now_s: float, turn: int) -> bool:
        """Return whether to join again now, as partitions are unassigned.

        Args:
            now_s: the time by a clock that never goes back.
            turn: this member's number in the group, from 0.
        """
        if self._found_s is None:
            self._found_s = now_s
        if now_s - self._found_s < self._delay_s + turn * _TURN_S:
            return False
        self._found_s, self._delay_s = None, min(2 * self._delay_s, _LONGEST_S)
        return True

    def interrupt(self) -> None:
        """Begin to wait anew: all are assigned, or a rebalance is under way."""
        self._found_s = None

    def end(self) -> None:
        """Forget former attempts: all partitions are read."""
        self._found_s, self._delay_s = None, _TURN_S


class UnreadPartitions:
    """Joins the group again when a partition of the inputs is not assigned to any of its members.

    Every partition that was ever assigned has a committed offset, so as long as all have one, Kafka is not asked again.

    Args:
        settings: how to reach Kafka.
        consumer: the worker's member of the group.
        group: its name.
        partitions: returns the current number of partitions of each input topic.
        connection: while it is lost, Kafka is not asked.
        rejoin: leaves the group and joins it again.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        settings: Settings,
        consumer: Consumer,
        group: str,
        partitions: Callable[[], Mapping[str, int]],
        connection: Connection,
        rejoin: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._consumer, self._group, self._clock = settings, consumer, group, clock
        self._partitions, self._connection, self._rejoin = partitions, connection, rejoin
        self._started: dict[str, int] = {}
        """The number of partitions of each topic when all of them had committed offsets."""
        self._check_at = 0.0
        self._backoff = Backoff()

    def watch(self) -> None:
        """Check every few seconds whether partitions are unassigned; blocks for at most some seconds."""
        now = self._clock()
        if now < self._check_at or self._connection.lost_because:
            return
        self._check_at = now + _EVERY_S
        grown = {name: count for name, count in self._partitions().items() if count != self._started.get(name)}
        if not grown:
            return
        try:
            not_started = self._not_started(grown)
            unassigned, turn = self._unassigned(not_started)
        except KafkaException as error:  # The next check asks again.
            log.debug("the group's state is unknown", reason=error.args[0].str())
            return
        if not not_started:
            self._backoff.end()
        elif not unassigned:
            self._backoff.interrupt()
        elif self._backoff.is_due(now, turn):
            log.warning("partitions that no worker reads; joining the group again", partitions=_named(unassigned))
            self._rejoin()

    def _not_started(self, topics: Mapping[str, int]) -> list[TopicPartition]:
        """Return the partitions without a committed offset.

        Raises:
            KafkaException: if Kafka does not answer.
        """
        wanted = [PartitionOffset(name, number) for name, count in topics.items() for number in range(count)]
        answered = self._consumer.committed(wanted, timeout=_CALL_S)
        if errors := [each.error for each in answered if each.error is not None]:
            raise KafkaException(errors[0])
        left = [(each.topic, each.partition) for each in answered if each.offset < 0]
        self._started |= {name: topics[name] for name in topics.keys() - {topic for topic, _ in left}}
        return left

    def _unassigned(self, places: Sequence[TopicPartition]) -> tuple[list[TopicPartition], int]:
        """Return those of the partitions that no member is assigned, and this member's number in the group.

        A rebalance that is under way may assign them, so that none are returned during it.

        Raises:
            KafkaException: if Kafka does not answer.
        """
        if not places:
            return [], 0
        # A new client knows live brokers only. describe_consumer_groups, which takes the place of list_groups, aborts
        # the process when the connection to the coordinator breaks at the wrong moment (librdkafka issue 4605).
        admin = build(AdminClient, client_properties(self._settings, Connection(quiet=True)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            groups = admin.list_groups(self._group, timeout=_CALL_S)
        members: dict[str, bytes | None] = {
            str(member.id): member.assignment
            for group in groups
            if group.state == "Stable" and group.error is None
            for member in group.members
        }
        own = self._consumer.memberid()
        if own not in members:
            return [], 0
        assigned = {place for assignment in members.values() for place in assigned_places(assignment)}
        return [place for place in places if place not in assigned], sorted(members).index(own)


def assigned_places(assignment: bytes | None) -> list[TopicPartition]:
    r"""Decode a member's assignment, as Kafka's consumer protocol encodes it.

    >>> assigned_places(b"\0\0" b"\0\0\0\1" b"\0\1t" b"\0\0\0\2" b"\0\0\0\0" b"\0\0\0\3" b"\0\0\0\0")
    [('t', 0), ('t', 3)]
    >>> assigned_places(None)
    []
    """
    places: list[TopicPartition] = []
    if not assignment:
        return places
    (topics,), at = struct.unpack_from(">i", assignment, 2), 6
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", assignment, at)
        name = assignment[at + 2 : at + 2 + length].decode()
        (count,) = struct.unpack_from(">i", assignment, at + 2 + length)
        at += 2 + length + 4
        places += [(name, number) for number in struct.unpack_from(f">{count}i", assignment, at)]
        at += 4 * count
    return places


def _named(places: Sequence[TopicPartition]) -> dict[str, list[int]]:
    """Group partitions by their topics.

    >>> _named([("t", 2), ("t", 3)])
    {'t': [2, 3]}
    """
    return {name: [number for topic, number in places if topic == name] for name, _ in places}
