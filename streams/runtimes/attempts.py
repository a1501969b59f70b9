"""Attempts: the number of processes that have died on the records behind a committed offset, kept in its metadata.

Before the first records of a partition that a process handles, it commits the unchanged offset with a count one higher;
the commit of any progress sets the count back to 0. A process that finds a count above 0 is the successor of one that
ended before it had handled its first records, and the records in question are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated

from confluent_kafka import TopicPartition as PartitionOffset
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragweir.streams.records import Record, TopicPartition

MOST = 8
"""The attempts after which an agent whose records cannot be tried in a child stops for good."""
_HIGHEST = 1_000_000
"""The highest count that is written; it does not have to grow without end."""
_MOST_FATAL = 64
"""Kafka keeps 4,096 bytes with a committed offset unless it is told otherwise."""


class OffsetMetadata(BaseModel):
    """The metadata of a committed offset, as JSON. Members of other names are ignored.

    >>> OffsetMetadata.stored('{"attempts": 2, "until": 120, "partitions": 6}').attempts
    2
    >>> {OffsetMetadata.stored(text).text for text in (None, "", "somebody else's", '{"attempts": -1}')}
    {''}
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    attempts: int = Field(default=0, ge=0, le=_HIGHEST)
    """The number of processes in a row that began on the records behind the offset and got nowhere."""
    until: int = Field(default=0, ge=0)
    """The offset before which the records stand that one of these processes had in hand."""
    fatal: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(), max_length=_MOST_FATAL)
    """The offsets of the newest records that became dead letters of class `fatal`: nobody may read them again."""
    warm_from: int = Field(default=0, ge=0)
    """The offset before which nothing may be read again, since more records were fatal than `fatal` holds."""
    topic: str = ""
    """Kafka's id of the topic that the offset belongs to; empty where it is not known."""
    partitions: int | None = Field(default=None, ge=0)
    """The number of partitions that the topic had when its group began to read it: those from this number on were added
    later, and begin at their starts."""

    @classmethod
    def stored(cls, metadata: str | None) -> OffsetMetadata:
        """Read metadata; what is empty, unreadable or somebody else's says nothing."""
        try:
            return cls.model_validate_json(metadata or "{}")
        except ValidationError:
            return cls()

    @property
    def text(self) -> str:
        """Return the text to commit; empty where there is nothing to say.

        >>> OffsetMetadata(attempts=1, until=7).text
        '{"attempts":1,"until":7}'
        """
        said = self.model_dump_json(exclude_defaults=True)
        return "" if said == "{}" else said

    def settled(self) -> OffsetMetadata:
        """The same without a suspicion."""
        return self.model_copy(update={"attempts": 0, "until": 0})

    def with_fatal(self, offset: int) -> OffsetMetadata:
        """The same with one more fatal record.

        >>> OffsetMetadata().with_fatal(7).with_fatal(7).text
        '{"fatal":[7]}'
        """
        fatal = sorted({*self.fatal, offset})
        warm_from = max([self.warm_from, *(left_out + 1 for left_out in fatal[:-_MOST_FATAL])])
        return self.model_copy(update={"fatal": tuple(fatal[-_MOST_FATAL:]), "warm_from": warm_from})

    def readable(self, offset: int) -> bool:
        """Return whether the record at this offset may be read again.

        >>> [OffsetMetadata(fatal=(7,), warm_from=3).readable(offset) for offset in (2, 3, 7)]
        [False, True, False]
        """
        return offset >= self.warm_from and offset not in self.fatal


_NONE = OffsetMetadata()


class Attempts:
    """Counts attempts per partition over the lives of processes.

    >>> attempts, start = Attempts(), PartitionOffset("t", 0, 5, '{"attempts":1,"until":9}')
    >>> attempts.take_over(start, OffsetMetadata.stored(start.metadata)).attempts
    1
    >>> records = [Record("t", 0, offset, None, b"", None) for offset in (8, 9)]
    >>> [attempts.suspects(record) for record in records]
    [True, False]
    >>> attempts.begin(records, now_s=0.0)
    True
    >>> [each.metadata for each in attempts.noted([start], {("t", 0): 5})]
    ['{"attempts":2,"until":10}']
    >>> moved = attempts.noted([PartitionOffset("t", 0, 10)], {("t", 0): 5})
    >>> [each.metadata for each in moved]
    ['']
    """

    def __init__(self) -> None:
        self._found: dict[TopicPartition, OffsetMetadata] = {}
        self._noted: dict[TopicPartition, OffsetMetadata] = {}
        """The metadata that the next commit of each held partition writes, unless its offset moves."""
        self._begun: dict[TopicPartition, float] = {}
        """The partitions whose records this process began to handle and has not survived yet, with the time."""
        self._over: set[TopicPartition] = set()
        """The partitions of which this process has survived records."""
        self.uncommitted = False
        """True while something is noted that is not committed."""

    @property
    def begun(self) -> bool:
        """True while this process has begun records of some partition and not survived them yet."""
        return bool(self._begun)

    def take_over(self, start: PartitionOffset, found: OffsetMetadata) -> OffsetMetadata:
        """Take a partition over; gives the metadata that holds where it starts.

        Args:
            start: where reading begins.
            found: the metadata of its committed offset.
        """
        place = start.topic, start.partition
        if found.until <= start.offset:  # Reading begins behind the records in question.
            found = found.settled()
        self._found[place] = self._noted[place] = found
        self._begun.pop(place, None)
        self._over.discard(place)
        return found

    def drop(self, places: Iterable[TopicPartition]) -> None:
        """Give partitions up."""
        for place in places:
            for table in (self._found, self._noted, self._begun):
                table.pop(place, None)
            self._over.discard(place)

    def suspects(self, record: Record) -> bool:
        """Return whether a process may have died on this record."""
        found = self._found.get((record.topic, record.partition), _NONE)
        return found.attempts > 0 and record.offset < found.until

    def begin(self, records: Sequence[Record], now_s: float) -> bool:
        """Note that these records are about to be handled; gives whether something has to be committed first."""
        ends = {(record.topic, record.partition): record.offset + 1 for record in records}
        for place, end in ends.items():
            if place in self._begun or place in self._over:
                continue
            found = self._found.get(place, _NONE)
            attempts, until = min(found.attempts + 1, _HIGHEST), max(found.until, end)
            self._noted[place] = found.model_copy(update={"attempts": attempts, "until": until})
            self._begun[place] = now_s
            self.uncommitted = True
        return bool(records) and self.uncommitted

    def mark_fatal(self, record: Record) -> None:
        """Note that a record is about to become a dead letter of class `fatal`."""
        place = record.topic, record.partition
        self._noted[place] = self._noted.get(place, _NONE).with_fatal(record.offset)

    def survived(self, safe: Callable[[TopicPartition, float, int], bool]) -> bool:
        """Clear the partitions that are safe by when they began and by their count; gives whether there are any."""
        cleared = [place for place, begun_s in self._begun.items() if safe(place, begun_s, self._noted[place].attempts)]
        for place in cleared:
            self._clear(place)
        return bool(cleared)

    def withdraw(self) -> bool:
        """Take back what `begin` noted and nothing settled, as the process ends in good order; gives whether it did."""
        for place in self._begun:
            found, noted = self._found.get(place, _NONE), self._noted[place]
            self._noted[place] = noted.model_copy(update={"attempts": found.attempts, "until": found.until})
        withdrawn = bool(self._begun)
        self.uncommitted |= withdrawn
        self._begun.clear()
        return withdrawn

    def noted(
        self, offsets: Iterable[PartitionOffset], committed: Mapping[TopicPartition, int]
    ) -> list[PartitionOffset]:
        """Offsets to commit, with the metadata that belongs to each.

        Args:
            offsets: the next record to be read of each partition.
            committed: the offsets as they are committed now; one that moves has no suspicion.
        """
        return [PartitionOffset(at.topic, at.partition, at.offset, self._metadata(at, committed)) for at in offsets]

    def _metadata(self, at: PartitionOffset, committed: Mapping[TopicPartition, int]) -> str:
        place = at.topic, at.partition
        noted = self._noted.get(place, _NONE)
        return (noted.settled() if at.offset != committed.get(place) else noted).text

    def committed(self, offsets: Iterable[PartitionOffset], before: Mapping[TopicPartition, int]) -> None:
        """These offsets are committed; those that moved settle what was noted of their partitions."""
        for at in offsets:
            place = at.topic, at.partition
            if place in self._noted and at.offset != before.get(place):
                self._clear(place)
        self.uncommitted = False

    def _clear(self, place: TopicPartition) -> None:
        self._noted[place] = self._noted[place].settled()
        self._begun.pop(place, None)
        self._over.add(place)
        self.uncommitted = True
