"""Writes the rows of a batch of evaluations: one record of topic `documents` for each partition."""

from __future__ import annotations

from array import array
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from ragweir.metrics.cause.coded_facets import shortened
from ragweir.metrics.criterion import Criterion, criterion, free_verdicts, verdict_of
from ragweir.metrics.metric import Metric
from ragweir.schemas.codec.json import encode
from ragweir.schemas.document_rows import COLUMNS, FIELDS, MAX_PARTS, DocumentRows, RowCriterion
from ragweir.schemas.evaluation import MAX_DOCUMENT_IDS, Decision, Evaluation
from ragweir.schemas.interaction import Context
from ragweir.schemas.topics import MAX_EVENT_BYTES
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.records import Emission
from ragweir.streams.services.shared.row_hashes import HASH_BYTES, RowHashes
from ragweir.streams.settings import Settings

DOCUMENTS = "documents"
Stage = Literal["scored", "judged"]
_place, _making = itemgetter("topic", "partition"), itemgetter("catalogue_version", "run_id")
_document_id, _chunk_id = attrgetter("document_id"), attrgetter("chunk_id")
_LONGEST = 200
_MOST_BYTES = 1024 * 1024
_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class RowConfig:
    """The settings that rows depend on."""

    criteria: tuple[Criterion, ...]
    """The metrics on which rows have verdicts."""
    key: str
    """Key of the hashes."""
    max_event_bytes: int = MAX_EVENT_BYTES


def row_config(settings: Settings, catalogue: Mapping[str, Metric]) -> RowConfig | None:
    """Return what rows depend on; None if they are not written.

    Raises:
        ConfigurationError: if a question is on a metric that is better in neither direction.
    """
    if not settings.blame.enabled:
        return None
    return RowConfig(row_criteria(settings, catalogue), settings.labels.key, settings.limits.max_event_bytes)


def row_criteria(settings: Settings, catalogue: Mapping[str, Metric]) -> tuple[Criterion, ...]:
    """Return the criteria of the SLOs and of people's questions, without repetition.

    Metrics that are not in the catalogue have none.

    Raises:
        ConfigurationError: if a question is on a metric that is better in neither direction.
    """
    found: dict[Criterion, None] = {}
    for slo in settings.slo:
        if (own := catalogue.get(slo.metric)) is None:
            continue
        bound = slo.at_least if slo.at_least is not None else slo.at_most
        suite = None if own.cost == "free" else own.group
        found[Criterion(slo.metric, float(bound or 0.0), slo.at_least is not None, suite)] = None
    for question in settings.labels.questions:
        for metric, threshold in ({question.metric: question.threshold, **question.also}).items():
            if metric in catalogue:
                found[criterion(metric, threshold, catalogue)] = None
    return tuple(found)


class EventRow(NamedTuple):
    """An evaluation, and what its event carried."""

    evaluation: Evaluation
    documents: bytes
    """Hashes of its documents, one after the other."""
    chunks: bytes


class _RecordFields(NamedTuple):
    """The fields that all rows of a record have in common."""

    topic: str
    partition: int
    catalogue_version: str
    run_id: str | None


class RowWriter:
    """Makes the rows of a service's evaluations.

    Args:
        service: the name of the service.
        stage: the stage of its evaluations; the criteria of judged ones have a suite, those of others have none.
        config: what rows depend on.
    """

    def __init__(self, service: str, stage: Stage, config: RowConfig) -> None:
        self._service, self._stage = service, stage
        self._criteria = tuple(each for each in config.criteria if (each.suite is None) == (stage == "scored"))
        self._shown_criteria = tuple(RowCriterion(**asdict(each)) for each in self._criteria)
        self._most_bytes = min(_MOST_BYTES, config.max_event_bytes)
        self.hashes = RowHashes(config.key)
        """The hashes of ids."""

    def hashed(self, evaluation: Evaluation, contexts: Sequence[Context] | None) -> tuple[bytes, bytes]:
        """Return the hashes of the documents and chunks of an evaluation whose event has these contexts."""
        documents: Iterable[str] = evaluation.document_ids
        if not contexts:
            return self.hashes.joined(documents), b""
        contexts = contexts[:MAX_PARTS]
        if len(evaluation.document_ids) == MAX_DOCUMENT_IDS:  # There may be more of them.
            documents = filter(None, dict.fromkeys(map(_document_id, contexts)))
        return self.hashes.joined(documents), self.hashes.joined(filter(None, map(_chunk_id, contexts)))

    def emissions(self, rows: Iterable[EventRow]) -> list[Emission]:
        """Return the records of rows. An evaluation that does not say where its interaction was read has no row."""
        found: dict[_RecordFields, list[EventRow]] = {}
        for row in rows:
            own = row.evaluation.__dict__
            if (at := own["source"]) is not None:
                source = _RecordFields(*_place(at.__dict__), *_making(own))
                if (together := found.get(source)) is None:
                    together = found[source] = []
                together.append(row)
        return [each for source, together in found.items() for each in self._emissions(source, together)]

    def _emissions(self, source: _RecordFields, rows: Sequence[EventRow]) -> list[Emission]:
        value = encode(self._record(source, rows))
        if len(value) > self._most_bytes and len(rows) > 1:
            half = len(rows) // 2
            return self._emissions(source, rows[:half]) + self._emissions(source, rows[half:])
        first = rows[0].evaluation
        place = f"{source.topic}/{source.partition}/{first.source.offset}/{first.source.index}" if first.source else ""
        headers = cloud_event(
            self._service, "documents", f"{place}:{self._stage}", first.event_time, "application/json"
        )
        return [Emission(DOCUMENTS, orjson.dumps([source.topic, source.partition]), value, headers)]

    def _record(self, source: _RecordFields, rows: Sequence[EventRow]) -> DocumentRows:
        evaluations = [row.evaluation for row in rows]
        # The fields of a model are read from its dictionary in a third of the time.
        fields = [each.__dict__ for each in evaluations]
        at = [each["source"].__dict__ for each in fields]
        codes = _Codes()
        values = codes.of_facets([each["facets"] for each in fields])
        suites, chances = _chances(evaluations)
        documents, chunks = [row.documents for row in rows], [row.chunks for row in rows]
        optional = self.hashes.optional
        columns: dict[str, Any] = {
            "offset": [each["offset"] for each in at],
            "index": [each["index"] for each in at],
            "time": np.rint(np.array([each["event_time"].timestamp() for each in fields]) * _MICROSECONDS),
            "session": b"".join([optional(each["session_id"]) for each in fields]),
            "question": b"".join([optional(each["question_id"]) for each in fields]),
            "field": np.stack([codes.of_field(name, [each[name] for each in fields]) for name in FIELDS], axis=1),
            "verdict": self._verdicts(evaluations),
            "chance": chances,
            "value": list(chain.from_iterable(values)),
            "value_count": list(map(len, values)),
            "document": b"".join(documents),
            "document_count": np.array(list(map(len, documents))) // HASH_BYTES,
            "chunk": b"".join(chunks),
            "chunk_count": np.array(list(map(len, chunks))) // HASH_BYTES,
            **self._labels([each["labels"] for each in fields], codes),
        }
        return DocumentRows.trusted(
            {
                "topic": source.topic,
                "partition": source.partition,
                "stage": self._stage,
                "catalogue_version": source.catalogue_version,
                "run_id": source.run_id,
                "rows": len(rows),
                "criteria": self._shown_criteria,
                "suites": suites,
                "facets": tuple(codes.facets),
                "values": tuple(codes.values),
                "columns": {name: packed(column, COLUMNS[name]) for name, column in columns.items()},
            }
        )

    def _verdicts(self, evaluations: Sequence[Evaluation]) -> NDArray[np.uint8]:
        """Return the verdicts of each evaluation."""
        found = np.empty((len(evaluations), len(self._criteria)), np.uint8)
        scores = [each.__dict__["scores"] for each in evaluations]
        for place, each in enumerate(self._criteria):
            values = [own.get(each.metric) for own in scores]
            if each.suite is None:
                found[:, place] = free_verdicts(each, np.array(values, dtype=float))
            else:
                judged = zip(evaluations, values, strict=True)
                own = [verdict_of(each, value, own.decision.suites, own.undefined)[0] for own, value in judged]
                found[:, place] = own
        return found

    def _labels(self, labels: Sequence[Mapping[str, str]], codes: _Codes) -> dict[str, Any]:
        if not any(labels):
            return {"label_count": bytes(len(labels))}
        kept = [list(each.items())[:MAX_PARTS] for each in labels]
        each_label = list(chain.from_iterable(kept))
        return {
            "label": self.hashes.joined([f"{name}\0{value}" for name, value in each_label]),
            "label_name": [codes.facet(shortened(f"labels.{name}", _LONGEST)) for name, _ in each_label],
            "label_count": list(map(len, kept)),
        }


class _Codes:
    """The numbers of the named values of a record, and of the facets."""

    def __init__(self) -> None:
        self.facets: dict[str, int] = {}
        self.values: dict[tuple[int, str], int] = {}

    def of_field(self, name: str, texts: Sequence[str | None]) -> list[int]:
        """Return the numbers of the values of a field, each plus 1; 0 for none."""
        numbers = {text: 0 if text is None else self._value(name, text) + 1 for text in dict.fromkeys(texts)}
        return [numbers[text] for text in texts]

    def of_facets(self, every: Sequence[Mapping[str, tuple[str, ...]]]) -> list[array[int]]:
        """Return the numbers of the values of facets, of which few are distinct."""
        # The caller keeps the facets, so that no others have their id.
        known = {
            own: array("H", [self._value(name, value) for name, values in facets.items() for value in values])
            for own, facets in {id(each): each for each in every}.items()
        }
        return [known[id(each)] for each in every]

    def _value(self, facet: str, value: str) -> int:
        return self.values.setdefault((self.facet(facet), shortened(value, _LONGEST)), len(self.values))

    def facet(self, name: str) -> int:
        """Return the number of a facet."""
        return self.facets.setdefault(name, len(self.facets))


def _chances(evaluations: Sequence[Evaluation]) -> tuple[tuple[str, ...], list[float]]:
    """Return the suites of some evaluations, and for each of them the probabilities of being judged by each."""
    every: list[Decision] = [each.__dict__["decision"] for each in evaluations]
    decisions = {id(each): each for each in every}
    suites = tuple(dict.fromkeys(own.suite for each in decisions.values() for own in each.suites))
    if not suites:
        return (), []
    own = {key: {each.suite: each.probability for each in decision.suites} for key, decision in decisions.items()}
    chances = {key: [each.get(suite, 0.0) for suite in suites] for key, each in own.items()}
    return suites, list(chain.from_iterable([chances[id(each)] for each in every]))


def packed(column: Any, kind: str) -> str:
    """Return numbers, or bytes that are some, in base64.

    >>> packed([1, 2], "<u2"), packed(b"ab", "<u8")
    ('AQACAA==', 'YWI=')
    """
    return b64encode(column if isinstance(column, bytes) else np.asarray(column, dtype=kind).tobytes()).decode()
