"""Evaluations that are read by their exact types are those that the model reads; others are left to it."""

import copy
from typing import Any

import orjson
import pytest
from msgspec import Struct
from msgspec.structs import fields as struct_fields
from pydantic import BaseModel, ValidationError

from ragweir.errors import Rejected
from ragweir.schemas import evaluation, evaluation_record, window, window_record
from ragweir.schemas.codec.json import parse
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.evaluation_record import EvaluationRecord, ScoredRecord, read_evaluation, read_scored

LIMIT = 100_000
OTHERS = "reasons", "undefined", "explanations", "probabilities", "evidence", "facets", "judge", "text", "run_id"
"""The fields that lists of answers do not have."""
TEXTS = [(name,) for name in OTHERS]
FULL: dict[str, Any] = {
    "event_id": "1",
    "event_time": "2026-11-21T12:00:00.250000Z",
    "application": "a",
    "tenant": None,
    "labels": {"region": "eu"},
    "stage": "judged",
    "scores": {"context_support": 0.5, "token_f1": None},
    "categories": {"recall_warning": "LOW", "other": None},
    "reasons": {"token_f1": "no expected answer"},
    "flags": ["cut:contexts"],
    "explanations": {"judge_relevance": "because"},
    "evidence": {"context_support": ["word"]},
    "decision": {"suites": [{"suite": "rubric", "status": "judged", "probability": 0.2, "because": ["floor"]}]},
    "document_ids": ["d"],
    "judge": {
        "model": "m", "prompt_version": "1", "input_tokens": 1, "output_tokens": 2, "cost_usd": 0.1, "cached": False,
    },
    "text": {"query": "q", "response": None, "contexts": ["c", None]},
    "catalogue_version": "3",
    "source": {"topic": "t", "partition": 0, "offset": 7},
    "run_id": "r",
}  # fmt: skip
VALUES = (
    *(None, True, 5, -1, 0.5, 1e300, "5", "", "0.5", "x", [], ["x"], [5], {}, {"a": 5}, {"a": "x"}, {"a": None}),
    *("2026-11-21", "2026-11-21T12:00:00", "2026-11-21 12:00:00+02:00", "2026-11-21T23:59:59.9999999Z", "20261121"),
    *(
        "2026-11-21T23:59:60Z",
        "1764000000",
        1764000000,
        1764000000123,
        "9999-12-31T23:59:59-01:00",
        "0001-01-01T00:00Z",
    ),
    *(10**30, -0.0, "scored", ["d"] * 17, {"suites": []}, {"suites": [5]}),
)


def by_model(value: bytes) -> Evaluation | None:
    try:
        return Evaluation.model_validate(parse(value, LIMIT))
    except (Rejected, ValidationError):
        return None


def fields(found: Evaluation | EvaluationRecord | None) -> Any:
    """The fields that readers use, and their kinds."""
    if found is None:
        return None
    own = found.event_id, found.event_time, found.event_time.tzinfo, found.catalogue_version, found.stage, found.labels
    dimensions = found.application, found.tenant, found.model, found.pipeline_version, found.run_id
    suites = [(each.suite, each.status, each.probability, each.because) for each in found.decision.suites]
    return repr((own, dimensions, found.scores, found.categories, found.reasons, found.flags, suites))


def listed(found: Evaluation | ScoredRecord | None) -> Any:
    """The fields of lists of answers."""
    if found is None:
        return None
    names = "event_id", "event_time", "application", "tenant", "environment", "pipeline_version", "model", "labels"
    more = "question_id", "session_id", "trace_id", "stage", "scores", "categories", "flags", "document_ids"
    source = None if found.source is None else [getattr(found.source, name) for name in evaluation.Source.model_fields]
    suites = [(each.suite, each.status, each.probability) for each in found.decision.suites]
    return repr(([getattr(found, name) for name in (*names, *more)], source, suites))


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *[each for key, value in inner for each in places(value, (*path, key))]]


def replaced(path: tuple[Any, ...], value: Any) -> bytes:
    if not path:
        return orjson.dumps(value) if value != 10**30 else b"1" * 30
    data = copy.deepcopy(FULL)
    at: Any = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    try:
        return orjson.dumps(data)
    except TypeError:  # A number of more than 64 bits.
        at[path[-1]] = "@"
        return orjson.dumps(data).replace(b'"@"', str(value).encode())


@pytest.mark.parametrize(
    ("record", "model"),
    [
        (evaluation_record.EvaluationRecord, evaluation.Evaluation),
        (evaluation_record.DecisionRecord, evaluation.Decision),
        (evaluation_record.SuiteDecisionRecord, evaluation.SuiteDecision),
        (evaluation_record._Judgement, evaluation.Judgement),
        (evaluation_record._Texts, evaluation.Texts),
        (evaluation_record._Source, evaluation.Source),
        (window_record.WindowRecord, window.Window),
        (window_record.SummaryRecord, window.MetricSummary),
        (window_record.HistogramRecord, window.Histogram),
        (window_record.EstimateRecord, window.EstimateSums),
        (window_record.ResultRecord, window.EstimateResult),
        (window_record.SelectionRecord, window.SelectionSums),
        (window_record.ChanceRecord, window.SuiteChance),
    ],
    ids=lambda each: each.__name__,
)
def test_a_record_has_the_fields_of_its_model(record: type[Struct], model: type[BaseModel]) -> None:
    """A field that is missing here would leave every evaluation that has it to the model, ten times slower."""
    own = {each.name: each.required for each in struct_fields(record)}
    assert own == {name: field.is_required() for name, field in model.model_fields.items()}


def test_what_ragweir_writes_is_read_by_its_types() -> None:
    """Otherwise nothing is faster."""
    found = read_evaluation(orjson.dumps(FULL), LIMIT)
    assert isinstance(found, EvaluationRecord)
    assert fields(found) == fields(by_model(orjson.dumps(FULL)))


@pytest.mark.parametrize("path", places(FULL), ids=str)
def test_every_value_of_every_field_is_read_as_the_model_reads_it(path: tuple[Any, ...]) -> None:
    """Or rejected as it rejects it."""
    for value in VALUES:
        own = replaced(path, value)
        assert fields(read_evaluation(own, LIMIT)) == fields(by_model(own)), value


@pytest.mark.parametrize("path", places(FULL), ids=str)
def test_numbers_and_names_are_read_as_the_model_reads_them(path: tuple[Any, ...]) -> None:
    """Records that the model rejects for another field than a text are rejected, and texts are not read."""
    assert isinstance(read_scored(orjson.dumps(FULL), LIMIT), ScoredRecord)
    for value in VALUES:
        own = replaced(path, value)
        expected, found = by_model(own), read_scored(own, LIMIT)
        if expected is not None or path[:1] not in TEXTS:
            assert listed(found) == listed(expected), value
        else:
            assert found is None or listed(found) == listed(by_model(orjson.dumps(FULL))), value


@pytest.mark.parametrize(
    "value",
    [
        b"", b"{", b"null", b'{"event_id": "1"}', orjson.dumps(FULL)[:-1], orjson.dumps(FULL) + b"x",
        orjson.dumps(FULL | {"unknown": 1}), orjson.dumps(FULL).replace(b'"eu"', b'"\xff"'),
        orjson.dumps(FULL).replace(b'"eu"', b'"\\ud800"'), orjson.dumps(FULL).replace(b"0.5", b"NaN"),
        orjson.dumps(FULL).replace(b"0.5", b"1e999"), b"[" * 100_000, orjson.dumps(FULL | {"run_id": "r" * LIMIT}),
        orjson.dumps(FULL)[:-1] + b',"event_id":"2"}',
    ],
)  # fmt: skip
def test_damaged_records_are_read_as_the_model_reads_them(value: bytes) -> None:
    """Other bytes than JSON, unknown and repeated fields, and records over the limit."""
    assert fields(read_evaluation(value, LIMIT)) == fields(by_model(value))
