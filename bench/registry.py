"""Cost of the formats of a Schema Registry beside JSON: reading an event, and writing an evaluation.

The events are those of the other benchmarks, with all fields that a foreign schema would have; the schemas are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import Any

import fastavro
import orjson
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from rich.table import Table

from bench.interactions import interactions
from bench.timing import side_by_side
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.decoder import Decoder, JsonDecoder
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.registry.avro import avro_reader
from ragweir.schemas.registry.decoder import RegistryDecoder
from ragweir.schemas.registry.frame import framed
from ragweir.schemas.registry.output_protobuf import message_type, with_new_fields
from ragweir.schemas.registry.output_writers import writer
from ragweir.schemas.registry.protobuf import protobuf_reader
from ragweir.schemas.registry.readers import reader_of
from ragweir.schemas.registry.schema import FORMATS, Read, ReaderTable, Schema
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig

EVENTS = 500
_ID = 7
_TEXTS = ("event_id", "application", "tenant", "pipeline_version", "model", "query", "response", "expected")
_CONTEXT_TEXTS = ("chunk_id", "document_id", "text", "retrieval_method")
_MAP = "\n".join(f'{name} = "{name}"' for name in (*_TEXTS, "started_at", "ended_at", "contexts"))


def _schema() -> dict[str, Any]:
    """Return an Avro schema of the events, as an application would have one."""
    optional = ["null", "string"]
    context = {
        "type": "record",
        "name": "Context",
        "namespace": "ragweir",
        "fields": [
            *({"name": name, "type": optional, "default": None} for name in _CONTEXT_TEXTS),
            {"name": "score", "type": ["null", "double"], "default": None},
            {"name": "rank", "type": ["null", "long"], "default": None},
        ],
    }
    fields = [
        *({"name": name, "type": optional, "default": None} for name in _TEXTS),
        *({"name": name, "type": "long"} for name in ("started_at", "ended_at")),
        {"name": "contexts", "type": {"type": "array", "items": context}},
    ]
    return {"type": "record", "name": "Answered", "namespace": "ragweir", "fields": fields}


def _own_fields(event: bytes) -> dict[str, Any]:
    """Return the fields of an event that the schema has."""
    given = orjson.loads(event)
    contexts = [{name: each.get(name) for name in (*_CONTEXT_TEXTS, "score", "rank")} for each in given["contexts"]]
    own = {name: given.get(name) for name in (*_TEXTS, "started_at", "ended_at")} | {"contexts": contexts}
    return {
        name: " ".join(value) if name == "expected" and isinstance(value, list) else value
        for name, value in own.items()
    }


def _values(events: Sequence[dict[str, Any]]) -> tuple[Mapping[str, list[bytes]], Mapping[str, Read]]:
    """Return the data of events by format, and the readers."""
    schema = _schema()
    parsed = fastavro.parse_schema(schema)

    def avro(event: dict[str, Any]) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, parsed, event)
        return out.getvalue()

    made = message_type(schema, with_new_fields({}, schema))
    message = GetMessageClass(made.pool.FindMessageTypeByName("ragweir.Answered"))
    protobuf = [b"\0" + ParseDict(event, message()).SerializeToString() for event in events]
    readers = {
        "avro": avro_reader(orjson.dumps(schema).decode()),
        "protobuf": protobuf_reader(made.text, made.pool),
        "jsonschema": orjson.loads,
    }
    return {
        "avro": list(map(avro, events)),
        "protobuf": protobuf,
        "jsonschema": list(map(orjson.dumps, events)),
    }, readers


def _given(read: Read, _: Schema) -> Read:
    return read


def _each(read: Callable[[bytes], object], values: Sequence[bytes]) -> Callable[[], object]:
    def work() -> None:
        for value in values:
            read(value)

    return work


def _decoding(decoder: Decoder, values: Sequence[bytes]) -> Callable[[], object]:
    return _each(lambda value: list(decoder.decode(value)), values)


def reading() -> Table:
    """Return the cost of reading an event: its bytes alone, and all of decoding through a map."""
    events = [_own_fields(event) for event in interactions(EVENTS)]
    values, readers = _values(events)
    json, mapping = values["jsonschema"], FieldMap.parse(_MAP)
    plain = {"json": _each(orjson.loads, json)} | {form: _each(readers[form], values[form]) for form in FORMATS}
    whole = {"json": _decoding(JsonDecoder(mapping=mapping), json)}
    for form in FORMATS:
        read = reader_of(_ID, Schema(FORMATS[form], "{}"), form, partial(_given, readers[form]))
        decoder = RegistryDecoder(ReaderTable({_ID: read}), mapping=mapping)
        whole[form] = _decoding(decoder, [framed(_ID, value) for value in values[form]])
    parse, decode = side_by_side(plain, EVENTS), side_by_side(whole, EVENTS)
    table = Table("format", "bytes", "parse us", "of JSON's", "decode us", "of JSON's", title="Reading an event")
    for form in plain:
        size = sum(map(len, values.get(form, json))) // EVENTS
        ratios = parse[form] / parse["json"], decode[form] / decode["json"]
        table.add_row(
            form, f"{size:,}", f"{parse[form]:.1f}", f"{ratios[0]:.2f}", f"{decode[form]:.1f}", f"{ratios[1]:.2f}"
        )
    return table


def writing() -> Table:
    """Return the cost of writing an evaluation of all free metrics, beside evaluating its event."""
    agent = EvaluateAgent(EvaluateConfig(Catalogue(everything())))
    records = [Record("t", 0, number, None, event, 1) for number, event in enumerate(interactions(EVENTS))]
    values = [each.value or b"" for each in agent.handle(records).emissions if each.topic == "evaluations"]
    writers = {form: writer(Evaluation, form) for form in FORMATS}
    works = {"evaluating": lambda: agent.handle(records)} | {
        form: _each(made.write, values) for form, made in writers.items()
    }
    costs = side_by_side(works, EVENTS)
    table = Table("format", "bytes", "write us", "of evaluating", title="Writing an evaluation")
    for form, made in writers.items():
        size = sum(len(made.write(value)) for value in values) // len(values)
        table.add_row(form, f"{size:,}", f"{costs[form]:.1f}", f"{costs[form] / costs['evaluating']:.3f}")
    json = sum(map(len, values)) // len(values)
    table.add_row("json, and all of evaluating in Python", f"{json:,}", f"{costs['evaluating']:.0f}", "1")
    return table
