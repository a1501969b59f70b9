"""The values that all of `ragweir.streams` passes on: what was read, what is to be written, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Headers = tuple[tuple[str, bytes], ...]
TopicPartition = tuple[str, int]
"""A topic's full name and one of its partitions."""
EventPosition = tuple[int, int]
"""The offset of a record and, as it may hold several events, the index of one within it."""
Count = tuple[str, ...]
"""The name of an instrument of the telemetry table, then the values of its labels."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it was read. `timestamp_ms` is the record's own time; None where the source has none."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None

    @property
    def topic_partition(self) -> TopicPartition:
        """Where it was read."""
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class Emission:
    """One record to write. `topic` is a name of the topic table, without its prefix."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int = -1
    """The partition to write to; -1 leaves it to the key."""


@dataclass(slots=True)
class Outcome:
    """The result of a batch, or of the passing of time: all of it is committed in one transaction, or none."""

    emissions: list[Emission] = field(default_factory=list)
    """The records to write, in order."""
    counts: Counter[Count] = field(default_factory=Counter)
    """The counts to add once it is committed."""
    levels: dict[Count, float] = field(default_factory=dict)
    """The values that gauges have once it is committed."""
    settled: list[Record] = field(default_factory=list)
    """The records that need no more work: their offsets are committed. Those of a partition come in order, without
    leaving out one that the agent was given."""

    def extend(self, other: Outcome) -> None:
        """Add all of another outcome."""
        self.settled += other.settled
        self.emissions += other.emissions
        self.counts += other.counts
        self.levels |= other.levels


@dataclass(frozen=True, slots=True)
class Measurements:
    """Values for the telemetry outside of any transaction."""

    counts: Mapping[Count, int] = field(default_factory=dict)
    """The numbers to add to counters."""
    levels: Mapping[Count, float | None] = field(default_factory=dict)
    """The values of gauges; None removes the sample, which must have labels."""
    observations: Sequence[tuple[Count, float]] = ()
    """The values to observe in histograms."""


@dataclass(frozen=True, slots=True)
class ReplayBounds:
    """The offsets to read of each partition, from its start to before its end; one that is not named is not read."""

    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    rate: float | None = None
    """Records a second, for one worker."""
