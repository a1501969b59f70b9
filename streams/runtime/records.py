"""The values that all of `ragweir.streams` shares: input records, emissions and outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]
"""Headers of a record, in order. Kafka allows repeated names and null values."""
TopicPartition = tuple[str, int]
"""A topic's full name and a partition number."""
EventPosition = tuple[int, int]
"""The offset of a record, and the index of an event within it."""
Count = tuple[str, ...]
"""The name of an instrument of the telemetry table, and the values of its labels."""


class Record(NamedTuple):
    """One record of an input."""

    topic: str
    """The topic's full name."""
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    """The record's timestamp, in epoch milliseconds; None if the source has none."""
    headers: Headers = ()
    """Its headers, in order."""
    headers_lost: bool = False
    """True if it has headers that the client cannot read: a name that is not UTF-8. `headers` is empty then."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return self.topic, self.partition


class Emission(NamedTuple):
    """One record to write."""

    topic: str
    """The topic's name in the topic table, without the prefix."""
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int = -1
    """The partition to write to; -1 for the partition of the key."""


@dataclass(slots=True)
class Outcome:
    """The result of some records or of a tick, which is committed in one transaction or not at all."""

    emissions: list[Emission] = field(default_factory=list)
    """The records to write, in order."""
    counts: Counter[Count] = field(default_factory=Counter)
    """The numbers to add to counters after the commit."""
    levels: dict[Count, float] = field(default_factory=dict)
    """The values of gauges after the commit."""
    settled: list[Record] = field(default_factory=list)
    """The records that need no more work, whose offsets are committed. Those of one partition are in order, without
    leaving out a record that the agent was given."""

    def extend(self, other: Outcome) -> None:
        """Add another outcome."""
        self.settled += other.settled
        self.emissions += other.emissions
        self.counts += other.counts
        self.levels |= other.levels


@dataclass(frozen=True, slots=True)
class Measurements:
    """Values for the telemetry that do not depend on a transaction."""

    counts: Mapping[Count, int] = field(default_factory=dict)
    """The numbers to add to counters."""
    levels: Mapping[Count, float | None] = field(default_factory=dict)
    """The values of gauges; None removes the sample, which must have labels."""
    observations: Sequence[tuple[Count, float]] = ()
    """The values to observe in histograms."""


@dataclass(frozen=True, slots=True)
class ReplayBounds:
    """The offsets to read of each partition, from its start to before its end. Other partitions are not read."""

    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    rate: float | None = None
    """Records per second of one worker; None for no limit."""
