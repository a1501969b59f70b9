"""Answers as the store gives them to pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import isnan, nan

from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import STATUSES, Source, Status
from ragweir.streams.console.store.answer_query import Cursor
from ragweir.streams.console.store.layout import time_of
from ragweir.streams.console.store.names import Names
from ragweir.streams.console.store.row_ranges import Line


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The numbers and names of one answer; its texts are at `source`, and its whole evaluation at `at`."""

    event_id: str
    event_time: datetime
    application: str | None
    tenant: str | None
    environment: str | None
    pipeline_version: str | None
    model: str | None
    labels: Mapping[str, str]
    categories: Mapping[str, str]
    """Without those that are null."""
    flags: tuple[str, ...]
    judged: bool
    scores: Mapping[str, float | None]
    """None for a metric that the answer lacks and others near it have."""
    decisions: Mapping[str, tuple[Status, float]]
    """State and probability of the decision on judging, by suite."""
    at: tuple[int, int]
    """Partition and offset of the evaluation's record; of a file its place among the files and its line."""
    source: Source | None
    """Position of the interaction."""
    cursor: Cursor
    """Its place in the order of the query."""

    def dimension(self, name: str) -> str | None:
        """Return its value of a dimension; None without one, and for one that the store does not keep."""
        own, _, label = name.partition(".")
        value: str | None = self.labels.get(label) if label else getattr(self, own, None)
        return value


@dataclass(frozen=True, slots=True)
class AnswerPage:
    """A page of a list of answers."""

    answers: tuple[StoredAnswer, ...]
    total: int
    """Number of answers of the list, on all pages."""
    next: Cursor | None
    """Place after which the next page begins (`query.page(after=...)`); None on the last page."""
    previous: Cursor | None
    """Place before which the previous page ends (`query.page(before=...)`); None on the first page."""
    incomplete: tuple[str, ...] = ()
    """Dimensions of the query that have more values than the store keeps, so that answers may be missing."""


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """The reason and the position of a dead letter, whose value is at `at`."""

    at: tuple[int, int]
    """Partition and offset of its record."""
    written: datetime
    service: str
    """Name of the service that wrote it."""
    details: DeadLetter


@dataclass(frozen=True, slots=True)
class StoreState:
    """The content of the store."""

    answers: int
    first: datetime | None
    """Time of the earliest event; None if there is none."""
    last: datetime | None
    read: float
    """Part of the evaluations that was read, from 0 to 1."""
    bytes: int
    """Size on disk."""
    letters: int = 0
    """Number of dead letters."""
    next_row: int = 0
    """Number of the row of the next answer that arrives."""


def answer(names: Names, line: Line, cursor: Cursor) -> StoredAnswer:
    """Return the answer of a row of the store."""
    head = line.head
    values = dict(zip(line.metrics, line.scores.tolist(), strict=True))
    decisions: dict[str, tuple[Status, float]] = {}
    for suite, (status, probability) in names.suites.items():
        if not isnan(place := values.get(status, nan)):
            decisions[suite] = STATUSES[int(place)], values[probability]
    scores = {
        names.metric_names[number]: None if isnan(value) else value
        for number, value in values.items()
        if number not in names.decisions
    }
    topic = names.text(int(head["source_topic"]))
    source = None
    if topic is not None:
        partition, offset, index = (int(head[f"source_{each}"]) for each in ("partition", "offset", "index"))
        source = Source(topic=topic, partition=partition, offset=offset, index=index)
    return StoredAnswer(
        event_id=line.event_id,
        event_time=time_of(int(head["time_us"])),
        application=names.text(int(head["application"])),
        tenant=names.text(int(head["tenant"])),
        environment=names.text(int(head["environment"])),
        pipeline_version=names.text(int(head["pipeline_version"])),
        model=names.text(int(head["model"])),
        labels=names.values(int(head["labels"])),
        categories=names.values(int(head["categories"])),
        flags=names.flags(int(head["flags"])),
        judged=bool(head["judged"]),
        scores=scores,
        decisions=decisions,
        at=(int(head["partition"]), int(head["offset"])),
        source=source,
        cursor=cursor,
    )
