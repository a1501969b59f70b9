"""The lifecycle of an agent, which turns records into outcomes without I/O, so that any runtime can drive it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import override

from ragweir.errors import ErrorClass
from ragweir.streams.runtime.agent_parts import (
    NO_HOLDING,
    NO_INPUT_PROGRESS,
    NO_PREPARATION,
    NO_RECOVERY,
    Holding,
    InputProgress,
    Preparation,
    Recovery,
)
from ragweir.streams.runtime.records import Emission, Measurements, Outcome, Record, TopicPartition


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
    """The committed records of at most `Preparation.warm_up` offsets before the start, in order. The Kafka runtime
    reads them while they are iterated over."""
    topic_id: str = ""
    """Kafka's id of the topic; empty if unknown. Offsets in state that was stored with another id belong to a deleted
    topic."""
    partitions: int | None = None
    """The current partition count of the topic; None if unknown."""
    note: str = ""
    """The note that was committed with the offset; see `InputProgress.note`."""


class Agent(ABC):
    """Turns records into outcomes, and keeps the state that it needs between them in memory.

    A runtime makes all calls from one thread, in this order::

        preparation.start                                          once
        preparation.on_member                                      once, if the runtime gives the slot an id
        on_assigned                                                each partition, before its records
        input_progress.on_partition_counts                         when a count is known or has changed
        preparation.waiting, input_progress.on_time, handle or dead_letter ...
        input_progress.on_ends, tick, on_commit or on_abort, drain_metrics              each transaction
        on_revoked, drain_metrics                                  when partitions are revoked, between transactions
        drain                                                      before a stop
        tick, on_commit or on_abort, drain_metrics                 each transaction while `holding.in_flight`

    `handle` gets records in the order of offsets; `dead_letter` gets a record that must not be handled. A transaction
    may have no records. It has any number of batches in any number of calls, and `drain_metrics` may come between
    them. While `is_commit_due`, as by default for an agent with a `changelog`, it has one batch, in one call of
    `handle`. `tick` ends a transaction.

    `on_commit` follows once all outcomes of a transaction are committed, or had nothing to commit. `on_abort` follows
    if they are not committed and never will be, with or without a `tick`; the records are then read again from the
    committed offsets, including those that the agent has held without settling them. After `on_revoked` no record of
    the partitions follows unless they are assigned again.

    Only `preparation.start` and `on_assigned` may block: iterating over the changelog and the preceding records of an
    assignment reads from Kafka. `on_assigned` may raise StateError, and errors of reading. The other methods return
    within a fraction of a second per record and raise nothing but MemoryError, whatever the records contain: unusable
    records become dead letters. Any other exception ends the process.

    The defaults fit an agent without state that settles all records in `handle`. The methods are those that several
    agents have; what others need besides are optional parts.
    """

    @property
    @abstractmethod
    def outputs(self) -> tuple[str, ...]:
        """The topics that it writes to, by their names in the topic table."""

    changelog: str | None = None
    """The output that stores its state, partition by partition; None for an agent without state."""
    clock_record: Emission | None = None
    """A record without meaning by which all times are the brokers'; None if this machine's time is sufficient.

    The runtime writes it before the first record is handled, to a held partition if its topic is the `changelog`,
    and reads the time from its delivery report and from those of later records of the topic. All times are this
    machine's all the same if the topic is without LogAppendTime.
    """

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
        """Keep the state changes of all outcomes since the last transaction, which are committed."""

    def on_abort(self) -> None:
        """Undo the state changes of all outcomes since the last transaction, which are not committed."""

    @property
    def is_commit_due(self) -> bool:
        """True if the transaction is to be committed after the current batch, however many records wait.

        An agent with a `changelog` that may have several batches in a transaction writes its state in `tick`.
        """
        return self.changelog is not None

    # The stop, and the telemetry.

    def drain(self) -> None:
        """Start no more work: the process is about to stop."""

    def drain_metrics(self) -> Measurements:
        """Return the values for the telemetry since the last call, independent of commits and aborts."""
        return Measurements()

    # The optional parts; see `ragweir.streams.runtime.agent_parts`.

    preparation: Preparation = NO_PREPARATION
    """Obtains what records are handled with."""
    holding: Holding = NO_HOLDING
    """The records that were taken and are not settled."""
    input_progress: InputProgress = NO_INPUT_PROGRESS
    """Follows how far the inputs are read."""
    recovery: Recovery = NO_RECOVERY
    """Proves from outputs how far the inputs were handled."""
