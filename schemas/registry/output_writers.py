"""Writers of our own records in the formats of a registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel

from ragweir.schemas.registry.output_schemas import as_text, avro_schema, json_schema
from ragweir.schemas.registry.schema import AVRO, FORMATS, PROTOBUF, Schema
from ragweir.schemas.times import parse_rfc3339

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MAX_LONG = 2**63 - 1
CONTENT_TYPES: Mapping[str, str] = {
    "avro": "application/avro",
    "protobuf": "application/x-protobuf",
    "jsonschema": "application/json",
}
"""The content type by the value of `output.format`."""


class Writer(NamedTuple):
    """Writes the records of one model in one format."""

    schema: Schema
    write: Callable[[bytes], bytes]
    """Returns the data of a record, without a frame, for its JSON."""


def writer(model: type[BaseModel], form: str) -> Writer:
    r"""Return the writer of a model's records.

    >>> from ragweir.schemas.evaluation import Source
    >>> writer(Source, "avro").write(b'{"topic": "t", "partition": 1, "offset": 2}')
    b'\x02t\x02\x04\x00'

    Args:
        model: a model of `ragweir.schemas.registry.output_schemas.RECORDS`.
        form: `avro`, `protobuf` or `jsonschema`.
    """
    if FORMATS[form] == AVRO:
        return _avro_writer(model)
    if FORMATS[form] == PROTOBUF:
        from ragweir.schemas.registry.output_protobuf import field_numbers, message_type  # noqa: PLC0415 - as for readers

        made = message_type(avro_schema(model), field_numbers())
        return Writer(
            Schema(PROTOBUF, made.text),
            # Its place in the schema, the first one, is written as a zero.
            lambda value: b"\0" + made.message(orjson.loads(value)).SerializeToString(deterministic=True),
        )
    return Writer(Schema(FORMATS[form], as_text(json_schema(model))), lambda value: value)


def _avro_writer(model: type[BaseModel]) -> Writer:
    import fastavro  # noqa: PLC0415 - as for readers

    schema = avro_schema(model)
    parsed = fastavro.parse_schema(schema)
    times = [
        field["name"]
        for field in schema["fields"]
        if isinstance(field["type"], dict) and "logicalType" in field["type"]
    ]

    def write(value: bytes) -> bytes:
        record = orjson.loads(value)
        for name in times:
            record[name] = (parse_rfc3339(record[name]) - _EPOCH) // _MICROSECOND
        out = BytesIO()
        try:
            fastavro.schemaless_writer(out, parsed, record)
        except (TypeError, ValueError, OverflowError):  # A number that is not in the range of its type.
            out = BytesIO()
            fastavro.schemaless_writer(out, parsed, _in_range(record, schema, {}))
        return out.getvalue()

    return Writer(Schema(AVRO, as_text(schema)), write)


def _in_range(value: Any, schema: Any, declared: dict[str, Any]) -> Any:  # noqa: PLR0911 - one case each
    """Return data with the nearest numbers that the types of a schema have."""
    if isinstance(schema, list):
        return value if value is None else _in_range(value, schema[1], declared)
    kind = declared.get(schema, schema) if isinstance(schema, str) else schema
    if kind == "double":
        return float(value)
    if kind == "long":
        return max(-_MAX_LONG, min(value, _MAX_LONG))
    if isinstance(kind, str):
        return value
    if kind["type"] == "record":
        declared[kind["name"]] = kind
        return {
            field["name"]: _in_range(value.get(field["name"], field.get("default")), field["type"], declared)
            for field in kind["fields"]
        }
    if kind["type"] == "array":
        return [_in_range(each, kind["items"], declared) for each in value]
    if kind["type"] == "map":
        return {name: _in_range(each, kind["values"], declared) for name, each in value.items()}
    return value
