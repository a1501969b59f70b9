"""The values that all of `ragweir.streams` passes on: what was read, what is to be written, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Headers = tuple[tuple[str, bytes], ...]
TopicPartition = tuple[str, int]
"""A topic's full name and one of its partitions."""
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
    """The result of a batch: the records to write, in order, and the counts to add once they are committed."""

    emissions: list[Emission] = field(default_factory=list)
    counts: Counter[Count] = field(default_factory=Counter)
    levels: dict[Count, float] = field(default_factory=dict)
    """The values that gauges have once it is committed."""

    def extend(self, other: Outcome) -> None:
        """Add the emissions, counts and levels of another outcome."""
        self.emissions += other.emissions
        self.counts += other.counts
        self.levels |= other.levels


@dataclass(frozen=True, slots=True)
class Measurements:
    """Values for the telemetry outside of any transaction."""

    counts: Mapping[Count, int] = field(default_factory=dict)
    """Numbers to add to counters."""
    levels: Mapping[Count, float | None] = field(default_factory=dict)
    """Values to set gauges to; None removes the sample."""
    observations: Sequence[tuple[Count, float]] = ()
    """Values that histograms observe, each with the instrument and its labels."""
