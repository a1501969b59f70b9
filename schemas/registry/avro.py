"""Avro: readers of records, for schemas and bytes that may be hostile.

fastavro reads the bytes. Four things that it allows are not allowed here, since each ends or stops a process:

- A recursive schema is read by its Python code, in which data that is nested too deeply raises RecursionError. The
  compiled code overflows the stack.
- A decimal has at most 64 bytes. One of a megabyte takes minutes.
- An array or map of items without any bytes, such as nulls, may have any number of them, and is refused.
- Times are given as the numbers that they are encoded as, of which the intake knows the unit by the magnitude: dates
  have a range, and these do not.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import orjson
from fastavro import _read_py
from fastavro.read import LOGICAL_READERS

from ragweir.schemas.registry.schema import Read

MAX_DECIMAL_BYTES = 64
"""Maximum size of a decimal's digits."""
_OWN_DECIMAL = "ragweir-decimal"
"""Logical type of decimals in the schemas that fastavro gets."""
_PRIMITIVES = frozenset("null boolean int long float double bytes string".split())
_COMPLEX = frozenset("record error array map enum fixed".split())


class _Features:
    """Properties of a schema that decide how it is read."""

    is_recursive = False
    has_bytes = False


def avro_reader(text: str, references: Sequence[str] = ()) -> Read:
    """Return the reader of an Avro schema.

    >>> read = avro_reader('{"type": "record", "name": "A", "fields": [{"name": "query", "type": "string"}]}')
    >>> read(bytes([8]) + b"Who?")
    {'query': 'Who?'}

    Args:
        text: the schema.
        references: the schemas of the names that it uses, each after those that it uses itself.

    Raises:
        Exception: of any kind if it is not a schema, or one that is refused.
    """
    named: dict[str, Any] = {}
    features = _Features()
    declared: dict[str, Any] = {}
    parsed: Any = None
    for each in (*references, text):
        own = _Normaliser(declared, features).normalised(orjson.loads(each), "", ())
        parsed = fastavro.parse_schema(own, named_schemas=named)
    read = _read_py.schemaless_reader if features.is_recursive else fastavro.schemaless_reader

    def reader(data: bytes) -> object:
        stream = BytesIO(data)
        value = read(stream, parsed, None)
        if stream.tell() != len(data):
            raise ValueError("bytes follow the data")
        return _plain(value) if features.has_bytes else value

    return reader


class _Normaliser:
    """Makes of a schema the one that fastavro gets."""

    def __init__(self, declared: dict[str, Any], features: _Features) -> None:
        self._declared, self._features = declared, features

    def normalised(self, schema: Any, space: str, within: tuple[str, ...]) -> Any:  # noqa: C901, PLR0912 - one case each
        """Return a schema without logical types, but for decimals.

        Args:
            schema: the schema, or a part of it.
            space: the namespace of its names.
            within: the full names of the records around it.

        Raises:
            ValueError: if it has an array or a map whose items have no bytes.
        """
        if isinstance(schema, list):
            return [self.normalised(each, space, within) for each in schema]
        if isinstance(schema, str):
            if schema == "bytes":
                self._features.has_bytes = True
            elif schema not in _PRIMITIVES and _full_name(schema, space) in within:
                self._features.is_recursive = True
            return schema
        kind = schema["type"]
        if isinstance(kind, list | dict):
            return self.normalised(kind, space, within)
        own = {name: value for name, value in schema.items() if name not in ("logicalType", "default", "doc")}
        if kind in ("record", "error"):
            own["type"] = "record"
            name = self._declare(own, space)
            inner = name.rpartition(".")[0]
            fields = [{"name": field["name"], "type": field["type"]} for field in schema["fields"]]
            own["fields"] = fields
            for field in fields:
                field["type"] = self.normalised(field["type"], inner, (*within, name))
        elif kind in ("array", "map"):
            items = "items" if kind == "array" else "values"
            own[items] = self.normalised(schema[items], space, within)
            if kind == "array" and not self._has_bytes(own[items], space):
                raise ValueError("an array whose items have no bytes can have any length")
        elif kind in ("enum", "fixed"):
            self._declare(own, space)
        elif kind not in _PRIMITIVES:
            return self.normalised(kind, space, within)
        if kind in ("bytes", "fixed"):
            self._features.has_bytes = True
            if schema.get("logicalType") == "decimal":
                own["logicalType"] = _OWN_DECIMAL
        return own

    def _declare(self, schema: dict[str, Any], space: str) -> str:
        name = _full_name(schema["name"], schema.get("namespace", space))
        self._declared[name] = schema
        return name

    def _has_bytes(self, schema: Any, space: str, seen: frozenset[str] = frozenset()) -> bool:
        """Return whether every value takes at least one byte."""
        if isinstance(schema, list):  # The branch's number is a byte.
            return True
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return schema != "null"
            name = _full_name(schema, space)
            # A record that holds itself without a union or a list has no finite value.
            return name in seen or name not in self._declared or self._has_bytes(self._declared[name], space, seen)
        kind = schema["type"]
        if kind == "fixed":
            return bool(schema["size"] > 0)
        if kind == "record":
            name = _full_name(schema["name"], schema.get("namespace", space))
            inner = name.rpartition(".")[0]
            return any(self._has_bytes(field["type"], inner, seen | {name}) for field in schema["fields"])
        return kind in _COMPLEX or self._has_bytes(kind, space, seen)


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _decimal(value: bytes, schema: dict[str, Any] | None = None, *_: object) -> object:
    """Return a decimal as a number; as text if a float does not have all its digits."""
    if len(value) > MAX_DECIMAL_BYTES:
        raise ValueError("a decimal of too many digits")
    digits = int.from_bytes(value, "big", signed=True)
    number = Decimal(f"{digits}E-{(schema or {}).get('scale', 0)}")  # All digits, whatever the context's precision.
    return float(number) if Decimal(repr(float(number))) == number else str(number)


for _kind in ("bytes", "fixed"):
    LOGICAL_READERS[f"{_kind}-{_OWN_DECIMAL}"] = _decimal


def _plain(value: Any) -> Any:
    """Return data with texts in place of bytes: of UTF-8, else as Base64."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
