"""Making and writing of scored evaluations, without validating again what is known to be valid.

An event was validated when it was read, and the catalogue gives finite floats; so only the types of the values are
checked. An evaluation with any other value, such as one from a metric of the user's, is validated by its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple

import orjson

from ragweir.metrics.catalogue import Scored
from ragweir.schemas.codec.json import encode, encode_fields
from ragweir.schemas.evaluation import CARRIED_OVER, Decision, Evaluation, Source, document_ids
from ragweir.schemas.interaction import Interaction
from ragweir.streams.runtime.records import Record

_TEXT, _TEXT_OR_NULL, _SCORE = frozenset({str}), frozenset({str, NoneType}), frozenset({float, NoneType})
_CARRIED_TEXTS = tuple(name for name in CARRIED_OVER if name != "labels")
_carried_texts = itemgetter(*_CARRIED_TEXTS)
_DEFAULTS: Mapping[str, Any] = {
    name: None if info.is_required() else info.get_default(call_default_factory=True)
    for name, info in Evaluation.model_fields.items()
}
"""The fields in the order in which they are written."""
_MAY_BE_OMITTED = tuple(Evaluation.omitted_values)
"""The fields that are left out if they are empty, which all of their omitted values are."""
_MAX_DECISIONS = 4_096
"""The most distinct decisions whose JSON is kept; there are few."""


def evaluation_of(
    event: Interaction, time: datetime, scored: Scored, record: Record, index: int, **fields: Any
) -> Evaluation:
    """Return the evaluation of an event.

    Args:
        event: the event.
        time: its time.
        scored: its scores.
        record: the record that it was read from.
        index: its index in the record.
        fields: further fields of the evaluation, `flags` among them.

    Raises:
        pydantic.ValidationError: if a score, or another value, cannot be a part of an evaluation.
    """
    texts = _carried_texts(event.__dict__)
    every = {
        **_DEFAULTS,
        **dict(zip(_CARRIED_TEXTS, texts, strict=True)),
        "labels": event.labels,
        "event_time": time,
        "scores": scored.scores,
        "categories": scored.categories,
        "reasons": scored.reasons,
        "explanations": {},
        "evidence": {},
        "document_ids": document_ids(event),
        "source": Source.trusted(
            {"topic": record.topic, "partition": record.partition, "offset": record.offset, "index": index}
        ),
        **fields,
    }
    is_plain = (
        time.tzinfo is UTC
        and _TEXT_OR_NULL.issuperset(map(type, texts))
        and texts[0] is not None
        and _are_scores(scored.scores)
        and _TEXT_OR_NULL.issuperset(map(type, scored.categories.values()))
        and _TEXT.issuperset(map(type, (*scored.reasons.values(), *every["flags"], *every["document_ids"])))
        and (not event.labels or _TEXT.issuperset(map(type, (*event.labels, *event.labels.values()))))
        and not every["evidence"]
    )
    return Evaluation.trusted(every) if is_plain else Evaluation(**every)


def _are_scores(scores: Mapping[str, object]) -> bool:
    """Return whether all are finite floats or null: a sum with a number that is not finite is not finite either."""
    values = scores.values()
    return _SCORE.issuperset(map(type, values)) and isfinite(sum(filter(None, values)))  # type: ignore[arg-type]


class _Decided(NamedTuple):
    decision: Decision
    """Kept, so that no other decision has its id."""
    json: orjson.Fragment
    is_selected: bool


class EvaluationWriter:
    """Encodes evaluations. What is read of decisions, of which few are distinct, is kept."""

    def __init__(self) -> None:
        self._decisions: dict[int, _Decided] = {}

    def encode(self, evaluation: Evaluation) -> bytes:
        """Return the bytes that `ragweir.schemas.codec.json.encode` returns."""
        fields = {**evaluation.__dict__, "decision": self._decided(evaluation.decision).json}
        for name in _MAY_BE_OMITTED:
            if not fields[name]:
                del fields[name]
        return encode_fields(fields)

    def is_selected(self, evaluation: Evaluation) -> bool:
        """Return whether a suite is to judge the event."""
        return self._decided(evaluation.decision).is_selected

    def _decided(self, decision: Decision) -> _Decided:
        known = self._decisions.get(id(decision))
        if known is None:
            if len(self._decisions) >= _MAX_DECISIONS:
                self._decisions.clear()
            is_selected = any(suite.status == "selected" for suite in decision.suites)
            known = self._decisions[id(decision)] = _Decided(decision, orjson.Fragment(encode(decision)), is_selected)
        return known
