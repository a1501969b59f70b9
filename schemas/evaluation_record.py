"""Fast reading of evaluations as ragweir writes them, by their exact types.

All fields are checked, but a record that the model reads in another way, such as one with a number for a text or with
unknown fields, is left to the model: `read_evaluation` gives what the model gives, in about a tenth of the time.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from pydantic import ValidationError

from ragweir.errors import Rejected
from ragweir.schemas.codec.json import parse
from ragweir.schemas.evaluation import MAX_DOCUMENT_IDS, MAX_FACETS, Evaluation, Status
from ragweir.schemas.times import parse_rfc3339

_Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A number that orjson reads as an integer; a larger one is left to the model."""
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Facets = Annotated[dict[str, tuple[str, ...]], msgspec.Meta(max_length=MAX_FACETS)]
_DocumentIds = Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_DOCUMENT_IDS)]


class _Record(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Base of the parts of the record."""


class SuiteDecisionRecord(_Record):
    """See `ragweir.schemas.evaluation.SuiteDecision`."""

    suite: str
    status: Status
    probability: _Probability
    because: tuple[str, ...] = ()
    row: str | None = None
    row_digest: str | None = None


class DecisionRecord(_Record):
    """See `ragweir.schemas.evaluation.Decision`."""

    suites: tuple[SuiteDecisionRecord, ...] = ()


class _Judgement(_Record):
    model: str
    prompt_version: str
    input_tokens: _Int
    output_tokens: _Int
    cost_usd: float
    cached: bool


class _Texts(_Record):
    query: str | None
    response: str | None
    contexts: tuple[str | None, ...] = ()


class _Source(_Record):
    topic: str
    partition: _Int
    offset: _Int
    index: _Count = 0


class AnsweredRecord(_Record, forbid_unknown_fields=False):
    """The fields of `ragweir.schemas.evaluation.Evaluation` by which an answer is found and put into a window."""

    event_id: str
    event_time: Any
    """A time in UTC."""
    application: str | None = None
    tenant: str | None = None
    environment: str | None = None
    pipeline_version: str | None = None
    model: str | None = None
    question_id: str | None = None
    labels: dict[str, str] = {}
    trace_id: str | None = None
    span_id: str | None = None


class ScoredRecord(AnsweredRecord, kw_only=True):
    """The fields of `ragweir.schemas.evaluation.Evaluation` that are numbers and names: those of lists of answers."""

    session_id: str | None = None
    stage: Literal["scored", "judged"] = "scored"
    scores: dict[str, float | None] = {}
    categories: dict[str, str | None] = {}
    flags: tuple[str, ...] = ()
    decision: DecisionRecord = msgspec.field(default_factory=DecisionRecord)
    document_ids: _DocumentIds = ()
    catalogue_version: str
    source: _Source | None = None


class EvaluationRecord(ScoredRecord, forbid_unknown_fields=True, kw_only=True):
    """See `ragweir.schemas.evaluation.Evaluation`."""

    reasons: dict[str, str] = {}
    undefined: tuple[str, ...] = ()
    explanations: dict[str, str] = {}
    probabilities: dict[str, dict[str, _Probability]] = {}
    evidence: dict[str, tuple[str, ...]] = {}
    facets: _Facets = {}
    judge: _Judgement | None = None
    text: _Texts | None = None
    run_id: str | None = None


_Fields = TypeVar("_Fields", bound=AnsweredRecord)


def _decoded(decoder: msgspec.json.Decoder[_Fields], value: bytes) -> _Fields | None:
    try:
        record = decoder.decode(value)
        time = record.event_time
        if type(time) is str and time[4:5] == "-":  # Other texts may be numbers.
            record.event_time = parse_rfc3339(time)
            return record
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass
    return None


_DECODER = msgspec.json.Decoder(EvaluationRecord)
_SCORED_DECODER = msgspec.json.Decoder(ScoredRecord)
_ANSWERED_DECODER = msgspec.json.Decoder(AnsweredRecord)


def read_evaluation(value: bytes, max_bytes: int) -> EvaluationRecord | Evaluation | None:
    """Return an evaluation; None for a record that is none.

    >>> found = read_evaluation(b'{"event_id":"1","event_time":"2026-11-21T12:00:00Z","catalogue_version":"3"}', 100)
    >>> found.event_id, found.event_time.isoformat(), read_evaluation(b"[]", 100)
    ('1', '2026-11-21T12:00:00+00:00', None)

    Args:
        value: the record's value.
        max_bytes: size of the largest evaluation.
    """
    if len(value) <= max_bytes and (record := _decoded(_DECODER, value)):
        return record
    try:
        return Evaluation.model_validate(parse(value, max_bytes))
    except (Rejected, ValidationError):
        return None


def read_scored(value: bytes, max_bytes: int) -> ScoredRecord | Evaluation | None:
    """Return an evaluation without its texts, in two thirds of the time of `read_evaluation`; None as there.

    Fields that a `ScoredRecord` does not have are not checked.

    >>> line = b'{"event_id":"1","event_time":"2026-11-21T12:00:00Z","catalogue_version":"3","reasons":{"a":"b"}}'
    >>> read_scored(line, 100).event_id, read_scored(b"{}", 100)
    ('1', None)
    """
    if len(value) <= max_bytes and (record := _decoded(_SCORED_DECODER, value)):
        return record
    return read_evaluation(value, max_bytes)


def read_answered(value: bytes, max_bytes: int) -> AnsweredRecord | Evaluation | None:
    """Return an evaluation without its scores, in half the time of `read_evaluation`; None for a record that is none.

    >>> read_answered(b'{"event_id":"1","event_time":"2026-11-21T12:00:00Z","scores":{}}', 100).event_time.isoformat()
    '2026-11-21T12:00:00+00:00'
    """
    if len(value) <= max_bytes and (record := _decoded(_ANSWERED_DECODER, value)):
        return record
    return read_evaluation(value, max_bytes)
