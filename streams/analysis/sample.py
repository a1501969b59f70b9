"""The sample of events that `tap` and `doctor` look at: the newest records of a topic, or the first rows of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ragweir.errors import PermanentError
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.files.events import read_events
from ragweir.streams.runtime.kafka import reader as reading
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import Settings

_REACH = (1, 4, 16)
"""Offsets that are read for each requested record, more if too few records were found."""


def read_first(file: Path, count: int, max_bytes: int) -> list[Record]:
    """Return the first rows of a file as records of partition 0, whose offsets are the numbers of the rows.

    Raises:
        PermanentError: if the file cannot be read.
    """
    rows = islice(read_events(file, max_bytes), count)
    return [Record(str(file), 0, number, key=None, value=row, timestamp_ms=None) for number, row in rows]


def read_newest(effective: Settings, topic: str, count: int) -> list[Record]:
    """Return the newest records of a topic, about equally many of each partition, without joining a group.

    Transactions and compaction leave gaps in the offsets: if too few records are found, more offsets are read.

    Raises:
        PermanentError: if there is no such topic.
        Unreachable: if no broker answers.
    """
    present = reading.topics(effective)
    if topic not in present:
        raise PermanentError(f"there is no topic {topic}, or it may not be seen{nearest_hint(topic, present)}")
    whole = reading.offset_range(effective, topic)
    records: list[Record] = []
    for reach in _REACH:
        part = replace(whole, starts=_starts(whole, reach * count))
        records = list(reading.read(effective, part))
        if len(records) >= count or len(part) == len(whole):
            break
    return _newest(records, count)


def _starts(whole: reading.OffsetRange, count: int) -> dict[int, int]:
    """Return the first offset to read in each partition; longer ones make up for what short ones lack.

    >>> _starts(reading.OffsetRange("t", {0: 0, 1: 5, 2: 0}, {0: 0, 1: 7, 2: 100}), 10)
    {0: 0, 1: 5, 2: 92}
    """
    starts: dict[int, int] = {}
    lengths = sorted((end - whole.starts[partition], partition) for partition, end in whole.ends.items())
    for place, (length, partition) in enumerate(lengths):
        share = min(length, -(-count // (len(lengths) - place)))
        starts[partition] = whole.ends[partition] - share
        count = max(0, count - share)
    return starts


def _newest(records: Sequence[Record], count: int) -> list[Record]:
    """Return the newest `count` records, ordered by partition and offset."""
    latest = sorted(records, key=lambda record: record.timestamp_ms or 0)[-count:]
    return sorted(latest, key=lambda record: (record.partition, record.offset))
