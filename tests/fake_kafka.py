"""A Kafka cluster in memory, by the rules that Kafka documents, for tests of runtimes without a broker.

It has logs with control records, transactions with epochs and pending offsets, and groups of the classic protocol with
generations and static members. It is written from the protocol's rules (KIP-98, KIP-345, KIP-447) and from no code of
ragweir. `tests/integration/test_fake_kafka.py` runs one script on it and on a real Kafka, with equal results.
Its clients are in `fake_consumer` and `fake_clients`.
"""

import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException
from typing_extensions import override

from ragweir.streams.runtime.machine import Clocks

Place = tuple[str, int]
Headers = Sequence[tuple[str, bytes | None]]


class VirtualClocks(Clocks):
    """Clocks that move when somebody waits or looks, so that a test of a minute takes a moment.

    Threads other than the main one wait in real time.
    """

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()

    @override
    def time(self) -> float:
        return 1_800_000_000.0 + self.monotonic()

    @override
    def monotonic(self) -> float:
        if threading.current_thread() is threading.main_thread():
            self._elapsed += 1e-6
        return self._elapsed

    @override
    def time_ns(self) -> int:
        return round(self.time() * 1e9)

    @override
    def monotonic_ns(self) -> int:
        return round(self.monotonic() * 1e9)

    @override
    def boottime(self) -> float:
        return self.monotonic()

    @override
    def sleep(self, seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(seconds)
            return
        until = self._elapsed + max(0.0, seconds)
        while self._events and self._events[0][0] <= until:
            at, _, call = heappop(self._events)
            self._elapsed = max(self._elapsed, at)
            call()
        self._elapsed = max(self._elapsed, until)

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Call something once so many seconds have passed, while somebody waits."""
        heappush(self._events, (self._elapsed + seconds, next(self._numbers), call))


@dataclass(eq=False)
class Transaction:
    """One transaction of a transactional id."""

    began_s: float
    state: str = "open"
    places: set[Place] = field(default_factory=set)
    offsets: dict[str, dict[Place, tuple[int, str]]] = field(default_factory=lambda: defaultdict(dict))
    """The pending offsets of each group."""


@dataclass(frozen=True)
class Entry:
    """A record of a log, or the marker that ends a transaction."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: tuple[int, int]
    transaction: Transaction | None = None
    is_marker: bool = False


class Log:
    """One partition. Markers take offsets, and are given to nobody."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.start = 0

    @property
    def high(self) -> int:
        """The high watermark."""
        return len(self.entries)

    def end(self, *, committed: bool) -> int:
        """The high watermark, or the last stable offset: the first record of an open transaction."""
        if not committed:
            return self.high
        opened = (each.offset for each in self.entries if each.transaction and each.transaction.state == "open")
        return min(opened, default=self.high)

    def visible(self, first: int, *, committed: bool) -> Iterator[Entry]:
        for entry in self.entries[max(first, self.start) : self.end(committed=committed)]:
            aborted = entry.transaction is not None and entry.transaction.state == "aborted"
            if not entry.is_marker and not (committed and aborted):
                yield entry


@dataclass
class Topic:
    id: str
    logs: list[Log]
    config: Mapping[str, str]


@dataclass
class Member:
    """A member of a group, as its coordinator has it."""

    instance: str | None
    topics: tuple[str, ...]
    session_s: float
    rebalance_s: float
    strategy: str
    beat_s: float = 0.0
    is_alive: bool = True
    """False for a process that is dead or stopped, and sends no heartbeats."""
    joined: bool = False
    assignment: list[Place] = field(default_factory=list)


class Group:
    """A group of the classic protocol, with eager rebalances."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self.generation = 0
        self.state = "Empty"
        self.members: dict[str, Member] = {}
        self.fenced: set[str] = set()
        """Member ids whose static instance has a newer process."""
        self.offsets: dict[Place, tuple[int, str]] = {}
        self._began_s = 0.0
        self._counts: Mapping[str, int] = {}
        """The partition counts that the assignments are made of."""

    def join(self, member_id: str, member: Member) -> None:
        """Add a member, or a member's request to join again."""
        old = next(
            (each for each, other in self.members.items() if other.instance and other.instance == member.instance), None
        )
        known = self.members.get(member_id)
        if known is None and old is not None:
            # The restarted process of a static member: it goes on with the assignment, without a rebalance.
            member.assignment = self.members.pop(old).assignment
            self.fenced.add(old)
            self.members[member_id] = member
            if self.state == "Stable":
                return
        elif known is None:
            self.members[member_id] = member
            self.begin()
        self.members[member_id].joined = True
        self._complete()

    def leave(self, member_id: str) -> None:
        if self.members.pop(member_id, None) is not None:
            self.begin()
            self._complete()

    def begin(self) -> None:
        """Begin a rebalance, which all members join once they poll."""
        self.state, self._began_s = "PreparingRebalance", self._cluster.now_s
        for member in self.members.values():
            member.joined = False

    def tick(self) -> None:
        """Remove members that are silent, and look for new partitions, as a leader does."""
        now = self._cluster.now_s
        for member_id, member in list(self.members.items()):
            if member.is_alive:
                member.beat_s = now
            late = self.state != "Stable" and not member.joined and now > self._began_s + member.rebalance_s
            if late or now > member.beat_s + member.session_s:
                self.leave(member_id)
        if self.state == "Stable" and self._counts != self._present():
            self.begin()

    def _present(self) -> Mapping[str, int]:
        wanted = {topic for member in self.members.values() for topic in member.topics}
        return {name: len(topic.logs) for name, topic in self._cluster.topics.items() if name in wanted}

    def _complete(self) -> None:
        if not self.members:
            self.state = "Empty"
            return
        if self.state != "PreparingRebalance" or not all(member.joined for member in self.members.values()):
            return
        self.state, self.generation, self._counts = "Stable", self.generation + 1, self._present()
        ids = sorted(self.members)
        for member in self.members.values():
            member.assignment = []
        by_range = self.members[ids[0]].strategy == "range"
        places = [(name, number) for name, partitions in sorted(self._counts.items()) for number in range(partitions)]
        for at, (name, number) in enumerate(places):
            owners = [each for each in ids if name in self.members[each].topics]
            chosen = owners[number * len(owners) // self._counts[name]] if by_range else owners[at % len(owners)]
            self.members[chosen].assignment.append((name, number))

    def check(self, member_id: str, generation: int, instance: str | None) -> int | None:
        """Return the error of a commit under an old generation or of a member that is gone; see KIP-447."""
        if generation < 0:
            return None
        if member_id in self.fenced and instance is not None:
            return KafkaError.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return KafkaError.UNKNOWN_MEMBER_ID
        return None if generation == self.generation else KafkaError.ILLEGAL_GENERATION


@dataclass
class Coordinated:
    """A transactional id, as its coordinator has it."""

    epoch: int = -1
    timeout_s: float = 60.0
    transaction: Transaction | None = None


class Cluster:
    """The brokers. `is_up` false lets all requests time out."""

    def __init__(self, clocks: VirtualClocks) -> None:
        self.clocks = clocks
        self.is_up = True
        self.fault: Callable[[str], KafkaException | None] = lambda _: None
        """Returns the error that a request is answered with, by the name of the client's method; None for an answer."""
        self.fetch_s = 0.0
        """The time that a record takes to a consumer, which knows of it before."""
        self.clients: list[Any] = []
        """All clients that were made, in order."""
        self.topics: dict[str, Topic] = {}
        self.groups: defaultdict[str, Group] = defaultdict(lambda: Group(self))
        self.transactional: defaultdict[str, Coordinated] = defaultdict(Coordinated)
        self.max_transaction_s = 900.0
        self.time: Callable[[], float] = clocks.time
        """The clock of the brokers, in epoch seconds."""
        self._ids = count(1)

    @property
    def now_s(self) -> float:
        return self.clocks.monotonic()

    # Topics.

    def create(self, name: str, partitions: int = 1, **config: str) -> None:
        dotted = {option.replace("_", "."): text for option, text in config.items()}
        self.topics[name] = Topic(f"id-{next(self._ids)}", [Log() for _ in range(partitions)], dotted)

    def delete(self, name: str) -> None:
        """Delete a topic, and with it the committed offsets."""
        del self.topics[name]
        for group in self.groups.values():
            group.offsets = {at: offset for at, offset in group.offsets.items() if at[0] != name}

    def grow(self, name: str, partitions: int) -> None:
        logs = self.topics[name].logs
        logs += [Log() for _ in range(partitions - len(logs))]

    def log(self, place: Place) -> Log | None:
        topic = self.topics.get(place[0])
        return topic.logs[place[1]] if topic and place[1] < len(topic.logs) else None

    def append(
        self,
        place: Place,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        transaction: Transaction | None = None,
        *,
        is_marker: bool = False,
    ) -> Entry:
        topic = self.topics[place[0]]
        log = topic.logs[place[1]]
        by_broker = topic.config.get("message.timestamp.type") == "LogAppendTime"
        kind = TIMESTAMP_LOG_APPEND_TIME if by_broker else TIMESTAMP_CREATE_TIME
        stamp = kind, int(self.time() * 1000)
        entry = Entry(log.high, key, value, headers, stamp, transaction, is_marker)
        log.entries.append(entry)
        return entry

    def partition_of(self, name: str, key: bytes | None, partition: int) -> Place:
        if partition < 0 and (topic := self.topics.get(name)) is not None:
            partition = zlib.crc32(key or b"") % len(topic.logs)
        return name, partition

    def produce(self, name: str, *values: bytes | None, partition: int = 0, key: bytes | None = None) -> None:
        """Write records without a transaction."""
        for value in values:
            self.append((name, partition), key, value)

    def committed(self, name: str, partition: int = 0) -> list[Entry]:
        """Return what a reader of committed records finds."""
        return list(self.topics[name].logs[partition].visible(0, committed=True))

    def values(self, name: str, partition: int = 0) -> list[bytes | None]:
        return [entry.value for entry in self.committed(name, partition)]

    # Transactions.

    def begin_epoch(self, transactional_id: str, timeout_s: float) -> int:
        """Fence earlier producers of an id, and abort what they left open."""
        known = self.transactional[transactional_id]
        self.end(transactional_id, commit=False)
        known.epoch, known.timeout_s = known.epoch + 1, timeout_s
        return known.epoch

    def transaction(self, transactional_id: str) -> Transaction:
        known = self.transactional[transactional_id]
        if known.transaction is None:
            known.transaction = Transaction(self.now_s)
        return known.transaction

    def end(self, transactional_id: str, *, commit: bool) -> None:
        known = self.transactional[transactional_id]
        ended, known.transaction = known.transaction, None
        if ended is None:
            return
        ended.state = "committed" if commit else "aborted"
        for place in sorted(ended.places):
            if self.log(place) is not None:
                self.append(place, None, None, transaction=ended, is_marker=True)
        for name, offsets in ended.offsets.items() if commit else ():
            self.groups[name].offsets |= offsets

    def is_pending(self, group: str, place: Place) -> bool:
        """Return whether an open transaction has an offset of a partition."""
        opened = (each.transaction for each in self.transactional.values() if each.transaction is not None)
        return any(place in each.offsets.get(group, {}) for each in opened)

    def tick(self) -> None:
        """Do what brokers do in the course of time: end old transactions, and remove silent members."""
        for transactional_id, known in list(self.transactional.items()):
            if known.transaction is not None and self.now_s > known.transaction.began_s + known.timeout_s:
                self.end(transactional_id, commit=False)
                known.epoch += 1
        for group in list(self.groups.values()):
            group.tick()
