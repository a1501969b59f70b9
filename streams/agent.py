"""The lifecycle of an agent, which turns records into outcomes without I/O, so that any runtime can drive it."""

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
    """The committed records of one partition of an agent's changelog, in order, up to its end at the assignment.

    The Kafka runtime reads them while they are iterated over. Iterating and `end` may block, and may raise.
    """

    @property
    @abstractmethod
    def end(self) -> int:
        """The offset after the last record. All records that are written later have this offset or a larger one."""

    @abstractmethod
    def since(self, first: int) -> Iterator[Record]:
        """Return the records from an offset on, or from the first one after it that is left."""

    @override
    def __iter__(self) -> Iterator[Record]:
        return self.since(0)


class StoredChangelog(Changelog):
    """A changelog in memory.

    Args:
        records: the records, in order.
        end: the end; None for the offset after the last record.

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
    """The assignment of one partition of an input to an agent."""

    topic_partition: TopicPartition
    committed: int | None
    """The committed offset; None without one."""
    start: int
    """The offset at which reading begins."""
    changelog: Changelog = StoredChangelog()  # noqa: RUF009 - it is never changed
    """The same partition of the agent's changelog; empty for an agent without one."""
    preceding: Iterable[Record] = ()
    """The committed records of at most `Agent.warm_up` offsets before the start, in order. The Kafka runtime reads them
    while they are iterated over."""
    topic_id: str = ""
    """Kafka's id of the topic; empty if unknown. Offsets in state that was stored with another id belong to a deleted
    topic."""
    partitions: int | None = None
    """The current partition count of the topic; None if unknown."""


class Origin(NamedTuple):
    """An event that an output record was made of, as the record names it."""

    topic_partition: TopicPartition
    position: EventPosition
    event_id: str
    topic_id: str = ""
    """Kafka's id of the topic; empty if the record does not name it."""


class Agent(ABC):
    """Turns records into outcomes, and keeps the state that it needs between them in memory.

    A runtime makes all calls from one thread, in this order::

        on_assigned                                              once for each assigned partition, before its records
        handle or dead_letter ... tick, on_commit or on_abort, drain_metrics        each transaction
        on_revoked, drain_metrics                                when partitions are revoked, between transactions
        drain                                                    before a stop
        tick, on_commit or on_abort, drain_metrics               each transaction from then on, while `in_flight`

    `handle` gets the records of a batch in the order of offsets; `dead_letter` gets a record that must not be handled.
    Without a `changelog`, a batch may come in several calls of `handle`. A transaction may have no records.

    `on_commit` follows once the outcomes of a transaction are committed, or had nothing to commit. `on_abort` follows
    if they are not committed and never will be; the records are then read again from the committed offsets, including
    those that the agent has held without settling them. After `on_revoked` no record of the partitions follows unless
    they are assigned again.

    Only `on_assigned` may block: iterating over its changelog and its preceding records reads from Kafka. It may raise
    StateError, and errors of reading. The other methods return within a fraction of a second per record and raise
    nothing but MemoryError, whatever the records contain: unusable records become dead letters. Any other exception
    ends the process.

    The defaults fit an agent without state that settles all records in `handle`.
    """

    @property
    @abstractmethod
    def outputs(self) -> tuple[str, ...]:
        """The topics that it writes to, by their names in the topic table."""

    @property
    def changelog(self) -> str | None:
        """The output that stores its state, partition by partition; None for an agent without state."""
        return None

    @property
    def warm_up(self) -> int:
        """The number of offsets before a partition's start whose records it needs."""
        return 0

    @property
    def clock_record(self) -> Emission | None:
        """A record without meaning by which `tick` gets the brokers' time; None if this machine's time is sufficient.

        The runtime writes it to a held partition before the first `tick` with partitions, and reads the time from its
        delivery report. `tick` gets this machine's time all the same if the topic is without LogAppendTime.
        """
        return None

    # The partitions.

    def on_assigned(self, assignment: Assignment) -> None:
        """Add a partition and restore its state. May block.

        Raises:
            StateError: if the stored state does not fit the committed offset. The runtime reads both again.
        """

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Remove partitions. State may be kept in case they come back at the same offset."""

    # One transaction.

    @abstractmethod
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Handle records. This outcome or that of a later `tick` settles them."""

    @abstractmethod
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Settle a record as a dead letter, which is its only emission.

        Args:
            record: a record that `handle` was not given, or was given and has not settled.
            reason: one sentence that quotes nothing of the record.
            error_class: `refused` for a record whose outcome Kafka rejects, `fatal` for one that ends the process.
        """

    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:  # noqa: ARG002
        """Return the outcome of earlier records and of the passing of time.

        Args:
            now_s: epoch seconds of this machine, or of the brokers for an agent with a `clock_record`.
            caught_up: the partitions that have been read to their end.
            max_settled: the number of records that the outcome may settle.
        """
        return Outcome()

    def on_commit(self) -> None:
        """Keep the state changes of the last outcomes, which are committed."""

    def on_abort(self) -> None:
        """Undo the state changes of the last outcomes, which are not committed."""

    # Backpressure and stopping.

    @property
    def capacity(self) -> int:
        """The number of records that it can take now; nothing is read at 0."""
        return sys.maxsize

    @property
    def paused(self) -> Mapping[TopicPartition, int]:
        """The partitions of which it takes no records now, with the offsets at which they resume."""
        return {}

    @property
    def held(self) -> Collection[TopicPartition]:
        """The partitions of which it has records that it has not settled."""
        return ()

    @property
    def in_flight(self) -> bool:
        """True while work is in progress that a stop should wait for."""
        return False

    def drain(self) -> None:
        """Start no more work: the process is about to stop."""

    def drain_metrics(self) -> Measurements:
        """Return the values for the telemetry since the last call, independent of commits and aborts."""
        return Measurements()

    # Offset recovery.

    @property
    def provenance(self) -> str | None:
        """The output whose records name the events that they were made of; None without such an output."""
        return None

    def origins(self, output: Record) -> Iterable[Origin]:  # noqa: ARG002
        """Return the events that a record of the `provenance` was made of."""
        return ()

    def identities(self, record: Record) -> Iterable[tuple[EventPosition, str]]:  # noqa: ARG002
        """Return the positions and ids of the events in an input record, in order, without events that have no id."""
        return ()

    def replay_command(self, topic: str, first: int, end: int) -> str:  # noqa: ARG002
        """Return the command that evaluates the records of a topic from `first` to before `end` again.

        The log shows it to operators who set offsets back, which has no effect.
        """
        return "ragweir replay --run-id again"
