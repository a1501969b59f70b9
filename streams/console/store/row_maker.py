"""Rows of evaluations for the writer, and the numbers of the texts and metrics that they name."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import NamedTuple

import orjson

from ragweir.schemas.evaluation import STATUSES, Evaluation, Version
from ragweir.schemas.evaluation_record import ScoredRecord
from ragweir.streams.console.store.layout import (
    MAX_METRICS,
    NONE,
    OTHER,
    PACK_HEAD,
    TERM_FIELDS,
    digest,
    document_digest,
    is_full,
    microseconds,
)
from ragweir.streams.console.store.names import probability_metric, status_metric

_MAX_LAYOUTS = 1_024
_MAX_KNOWN = 65_536
"""Combinations of texts whose numbers are kept at hand."""
Position = tuple[str, int, int, int]
"""Topic, partition and offset of an interaction, and its index within the record."""
_Named = tuple[tuple[str, ...], tuple[str, ...]]
"""The metrics and the suites of an evaluation."""
_NOWHERE: Position = "", 0, 0, 0


class StoredRow(NamedTuple):
    """An evaluation as the store keeps it."""

    event: int
    """Digest of the event id."""
    judged: bool
    source: Position | None
    """Position of the interaction; None for none."""
    head: bytes
    layout: int
    scores: bytes
    event_id: str
    documents: bytes

    @property
    def version(self) -> Version:
        """The fields that decide if it counts, with a digest of its source."""
        return Version(self.judged, digest(repr(self.source)))


@dataclass(slots=True)
class NewNames:
    """The numbers of texts, metrics and layouts, and those that are new since `saved`."""

    terms: dict[tuple[int, str], int] = field(default_factory=dict)
    metrics: dict[str, int] = field(default_factory=dict)
    layouts: dict[tuple[str, ...], tuple[int, Callable[..., bytes]]] = field(default_factory=dict)
    """The number of each sequence of metrics, and what packs their values."""
    _counts: list[int] = field(default_factory=lambda: [0] * len(TERM_FIELDS))
    _characters: list[int] = field(default_factory=lambda: [0] * len(TERM_FIELDS))
    _new_terms: list[tuple[int, int, str]] = field(default_factory=list)
    _new_metrics: list[tuple[int, str]] = field(default_factory=list)
    _new_layouts: list[tuple[int, bytes]] = field(default_factory=list)

    @classmethod
    def load(cls, db: sqlite3.Connection) -> NewNames:
        """Return the names of a store."""
        found = cls()
        for number, place, text in db.execute("select id, field, text from term"):
            found.terms[place, text] = number
            found._counts[place] += 1
            found._characters[place] += len(text)
        found.metrics = {name: number for number, name in db.execute("select id, name from metric")}
        names = {number: name for name, number in found.metrics.items()}
        for number, text in db.execute("select id, metrics from layout"):
            own = tuple(names[each] for each in orjson.loads(text))
            found.layouts[own] = number, struct.Struct(f"<{len(own)}d").pack
        return found

    def term(self, place: int, text: str | None) -> int:
        """Return the number of a text of a field, given by its place."""
        if text is None:
            return NONE
        found = self.terms.get((place, text))
        if found is None:
            if is_full(self._counts[place], self._characters[place]):
                return OTHER
            self._counts[place] += 1
            self._characters[place] += len(text)
            found = self.terms[place, text] = len(self.terms)
            self._new_terms.append((found, place, text))
        return found

    def layout(self, names: tuple[str, ...]) -> tuple[int, Callable[..., bytes]] | None:
        """Return the number of a sequence of metrics, and what packs their values; None beyond the limits."""
        found = self.layouts.get(names)
        if found is None:
            new = [each for each in names if each not in self.metrics]
            if len(self.layouts) >= _MAX_LAYOUTS or len(self.metrics) + len(new) > MAX_METRICS:
                return None
            for each in new:
                self._new_metrics.append((len(self.metrics), each))
                self.metrics[each] = len(self.metrics)
            found = self.layouts[names] = len(self.layouts), struct.Struct(f"<{len(names)}d").pack
            self._new_layouts.append((found[0], orjson.dumps([self.metrics[each] for each in names])))
        return found

    def save(self, db: sqlite3.Connection) -> None:
        """Write the new ones."""
        db.executemany("insert into term values (?, ?, ?)", self._new_terms)
        db.executemany("insert into metric values (?, ?)", self._new_metrics)
        db.executemany("insert into layout values (?, ?)", self._new_layouts)
        for each in (self._new_terms, self._new_metrics, self._new_layouts):
            each.clear()


class RowMaker:
    """Makes rows of evaluations.

    Args:
        names: the numbers of texts and metrics.
    """

    def __init__(self, names: NewNames) -> None:
        self._names = names
        self._known: dict[tuple[str | None, ...], tuple[int, ...]] = {}
        self._layout: tuple[_Named | None, int, Callable[..., bytes]] = (None, -1, lambda: b"")

    def row(
        self, evaluation: Evaluation | ScoredRecord, partition: int, offset: int, written_ms: int
    ) -> StoredRow | None:
        """Return the row of an evaluation; None if it is over a limit of the store.

        Args:
            evaluation: the evaluation.
            partition: partition of its record, or number of its file.
            offset: offset of its record, or number of its line.
            written_ms: timestamp of its record; 0 for none.
        """
        suites = evaluation.decision.suites
        named = tuple(evaluation.scores), tuple([each.suite for each in suites])
        if named != self._layout[0]:
            found = self._names.layout((*named[0], *_decision_metrics(named[1])))
            if found is None:
                return None
            self._layout = named, *found
        values = [nan if each is None else each for each in evaluation.scores.values()]
        for each in suites:
            values += (STATUSES.index(each.status), each.probability)
        source, application, labels = evaluation.source, evaluation.application, evaluation.labels
        position = None if source is None else (source.topic, source.partition, source.offset, source.index)
        judged, event = evaluation.stage == "judged", digest(evaluation.event_id)
        try:
            head = PACK_HEAD(
                microseconds(evaluation.event_time),
                written_ms,
                event,
                partition,
                offset,
                *(position or _NOWHERE)[1:],
                judged,
                digest(evaluation.session_id),
                digest(evaluation.question_id),
                digest(evaluation.trace_id),
                *self._terms(
                    application,
                    evaluation.tenant,
                    evaluation.environment,
                    evaluation.pipeline_version,
                    evaluation.model,
                    _json(labels) if labels else None,
                    _json(evaluation.categories),
                    orjson.dumps(evaluation.flags).decode() if evaluation.flags else None,
                    position and position[0],
                ),
            )
        except struct.error:  # A number of the source is larger than any of Kafka.
            return None
        scores = self._layout[2](*values)
        ids = evaluation.document_ids
        documents = struct.pack(f"<{len(ids)}I", *map(document_digest, ids))
        return StoredRow(event, judged, position, head, self._layout[1], scores, evaluation.event_id, documents)

    def _terms(self, *texts: str | None) -> tuple[int, ...]:
        """Return the numbers of the texts of `TERM_FIELDS`."""
        found = self._known.get(texts)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known[texts] = tuple(self._names.term(place, text) for place, text in enumerate(texts))
        return found


def _decision_metrics(suites: Sequence[str]) -> Iterator[str]:
    for each in suites:
        yield status_metric(each)
        yield probability_metric(each)


def _json(texts: Mapping[str, str | None]) -> str | None:
    """Return texts by name as JSON; None if there are none."""
    return orjson.dumps(texts, option=orjson.OPT_SORT_KEYS).decode() if texts else None
