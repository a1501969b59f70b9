"""Spans in the form of Redpanda's topic `redpanda.otel_traces`, in each encoding of its exporter.

Nothing was recorded: the form is `redpanda.otel.v1.Span` of https://github.com/redpanda-data/common-go
(redpanda-otel-exporter/proto/trace.proto), which the tests write by its fields' numbers with Protobuf's own library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import orjson
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import Default
from google.protobuf.json_format import MessageToJson
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from ragweir.errors import Rejected
from ragweir.streams.traces.interactions import assemble
from ragweir.streams.traces.wire import divide, heads, read
from tests.streams.traces.recordings import OTLP

_FIELDS = (  # By their numbers, from 1.
    *("resource", "resource_schema_url", "scope", "scope_schema_url", "trace_id", "span_id", "trace_state"),
    *("parent_span_id", "flags", "name", "kind", "start_time_unix_nano", "end_time_unix_nano", "attributes"),
    *("dropped_attributes_count", "events", "dropped_events_count", "links", "dropped_links_count", "status"),
)
_OF_OTHERS = {
    "resource": ".opentelemetry.proto.resource.v1.Resource",
    "scope": ".opentelemetry.proto.common.v1.InstrumentationScope",
}
"""Types of the fields that a span of OTLP does not have; the schema's own are the same by their numbers."""


@cache
def _span_class() -> Any:
    file = FileDescriptorProto(name="redpanda.proto", package="redpanda.otel.v1", syntax="proto3")
    file.dependency.append(Span.DESCRIPTOR.file.name)
    file.dependency.extend(each.name for each in Span.DESCRIPTOR.file.dependencies)
    message = file.message_type.add(name="Span")
    otlp = DescriptorProto()
    Span.DESCRIPTOR.CopyToProto(otlp)
    own = {field.name: field for field in otlp.field}
    for number, name in enumerate(_FIELDS, 1):
        field = message.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        if name in own:
            field.CopyFrom(own[name])
            field.number = number
        elif name in _OF_OTHERS:
            field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, _OF_OTHERS[name]
        else:
            field.type = FieldDescriptorProto.TYPE_STRING
    Default().Add(file)
    return GetMessageClass(Default().FindMessageTypeByName("redpanda.otel.v1.Span"))


def _spans(request: TracesData) -> Iterator[Any]:
    """The spans of an export request, as Redpanda's exporter writes them."""
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                made = _span_class()(resource=resource.resource, scope=scope.scope, scope_schema_url=scope.schema_url)
                made.resource_schema_url = resource.schema_url
                for field, value in span.ListFields():
                    target = getattr(made, field.name)
                    if field.is_repeated:
                        target.extend(value)
                    elif field.message_type:
                        target.CopyFrom(value)
                    else:
                        setattr(made, field.name, value)
                yield made


def _json(span: Any) -> bytes:
    """As the exporter's `protojson`: snake case, enums as numbers, ids in base64."""
    text = MessageToJson(span, preserving_proto_field_name=True, use_integers_for_enums=True)
    return orjson.dumps(orjson.loads(text))


def _json_with_hex_ids(span: Any) -> bytes:
    """As the examples of Redpanda's documentation: camel case, ids in hex."""
    data = orjson.loads(MessageToJson(span))
    ids = {"traceId": span.trace_id, "spanId": span.span_id, "parentSpanId": span.parent_span_id}
    return orjson.dumps(data | {name: value.hex() for name, value in ids.items() if value})


def _framed(head: bytes, data: bytes) -> bytes:
    return b"\0" + (100_042).to_bytes(4, "big") + head + data


_ENCODINGS: dict[str, Callable[[Any], bytes]] = {
    "registry protobuf": lambda span: _framed(b"\0", span.SerializeToString()),
    "registry JSON": lambda span: _framed(b"", _json(span)),
    "protobuf": lambda span: bytes(span.SerializeToString()),
    "JSON": _json,
    "JSON with ids in hex": _json_with_hex_ids,
}
_CASES = ("langchain-genai/agent_tools", "langchain-openinference/rag", "openai-genai/agent_web")


def _recorded(case: str) -> bytes:
    return (OTLP / f"{case}.otlp.pb").read_bytes()


@pytest.mark.parametrize("encoding", _ENCODINGS)
@pytest.mark.parametrize("case", _CASES)
def test_each_record_is_a_request_of_its_span(case: str, encoding: str) -> None:
    """With its resource and scope, and nothing else: the interactions are those of the recorded export."""
    records = [_ENCODINGS[encoding](span) for span in _spans(TracesData.FromString(_recorded(case)))]
    expected, _ = read(_recorded(case))
    slices = [each for record in records for each in divide(record).slices]
    assert [span for each in slices for span in read(each.value)[0]] == expected
    assert [each.items for each in slices] == [1] * len(expected)
    assert [head.span_id for each in slices for head in heads(each.value)] == [span.span_id for span in expected]
    assert assemble(expected).made == assemble([span for record in records for span in read(record)[0]]).made


def test_every_field_is_that_of_the_span() -> None:
    span = Span(
        trace_id=bytes(range(16)), span_id=bytes(range(8)), parent_span_id=bytes(range(1, 9)), trace_state="a=b",
        flags=0x301, name="n", kind=Span.SPAN_KIND_CLIENT, start_time_unix_nano=5, end_time_unix_nano=2**63,
        dropped_attributes_count=1, dropped_events_count=300, dropped_links_count=2**32 - 1,
        events=[Span.Event(name="e", time_unix_nano=6)], links=[Span.Link(trace_id=bytes(range(16)), flags=7)],
    )  # fmt: skip
    span.attributes.add(key="k").value.array_value.values.add().bytes_value = b"\0\1"
    span.status.code, span.status.message = Status.STATUS_CODE_ERROR, "broken"
    request = TracesData()
    resource = request.resource_spans.add(schema_url="r")
    resource.resource.attributes.add(key="service.name").value.string_value = "bot"
    scope = resource.scope_spans.add(schema_url="s")
    scope.scope.name, scope.scope.version = "tracer", "1"
    scope.spans.append(span)
    (made,) = _spans(request)
    for name in ("registry protobuf", "protobuf"):
        (each,) = divide(_ENCODINGS[name](made)).slices
        assert TracesData.FromString(each.value) == request


@pytest.mark.parametrize(
    "value",
    [
        b"\0",
        b"\0\0\0\0\7",
        _framed(b"\0", b""),
        _framed(b"\0", b"\x2a\x10"),
        _framed(b"\2\2\4", b"\x2a\1a"),
        _framed(b"", b'{"trace_id": 7, "span_id": []}'),
        _framed(b"", b'{"trace_id": "S/kvNXezTaajzpKdDg5HNg=", "span_id": "AAAAAAAAAAA="}'),
        b'{"traceId": "?", "spanId": null}',
        b"\x2a\x10" + bytes(16) + b"\x32\x08" + bytes(8),
        b"\x28\x07\x30\x07",
        b"\x0a\x02\xff\xff" + b"\x2a\x10" + bytes(range(16)),
        b"\x2a\x10" + bytes(range(16)) + b"\x92\x01\x02\xff\xff",
    ],
)
def test_what_is_no_span_is_rejected(value: bytes) -> None:
    with pytest.raises(Rejected):
        divide(value)


def test_cut_records_are_read_or_rejected() -> None:
    """A record that ends anywhere is a dead letter, or a span without what was cut off."""
    (first, *_) = _spans(TracesData.FromString(_recorded(_CASES[1])))
    whole = _ENCODINGS["registry protobuf"](first)
    for end in range(0, len(whole), max(1, len(whole) // 200)):
        try:
            divide(whole[:end])
        except Rejected:
            continue
