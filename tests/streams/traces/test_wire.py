"""The wire form of OTLP, on the recorded exports and on bytes that no exporter writes."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from ragweir.errors import Rejected
from ragweir.streams.traces.wire import divide, heads, read, slices

RECORDINGS = Path(__file__).parent / "otlp"
CASES = sorted(str(path.relative_to(RECORDINGS)) for path in RECORDINGS.rglob("*.pb"))
TRACE, OTHER, SPAN = bytes(range(16)), bytes(range(16, 32)), bytes(range(1, 9))


def recorded(case: str) -> bytes:
    return (RECORDINGS / case).read_bytes()


def as_json(case: str) -> bytes:
    return (RECORDINGS / case).with_suffix(".json").read_bytes()


def traces(*spans: Span, resource: str = "") -> bytes:
    data = TracesData()
    resources = data.resource_spans.add()
    if resource:
        resources.resource.attributes.add(key="service.name").value.string_value = resource
    resources.scope_spans.add().spans.extend(spans)
    return data.SerializeToString()


def logs(*records: LogRecord) -> bytes:
    data = LogsData()
    data.resource_logs.add().scope_logs.add().log_records.extend(records)
    return data.SerializeToString()


def span(trace: bytes = TRACE, span_id: bytes = SPAN, **fields: Any) -> Span:
    return Span(trace_id=trace, span_id=span_id, **fields)


def json_spans(*spans: dict[str, Any]) -> bytes:
    return orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def reason(value: bytes) -> str:
    with pytest.raises(Rejected) as found:
        divide(value)
    return found.value.message


# Recorded exports.


def test_there_are_recordings_of_traces_and_logs() -> None:
    assert len(CASES) > 90
    assert any(".logs." in case for case in CASES)


@pytest.mark.parametrize("case", CASES)
def test_both_encodings_of_a_recording_are_equal(case: str) -> None:
    spans, records = read(recorded(case))
    assert (spans, records) == read(as_json(case))
    assert bool(records) == (".logs." in case)
    assert bool(spans) != bool(records)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_slices_of_a_recording_have_all_of_it(case: str) -> None:
    """Each slice has the items of one trace, with all of their content, and JSON is sliced into protobuf."""
    expected = [item for items in read(recorded(case)) for item in items]
    for value in (recorded(case), as_json(case)):
        division = divide(value)
        found = []
        for each in division.slices:
            items = [item for items in read(each.value) for item in items]
            assert {item.trace_id for item in items} == {each.trace_id}
            assert len(items) == each.items
            found += items
        assert division.unjoinable == 0
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        assert [each.trace_id for each in division.slices] == list(dict.fromkeys(item.trace_id for item in expected))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_heads_are_those_of_the_spans(case: str) -> None:
    spans, _ = read(recorded(case))
    assert [tuple(getattr(each, name) for name in HEAD) for each in heads(recorded(case))] == [
        tuple(getattr(each, name) for name in HEAD) for each in spans
    ]


HEAD = ("span_id", "parent_id", "remote_parent", "started_ns", "ended_ns")


# Traces and logs.


def test_a_request_of_one_trace_is_its_own_slice() -> None:
    """Exporters that partition by trace cost no copies."""
    value = traces(span(name="a"), span(span_id=OTHER[:8], name="b"), resource="shop")
    (found,) = slices(value)
    assert found.value is value
    assert (found.trace_id, found.items) == (TRACE.hex(), 2)


def test_resources_and_scopes_are_repeated_for_each_trace_and_not_for_each_span() -> None:
    data = TracesData()
    for name in ("a", "b"):
        resource = data.resource_spans.add(schema_url=f"resource {name}")
        resource.resource.attributes.add(key="service.name").value.string_value = name
        for scope in ("x", "y"):
            within = resource.scope_spans.add(schema_url=f"scope {scope}")
            within.scope.name = scope
            within.spans.extend([span(), span(OTHER), span()])
    first, second = slices(data.SerializeToString())
    assert (first.items, second.items) == (8, 4)
    for each in (first, second):
        parsed = TracesData.FromString(each.value)
        assert [
            (found.schema_url, [(scope.schema_url, scope.scope.name) for scope in found.scope_spans])
            for found in parsed.resource_spans
        ] == [(f"resource {name}", [("scope x", "x"), ("scope y", "y")]) for name in ("a", "b")]
    assert [(each.resource["service.name"], each.scope) for each in read(second.value)[0]] == [
        (name, scope) for name in ("a", "b") for scope in ("x", "y")
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"time_unix_nano": 5},
        {"observed_time_unix_nano": 5},
        {"severity_number": 9},
        {"event_name": "gen_ai.choice"},
        {"span_id": SPAN},
        {"flags": 1},
        {"body": AnyValue(string_value="hello"), "attributes": [KeyValue(key="a")]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_log_records_are_told_from_spans(fields: dict[str, Any]) -> None:
    """A parser of spans takes their bytes, too, and would find spans without ids in them."""
    record = LogRecord(trace_id=TRACE, **fields)
    spans, records = read(logs(record, LogRecord(trace_id=TRACE, time_unix_nano=1)))
    assert (len(spans), len(records)) == (0, 2)


@pytest.mark.parametrize("fields", [{"name": "x"}, {"kind": 2}, {"start_time_unix_nano": 1}, {"flags": 1}])
def test_spans_with_few_fields_are_spans(fields: dict[str, Any]) -> None:
    assert len(read(traces(Span(**fields), span()))[0]) == 1


def test_log_records_without_a_trace_are_left_out_silently() -> None:
    """They are the ordinary log of an application; the slices have the others."""
    ordinary = LogRecord(time_unix_nano=1, body=AnyValue(string_value="listening"))
    division = divide(logs(ordinary, LogRecord(time_unix_nano=2, trace_id=TRACE, span_id=SPAN), ordinary))
    assert [(each.trace_id, each.items) for each in division.slices] == [(TRACE.hex(), 1)]
    assert len(LogsData.FromString(division.slices[0].value).resource_logs[0].scope_logs[0].log_records) == 1
    assert divide(logs(ordinary)).slices == []
    assert divide(logs(ordinary)).unjoinable == 0


BAD_IDS = [(b"", SPAN), (bytes(16), SPAN), (TRACE[:15], SPAN), (TRACE + b"x", SPAN), (TRACE, b""), (TRACE, bytes(8))]


@pytest.mark.parametrize(("trace", "span_id"), BAD_IDS)
def test_spans_without_ids_are_counted_and_the_others_are_kept(trace: bytes, span_id: bytes) -> None:
    bad = span(trace, span_id)
    division = divide(traces(bad, span(), bad))
    assert division.unjoinable == 2
    assert [each.items for each in division.slices] == [1]
    assert "trace id" in reason(traces(bad))
    assert read(traces(bad)) == ([], [])
    assert list(heads(traces(bad, span()))) == list(heads(traces(span())))


def test_an_empty_request_has_no_slices() -> None:
    for value in (b"", b"{}", b'{"resourceSpans":[]}', b'{"resource_logs":[]}', TracesData().SerializeToString()):
        assert slices(value) == []


@pytest.mark.parametrize(
    ("fields", "remote"),
    [
        ({"kind": 2}, True),
        ({"kind": 5}, True),
        ({"kind": 1}, False),
        ({"kind": 3}, False),
        ({"kind": 2, "flags": 0x100}, False),
        ({"kind": 1, "flags": 0x301}, True),
        # Without the bit that says that the other is set, it says nothing.
        ({"kind": 1, "flags": 0x200}, False),
    ],
)
def test_a_remote_parent_is_told_by_flags_or_by_kind(fields: dict[str, int], remote: bool) -> None:
    value = traces(span(parent_span_id=OTHER[:8], **fields), span(**fields))
    assert [each.remote_parent for each in heads(value)] == [remote, False]
    assert [each.remote_parent for each in read(value)[0]] == [remote, False]
    assert [each.parent_id for each in heads(value)] == [OTHER[:8].hex(), None]


def test_values_are_plain() -> None:
    attributes = [
        KeyValue(key="text", value=AnyValue(string_value="a")),
        KeyValue(key="flag", value=AnyValue(bool_value=True)),
        KeyValue(key="int", value=AnyValue(int_value=-(2**63))),
        KeyValue(key="double", value=AnyValue(double_value=0.5)),
        KeyValue(key="bytes", value=AnyValue(bytes_value=b"\xff")),
        KeyValue(key="none", value=AnyValue()),
        KeyValue(key="missing"),
        KeyValue(key="twice", value=AnyValue(int_value=1)),
        KeyValue(key="twice", value=AnyValue(int_value=2)),
    ]
    nested = AnyValue()
    nested.array_value.values.add().kvlist_value.values.extend(attributes[:2])
    nested.array_value.values.add()
    attributes.append(KeyValue(key="list", value=nested))
    (found,) = read(traces(span(attributes=attributes)))[0]
    assert found.attributes == {
        "text": "a",
        "flag": True,
        "int": -(2**63),
        "double": 0.5,
        "bytes": b"\xff",
        "none": None,
        "missing": None,
        "twice": 2,
        "list": [{"text": "a", "flag": True}, None],
    }


def test_the_name_of_an_event_is_a_field_or_an_attribute() -> None:
    named = [KeyValue(key="event.name", value=AnyValue(string_value="old"))]
    number = [KeyValue(key="event.name", value=AnyValue(int_value=1))]
    _, found = read(
        logs(
            LogRecord(trace_id=TRACE, time_unix_nano=1, attributes=named, event_name="new"),
            LogRecord(trace_id=TRACE, observed_time_unix_nano=2, attributes=named),
            LogRecord(trace_id=TRACE, time_unix_nano=3, observed_time_unix_nano=9, attributes=number),
        )
    )
    assert [(each.event_name, each.time_ns, each.span_id) for each in found] == [
        ("new", 1, ""),
        ("old", 2, ""),
        ("", 3, ""),
    ]


# JSON.


def test_json_has_both_kinds_of_names_numbers_and_enums() -> None:
    camel = {
        "traceId": TRACE.hex().upper(),
        "spanId": SPAN.hex(),
        "parentSpanId": OTHER[:8].hex(),
        "startTimeUnixNano": "1700000000000000001",
        "endTimeUnixNano": 1700000000000000002,
        "kind": "SPAN_KIND_SERVER",
        "flags": 256.0,
        "droppedAttributesCount": 3,
        "status": {"code": 2, "message": "boom"},
        "attributes": [{"key": "a", "value": {"intValue": "7"}}, {"key": "b", "value": {"bytesValue": "_-8"}}],
        "unknownField": {"x": 1},
        "events": None,
    }
    snake = {
        "trace_id": TRACE.hex(),
        "span_id": SPAN.hex(),
        "parent_span_id": OTHER[:8].hex(),
        "start_time_unix_nano": 1700000000000000001,
        "end_time_unix_nano": "1700000000000000002",
        "kind": 2,
        "flags": "256",
        "dropped_attributes_count": "3",
        "status": {"code": "STATUS_CODE_ERROR", "message": "boom"},
        "attributes": [{"key": "a", "value": {"int_value": 7}}, {"key": "b", "value": {"bytes_value": "/+8="}}],
    }
    spans = [read(json_spans(each))[0][0] for each in (camel, snake)]
    assert spans[0] == spans[1]
    assert (spans[0].started_ns, spans[0].ended_ns, spans[0].error) == (
        1700000000000000001,
        1700000000000000002,
        "boom",
    )
    assert spans[0].attributes == {"a": 7, "b": b"\xff\xef"}
    assert (spans[0].kind, spans[0].remote_parent, spans[0].dropped_attributes) == (2, False, 3)
    renamed = b'\xef\xbb\xbf\n {"resource_spans":[{"scope_spans":[{"spans":[%s]}]}]}' % orjson.dumps(snake)
    assert read(renamed)[0] == [spans[1]]


def test_ids_in_base64_are_no_ids() -> None:
    """JSON of protobuf's own library has them; joined to others by their letters they would be wrong."""
    assert "32 and a span id of 16 hex digits" in reason(
        json_spans({"traceId": "S/kvNXezTaajzpKdDg5HNg==", "spanId": "APBnqgupArc="})
    )


def test_protobuf_that_looks_like_json_is_protobuf() -> None:
    """The first resource is 123 bytes long, which is an opening brace, and a line feed begins its field."""
    for size in range(60, 100):
        value = traces(span(name="x" * size))
        if value[:2] == b"\n{":
            assert len(read(value)[0]) == 1
            return
    pytest.fail("no size gives a brace")


ID = {"traceId": TRACE.hex(), "spanId": SPAN.hex()}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"hello", "neither OTLP in protobuf nor"),
        (b'{"resourceSpans": [', "neither OTLP in protobuf nor"),
        (b'{"resourceSpans": [NaN]}', "neither OTLP in protobuf nor"),
        (b'{"event_id": "1"}', "neither resourceSpans nor resourceLogs"),
        (b'{"resourceMetrics": []}', "neither resourceSpans nor resourceLogs"),
        (b'{"resourceSpans": {}}', "resource_spans of TracesData is not valid"),
        (b'{"resourceSpans": [1]}', "ResourceSpans is no object"),
        (b"[]", "neither OTLP in protobuf nor"),
        (json_spans({**ID, "startTimeUnixNano": "soon"}), "start_time_unix_nano of Span is not valid"),
        (json_spans({**ID, "startTimeUnixNano": -1}), "start_time_unix_nano of Span is not valid"),
        (json_spans({**ID, "startTimeUnixNano": str(2**64)}), "start_time_unix_nano of Span is not valid"),
        (json_spans({**ID, "startTimeUnixNano": "9" * 5000}), "start_time_unix_nano of Span is not valid"),
        (json_spans({**ID, "startTimeUnixNano": True}), "start_time_unix_nano of Span is not valid"),
        (json_spans({**ID, "startTimeUnixNano": 1.5}), "start_time_unix_nano of Span is not valid"),
        (json_spans({**ID, "name": 7}), "name of Span is not valid"),
        (json_spans({**ID, "kind": 2**40}), "kind of Span is not valid"),
        (json_spans({**ID, "attributes": [{"key": "a", "value": {"boolValue": "x"}}]}), "bool_value of AnyValue"),
        (json_spans({**ID, "attributes": [{"key": "a", "value": {"doubleValue": []}}]}), "double_value of AnyValue"),
        (json_spans({**ID, "attributes": [{"key": "a", "value": {"bytesValue": "é"}}]}), "bytes_value of AnyValue"),
        (json_spans({**ID, "attributes": "x"}), "attributes of Span is not valid"),
        (json_spans({**ID, "status": "ok"}), "Status is no object"),
        (b"\x12\x03abc", "protobuf without a resource"),
    ],
)
def test_what_is_not_otlp_is_rejected_with_a_reason(value: bytes, expected: str) -> None:
    assert expected in reason(value)
    with pytest.raises(Rejected):
        read(value)


def nested(depth: int) -> Any:
    value: Any = {"stringValue": "end"}
    for _ in range(depth):
        value = {"arrayValue": {"values": [value]}}
    return value


def test_deep_values_are_read_or_rejected() -> None:
    """The messages of a slice are no deeper than protobuf reads; beyond that the reason names the depth."""
    for depth in range(60):
        value = json_spans({**ID, "attributes": [{"key": "a", "value": nested(depth)}]})
        if depth > 37:
            assert "nested more than 80 deep" in reason(value)
            continue
        (found,) = slices(value)
        assert str(read(found.value)[0][0].attributes["a"]).count("[") == depth
    for depth in (2_000, 100_000):
        opened = b'{"arrayValue":{"values":[' * depth
        with pytest.raises(Rejected):
            slices(b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"value":' + opened)
        with pytest.raises(Rejected):
            slices(json_spans(ID)[:-1] + b',"x":' + opened)


def test_deep_protobuf_is_rejected() -> None:
    value = b""
    for _ in range(5_000):
        inner = b"\x0a" + _length(value) + value
        value = b"\x2a" + _length(inner) + inner
    attribute = b"\x12" + _length(value) + value
    request = b"\x4a" + _length(attribute) + attribute
    for tag in (b"\x12", b"\x12", b"\x0a"):
        request = tag + _length(request) + request
    assert reason(request)


def _length(value: bytes) -> bytes:
    number, found = len(value), bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes((*found, number))


# Sizes.


def test_a_resource_that_grows_more_than_four_times_is_rejected() -> None:
    """A hundred traces of one span each, with a resource of 10 KB: a million bytes of slices for 20 KB."""
    spans = [span(number.to_bytes(16, "big")) for number in range(1, 101)]
    value = traces(*spans, resource="x" * 10_000)
    with pytest.raises(Rejected) as found:
        divide(value)
    assert found.value.error_class == "too_large"
    assert "100 traces" in found.value.message
    many = traces(*(span(number.to_bytes(16, "big")) for number in range(1, 20_000)), resource="x" * 500_000)
    with pytest.raises(Rejected):  # At once: 10 GB of copies are never made.
        divide(many)


RECORD = 150
"""Bytes that each slice counts besides its value."""


@pytest.mark.slow
def test_a_record_of_the_shortest_spans_is_no_bomb() -> None:
    """Thirty thousand traces in a megabyte would be as many records; of ordinary spans there are never so many."""
    shortest = [span(number.to_bytes(16, "big")) for number in range(1, 30_001)]
    assert "30000 traces or more" in reason(traces(*shortest))
    ordinary = {"name": "GET /health", "start_time_unix_nano": 1, "end_time_unix_nano": 2}
    assert len(slices(traces(*(span(each.trace_id, **ordinary) for each in shortest[:1_000])))) == 1_000


@given(st.integers(1, 60), st.integers(0, 20_000), st.integers(0, 2_000))
def test_slices_are_rejected_just_where_they_are_too_large(number: int, resource: int, name: int) -> None:
    """Small requests may grow more: those of ten short traces consist mostly of their resource."""
    spans = [span(each.to_bytes(16, "big"), name="x" * name) for each in range(1, number + 1)]
    value = traces(*spans, resource="x" * resource)
    most = max(4 * len(value), 64 * 1024)
    try:
        size = sum(len(each.value) + RECORD for each in divide(value).slices)
    except Rejected:
        size = sum(len(traces(each, resource="x" * resource)) + RECORD for each in spans)
        assert size > most * 0.99
    else:
        assert size <= most * 1.01


# Hostile bytes.


def survives(value: bytes) -> None:
    for parser in (divide, read, lambda each: list(heads(each))):
        with suppress(Rejected):
            parser(value)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_rejected(value: bytes) -> None:
    survives(value)
    survives(b"\x0a" + _length(value) + value)


@given(st.sampled_from(CASES), st.data())
def test_cut_and_changed_recordings_are_read_or_rejected(case: str, data: st.DataObject) -> None:
    for value in (recorded(case), as_json(case)):
        survives(value[: data.draw(st.integers(0, len(value)))])
        changed = bytearray(value)
        for _ in range(data.draw(st.integers(1, 5))):
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        survives(bytes(changed))


KEYS = st.sampled_from(
    [field.json_name for field in Span.DESCRIPTOR.fields] + ["stringValue", "key", "value", "values"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.slow
@given(VALUES, st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_json_is_read_or_rejected(value: Any, fields: dict[str, Any]) -> None:
    survives(orjson.dumps({"resourceSpans": value}))
    survives(json_spans({**ID, **fields}))
    survives(orjson.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [fields]}]}]}))


def messages() -> st.SearchStrategy[Message]:
    ids = st.sampled_from([TRACE, OTHER, bytes(16), b"", SPAN])
    return st.builds(
        Span, trace_id=ids, span_id=st.sampled_from([SPAN, OTHER[:8], bytes(8), b"x"]), name=st.text(max_size=3)
    )


@given(st.lists(st.lists(messages(), max_size=5), max_size=4))
def test_no_span_is_lost_or_doubled(groups: list[list[Span]]) -> None:
    data = TracesData()
    for group in groups:
        data.resource_spans.add().scope_spans.add().spans.extend(group)
    spans = [each for group in groups for each in group]
    try:
        division = divide(data.SerializeToString())
    except Rejected:
        assert read(data.SerializeToString()) == ([], [])
        return
    kept = sum(each.items for each in division.slices)
    assert kept == len(read(data.SerializeToString())[0])
    assert kept + division.unjoinable == len(spans)
