"""Protobuf messages of our own records, made from their Avro schemas.

Differences to JSON follow from the format: a null has no field, and an entry of a map that is null is absent; `reasons`
names each null score. A list whose items can be null holds messages with an optional value.

A field keeps its number for ever. `field_numbers.json` has the numbers, and `python -m ragweir.schemas.export` adds
those of new fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

import orjson
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from ragweir.schemas.registry.output_schemas import NAMESPACE, TIME
from ragweir.schemas.times import parse_rfc3339

NUMBERS_FILE = "field_numbers.json"
_TIMESTAMP = "google.protobuf.Timestamp"
_SCALARS: Mapping[Any, Any] = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "long": FieldDescriptorProto.TYPE_INT64,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "boolean": FieldDescriptorProto.TYPE_BOOL,
}
_NAMES: Mapping[Any, str] = {
    _SCALARS[name]: short
    for name, short in {"string": "string", "long": "int64", "double": "double", "boolean": "bool"}.items()
}
_MAX_LONG = 2**63 - 1

Numbers = Mapping[str, Mapping[str, int]]
"""The numbers of the fields by message."""
Convert = Callable[[Any], Any]


class MessageType(NamedTuple):
    """The Protobuf form of a record."""

    text: str
    """The schema."""
    message: Callable[[Mapping[str, Any]], Message]
    """Makes a message of a record as JSON has it."""
    pool: DescriptorPool
    """The types."""


def field_numbers() -> Numbers:
    """Return the numbers of the fields that were ever written."""
    numbers: Numbers = orjson.loads((files(__package__) / NUMBERS_FILE).read_bytes())
    return numbers


def with_new_fields(numbers: Numbers, schema: Mapping[str, Any]) -> Numbers:
    """Return numbers for all fields of a schema: those that they have, and new ones.

    >>> fields = [{"name": "b", "type": "long"}, {"name": "c", "type": "long"}]
    >>> schema = {"type": "record", "name": "A", "fields": fields}
    >>> with_new_fields({"A": {"a": 1, "c": 2}}, schema)
    {'A': {'a': 1, 'c': 2, 'b': 3}}
    """
    every = {name: dict(own) for name, own in numbers.items()}
    for record in _records(schema):
        own = every.setdefault(record["name"], {})
        for field in record["fields"]:
            own.setdefault(field["name"], max(own.values(), default=0) + 1)
    return every


def message_type(schema: Mapping[str, Any], numbers: Numbers) -> MessageType:
    """Return the Protobuf form of a record by its Avro schema.

    Raises:
        KeyError: if a field has no number.
    """
    file = FileDescriptorProto(
        name=f"{NAMESPACE}/{schema['name']}.proto",
        package=NAMESPACE,
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    for record in _records(schema):
        file.message_type.append(_described(record, numbers[record["name"]]))
    for box in _boxes(schema).values():
        file.message_type.append(_described(box, {"value": 1}))
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return MessageType(_printed(file), _Maker(pool, schema).convert(schema["name"]), pool)


def _boxed(kind: Any) -> Any:
    """Return a message for an item of a list or a value of a map if Protobuf has no such items, else the item's type.

    >>> _boxed({"type": "map", "values": "long"})["name"], _boxed("long")
    ('MapOfLong', 'long')
    """
    if isinstance(kind, list) or (isinstance(kind, dict) and kind["type"] in ("array", "map")):
        return {"type": "record", "name": _box_name(kind), "fields": [{"name": "value", "type": kind}]}
    return kind


def _box_name(kind: Any) -> str:
    if isinstance(kind, list):
        return f"Optional{_box_name(kind[1])}"
    if isinstance(kind, dict):
        of = {"array": "items", "map": "values"}
        return f"{kind['type'].title()}Of{_box_name(kind[of[kind['type']]])}"
    return str(kind).title()


def _item(kind: Mapping[str, Any]) -> Any:
    """Return the type of a list's items or of a map's values. A null value of a map has no entry."""
    return _boxed(kind["items"] if kind["type"] == "array" else _split(kind["values"])[0])


def _boxes(schema: Any) -> dict[str, Mapping[str, Any]]:
    """Return the messages for items that Protobuf does not have, by name."""
    items = (
        _item(kind)
        for record in _records(schema)
        for kind, _ in (_split(field["type"]) for field in record["fields"])
        if isinstance(kind, dict) and kind["type"] in ("array", "map")
    )
    boxes = (each for each in items if isinstance(each, dict) and "namespace" not in each)
    return {box["name"]: box for box in boxes}


def _records(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a schema, the outermost first."""
    if isinstance(schema, list):
        for each in schema:
            yield from _records(each)
    elif isinstance(schema, dict):
        if schema["type"] == "record":
            yield schema
            for field in schema["fields"]:
                yield from _records(field["type"])
        yield from _records(schema.get("items"))
        yield from _records(schema.get("values"))


# The descriptor.


def _described(record: Mapping[str, Any], numbers: Mapping[str, int]) -> DescriptorProto:
    message = DescriptorProto(name=record["name"])
    for given in sorted(record["fields"], key=lambda field: numbers[field["name"]]):
        field = message.field.add(
            name=given["name"], number=numbers[given["name"]], label=FieldDescriptorProto.LABEL_OPTIONAL
        )
        kind, nullable = _split(given["type"])
        if isinstance(kind, dict) and kind["type"] == "map":
            name = "".join(word.title() for word in given["name"].split("_")) + "Entry"
            entry = message.nested_type.add(name=name)
            entry.options.map_entry = True
            for number, (part, its) in enumerate((("key", "string"), ("value", _item(kind))), 1):
                own = entry.field.add(name=part, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
                _set_type(own, its)
            field.label, field.type = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.TYPE_MESSAGE
            field.type_name = f".{NAMESPACE}.{record['name']}.{name}"
        elif isinstance(kind, dict) and kind["type"] == "array":
            field.label = FieldDescriptorProto.LABEL_REPEATED
            _set_type(field, _item(kind))
        else:
            _set_type(field, kind)
            if nullable and field.type != FieldDescriptorProto.TYPE_MESSAGE:
                field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{given['name']}")
    return message


def _split(kind: Any) -> tuple[Any, bool]:
    """Return a type without null, and whether null was allowed."""
    return (kind[1], True) if isinstance(kind, list) else (kind, False)


def _set_type(field: FieldDescriptorProto, kind: Any) -> None:
    if isinstance(kind, str) and kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = FieldDescriptorProto.TYPE_MESSAGE
    name = kind if isinstance(kind, str) else kind.get("name")
    field.type_name = f".{_TIMESTAMP}" if kind == TIME else f".{NAMESPACE}.{name}"


def _printed(file: FileDescriptorProto) -> str:
    lines = ['syntax = "proto3";', f"package {file.package};", ""]
    lines += [f'import "{name}";' for name in file.dependency]
    for message in file.message_type:
        entries = {f".{NAMESPACE}.{message.name}.{each.name}": each for each in message.nested_type}
        lines += ["", f"message {message.name} {{"]
        for field in message.field:
            if entry := entries.get(field.type_name):
                kind = f"map<string, {_type_name(entry.field[1])}>"
            else:
                label = "repeated " if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
                kind = ("optional " if field.proto3_optional else label) + _type_name(field)
            lines.append(f"  {kind} {field.name} = {field.number};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _type_name(field: FieldDescriptorProto) -> str:
    return (
        _NAMES[field.type]
        if field.type in _NAMES
        else str(field.type_name).removeprefix(f".{NAMESPACE}.").removeprefix(".")
    )


# Messages.


class _Maker:
    """Makes the functions that turn JSON into messages."""

    def __init__(self, pool: DescriptorPool, schema: Mapping[str, Any]) -> None:
        self._pool = pool
        self._boxes = _boxes(schema)
        self._records = {record["name"]: record for record in (*_records(schema), *self._boxes.values())}

    def convert(self, name: str) -> Callable[[Mapping[str, Any]], Message]:
        """Return the function for a record."""
        made = GetMessageClass(self._pool.FindMessageTypeByName(f"{NAMESPACE}.{name}"))
        fields = [(field["name"], self._of(field["type"])) for field in self._records[name]["fields"]]

        def message(record: Mapping[str, Any]) -> Message:
            return made(
                **{
                    field: given if convert is None else convert(given)
                    for field, convert in fields
                    if (given := record.get(field)) is not None
                }
            )

        return message

    def _of(self, schema: Any) -> Convert | None:  # noqa: PLR0911 - one case each
        """Return the function for values of a type; None if they stay as they are."""
        kind, _ = _split(schema)
        if kind == "double":
            return float
        if kind == "long":
            return lambda number: max(-_MAX_LONG, min(number, _MAX_LONG))
        if kind in ("string", "boolean"):
            return None
        if kind == TIME:
            return parse_rfc3339
        if isinstance(kind, dict) and kind["type"] in ("array", "map"):
            item = _item(kind)
            one = self._of(item)
            if isinstance(item, dict) and item["name"] in self._boxes:
                boxed = self.convert(item["name"])
                one = lambda value: boxed({"value": value})  # noqa: E731
            if kind["type"] == "array":
                return None if one is None else lambda items: [one(each) for each in items]
            return lambda entries: {
                name: each if one is None else one(each) for name, each in entries.items() if each is not None
            }
        return self.convert(kind if isinstance(kind, str) else kind["name"])
