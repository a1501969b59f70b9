"""Feedback in OTLP: each form that applications write, what is none of a person's, and what nobody should write."""

import math
from typing import Any

import orjson
import pytest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from ragweir.streams.traces.annotations import GivenFeedback, taken_feedback
from ragweir.streams.traces.export_request import parse
from ragweir.streams.traces.wire import MAX_GROWTH, divide, read

TRACE, OTHER, SPAN, ROOT = "0a" * 16, "0b" * 16, "01" * 8, "02" * 8
TIME = "2026-11-20T10:00:00Z"
TIME_NS = 1_795_168_800 * 10**9
HUMAN = {"annotator_kind": "HUMAN"}


def set_attributes(item: Any, values: dict[str, Any]) -> None:
    for key, value in values.items():
        held = item.attributes.add(key=key).value
        if isinstance(value, bool):
            held.bool_value = value
        elif isinstance(value, str):
            held.string_value = value
        elif isinstance(value, int):
            held.int_value = value
        elif isinstance(value, float):
            held.double_value = value
        elif isinstance(value, bytes):
            held.bytes_value = value
        else:
            held.array_value.values.add().string_value = value[0]


def span(values: dict[str, Any], name: str = "answer", links: tuple[tuple[str, str], ...] = (), **fields: Any) -> Span:
    made = Span(
        trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(SPAN), name=name, end_time_unix_nano=TIME_NS, **fields
    )
    set_attributes(made, values)
    for trace, of in links:
        made.links.add(trace_id=bytes.fromhex(trace), span_id=bytes.fromhex(of))
    return made


def log(values: dict[str, Any], name: str = "gen_ai.evaluation.result", span_id: str = SPAN) -> LogRecord:
    made = LogRecord(
        trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(span_id), event_name=name, time_unix_nano=TIME_NS
    )
    set_attributes(made, values)
    return made


def traces(*spans: Span) -> bytes:
    data = TracesData()
    data.resource_spans.add().scope_spans.add().spans.extend(spans)
    return data.SerializeToString()


def logs(*records: LogRecord) -> bytes:
    data = LogsData()
    data.resource_logs.add().scope_logs.add().log_records.extend(records)
    return data.SerializeToString()


def taken(value: bytes) -> GivenFeedback:
    return taken_feedback(parse(value), value)


def given(value: bytes) -> list[dict[str, Any]]:
    """The feedback of a request, all of which is usable, without its absent fields."""
    found = taken(value)
    assert found.rejected == []
    records = [orjson.loads(each.value) for each in found.given]
    assert [each.key.decode() for each in found.given] == [each["trace_id"] for each in records]
    return [{name: field for name, field in each.items() if field is not None} for each in records]


def items(found: GivenFeedback) -> int:
    """The number of spans and log records that are left."""
    signal = found.request.signal
    return sum(
        len(getattr(scope, signal.items))
        for resource in getattr(found.request.message, signal.resources)
        for scope in getattr(resource, signal.scopes)
    )


def item(prefix: str, number: int = 0, **fields: Any) -> dict[str, Any]:
    kind = prefix.removeprefix("trace.").removesuffix("s")
    return {f"{prefix}.{number}.{kind}.{name}": value for name, value in fields.items()}


THUMB = {"name": "thumbs", "label": "down", "score": 0.0, **HUMAN}
EVALUATOR = {"openinference.span.kind": "EVALUATOR"}
EXPECTED = {"trace_id": TRACE, "span_id": SPAN, "name": "thumbs", "value": "down", "time": TIME}
OF_PERSON = {
    "gen_ai.evaluation.name": "thumbs",
    "gen_ai.evaluation.score.label": "down",
    "gen_ai.evaluation.evaluator.type": "human",
}
FORMS = [
    pytest.param(logs(log(OF_PERSON)), EXPECTED, 0, id="event of a person"),
    pytest.param(
        logs(log({"gen_ai.evaluation.score": -1.0, "user.id": "Ada"}, "gen_ai.evaluation.user_feedback", "")),
        {"trace_id": TRACE, "name": "user_feedback", "value": -1.0, "giver": "Ada", "time": TIME},
        0,
        id="event of user feedback, without a span",
    ),
    pytest.param(
        logs(log({"event.name": "gen_ai.evaluation.user_feedback", "gen_ai.evaluation.score": 1.0}, "")),
        {"trace_id": TRACE, "span_id": SPAN, "name": "user_feedback", "value": 1.0, "time": TIME},
        0,
        id="name of the event as an attribute",
    ),
    pytest.param(
        logs(log({"gen_ai.evaluation.name": "user_feedback", "gen_ai.evaluation.score.value": 1})),
        {"trace_id": TRACE, "span_id": SPAN, "name": "user_feedback", "value": 1, "time": TIME},
        0,
        id="result that is named for feedback",
    ),
    pytest.param(traces(span(item("annotations", **THUMB))), EXPECTED, 1, id="annotation of its span"),
    pytest.param(
        traces(span({**item("annotations", identifier="u7", **THUMB), "user.id": "Ada"})),
        {**EXPECTED, "giver": "u7"},
        1,
        id="identifier before user",
    ),
    pytest.param(
        traces(span({**item("annotations", **THUMB), "user.id": "Ada"})),
        {**EXPECTED, "giver": "Ada"},
        1,
        id="user of the span",
    ),
    pytest.param(
        traces(span(item("trace.annotations", **THUMB))),
        {name: value for name, value in EXPECTED.items() if name != "span_id"},
        1,
        id="annotation of the trace",
    ),
    pytest.param(
        traces(span(EVALUATOR | item("evaluations", **THUMB), "judged by people", ((OTHER, ROOT),))),
        {**EXPECTED, "trace_id": OTHER, "span_id": ROOT},
        0,
        id="evaluator span with a link",
    ),
    pytest.param(
        traces(span(EVALUATOR | item("trace.evaluations", **THUMB), "judged by people", ((OTHER, ROOT),))),
        {"trace_id": OTHER, "name": "thumbs", "value": "down", "time": TIME},
        0,
        id="evaluation of a linked trace",
    ),
    pytest.param(
        traces(span({"feedback.score": 5, "feedback.comment": "SECRET"}, "user_feedback")),
        {"trace_id": TRACE, "name": "user_feedback", "value": 5, "time": TIME},
        0,
        id="span of feedback at the top of the trace",
    ),
    pytest.param(
        traces(span({"feedback.value": True}, "user_feedback", parent_span_id=bytes.fromhex(ROOT))),
        {"trace_id": TRACE, "span_id": ROOT, "name": "user_feedback", "value": True, "time": TIME},
        0,
        id="span of feedback below the answer",
    ),
    pytest.param(
        traces(span(item("annotations", name="thumbs", label="down"), "user_feedback", ((OTHER, ROOT),))),
        {**EXPECTED, "trace_id": OTHER, "span_id": ROOT},
        0,
        id="annotation of a span of feedback",
    ),
]


@pytest.mark.parametrize(("value", "expected", "left"), FORMS)
def test_each_form_of_feedback_is_read(value: bytes, expected: dict[str, Any], left: int) -> None:
    assert given(value) == [expected]
    assert items(taken(value)) == left


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(logs(log({**OF_PERSON, "gen_ai.evaluation.evaluator.type": "llm_judge"})), id="judge"),
        pytest.param(logs(log({"gen_ai.evaluation.name": "x", "gen_ai.evaluation.score.value": 1})), id="nobody"),
        pytest.param(logs(log({"body": "feedback"}, "app.request")), id="another log record"),
        pytest.param(
            traces(span(item("annotations", **{**THUMB, "annotator_kind": "LLM"}))), id="annotation of a judge"
        ),
        pytest.param(traces(span(item("annotations", name="thumbs", score=1))), id="annotation of nobody"),
        pytest.param(
            traces(
                span(EVALUATOR | item("evaluations", **{**THUMB, "annotator_kind": "CODE"}), links=((OTHER, ROOT),))
            ),
            id="evaluator",
        ),
        pytest.param(traces(span({"input.value": "annotations and feedback"})), id="text"),
        pytest.param(traces(span({"annotations.x.annotation.name": "a", "annotations.0": "b"})), id="no list"),
    ],
)
def test_results_of_judges_and_texts_are_no_feedback(value: bytes) -> None:
    """They are left where they are, byte by byte."""
    found = taken(value)
    assert (found.given, found.rejected, items(found)) == ([], [], 1)
    assert found.request.is_protobuf


def test_a_comment_without_a_label_or_score_is_dropped() -> None:
    value = traces(span(item("annotations", name="note", explanation="SECRET", **HUMAN)))
    assert (taken(value).given, taken(value).rejected) == ([], [])


def test_span_events_of_people_are_feedback_of_their_span() -> None:
    made = span({})
    set_attributes(made.events.add(name="gen_ai.evaluation.result", time_unix_nano=TIME_NS), OF_PERSON)
    set_attributes(made.events.add(name="exception"), {"exception.message": "annotation"})
    assert given(traces(made)) == [EXPECTED]


HOSTILE = [
    pytest.param({"name": "a\x1bb", "label": "up"}, "name: must be printable", id="control characters"),
    pytest.param({"name": "n" * 61, "label": "up"}, "name: must be printable", id="long name"),
    pytest.param({"name": ["a"], "label": "up"}, "name: must be printable", id="list as name"),
    pytest.param({"name": "a", "score": math.nan}, "value: must be a finite number", id="NaN takes nothing back"),
    pytest.param({"name": "a", "score": math.inf}, "value: must be a finite number", id="infinity"),
    pytest.param({"name": "a", "label": "x" * 201}, "value: must be a finite number", id="long label"),
    pytest.param({"name": "a", "label": ["up"]}, "value: must be a finite number", id="list"),
    pytest.param({"name": "a", "score": b"\xff"}, "value: must be a finite number", id="bytes"),
    pytest.param({"name": "a"}, "it has neither a label nor a score", id="nothing"),
    pytest.param({"name": "a", "label": "up", "identifier": "i" * 1001}, "giver: must be text of at most", id="giver"),
]


@pytest.mark.parametrize(("fields", "reason"), HOSTILE)
def test_what_is_no_feedback_is_rejected_with_a_reason_and_the_rest_is_given(
    fields: dict[str, Any], reason: str
) -> None:
    found = taken(traces(span(item("annotations", 0, **fields, **HUMAN) | item("annotations", 1, **THUMB))))
    assert len(found.given) == 1
    (said,) = found.rejected
    assert said.startswith(reason)


@pytest.mark.parametrize("links", [(), ((OTHER, ROOT), (TRACE, ROOT)), (("00" * 16, ROOT),)])
def test_an_evaluator_span_without_exactly_one_link_names_no_answer(links: tuple[tuple[str, str], ...]) -> None:
    """Its own trace is that of the evaluation."""
    found = taken(traces(span(EVALUATOR | item("evaluations", **THUMB), links=links)))
    assert (found.given, found.rejected) == (
        [],
        ["the span needs exactly one link, which names the span of the answer"],
    )


def test_ids_that_are_none_belong_to_no_answer() -> None:
    record, made = log(OF_PERSON), span(item("annotations", **THUMB))
    record.trace_id = made.span_id = b"\0" * 16
    for value in (logs(record), traces(made)):
        assert (taken(value).given, taken(value).rejected) == ([], [])


def test_times_of_any_number_are_read() -> None:
    for time_ns, expected in ((0, None), (1, "1970-01-01T00:00:00Z"), (2**64 - 1, "2554-07-21T23:34:33.709551Z")):
        record = log(OF_PERSON)
        record.time_unix_nano = time_ns
        assert [each.get("time") for each in given(logs(record))] == [expected]


def test_feedback_takes_no_more_than_four_times_its_request() -> None:
    """Each of many short annotations would name the same long giver."""
    values = {"user.id": "g" * 1000}
    for number in range(2_000):
        values |= item("annotations", number, name="a", score=1, **HUMAN)
    value = traces(span(values))
    found = taken(value)
    assert sum(len(each.value) for each in found.given) <= MAX_GROWTH * len(value)
    assert len(found.given) + len(found.rejected) == 2_000
    assert found.rejected[-1] == "it would take more than four times the bytes of its request"


def test_the_other_spans_of_a_request_are_divided_as_before() -> None:
    """What is feedback alone opens no trace: its slice would come hours after the answer was assembled."""
    root = span({"input.value": "?"}, "root")
    root.span_id = bytes.fromhex(ROOT)
    whole = traces(root, span({"feedback.score": 1}, "user_feedback"))
    found = taken(whole)
    assert not found.request.is_protobuf
    alone = [each.value for each in divide(traces(root)).slices]
    assert [found.request.message.SerializeToString()] == alone
    assert [each.name for each in read(alone[0])[0]] == ["root"]


def test_json_is_read_as_protobuf_is() -> None:
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in OF_PERSON.items()]
    record = {"traceId": TRACE, "spanId": SPAN, "timeUnixNano": str(TIME_NS), "attributes": attributes}
    record["eventName"] = "gen_ai.evaluation.result"
    assert given(orjson.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})) == [EXPECTED]
