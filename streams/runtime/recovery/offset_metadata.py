"""The metadata of a committed offset: delivery attempts, fatal records and the topic's id, as JSON."""

from __future__ import annotations

from typing import Annotated

from confluent_kafka import TopicPartition as PartitionOffset
from pydantic import BaseModel, ConfigDict, Field, ValidationError

MAX_COUNT = 1_000_000
"""The highest count of attempts that is stored."""
MAX_NOTE = 100
"""The longest note of an agent that is stored."""
_MAX_FATAL = 64
"""Kafka keeps 4,096 bytes with a committed offset by default."""


class OffsetMetadata(BaseModel):
    """The metadata of one committed offset. Unknown members are ignored.

    >>> OffsetMetadata.parse('{"attempts": 2, "until": 120, "partitions": 6}').attempts
    2
    >>> {OffsetMetadata.parse(text).text for text in (None, "", "another program's", '{"attempts": -1}')}
    {''}
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    attempts: int = Field(default=0, ge=0, le=MAX_COUNT)
    """The number of consecutive processes that began on the records after the offset and committed nothing."""
    until: int = Field(default=0, ge=0)
    """The offset after the last record that one of these processes had read."""
    fatal: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(), max_length=_MAX_FATAL)
    """The offsets of the newest records that became dead letters of class `fatal`; they are never read again."""
    warm_from: int = Field(default=0, ge=0)
    """The first offset that may be read again, if more records were fatal than `fatal` holds."""
    topic: str = ""
    """Kafka's id of the topic that the offset belongs to; empty if unknown."""
    partitions: int | None = Field(default=None, ge=0)
    """The partition count of the topic when its group began to read it. Partitions from this number on were added later
    and begin at their starts."""

    note: str = Field(default="", max_length=MAX_NOTE)
    """The note of the agent."""

    @classmethod
    def parse(cls, metadata: str | None) -> OffsetMetadata:
        """Read metadata; empty, unreadable and foreign metadata gives the defaults."""
        try:
            return cls.model_validate_json(metadata or "{}")
        except ValidationError:
            return cls()

    @property
    def text(self) -> str:
        """Return the text to commit; empty if all values are defaults.

        >>> OffsetMetadata(attempts=1, until=7).text
        '{"attempts":1,"until":7}'
        """
        text = self.model_dump_json(exclude_defaults=True)
        return "" if text == "{}" else text

    def without_attempts(self) -> OffsetMetadata:
        """Return a copy without delivery attempts."""
        return self.model_copy(update={"attempts": 0, "until": 0})

    def with_fatal(self, offset: int) -> OffsetMetadata:
        """Return a copy with one more fatal record.

        >>> OffsetMetadata().with_fatal(7).with_fatal(7).text
        '{"fatal":[7]}'
        """
        fatal = sorted({*self.fatal, offset})
        warm_from = max([self.warm_from, *(dropped + 1 for dropped in fatal[:-_MAX_FATAL])])
        return self.model_copy(update={"fatal": tuple(fatal[-_MAX_FATAL:]), "warm_from": warm_from})

    def is_readable(self, offset: int) -> bool:
        """Return whether the record at this offset may be read again.

        >>> [OffsetMetadata(fatal=(7,), warm_from=3).is_readable(offset) for offset in (2, 3, 7)]
        [False, True, False]
        """
        return offset >= self.warm_from and offset not in self.fatal


def metadata_of(offset: PartitionOffset) -> OffsetMetadata:
    """Return the metadata of an offset that Kafka answered."""
    return OffsetMetadata.parse(offset.metadata)
