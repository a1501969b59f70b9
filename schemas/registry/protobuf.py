"""Protobuf: readers of messages, whose classes come from a descriptor set of the user's.

The registry has the text of a schema, and the record the place of its message in that text. The text is read for names
alone; the types are those of the descriptor set, which a compiler made.

Text and data may be hostile. The text is read once from its beginning to its end. The messages of data that could have
more than `MAX_VALUES` fields are counted before it is parsed, as an empty message of two bytes has all of its fields.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from ragweir.schemas.registry.schema import MAX_VALUES, InvalidData, Read, check_values

MAX_DEPTH = 32
"""Maximum depth of a message's place in its schema."""
# `*+` and `++` never go back, and a comment or a text without an end takes the rest: no character is read twice.
_TOKENS = re.compile(
    r"""//[^\n]*+|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\])*+"?|'(?:\\.|[^'\\])*+'?|[{};]|[A-Za-z_][A-Za-z0-9_.]*+""", re.DOTALL
)
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]++={0,2}+\s*+")
_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)
"""The ways in which the value of a field is encoded."""
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_WELL_KNOWN = "google.protobuf."


class _Declared(NamedTuple):
    """A message as its schema declares it."""

    name: str
    nested: list[_Declared]


def descriptor_pool(descriptors: bytes) -> DescriptorPool:
    """Return the types of a descriptor set, as `protoc --include_imports --descriptor_set_out` writes it.

    Raises:
        Exception: of any kind if it is none, or one of its files imports what it does not have.
    """
    pool = DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    return pool


def protobuf_reader(text: str, pool: DescriptorPool) -> Read:
    """Return the reader of a schema's messages, each after its indexes.

    Raises:
        Exception: of any kind if the text is not a schema.
    """
    package, messages = _declared(text)
    types: dict[tuple[int, ...], type[Message]] = {}
    shapes: dict[str, _Shape] = {}

    def reader(data: bytes) -> object:
        place, start = _place(data)
        if place not in types:  # There are as many as the schema has.
            types[place] = GetMessageClass(pool.FindMessageTypeByName(_name_at(package, messages, place)))
        kind, own = types[place], data[start:]
        shape = _shape(pool, kind.DESCRIPTOR.full_name, shapes)
        # A message takes at least two bytes.
        if len(own) // 2 * max(each.fields for each in shapes.values()) > MAX_VALUES:
            _count_values(own, shape)
        return _plain(kind.FromString(own))

    return reader


def _declared(text: str) -> tuple[str, list[_Declared]]:
    """Return the package and the messages of a schema: its text, or its serialised descriptor in Base64.

    >>> _declared('syntax = "proto3"; package a.b; message A { message B {} string c = 1; } /* message */ message D {}')
    ('a.b', [_Declared(name='A', nested=[_Declared(name='B', nested=[])]), _Declared(name='D', nested=[])])
    """
    if _BASE64.fullmatch(text):
        file = descriptor_pb2.FileDescriptorProto.FromString(b64decode(text))
        return file.package, [_of_descriptor(each) for each in file.message_type]
    package = ""
    top: list[_Declared] = []
    # None stands for a block that is no message, in which nothing is declared.
    blocks: list[list[_Declared] | None] = [top]
    before = last = ""
    for token in _TOKENS.finditer(text):
        word = token[0]
        if word[0] in "/\"'":
            continue
        around = blocks[-1]
        if word == "{":
            blocks.append(None)
            if before == "message" and around is not None:
                around.append(_Declared(last, []))
                blocks[-1] = around[-1].nested
        elif word == "}":
            blocks.pop()
        elif last == "package" and len(blocks) == 1:
            package = word
        before, last = last, word
    return package, top


def _of_descriptor(message: descriptor_pb2.DescriptorProto) -> _Declared:
    return _Declared(message.name, [_of_descriptor(each) for each in message.nested_type])


def _place(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return the place of the message in its schema, and where its bytes begin.

    >>> _place(bytes([0])), _place(bytes([4, 2, 0, 99]))
    (((0,), 1), ((1, 0), 3))

    Raises:
        InvalidData: if there is none.
    """
    count, at = _zigzag(data, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= MAX_DEPTH:
        raise InvalidData("a message nested too deeply")
    place = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        place.append(index)
    return tuple(place), at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number, at = _varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of at most 64 bits at a place, and the place behind it."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte, at = data[at], at + 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise InvalidData("a number without an end")


def _name_at(package: str, messages: list[_Declared], place: tuple[int, ...]) -> str:
    names = [package] if package else []
    for index in place:
        if not 0 <= index < len(messages):
            raise InvalidData("the schema has no such message")
        names.append(messages[index].name)
        messages = messages[index].nested
    return ".".join(names)


class _Shape(NamedTuple):
    """A type of message, as far as its values are counted."""

    fields: int
    """The number of its fields, and one."""
    messages: dict[int, _Shape]
    """The types of those fields that are messages, by their numbers."""


def _shape(pool: DescriptorPool, name: str, known: dict[str, _Shape]) -> _Shape:
    """Return the shape of a type, and add it and those within to the known ones."""
    if (found := known.get(name)) is not None:
        return found
    kind = pool.FindMessageTypeByName(name)
    fields: list[FieldDescriptor] = [*kind.fields, *pool.FindAllExtensions(kind)]
    known[name] = made = _Shape(1 + len(fields), {})
    for field in fields:
        if field.message_type is not None:
            made.messages[field.number] = _shape(pool, field.message_type.full_name, known)
    return made


def _count_values(data: bytes, shape: _Shape) -> None:
    """Raise InvalidData if data has more than `MAX_VALUES` fields, or no end.

    The count of malformed data covers what can be parsed.
    """
    count, at = shape.fields, 0
    # The messages around the place, with their ends; None stands for a type that is unknown.
    around: list[tuple[_Shape | None, int]] = [(shape, len(data))]
    while around:
        within, end = around[-1]
        if at >= end:
            around.pop()
            continue
        tag, at = _varint(data, at)
        encoding = tag & 7
        inner = None if within is None else within.messages.get(tag >> 3)
        if encoding == _END_GROUP:
            around.pop()
            continue
        if encoding == _GROUP:
            around.append((inner, end))
        elif encoding == _VARINT:
            _, at = _varint(data, at)
        elif encoding == _BYTES:
            size, at = _varint(data, at)
            if inner is None:
                at += size
            else:
                around.append((inner, at + size))
        else:
            at += _FIXED_BYTES[encoding]
        if inner is not None:
            count += inner.fields
            check_values(count)


def _plain(message: Message) -> Any:
    """Return a message as JSON would give it, with the field names of the schema.

    A field without presence is there with its default, as it may have been set to that.
    """
    if message.DESCRIPTOR.full_name.startswith(_WELL_KNOWN):
        return json_format.MessageToDict(message)
    fields: Any = message.DESCRIPTOR.fields  # The types of the stubs and of the compiled code differ.
    return {
        field.name: _field(field, getattr(message, field.name))
        for field in fields
        if not field.has_presence or message.HasField(field.name)
    }


def _field(field: FieldDescriptor, value: Any) -> Any:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        of_value = kind.fields_by_name["value"]
        return {str(key): _single(of_value, each) for key, each in value.items()}
    return [_single(field, each) for each in value] if field.is_repeated else _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return b64encode(value).decode()
    return value
