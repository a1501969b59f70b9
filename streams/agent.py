"""The lifecycle of an agent: records in, outcomes out, without I/O, so that any runtime can drive it."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

from ragweir.errors import ErrorClass
from ragweir.streams.records import Emission, EventPosition, Measurements, Outcome, Record, TopicPartition


class Changelog(Iterable[Record]):
    """The committed records of one partition of an agent's changelog, in order, as they were at one moment.

    They are read from Kafka while they are iterated over; nothing is read of a changelog that nobody iterates over.
    """

    @property
    @abstractmethod
    def end(self) -> int:
        """The offset behind the last record. All that is written later has this offset or a larger one."""

    @abstractmethod
    def since(self, first: int) -> Iterator[Record]:
        """Return the records from an offset on; from the first that is left if that one is gone."""

    @override
    def __iter__(self) -> Iterator[Record]:
        return self.since(0)


class StoredChangelog(Changelog):
    """A changelog in memory.

    Args:
        records: in order.
        end: the offset behind them, if it is not that of the last one and one more.

    >>> changelog = StoredChangelog([Record("rag.windows", 0, offset, None, None, None) for offset in (0, 3)])
    >>> changelog.end, [record.offset for record in changelog.since(1)]
    (4, [3])
    """

    def __init__(self, records: Sequence[Record] = (), end: int | None = None) -> None:
        self._records, self._end = tuple(records), end

    @property
    @override
    def end(self) -> int:
        if self._end is not None:
            return self._end
        return self._records[-1].offset + 1 if self._records else 0

    @override
    def since(self, first: int) -> Iterator[Record]:
        return (record for record in self._records if record.offset >= first)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One partition of an input that an agent takes over, with all that the agent may have to know of its past."""

    topic_partition: TopicPartition
    committed: int | None
    """The committed offset; None where there is none."""
    start: int
    """The offset at which reading begins."""
    changelog: Changelog = StoredChangelog()  # noqa: RUF009 - it is never changed
    """The same partition of the agent's changelog; empty for an agent without one."""
    preceding: Iterable[Record] = ()
    """The committed records of at most `Agent.warm_up` offsets before the start, in order. They too are read from Kafka
    while they are iterated over."""
    topic_id: str = ""
    """Kafka's id of the topic; empty where it is not known. State that was stored with another id speaks of offsets in
    a topic that was deleted."""
    partitions: int | None = None
    """The number of partitions that the topic has now; None where that is not known."""


class Origin(NamedTuple):
    """An event that a record was made of, as the record tells it."""

    topic_partition: TopicPartition
    position: EventPosition
    event_id: str
    topic_id: str = ""
    """Kafka's id of the topic; empty where it is not told."""


class Agent(ABC):
    """Turns records into outcomes, and keeps what it has to know between them in memory.

    A runtime makes all calls from one thread, in this order:

    1. `on_assigned`, once for each partition, before any of its records.
    2. For each transaction `handle` with what was read, in the order of offsets, then `tick`. A record that must not be
       handled goes to `dead_letter` instead. Without a `changelog`, a batch may come in several calls of `handle`.
    3. `on_commit` when the outcomes of these calls are committed, or held nothing to commit; `on_abort` when they are
       not committed and never will be.
       After an abort the records are read again from the committed offsets: an agent that holds records which it has
       not settled is given these once more.
    4. `drain_metrics`, after each transaction and whenever partitions were given up.
    5. `on_revoked` when partitions are given up; none of their records follows, unless `on_assigned` comes first.
    6. `drain` before a stop. The runtime goes on with 2 to 4 for a while, as long as `in_flight` says so.

    No method waits for anything but `on_assigned`, which reads from Kafka. No method raises, whatever the records hold,
    but MemoryError, and `on_assigned` also StateError and what reading raises. The defaults fit an agent without state
    that settles all records at once.
    """

    @property
    @abstractmethod
    def outputs(self) -> tuple[str, ...]:
        """The topics that it emits to, by their names in the topic table."""

    @property
    def changelog(self) -> str | None:
        """The output that holds its state, partition by partition; None for an agent without state."""
        return None

    @property
    def warm_up(self) -> int:
        """The number of offsets before a partition's start of which it has to know the records."""
        return 0

    @property
    def clock_record(self) -> Emission | None:
        """A record without meaning, if `tick` is to be told the brokers' time; None where this machine's time will do.

        The runtime writes it to a partition that is held, before the first call of `tick` with partitions: its delivery
        report says what time it is. Where the topic does not have the brokers' time, it is this machine's after all.
        """
        return None

    # The partitions.

    def on_assigned(self, assignment: Assignment) -> None:
        """Take a partition over.

        Raises:
            StateError: if the stored state is not that of the committed offset.
        """

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Give partitions up. State may be kept for the case that they come back at the same offset."""

    # One transaction.

    @abstractmethod
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Take records. The outcome settles them, or a later one of `tick` does."""

    @abstractmethod
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Settle a record as a dead letter, which is all that is emitted for it.

        Args:
            record: one that `handle` was not given, or was given and has not settled.
            reason: one sentence that quotes nothing of the record.
            error_class: `refused` for a record whose own outcome Kafka does not take, `fatal` for one that ends the
                process.
        """

    def tick(self, now_s: float, caught_up: Collection[TopicPartition], most: int) -> Outcome:  # noqa: ARG002
        """Return what the passing of time brings, and what earlier records have come to.

        Args:
            now_s: the time, in epoch seconds: this machine's, or the brokers' for an agent with a `clock_record`.
            caught_up: the partitions that have been read to their end.
            most: the number of records that the outcome may settle.
        """
        return Outcome()

    def on_commit(self) -> None:
        """Keep what was changed with the last outcomes: they are committed."""

    def on_abort(self) -> None:
        """Undo what was changed with the last outcomes: they are not committed."""

    # The flow of records.

    @property
    def capacity(self) -> int:
        """The number of records that it takes now; at 0 nothing is read."""
        return sys.maxsize

    @property
    def paused(self) -> Mapping[TopicPartition, int]:
        """The partitions of which it takes nothing for now, and the offset at which it goes on."""
        return {}

    @property
    def held(self) -> Collection[TopicPartition]:
        """The partitions of which it has taken records that it has not settled."""
        return ()

    @property
    def in_flight(self) -> bool:
        """True while something is under way that is worth waiting for before a stop."""
        return False

    def drain(self) -> None:
        """Take and begin nothing more: the process is about to stop."""

    def drain_metrics(self) -> Measurements:
        """Return what was measured since the last call, whatever becomes of the transactions."""
        return Measurements()

    # What the runtime asks about records.

    @property
    def provenance(self) -> str | None:
        """The output whose records tell of which records they were made; None where none does."""
        return None

    def origins(self, output: Record) -> Iterable[Origin]:  # noqa: ARG002
        """Return the events that a record of the `provenance` was made of."""
        return ()

    def identities(self, record: Record) -> Iterable[tuple[EventPosition, str]]:  # noqa: ARG002
        """Return the positions and ids, in order, of those events in a record of an input that have an id."""
        return ()

    def replay_command(self, topic: str, first: int, end: int) -> str:  # noqa: ARG002
        """Return the command that computes anew what was made of the records of a topic from an offset to before one.

        It is for people who set offsets back, which is refused.
        """
        return "ragweir replay --run-id again"
