"""Makes the readers of schemas, and the rejections of those that cannot be used."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from ragweir.errors import Rejected
from ragweir.schemas.registry.schema import AVRO, FORMATS, MAX_SCHEMA_BYTES, InvalidData, Read, Schema

ReadSchema = Callable[[Schema], Read]
_MAX_NAME = 200
"""The number of characters of a name that rejections have."""


def read_schema(form: str, descriptors: bytes = b"") -> ReadSchema:
    """Return the function that makes readers of the schemas of one format.

    Args:
        form: `avro`, `protobuf` or `jsonschema`.
        descriptors: for Protobuf, a serialised descriptor set with the messages.

    Raises:
        Exception: of any kind if the descriptor set is none.
    """
    # Each format brings packages of its own.
    if FORMATS[form] == AVRO:
        from ragweir.schemas.registry.avro import avro_reader  # noqa: PLC0415

        return lambda schema: avro_reader(schema.text, schema.references)
    if form == "protobuf":
        from ragweir.schemas.registry.protobuf import descriptor_pool, protobuf_reader  # noqa: PLC0415

        pool = descriptor_pool(descriptors)
        return lambda schema: protobuf_reader(schema.text, pool)
    return lambda _: orjson.loads


def name_of(schema: Schema) -> str:
    """Return the name of a schema's records; an empty text if it says none.

    >>> name_of(Schema("AVRO", '{"type": "record", "name": "Answered", "namespace": "shop", "fields": []}'))
    'shop.Answered'
    """
    try:
        declared = orjson.loads(schema.text)
    except orjson.JSONDecodeError:  # The text of a Protobuf schema.
        return ""
    if not isinstance(declared, dict):
        return ""
    space, name = declared.get("namespace"), declared.get("name") or declared.get("title") or ""
    return f"{space}.{name}" if space and "." not in str(name) else str(name)


def reader_of(schema_id: int, schema: Schema, form: str, make: ReadSchema) -> Read | Rejected:
    """Return the reader of a schema, or the rejection of its records. Rejections name the schema.

    >>> str(reader_of(7, Schema("JSON", '{"title": "Answer"}'), "avro", read_schema("avro")))
    'schema 7 Answer is of the type JSON, and input.format is avro'
    """
    too_large = len(schema.text) + sum(map(len, schema.references)) > MAX_SCHEMA_BYTES
    name = "" if too_large else name_of(schema)[:_MAX_NAME]
    named = f"schema {schema_id} {name}".rstrip()
    if schema.type != FORMATS[form]:
        return Rejected("unknown_schema", f"{named} is of the type {schema.type}, and input.format is {form}")
    if too_large:
        return Rejected("unknown_schema", f"{named} is over the limit of {MAX_SCHEMA_BYTES} bytes")
    try:
        read = make(schema)
    except MemoryError:
        raise
    except Exception as error:
        return Rejected("unknown_schema", f"{named} cannot be used: {_why(error)}")

    def rejecting(data: bytes) -> object:
        try:
            return read(data)
        except MemoryError:
            raise
        except Exception as error:  # Whatever the bytes are, they are not of the schema.
            raise Rejected("unreadable", f"not a record of {named}: {_why(error)}") from None

    return rejecting


def _why(error: Exception) -> str:
    """Return the reason why a schema or data cannot be read; the messages of others may quote it."""
    return str(error) if isinstance(error, InvalidData) else f"reading it raised {type(error).__name__}"
