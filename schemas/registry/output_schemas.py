"""Schemas of our own records for a registry, made from their models.

The Avro schema is made of the models, and the other forms of it. Scores, categories and other values by name are maps,
so that a new metric is no new schema. A field that has a default in the model has one in the schema, so that readers of
either version read the other. Names of fields are those of the JSON records.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import orjson
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ragweir.schemas.topics import FORMATTED, TOPICS

NAMESPACE = "ragweir"
"""Namespace of the Avro schemas, and package of the Protobuf messages."""
RECORDS: Mapping[str, type[BaseModel]] = {name: TOPICS[name].model for name in FORMATTED}
"""The models by the names of the topics whose records are written in further formats."""
TIME: Mapping[str, str] = {"type": "long", "logicalType": "timestamp-micros"}
"""The Avro type of a time."""
_PRIMITIVES: Mapping[Any, Any] = {str: "string", int: "long", float: "double", bool: "boolean", datetime: TIME}


def avro_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the Avro schema of a model.

    >>> from ragweir.schemas.evaluation import Source
    >>> avro_schema(Source)["fields"][-1]
    {'name': 'index', 'type': 'long', 'default': 0}
    """
    return _record(model, set())


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model's records."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema(mode="serialization")}


def as_text(schema: Mapping[str, Any]) -> str:
    """Return a schema as it is registered."""
    return orjson.dumps(schema).decode()


def _record(model: type[BaseModel], declared: set[str]) -> dict[str, Any]:
    declared.add(model.__name__)
    fields: list[dict[str, Any]] = []
    for name, given in model.model_fields.items():
        field = {"name": name, "type": _type(given.annotation, declared)}
        if not given.is_required():
            field["default"] = to_jsonable_python(given.get_default(call_default_factory=True))
        elif isinstance(field["type"], list):
            field["default"] = None
        fields.append(field)
    return {"type": "record", "name": model.__name__, "namespace": NAMESPACE, "fields": fields}


def _type(annotation: Any, declared: set[str]) -> Any:  # noqa: PLR0911 - one case each
    origin, given = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(given[0], declared)
    if origin is Literal:
        return "string"  # An enum with a new symbol would be another schema, which older readers cannot read.
    if origin in (Union, UnionType):
        members = {each for each in given if each is not NoneType}
        if members == {float, str}:  # The digits of a sum that no float can represent: the nearest float is written.
            members = {float}
        (member,) = members
        own = _type(member, declared)
        return ["null", own] if NoneType in given else own
    if origin is tuple:
        return {"type": "array", "items": _type(given[0], declared)}
    if origin is dict:
        return {"type": "map", "values": _type(given[1], declared)}
    if annotation in _PRIMITIVES:
        return _PRIMITIVES[annotation]
    return annotation.__name__ if annotation.__name__ in declared else _record(annotation, declared)
