"""The clients of `fake_kafka`: what librdkafka does with a consumer, a transactional producer and an admin client."""

import struct
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from fake_kafka import Cluster, Entry, Group, Log, Member, Place
from typing_extensions import override

STEP_S = 0.02
"""The time after which a client that waits looks again."""
_BATCH_BYTES = 1_000_000
_NUMBERS = count(1)


def failure(code: int, reason: str = "", **flags: bool) -> KafkaException:
    return KafkaException(KafkaError(code, reason or KafkaError(code).str(), **flags))


class GroupMetadata(NamedTuple):
    group: str
    generation: int
    member_id: str
    instance: str | None


class Client:
    """What all clients have: the brokers, and the error callback."""

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
                return _message(place, entry)
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


def _message(place: Place, entry: Entry) -> Message:
    return Message(
        topic=place[0],
        partition=place[1],
        offset=entry.offset,
        key=entry.key,
        value=entry.value,
        headers=list(entry.headers) or None,
        timestamp=entry.timestamp,
    )


Report = Callable[[KafkaError | None, Message], object]


@dataclass(frozen=True)
class _Queued:
    """A record that is not sent yet."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Any
    report: Report | None

    def __len__(self) -> int:
        return len(self.key or b"") + len(self.value or b"")


class FakeProducer(Client):
    """A transactional producer. Records are sent while the client is polled, and before a commit."""

    def __init__(self, cluster: Cluster, properties: Mapping[str, Any]) -> None:
        super().__init__(cluster, properties)
        self._id = properties.get("transactional.id", "")
        self._epoch = -1
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._abort_for: KafkaError | None = None
        """The error after which the transaction can only be aborted."""
        self._fatal: KafkaError | None = None
        self._gaps: set[Place] = set()
        """The partitions whose next batch has a sequence number too high, as one before it was rejected."""
        self._next_gaps: set[Place] = set()

    def __len__(self) -> int:
        return len(self._queue)

    def init_transactions(self, timeout: float = 30.0) -> None:
        self._ask("init_transactions", timeout, retriable=True)
        timeout_s = self._properties.get("transaction.timeout.ms", 60_000) / 1000
        if timeout_s > self._cluster.max_transaction_s:
            self._fail(KafkaError.INVALID_TRANSACTION_TIMEOUT)
        self._epoch = self._cluster.begin_epoch(self._id, timeout_s)

    def begin_transaction(self) -> None:
        self._check_fatal()

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        on_delivery: Report | None = None,
        headers: Any = None,
    ) -> None:
        self._check_fatal()
        size = len(value or b"") + len(key or b"")
        if size > self._properties.get("message.max.bytes", 1_000_000):
            raise failure(KafkaError.MSG_SIZE_TOO_LARGE)
        if (known := self._cluster.topics.get(topic)) is not None and partition >= len(known.logs):
            raise failure(KafkaError._UNKNOWN_PARTITION)
        if self._queued_bytes + size > 1024 * self._properties.get("queue.buffering.max.kbytes", 1024 * 1024):
            raise BufferError
        self._queue.append(_Queued(topic, partition, key, value, headers or (), on_delivery))
        self._queued_bytes += size

    @override
    def poll(self, timeout: float = 0) -> int:
        if self._is_answered():
            self._send()
        elif timeout:
            self._cluster.clocks.sleep(timeout)
        return 0

    def flush(self, timeout: float = 0) -> int:
        self.poll(timeout)
        return len(self._queue)

    def _send(self) -> None:
        """Send what is queued, in batches of one partition, which brokers take or reject as a whole."""
        batches: list[tuple[Place, list[_Queued]]] = []
        newest: dict[Place, list[_Queued]] = {}
        for record in self._queue:
            place = self._cluster.partition_of(record.topic, record.key, record.partition)
            if place not in newest or sum(map(len, newest[place])) + len(record) > _BATCH_BYTES:
                newest[place] = []
                batches.append((place, newest[place]))
            newest[place].append(record)
        if self._gaps & newest.keys():
            self._abort_for = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, txn_requires_abort=True)
            return
        self._queue.clear()
        self._queued_bytes = 0
        for place, batch in batches:
            if (code := self._refusal(place, sum(map(len, batch)))) is None:
                self._append(place, batch)
                continue
            error = KafkaError(code)
            if code == KafkaError.MSG_SIZE_TOO_LARGE:
                self._next_gaps.add(place)
            if self._fatal is None:
                self._abort_for = self._abort_for or KafkaError(code, error.str(), txn_requires_abort=True)
            self._report(batch, error)

    def _append(self, place: Place, batch: Sequence["_Queued"]) -> None:
        transaction = self._cluster.transaction(self._id) if self._id else None
        if transaction is not None:
            transaction.places.add(place)
        for record in batch:
            entry = self._cluster.append(place, record.key, record.value, record.headers, transaction)
            if record.report and not self._properties.get("delivery.report.only.error"):
                record.report(None, _message(place, entry))

    @staticmethod
    def _report(batch: Iterable["_Queued"], error: KafkaError) -> None:
        for each in batch:
            if each.report:
                each.report(error, Message(topic=each.topic, key=each.key, value=each.value, error=error))

    def _refusal(self, place: Place, size: int) -> int | None:
        """Return the error of a batch that brokers do not take."""
        if self._is_fenced():
            return KafkaError._FENCED
        if (known := self._cluster.topics.get(place[0])) is None:
            return KafkaError._UNKNOWN_TOPIC
        if size > int(known.config.get("max.message.bytes", 1_048_588)):
            return KafkaError.MSG_SIZE_TOO_LARGE
        return None

    def send_offsets_to_transaction(
        self, offsets: Sequence[TopicPartition], metadata: GroupMetadata, timeout: float = 30.0
    ) -> None:
        self._check("send_offsets_to_transaction", timeout)
        group = self._cluster.groups[metadata.group]
        code = group.check(metadata.member_id, metadata.generation, metadata.instance)
        if code is not None:
            self._abort_for = KafkaError(code, KafkaError(code).str(), txn_requires_abort=True)
            raise KafkaException(self._abort_for)
        if any(self._cluster.log((each.topic, each.partition)) is None for each in offsets):
            self._cluster.clocks.sleep(timeout)
            raise failure(KafkaError._TIMED_OUT, retriable=True)
        pending = self._cluster.transaction(self._id).offsets[metadata.group]
        pending |= {(each.topic, each.partition): (each.offset, each.metadata or "") for each in offsets}

    def commit_transaction(self, timeout: float = 30.0) -> None:
        self._check("commit_transaction", timeout)
        self._send()
        self._check("commit_transaction", timeout)
        self._cluster.end(self._id, commit=True)

    def abort_transaction(self, timeout: float = 30.0) -> None:
        self._ask("abort_transaction", timeout, retriable=True)
        self._report(self._queue, KafkaError(KafkaError._PURGE_QUEUE))
        self._queue.clear()
        self._gaps, self._next_gaps = self._next_gaps, set()
        self._queued_bytes = 0
        self._check_fatal()
        if self._is_fenced():
            self._check_fatal()
        self._abort_for = None
        self._cluster.end(self._id, commit=False)

    def _check(self, request: str, timeout: float) -> None:
        """Raise the error of a call that needs a transaction that is well."""
        self._check_fatal()
        self._ask(request, timeout, retriable=True)
        if self._is_fenced():
            self._check_fatal()
        if self._abort_for is not None:
            raise KafkaException(self._abort_for)

    def _check_fatal(self) -> None:
        if self._fatal is not None:
            raise KafkaException(self._fatal)

    def _is_fenced(self) -> bool:
        if self._id and self._fatal is None and self._epoch != self._cluster.transactional[self._id].epoch:
            self._fatal = KafkaError(KafkaError._FENCED, "fenced by a newer epoch", fatal=True)
        return self._fatal is not None

    def _fail(self, code: int) -> NoReturn:
        self._fatal = KafkaError(code, KafkaError(code).str(), fatal=True)
        raise KafkaException(self._fatal)


class FakeAdmin(Client):
    """An admin client, whose answers are there at once."""

    def describe_topics(self, topics: Any, request_timeout: float = 5.0) -> Mapping[str, "Future[Any]"]:
        return {name: self._answer(request_timeout, self._described, name) for name in topics.topic_names}

    def _described(self, name: str) -> SimpleNamespace:
        if (topic := self._cluster.topics.get(name)) is None:
            raise failure(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return SimpleNamespace(topic_id=topic.id, partitions=list(topic.logs))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, Any], isolation_level: Any = None, request_timeout: float = 5.0
    ) -> Mapping[TopicPartition, "Future[Any]"]:
        committed = isolation_level == IsolationLevel.READ_COMMITTED
        return {at: self._answer(request_timeout, self._offset, at, spec, committed) for at, spec in wanted.items()}

    def _offset(self, at: TopicPartition, spec: Any, committed: bool) -> SimpleNamespace:
        log = self._cluster.log((at.topic, at.partition))
        if log is None:
            raise failure(KafkaError.UNKNOWN_TOPIC_OR_PART)
        if spec._value == OFFSET_BEGINNING:
            return SimpleNamespace(offset=log.start)
        if spec._value == OFFSET_END:
            return SimpleNamespace(offset=log.end(committed=committed))
        after = (entry.offset for entry in log.entries[log.start :] if entry.timestamp[1] >= spec._value)
        return SimpleNamespace(offset=next(after, -1))

    def list_groups(self, name: str, timeout: float = 5.0) -> list[SimpleNamespace]:
        self._ask("list_groups", timeout)
        group = self._cluster.groups[name]
        members = [SimpleNamespace(id=each, assignment=_encoded(own.assignment)) for each, own in group.members.items()]
        return [SimpleNamespace(id=name, state=group.state, error=None, members=members)]

    def describe_configs(self, resources: Sequence[Any], request_timeout: float = 5.0) -> Mapping[Any, "Future[Any]"]:
        limit = {
            "transaction.max.timeout.ms": SimpleNamespace(value=str(round(1000 * self._cluster.max_transaction_s)))
        }
        return {each: self._answer(request_timeout, lambda: limit) for each in resources}

    def _answer(self, timeout: float, ask: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            self._ask(ask.__name__, timeout)
            future.set_result(ask(*arguments))
        except KafkaException as error:
            future.set_exception(error)
        return future


def _encoded(assignment: Sequence[Place]) -> bytes:
    """Return an assignment as the consumer protocol encodes it."""
    topics: dict[str, list[int]] = {}
    for name, number in assignment:
        topics.setdefault(name, []).append(number)
    encoded = struct.pack(">hi", 0, len(topics))
    for name, numbers in topics.items():
        encoded += (
            struct.pack(">h", len(name)) + name.encode() + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        )
    return encoded + struct.pack(">i", 0)
