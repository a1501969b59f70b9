"""The optional parts of an agent: behaviour that some agents need, each with a default for the others.

A part is declared by the property of `Agent` that returns it. The class of a part is its neutral default, whose methods
fit an agent without it, so that a runtime calls every part of every agent. A runtime reads the property once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ragweir.streams.runtime.records import EventPosition, Record, TopicPartition


class Preparation:
    """Obtains what records are handled with, beside the records of the inputs. The default needs nothing."""

    def on_member(self, member: str) -> None:
        """Take the slot's member id, which the next process of the slot has too."""

    @property
    def reads(self) -> Mapping[str, str]:
        """Full names of topics that the agent reads by itself, with the ids that they had in `start`.

        An id is empty before. If a topic is created again, a new process reads it before anything is committed.
        """
        return {}

    def start(self, stopped: Callable[[], bool]) -> None:
        """Read what decisions need beside the inputs. May block until `stopped` returns true."""

    @property
    def warm_up(self) -> int:
        """The number of offsets before a partition's start whose records the agent needs."""
        return 0

    def waiting(self, records: Sequence[Record]) -> Collection[Record]:  # noqa: ARG002
        """Return the records that cannot be handled yet: of each partition a last part. They are read again later.

        The agent obtains in the background that for which they wait.

        Raises:
            PermanentError: if people have to act first.
        """
        return ()


class Holding:
    """The records that an agent takes in `handle` and settles later. The default takes all and holds none."""

    @property
    def capacity(self) -> int:
        """The number of records that the agent can take now; nothing is read at 0."""
        return sys.maxsize

    @property
    def paused(self) -> Mapping[TopicPartition, int]:
        """The partitions of which the agent takes no records now, with the offsets at which they resume."""
        return {}

    @property
    def held(self) -> Collection[TopicPartition]:
        """The partitions of which the agent has records that it has not settled."""
        return ()

    @property
    def in_flight(self) -> bool:
        """True while work is in progress that a stop should wait for."""
        return False

    @property
    def lag_from_read(self) -> bool:
        """True if `ragweir_lag` counts from the last record that was read, and not from the last that was settled.

        For an agent that settles records long after it has used them, whose committed offset never reaches the end.
        """
        return False

    def resumes_at(self, topic_partition: TopicPartition, start: int) -> int:  # noqa: ARG002
        """Return the offset from which the agent needs records of a partition that was just assigned.

        An agent that settles late may still have the records from the start to this offset, as after a rebalance that
        gives a partition back to its owner. After an abort they are read again from the committed offset all the same.

        Args:
            topic_partition: the partition.
            start: the offset at which the partition was assigned; the answer is this one or later.
        """
        return start


class InputProgress:
    """Follows how far the inputs are read. The default ignores it."""

    def on_time(self, now_s: float) -> None:
        """Take the time of the next records, which were read before it.

        Args:
            now_s: epoch seconds of this machine, or of the brokers for an agent with a `clock_record`.
        """

    def to_confirm(self, held: Collection[TopicPartition]) -> Collection[TopicPartition]:  # noqa: ARG002
        """Return the held partitions for `on_ends`; the runtime asks Kafka for their ends each second."""
        return ()

    def on_ends(self, confirmed: Mapping[TopicPartition, float]) -> None:
        """Take the partitions that are read to their ends, each with a time, in epoch seconds, at which that is sure.

        Every record that Kafka had accepted before that time was given to `handle` or `dead_letter`, in this
        transaction or an earlier one. Records of transactions that were open at the time count as accepted. The time is
        that before Kafka was asked, so that it is no later however long an answer, or this process, was delayed.

        Called before `tick`, with new answers only. A time may be given again after an abort.
        """

    @property
    def counted_outputs(self) -> tuple[str, ...]:
        """The outputs whose partition counts `on_partition_counts` takes, by their names in the topic table."""
        return ()

    def on_partition_counts(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        """Take the partition counts: of the inputs by full name, of `counted_outputs` by name in the topic table.

        Topics that do not exist at the moment are left out.
        """

    def note(self, topic_partition: TopicPartition) -> str:  # noqa: ARG002
        """Return a note to commit with the offset of a partition, for its next owner; at most 100 characters.

        Called when a transaction is committed, after its `tick`.
        """
        return ""


class Origin(NamedTuple):
    """An event that an output record was made of, as the record names it."""

    topic_partition: TopicPartition
    position: EventPosition
    event_id: str
    topic_id: str = ""
    """Kafka's id of the topic; empty if the record does not name it."""


class Recovery:
    """Proves from outputs how far the inputs were handled, in case a committed offset is too old.

    The default proves nothing: the changelog of such an agent has the progress of every partition, idle ones too.
    """

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs whose records name the events that they were made of, by their names in the topic table."""
        return ()

    def origins(self, output: Record) -> Iterable[Origin]:  # noqa: ARG002
        """Return the events that a record of the `outputs` was made of."""
        return ()

    def identities(self, record: Record) -> Iterable[tuple[EventPosition, str]]:  # noqa: ARG002
        """Return the positions and ids of the events in an input record, in order, without events that have no id."""
        return ()

    def replay_command(self, topic: str, first: int, end: int) -> str:  # noqa: ARG002
        """Return the command that evaluates the records of a topic from `first` to before `end` again.

        The log shows it to operators who set offsets back, which has no effect.
        """
        return "ragweir replay --run-id again"


NO_PREPARATION, NO_HOLDING = Preparation(), Holding()
NO_INPUT_PROGRESS, NO_RECOVERY = InputProgress(), Recovery()
