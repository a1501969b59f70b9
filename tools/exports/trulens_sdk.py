"""Records of TruLens: its events in its own database, and the tables that its session reads from there."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trulens.core import TruSession
from trulens.core.schema.base import Cost, Perf
from trulens.core.schema.event import Event, EventRecordType
from trulens.core.schema.record import Record
from trulens.otel.semconv.trace import ResourceAttributes, SpanAttributes

from tools.exports.questions import Question, questions

_APP = {
    ResourceAttributes.APP_NAME: "atlas",
    ResourceAttributes.APP_VERSION: "v12",
    ResourceAttributes.APP_ID: "app_hash_atlas_v12",
}
_METRIC = "Context Relevance"


def _id(*parts: object) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(map(str, parts))))


def _event(question: Question, name: str, kind: str, attributes: dict[str, Any], begin: float, end: float) -> Event:
    """Return the span of a step, from and to these parts of the question's time."""
    record = _id("record", question.number)
    span = _id(name, question.number)[-12:]
    parent = "" if name == "ask" else _id("ask", question.number)[-12:]
    return Event(
        event_id=span,
        record={"name": name, "kind": "SPAN_KIND_TRULENS", "parent_span_id": parent, "status": "STATUS_CODE_UNSET"},
        record_attributes={
            **_APP,
            SpanAttributes.RECORD_ID: record,
            SpanAttributes.SPAN_TYPE: kind,
            SpanAttributes.INPUT_ID: f"input-{question.number}",
            SpanAttributes.CONVERSATION_ID: f"conversation-{question.number // 3}",
            **attributes,
        },
        record_type=EventRecordType.SPAN,
        resource_attributes=_APP,
        start_timestamp=question.started + timedelta(seconds=begin * question.seconds),
        timestamp=question.started + timedelta(seconds=end * question.seconds),
        trace={"trace_id": record.replace("-", ""), "parent_id": parent, "span_id": span},
    )


def _events(question: Question) -> list[Event]:
    types = SpanAttributes.SpanType
    root: dict[str, Any] = {SpanAttributes.RECORD_ROOT.INPUT: question.text}
    if question.number in (13, 37):
        root[SpanAttributes.RECORD_ROOT.ERROR] = "TimeoutError: the model did not answer"
    else:
        root[SpanAttributes.RECORD_ROOT.OUTPUT] = question.answer
    retrieval = {
        SpanAttributes.RETRIEVAL.QUERY_TEXT: question.text,
        SpanAttributes.RETRIEVAL.RETRIEVED_CONTEXTS: question.texts,
    }
    cost = {SpanAttributes.COST.NUM_TOKENS: 129, SpanAttributes.COST.COST: 0.00042, SpanAttributes.COST.CURRENCY: "USD"}
    events = [
        _event(question, "ask", types.RECORD_ROOT.value, root, 0, 1),
        _event(question, "retrieve", types.RETRIEVAL.value, retrieval, 0, 0.25),
        _event(question, "generate", types.GENERATION.value, cost, 0.25, 1),
    ]
    if question.number % 2 == 0:  # Only half of the records were evaluated.
        score = {SpanAttributes.EVAL_ROOT.METRIC_NAME: _METRIC, SpanAttributes.EVAL_ROOT.SCORE: 0.5}
        events.append(_event(question, "evaluate", types.EVAL_ROOT.value, score, 2, 3))
        for number, text in enumerate(question.texts):
            call = {
                SpanAttributes.EVAL.METRIC_NAME: _METRIC,
                SpanAttributes.EVAL.SCORE: 1.0 - number,
                f"{SpanAttributes.CALL.KWARGS}.question": question.text,
                f"{SpanAttributes.CALL.KWARGS}.context": text,
            }
            events.append(_event(question, f"evaluate {number}", types.EVAL.value, call, 2, 3))
    return events


def _record(question: Question) -> Record:
    """Return a record as sessions without OpenTelemetry have it."""
    number = question.number
    failed = number in (13, 37)
    return Record(
        calls=[],
        record_id=f"record_hash_{_id('record', number)[:32]}",
        app_id="app_hash_atlas_v12",
        conversation_id=f"conversation-{number // 3}",
        cost=Cost(n_tokens=129, n_prompt_tokens=120, n_completion_tokens=9, cost=0.00042),
        perf=Perf(start_time=question.started, end_time=question.ended),
        ts=question.ended,
        meta={"region": "eu"},
        main_input=question.text,
        main_output=None if failed else question.answer,
        main_error="TimeoutError: the model did not answer" if failed else None,
    )


def write(folder: Path) -> None:
    everything = questions()
    (folder / "record_models.jsonl").write_text(
        "".join(_record(question).model_dump_json() + "\n" for question in everything)
    )
    with TemporaryDirectory() as temporary:
        session = TruSession(database_url=f"sqlite:///{temporary}/trulens.sqlite")
        session.connector.db.insert_events([event for question in everything for event in _events(question)])
        records, _ = session.get_records_and_feedback()
        events = session.connector.get_events()
    records.to_json(folder / "records.jsonl", orient="records", lines=True, date_format="iso")
    records.to_csv(folder / "records.csv", index=False)
    # Parquet has no form for the empty objects of these columns.
    records.drop(columns=["record_json", f"{_METRIC}_calls"]).to_parquet(folder / "records.parquet")
    events.to_json(folder / "events.json", orient="records", date_format="iso")
