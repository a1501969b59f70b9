"""What an agent is: records in, an outcome out, without I/O, so that any runtime can drive it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from ragweir.errors import ErrorClass
from ragweir.streams.records import Count, Outcome, Record, TopicPartition


class Agent(Protocol):
    """Handles batches. Neither method raises, whatever the records hold, but MemoryError.

    A batch may be handed over in parts, one `handle` or `refuse` after the other, unless the agent is a keeper.
    """

    @property
    def outputs(self) -> tuple[str, ...]:
        """The topics it emits to, by their names in the topic table."""

    def handle(self, records: Sequence[Record]) -> Outcome:
        """What to emit for these records."""

    def refuse(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Return the outcome of a record that cannot be handled: a dead letter of this class.

        `refused` is a record whose own outcome the broker refuses to take, `fatal` one that ends the process.
        """


@runtime_checkable
class Keeper(Agent, Protocol):
    """An agent with state per partition. Its state's changelog is a topic of its own outputs, same partition."""

    @property
    def changelog(self) -> str:
        """The topic that holds its state, by its name in the topic table."""

    def restore(self, partition: int, committed: int | None, start: int, changelog: Iterator[Record]) -> None:
        """Take a partition over.

        Args:
            partition: of the input.
            committed: its committed offset; None if there is none.
            start: where reading begins.
            changelog: all records of the changelog's partition, in order; read only as far as needed.

        Raises:
            StateError: if the stored state is not that of the committed offset.
        """

    def drop(self, partitions: Collection[int]) -> None:
        """Partitions were given up; their state may be kept in case they come back at the same offset."""

    def look(self, now_s: float, caught_up: Collection[int]) -> Outcome:
        """What to emit because time has passed, beside what records bring.

        Args:
            now_s: wall clock, epoch seconds.
            caught_up: the held partitions that have been read to their end.
        """

    def settled(self, *, committed: bool) -> None:
        """What was emitted last is committed, or has to be forgotten."""


@runtime_checkable
class Mindful(Agent, Protocol):
    """An agent that has in mind what stands shortly before the records that it is given, in the same partition."""

    @property
    def horizon(self) -> int:
        """How many offsets back; at 0 nothing has to be remembered."""

    def remember(self, place: TopicPartition, start: int, before: Iterator[Record]) -> None:
        """Take a partition over: reading begins at `start`, and `before` has the records within the horizon."""

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Partitions were given up."""

    def settled(self, *, committed: bool) -> None:
        """What was emitted last is committed, or has to be forgotten."""


@runtime_checkable
class Traced(Agent, Protocol):
    """An agent whose output tells which records it was made of."""

    @property
    def trace(self) -> str:
        """The output that does, by its name in the topic table."""

    def origins(self, output: Record) -> Iterable[tuple[TopicPartition, int, str]]:
        """What a record of that output was made of: where each stands, its offset, its id; none if it does not tell."""

    def identity(self, record: Record) -> str | None:
        """The id of a record of the input; None if it has none."""


@runtime_checkable
class Patient(Keeper, Protocol):
    """A keeper that takes records in order and finishes them later, in any order.

    `look` emits what has been finished; the offsets that are committed with it are those of `finished`.
    """

    @property
    def room(self) -> int:
        """How many more records it can take now; at 0 nothing is read."""

    @property
    def resting(self) -> Mapping[TopicPartition, int]:
        """Partitions of which it takes nothing for now, and the offset at which it will go on."""

    @property
    def busy(self) -> bool:
        """Whether something is under way that is worth waiting for before a stop."""

    def finish(self) -> None:
        """It is about to be stopped, and begins nothing more."""

    def finished(self) -> Mapping[TopicPartition, int]:
        """Up to which offset, with what was emitted last, everything is finished, per partition that was read."""

    def observed(self) -> tuple[Mapping[Count, int], Mapping[Count, float], Sequence[float]]:
        """What it saw outside of transactions since last asked: counts, levels, and how long its calls took."""
