"""The records of assemble: clock marks in `spans`, and the ledger in `assembly`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

HEADER_TIME = "ragweir-time"
"""Header of a record of `spans`: the time in epoch milliseconds, as decimal digits, up to which its trace counts as
active. `join` measures all times of a trace by it."""
HEADER_SOURCE = "ragweir-source"
"""Header of a record of `spans`: the source record, as `topic/partition/offset`."""

CLOCK_KEY = b"clock"
"""Key of a tombstone in `assembly`, which is no entry: its delivery report has the brokers' time."""


class _AssemblyRecord(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SourceMark(_AssemblyRecord):
    """The progress of `key` in one partition of a source."""

    topic: str
    """Full name of the source topic."""
    partition: int
    """Number of the partition."""
    time_ms: int
    """Time up to which the partition was read, in epoch milliseconds. It never decreases in the marks of one owner."""
    caught_up: bool
    """True if the partition was read to its end at that time."""


class ClockMark(_AssemblyRecord):
    """A mark in a partition of `spans`, which has no key: the progress of one worker of `key`.

    A worker begins with one of no partition, which counts for nothing: its delivery report has the brokers' time.
    """

    sources: dict[str, int]
    """Number of partitions of each source topic. The clock of `join` is the minimum over all of them."""
    marks: tuple[SourceMark, ...]
    """The partitions that the worker holds."""


class AssemblyEntry(_AssemblyRecord):
    """An entry of the ledger: the state of `join` on one partition of `spans` after a transaction."""

    committed: int
    """Committed offset: the first offset of the oldest open trace."""
    next: int
    """Offset after the last record that was applied."""
    clock: tuple[SourceMark, ...]
    """Newest mark of each source partition."""
    sources: dict[str, int]
    """Number of partitions of each source topic, as in the newest mark."""
    ledger_from: int
    """Lower bound of the first offset of the ledger that a restore needs."""
    emitted: str = ""
    """The traces that were closed in this transaction, packed, in base64; see
    `ragweir.streams.services.join.ledger`."""
    sequence: int = 0
    """Number of the entry in its partition."""
    ledger_sequence: int = 0
    """Number of the first entry that a restore needs."""
    clock_ms: int = 0
    """The clock of `join` at `next`, in epoch milliseconds; 0 before all source partitions have a mark."""
    floor_ms: int = 0
    """The clock of `join` at `committed`."""
    closings: int = 0
    """Number of closings with interactions, in this transaction and before it."""
    remembered_from: int = 0
    """Number of closings with interactions before the oldest one that is remembered."""
    topic_id: str = ""
    """Kafka's id of the topic `spans`; empty if unknown."""
    missed_from: int | None = None
    """The first offset that was left when retention had deleted records unread; None if it never has."""
    missed_until_ms: int | None = None
    """The time before which traces that begin after `missed_from` may lack spans; None while it is unknown."""
