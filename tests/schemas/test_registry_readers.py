"""Readers of Avro, Protobuf and JSON Schema: their data, and bytes and schemas that are hostile."""

import json
from collections.abc import Sequence
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from ragweir.errors import Rejected
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.registry.avro import avro_reader
from ragweir.schemas.registry.decoder import RegistryDecoder
from ragweir.schemas.registry.protobuf import protobuf_reader
from ragweir.schemas.registry.readers import read_schema, reader_of
from ragweir.schemas.registry.schema import ReaderTable, Schema


def record(*fields: tuple[str, Any], name: str = "Event", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields], **more}


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def avro(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


FOREIGN = record(
    ("event_id", {"type": "string", "logicalType": "uuid"}),
    ("query", ["null", "string"]),
    ("response", "string"),
    ("ended_at", {"type": "long", "logicalType": "timestamp-micros"}),
    ("contexts", {"type": "array", "items": record(("text", "string"), ("score", ["null", "double"]), name="Chunk")}),
    ("labels", {"type": "map", "values": "string"}),
    ("cost", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 4}),
    ("kind", {"type": "enum", "name": "Kind", "symbols": ["ONE", "TWO"]}),
    namespace="com.example",
)


def test_an_avro_record_is_an_event() -> None:
    value = {
        "event_id": "0190c0de-0000-7000-8000-000000000001",
        "query": "Wer?",
        "response": "Ada Lovelace.",
        "ended_at": 1_764_000_000_000_000,
        "contexts": [{"text": "Ada.", "score": 0.5}, {"text": "", "score": None}],
        "labels": {"region": "EU"},
        "cost": Decimal("1.2345"),
        "kind": "TWO",
    }
    read = avro_reader(json.dumps(FOREIGN))
    data = read(avro(FOREIGN, value))
    assert data == {**value, "cost": 1.2345}
    decoder = RegistryDecoder(ReaderTable({7: read}))
    (event,) = decoder.decode(framed(7, avro(FOREIGN, value)))
    assert isinstance(event, Interaction)
    assert (event.query, event.contexts and event.contexts[0].score) == ("Wer?", 0.5)
    assert event.ended_at is not None
    assert event.ended_at.year == 2025


def avro_decoder(schema: Any) -> RegistryDecoder:
    """Return the decoder of records of one schema, whose id is 7."""
    read = reader_of(7, Schema("AVRO", json.dumps(schema)), "avro", read_schema("avro"))
    return RegistryDecoder(ReaderTable({7: read}))


LIST = record(("next", ["null", "Event"]))
NESTED = record(("next", ["null", record(("back", {"type": "array", "items": "Event"}), name="Inner")]))
DECIMAL = record(("d", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}))


def doubled(times: int, leaf: Any, last: Any = None, also: Sequence[tuple[str, Any]] = ()) -> dict[str, Any]:
    """Return a record whose last field is of a type that has another one twice, which has another one twice, and so on.

    Args:
        times: number of types.
        leaf: what the innermost type has.
        last: makes the type of the last field of that of the doubled type.
        also: further fields.
    """
    types: list[Any] = [record(("a", leaf), name="T0")]
    types += [record(("a", f"T{each - 1}"), ("b", f"T{each - 1}"), name=f"T{each}") for each in range(1, times)]
    if last is not None:
        types[-1] = last(types[-1])
    return record(*((f"f{each}", kind) for each, kind in enumerate(types)), *also)


def chained(length: int) -> list[Any]:
    """Return types of which each has the one before it."""
    return [
        record(name="T0"),
        *(record(("a", f"T{each - 1}"), name=f"T{each}") for each in range(1, length)),
    ]


MANY = "it has more than 250000 values"
WIDE = {"type": "array", "items": record(("b", "boolean"), *((f"f{each}", "null") for each in range(1_000)))}
LONG = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
"""2**62 - 1, the number of items of a block."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "data", "why"),
    [
        pytest.param(LIST, b"\x02" * 1_000_000 + b"\0", "RecursionError", id="nested a million times"),
        pytest.param(NESTED, b"\x02\x02" * 500_000 + b"\0", "RecursionError", id="nested through another record"),
        pytest.param(
            DECIMAL, b"\x80\x80\x40" + b"\x7f" * 524_288, "too many digits", id="a decimal of half a megabyte"
        ),
        pytest.param({"type": "array", "items": "int"}, LONG, "EOFError", id="a list of 2**62 items"),
        pytest.param({"type": "map", "values": "null"}, LONG, "EOFError", id="a map of 2**62 items"),
        pytest.param(doubled(40, "null"), b"", MANY, id="no bytes that are 2**40 values"),
        pytest.param(doubled(40, "null", also=[("n", ["null", "Event"])]), b"", MANY, id="2**40 values, recursive"),
        pytest.param(
            WIDE, b"\x80\x89\x7a" + b"\1" * 1_000_000 + b"\0", MANY, id="bytes that are a thousand values each"
        ),
        pytest.param(record(("a", "string")), LONG + b"ab", "EOFError", id="a text longer than the record"),
        pytest.param(record(("a", "string")), b"\x01ab", "EOFError", id="a text of negative length"),
        pytest.param(record(("a", "string")), b"\x04\xff\xfe", "UnicodeDecodeError", id="a text that is not UTF-8"),
        pytest.param(record(("a", "string")), b"\x02ab", "bytes follow the data", id="more bytes"),
        pytest.param(record(("a", "long")), b"\xff" * 40, "IndexError", id="a number without end"),
        pytest.param(record(("a", ["null", "string"])), b"\x08", "IndexError", id="no such branch"),
        pytest.param(record(("a", "string")), b"", "EOFError", id="no bytes"),
    ],
)
def test_hostile_avro_is_rejected(schema: Any, data: bytes, why: str) -> None:
    (rejected,) = avro_decoder(schema).decode(framed(7, data))
    assert isinstance(rejected, Rejected)
    assert rejected.error_class == "unreadable"
    named = " Event" if "name" in schema else ""
    assert rejected.message.startswith(f"not a record of schema 7{named}: ")
    assert rejected.message.endswith(why)


def test_the_rejection_of_a_schema_keeps_none_of_its_records() -> None:
    """An exception keeps the frames, and so the bytes, of each place at which it is raised."""
    rejected = Rejected("unknown_schema", "")
    for _ in range(10):
        assert list(RegistryDecoder(ReaderTable({7: rejected})).decode(framed(7, b"")))
    assert rejected.__traceback__ is None


@pytest.mark.parametrize(
    "items",
    ["null", record(), record(("a", record(("b", "null"), name="Inner"))), {"type": "fixed", "name": "F", "size": 0}],
)
def test_a_list_of_nothing_can_have_any_length(items: Any) -> None:
    made = reader_of(7, Schema("AVRO", json.dumps({"type": "array", "items": items})), "avro", read_schema("avro"))
    assert isinstance(made, Rejected)
    assert "any length" in made.message


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        pytest.param(
            doubled(60, "null", lambda kind: {"type": "array", "items": kind}), "any length", id="a list of 2**60 nulls"
        ),
        pytest.param(chained(5_000), "more than 100 types within each other", id="types within each other by name"),
        pytest.param(
            {"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["A" * 100_000]}},
            "a symbol of more than 200 characters",
            id="a byte that is a long text",
        ),
        pytest.param(
            record(("a", "B"), __fastavro_parsed=True, __named_schemas={"B": {"type": "array", "items": "null"}}),
            "UnknownType",
            id="a schema that says that it was checked",
        ),
    ],
)
def test_a_schema_that_lets_few_bytes_be_much_is_rejected(schema: Any, why: str) -> None:
    made = reader_of(7, Schema("AVRO", json.dumps(schema)), "avro", read_schema("avro"))
    assert isinstance(made, Rejected)
    assert made.error_class == "unknown_schema"
    assert why in made.message


@pytest.mark.parametrize("text", ["", "[", '"nothing"', "[" * 100_000, '{"type": "record"}', "7", "null"])
def test_what_is_no_schema_is_rejected(text: str) -> None:
    for form, kind in (("avro", "AVRO"), ("avro", "JSON")):
        made = reader_of(7, Schema(kind, text), form, read_schema(form))
        assert isinstance(made, Rejected)
        assert made.error_class == "unknown_schema"


def test_a_schema_has_the_names_of_those_that_it_refers_to() -> None:
    chunk = json.dumps(record(("text", "string"), name="Chunk", namespace="shared"))
    text = json.dumps(record(("contexts", {"type": "array", "items": "shared.Chunk"})))
    assert avro_reader(text, (chunk,))(b"\x02\x02a\x00") == {"contexts": [{"text": "a"}]}


def test_all_digits_of_a_decimal_are_kept() -> None:
    read = avro_reader(json.dumps(DECIMAL))
    digits = (10**40 + 1).to_bytes(17, "big", signed=True)
    assert read(b"\x04\x30\x39") == {"d": 123.45}
    assert read(bytes([34]) + digits) == {"d": f"{10**38}.01"}


@given(st.binary(max_size=60))
def test_any_bytes_give_one_result(data: bytes) -> None:
    decoder = avro_decoder(FOREIGN)
    assert len(list(decoder.decode(framed(7, data)))) == 1
    assert len(list(decoder.decode(data))) == 1


@pytest.mark.parametrize(
    ("value", "error_class"),
    [(None, "tombstone"), (b"", "unknown_schema"), (b"{}", "unknown_schema"), (b"\0\0\0\0", "unknown_schema"),
     (framed(8, b""), "unknown_schema"), (b"\0" * 2_000_000, "too_large")],
)  # fmt: skip
def test_a_value_without_a_known_schema_is_rejected(value: bytes | None, error_class: str) -> None:
    (rejected,) = RegistryDecoder(ReaderTable({})).decode(value)
    assert isinstance(rejected, Rejected)
    assert rejected.error_class == error_class


# Protobuf.

PROTO = """
syntax = "proto3";
package shop.rag;  // the message of the word "message"
message Other { string message = 1; enum Kind { NONE = 0; } }
message Event {
  option (x) = { message: "}" };
  message Chunk { string text = 1; }
  oneof which { string a = 9; }
  string event_id = 1;
}
"""


def protobuf_types() -> descriptor_pb2.FileDescriptorSet:
    """The types of PROTO, as a compiler gives them."""
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="shop.rag", syntax="proto3")
    file.message_type.add(name="Other")
    event = file.message_type.add(name="Event")
    field = descriptor_pb2.FieldDescriptorProto
    chunk = event.nested_type.add(name="Chunk")
    chunk.field.add(name="text", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    for number, name in enumerate(("event_id", "query", "response"), 1):
        event.field.add(name=name, number=number, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    event.field.add(
        name="contexts",
        number=4,
        type=field.TYPE_MESSAGE,
        label=field.LABEL_REPEATED,
        type_name=".shop.rag.Event.Chunk",
    )
    event.field.add(name="raw", number=5, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    event.field.add(
        name="itself", number=6, type=field.TYPE_MESSAGE, label=field.LABEL_OPTIONAL, type_name=".shop.rag.Event"
    )
    return descriptor_pb2.FileDescriptorSet(file=[file])


def test_a_protobuf_message_is_an_event() -> None:
    types = protobuf_types()
    pool = DescriptorPool()
    pool.Add(types.file[0])
    kind: Any = GetMessageClass(pool.FindMessageTypeByName("shop.rag.Event"))
    message = kind(event_id="1", query="Who?", raw=b"\xff", contexts=[{"text": "Ada."}])
    make = read_schema("protobuf", types.SerializeToString())
    read = reader_of(7, Schema("PROTOBUF", PROTO), "protobuf", make)
    assert not isinstance(read, Rejected)
    data = read(bytes([2, 2]) + message.SerializeToString())
    # An empty response was not sent, and is one.
    assert data == {
        "event_id": "1", "query": "Who?", "response": "", "contexts": [{"text": "Ada."}], "raw": "/w==",
    }  # fmt: skip
    assert read(bytes([4, 2, 0]) + b"\x0a\x01a") == {"text": "a"}
    (event,) = RegistryDecoder(ReaderTable({7: read})).decode(framed(7, bytes([2, 2]) + message.SerializeToString()))
    assert isinstance(event, Interaction)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"", "a number without an end", id="no message"),
        pytest.param(bytes([2, 8]), "the schema has no such message", id="no such message"),
        pytest.param(bytes([2, 1]), "the schema has no such message", id="a negative place"),
        pytest.param(b"\xff" * 9, "a number without an end", id="a place without end"),
        pytest.param(bytes([254, 255, 255, 255, 15]), "a message nested too deeply", id="a place of a billion steps"),
        pytest.param(bytes([2, 2]) + b"\x0a\xff", "DecodeError", id="a text longer than the record"),
        pytest.param(bytes([2, 2]) + b"\x0a\x01\xff", "DecodeError", id="a text that is not UTF-8"),
        pytest.param(bytes([2, 2]) + b"\x32\x02" * 5_000, "DecodeError", id="nested often"),
        pytest.param(bytes([2, 2]) + b"\x22\x00" * 500_000, MANY, id="half a million empty messages"),
        pytest.param(bytes([2, 2]) + b"\x32\x02\x22\x00" * 250_000, MANY, id="empty messages within others"),
    ],
)
def test_hostile_protobuf_is_rejected(data: bytes, why: str) -> None:
    pool = types_pool()
    read = reader_of(7, Schema("PROTOBUF", PROTO), "protobuf", lambda schema: protobuf_reader(schema.text, pool))
    (rejected,) = RegistryDecoder(ReaderTable({7: read})).decode(framed(7, data))
    assert isinstance(rejected, Rejected)
    assert rejected.error_class == "unreadable"
    assert rejected.message.endswith(why)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("A" + " " * 1_000_000 + "!", id="spaces"),
        pytest.param("/* " * 300_000, id="comments without an end"),
        pytest.param("\"'" * 500_000, id="quotes"),
        pytest.param('"\\' * 500_000, id="backslashes"),
        pytest.param("/ " * 500_000, id="slashes"),
        pytest.param("message " * 100_000, id="words"),
        pytest.param("message M {" * 10_000, id="messages within each other"),
        pytest.param("A" * 1_000_001, id="Base64"),
    ],
)
def test_the_text_of_a_protobuf_schema_is_read_once(text: str) -> None:
    """A million characters: what goes back at each of them takes hours."""
    made = reader_of(7, Schema("PROTOBUF", text), "protobuf", lambda schema: protobuf_reader(schema.text, types_pool()))
    if not isinstance(made, Rejected):
        (made,) = RegistryDecoder(ReaderTable({7: made})).decode(framed(7, bytes([2, 2])))  # type: ignore[assignment]
    assert isinstance(made, Rejected)


def test_a_message_of_many_texts_is_read() -> None:
    """One that is large, though not of many values."""
    read = protobuf_reader(PROTO, types_pool())
    chunk = b"\x22\xd2\x0f\x0a\xcf\x0f" + b"a" * 1_999
    assert read(bytes([2, 2]) + chunk * 500) == {
        "event_id": "", "query": "", "response": "", "contexts": [{"text": "a" * 1_999}] * 500, "raw": "",
    }  # fmt: skip


def types_pool() -> DescriptorPool:
    pool = DescriptorPool()
    pool.Add(protobuf_types().file[0])
    return pool


def test_json_of_a_schema_is_an_event() -> None:
    make = read_schema("jsonschema")
    read = reader_of(3, Schema("JSON", "{}"), "jsonschema", make)
    assert not isinstance(read, Rejected)
    decoder = RegistryDecoder(ReaderTable({3: read}))
    (event,) = decoder.decode(framed(3, b'{"event_id": "1", "query": "q", "response": "r"}'))
    assert isinstance(event, Interaction)
    (rejected,) = decoder.decode(framed(3, b"{"))
    assert isinstance(rejected, Rejected)
