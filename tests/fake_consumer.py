"""The consumer of `fake_kafka`: what librdkafka does in a group and with positions."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from fake_kafka import Cluster, Entry, Group, Log, Member, Place
from typing_extensions import override

STEP_S = 0.02
"""The time after which a client that waits looks again."""
_NUMBERS = count(1)


def failure(code: int, reason: str = "", **flags: bool) -> KafkaException:
    return KafkaException(KafkaError(code, reason or KafkaError(code).str(), **flags))


class GroupMetadata(NamedTuple):
    group: str
    generation: int
    member_id: str
    instance: str | None


class Client:
    """The parts of all clients: the brokers, and the error callback."""

    def __init__(self, cluster: Cluster, properties: Mapping[str, Any]) -> None:
        self._cluster, self._properties = cluster, properties
        self._reported = False
        cluster.clients.append(self)

    def _is_answered(self) -> bool:
        """Let brokers act; return whether they answer. The error callback is told once that none does."""
        self._cluster.tick()
        if self._cluster.is_up:
            self._reported = False
        elif not self._reported:
            self._reported = True
            if callback := self._properties.get("error_cb"):
                callback(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
        return self._cluster.is_up

    def _ask(self, request: str, timeout: float, *, retriable: bool = False) -> None:
        """Raise the error of a request that is not answered in time, or is answered with one."""
        if (fault := self._cluster.fault(request)) is not None:
            raise fault
        if not self._is_answered():
            self._cluster.clocks.sleep(max(0.0, timeout))
            raise failure(KafkaError._TIMED_OUT, retriable=retriable)

    def list_topics(self, topic: str | None = None, timeout: float = 5.0) -> SimpleNamespace:
        self._ask("list_topics", timeout)
        known = {
            name: SimpleNamespace(partitions=dict.fromkeys(range(len(each.logs))), error=None)
            for name, each in self._cluster.topics.items()
            if topic in (None, name)
        }
        if topic is not None and topic not in known:
            error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            known[topic] = SimpleNamespace(partitions={}, error=error)
        return SimpleNamespace(topics=known, brokers={1: None})

    def poll(self, timeout: float = 0) -> Any:
        if not self._is_answered():
            self._cluster.clocks.sleep(timeout)

    def close(self) -> None:
        """Do nothing."""


class FakeConsumer(Client):
    """A consumer that is assigned partitions, or a member of a group."""

    def __init__(self, cluster: Cluster, properties: Mapping[str, Any]) -> None:
        super().__init__(cluster, properties)
        self._committed_only = properties.get("isolation.level", "read_committed") == "read_committed"
        self._group: Group = cluster.groups[properties["group.id"]]
        self._instance: str | None = properties.get("group.instance.id")
        self._topics: tuple[str, ...] = ()
        self._callbacks: tuple[Any, Any, Any] = (None, None, None)
        self._member_id = ""
        self._generation = -1
        self._is_leaving = False
        self._positions: dict[Place, int] = {}
        self._paused: set[Place] = set()
        self._ended: dict[Place, int] = {}
        """The ends that were reported."""
        self._watermarks: dict[Place, tuple[int, int]] = {}
        self._errors: deque[Message] = deque()
        self._is_fatal = False

    # The group.

    def subscribe(
        self, topics: Sequence[str], on_assign: Any = None, on_revoke: Any = None, on_lost: Any = None
    ) -> None:
        self._topics, self._callbacks = tuple(topics), (on_assign, on_revoke, on_lost)

    def unsubscribe(self) -> None:
        self._topics, self._is_leaving = (), True

    def kill(self) -> None:
        """Stop the heartbeats, as those of a process that is dead or suspended."""
        if member := self._group.members.get(self._member_id):
            member.is_alive = False

    def _member(self) -> Member:
        properties = self._properties
        return Member(
            self._instance,
            self._topics,
            properties.get("session.timeout.ms", 45_000) / 1000,
            properties.get("max.poll.interval.ms", 300_000) / 1000,
            properties.get("partition.assignment.strategy", "range"),
            self._cluster.now_s,
        )

    def _call(self, number: int, places: Collection[Place]) -> None:
        """Call a rebalance callback; without one the client assigns and unassigns by itself."""
        partitions = [TopicPartition(*place) for place in places]
        is_assigned = number == 0
        if callback := self._callbacks[number] or (None if is_assigned else self._callbacks[1]):
            callback(self, partitions)
        elif is_assigned:
            self.assign([TopicPartition(*at, self._stored(at)) for at in places])
        if not is_assigned:
            self.unassign()

    def _stored(self, place: Place) -> int:
        return self._group.offsets.get(place, (OFFSET_INVALID, ""))[0]

    def _take_part(self) -> None:
        """Do what the group requires of this member now."""
        group = self._group
        if self._is_leaving:
            self._is_leaving = False
            if self._generation >= 0:
                self._call(1, list(self._positions))
            group.leave(self._member_id)
            self._member_id, self._generation = "", -1
        if self._topics and not self._is_fatal:
            self._stay()

    def _stay(self) -> None:
        """Join the group, or join it again, and take what it assigns."""
        group = self._group
        if self._member_id in group.fenced:
            self._is_fatal = True
            reason = "Fatal error: Broker: Static consumer fenced by other consumer with same group.instance.id"
            self._errors.append(Message(error=KafkaError(KafkaError._FATAL, reason)))
            return
        if self._member_id and self._member_id not in group.members:
            # The session has ended: others may have the partitions already.
            lost, self._member_id, self._generation = list(self._positions), "", -1
            self._call(2, lost)
        if not self._member_id:
            self._member_id = f"member-{next(_NUMBERS):03}"
            group.join(self._member_id, self._member())
        elif group.state == "PreparingRebalance" and not group.members[self._member_id].joined:
            if self._generation >= 0:
                self._call(1, list(self._positions))
                self._generation = -1
            group.join(self._member_id, group.members[self._member_id])
        if group.state == "Stable" and self._generation != group.generation:
            if self._generation >= 0:
                self._call(1, list(self._positions))
            self._generation = group.generation
            self._call(0, group.members[self._member_id].assignment)

    def consumer_group_metadata(self) -> GroupMetadata:
        return GroupMetadata(self._properties["group.id"], self._generation, self._member_id, self._instance)

    def memberid(self) -> str:
        return self._member_id

    @override
    def close(self) -> None:
        """Give partitions up; a static member stays in its group until its session ends."""
        if self._topics and self._generation >= 0 and not self._is_fatal:
            self._call(1, list(self._positions))
            if self._instance is None:
                self._group.leave(self._member_id)
        self._topics = ()
        self.kill()

    # Positions.

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self._positions = {(each.topic, each.partition): each.offset for each in partitions}
        self._paused, self._ended, self._watermarks = set(), {}, {}

    def unassign(self) -> None:
        self.assign([])

    def seek(self, at: TopicPartition) -> None:
        place = at.topic, at.partition
        if place not in self._positions:
            raise failure(KafkaError._STATE)
        self._positions[place] = at.offset
        self._ended.pop(place, None)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self._paused |= {(each.topic, each.partition) for each in partitions}

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self._paused -= {(each.topic, each.partition) for each in partitions}

    # Records.

    @override
    def poll(self, timeout: float = 0) -> Message | None:
        until = self._cluster.clocks.monotonic() + timeout
        while True:
            if self._is_answered():
                self._take_part()
                if self._errors:
                    return self._errors.popleft()
                if (message := self._next()) is not None:
                    return message
            left = until - self._cluster.clocks.monotonic()
            if left <= 0:
                return None
            self._cluster.clocks.sleep(min(left, STEP_S))

    def consume(self, count: int, timeout: float = 0) -> list[Message]:
        until, found = self._cluster.clocks.monotonic() + timeout, list[Message]()
        while len(found) < count:
            message = self.poll(max(0.0, until - self._cluster.clocks.monotonic()))
            if message is None:
                break
            found.append(message)
        return found

    def _next(self) -> Message | None:
        """Return the next record, error or end of some partition."""
        for place in list(self._positions):
            log = self._cluster.log(place)
            if place in self._paused or log is None:
                continue
            end = log.end(committed=self._committed_only)
            self._watermarks[place] = (
                log.start,
                log.high,
            )  # That of open transactions as well, unlike the answer to a request.
            position = self._positions[place]
            if position < 0 or not log.start <= position <= log.high:
                if (error := self._reset(place, log)) is not None:
                    return error
                position = self._positions[place]
            entry = next(log.visible(position, committed=self._committed_only), None)
            if entry is not None and entry.timestamp[1] / 1000 + self._cluster.fetch_s > self._cluster.time():
                continue
            if entry is not None:
                # The others come before the next one of this partition.
                del self._positions[place]
                self._positions[place] = entry.offset + 1
                return message_of(place, entry)
            self._positions[place] = max(position, end)
            if self._properties.get("enable.partition.eof") and self._ended.get(place) != self._positions[place]:
                self._ended[place] = self._positions[place]
                eof = KafkaError(KafkaError._PARTITION_EOF)
                return Message(topic=place[0], partition=place[1], offset=self._positions[place], error=eof)
        return None

    def _reset(self, place: Place, log: Log) -> Message | None:
        """Set a position that there is not, as `auto.offset.reset` says."""
        position, policy = self._positions[place], self._properties.get("auto.offset.reset", "latest")
        if position not in (OFFSET_BEGINNING, OFFSET_END) and policy == "error":
            self._positions[place] = log.high
            error = KafkaError(KafkaError._AUTO_OFFSET_RESET)
            return Message(topic=place[0], partition=place[1], offset=position, error=error)
        to_end = position == OFFSET_END or (position != OFFSET_BEGINNING and policy in ("latest", "largest"))
        self._positions[place] = log.high if to_end else log.start
        return None

    # Requests.

    def get_watermark_offsets(
        self, at: TopicPartition, timeout: float = 5.0, *, cached: bool = False
    ) -> tuple[int, int]:
        place = at.topic, at.partition
        if cached:
            return self._watermarks.get(place, (OFFSET_INVALID, OFFSET_INVALID))
        self._ask("get_watermark_offsets", timeout)
        if (log := self._cluster.log(place)) is None:
            raise failure(KafkaError._UNKNOWN_PARTITION)
        return log.start, log.end(committed=self._committed_only)

    def committed(self, partitions: Sequence[TopicPartition], timeout: float = 5.0) -> list[TopicPartition]:
        self._ask("committed", timeout)
        name, clocks = self._properties["group.id"], self._cluster.clocks
        until = clocks.monotonic() + timeout
        while any(self._cluster.is_pending(name, (each.topic, each.partition)) for each in partitions):
            # The answer is unstable until the transaction ends.
            if clocks.monotonic() > until:
                raise failure(KafkaError._TIMED_OUT)
            clocks.sleep(STEP_S)
            self._cluster.tick()
        return [
            TopicPartition(
                each.topic, each.partition, *self._group.offsets.get((each.topic, each.partition), (OFFSET_INVALID, ""))
            )
            for each in partitions
        ]

    def offsets_for_times(self, partitions: Sequence[TopicPartition], timeout: float = 5.0) -> list[TopicPartition]:
        self._ask("offsets_for_times", timeout)
        found = []
        for each in partitions:
            log = self._cluster.log((each.topic, each.partition))
            if log is None:
                raise failure(KafkaError._UNKNOWN_PARTITION)
            after = (entry.offset for entry in log.entries[log.start :] if entry.timestamp[1] >= each.offset)
            end = log.end(committed=self._committed_only)
            at = end if each.offset == OFFSET_END else next(after, OFFSET_END)
            found.append(TopicPartition(each.topic, each.partition, at))
        return found


def message_of(place: Place, entry: Entry) -> Message:
    return Message(
        topic=place[0],
        partition=place[1],
        offset=entry.offset,
        key=entry.key,
        value=entry.value,
        headers=list(entry.headers) or None,
        timestamp=entry.timestamp,
    )
