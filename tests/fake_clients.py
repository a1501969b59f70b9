"""The transactional producer and the admin client of `fake_kafka`, as librdkafka makes them behave."""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NoReturn

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from fake_consumer import Client, GroupMetadata, failure, message_of
from fake_kafka import Cluster, Place
from typing_extensions import override

_BATCH_BYTES = 1_000_000
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
                record.report(None, message_of(place, entry))

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
