"""Avro: readers of records, for schemas and bytes that may be hostile.

fastavro reads the bytes. Seven things that it allows are not allowed here, since each ends or stops a process:

- A recursive schema is read by its Python code, in which data that is nested too deeply raises RecursionError. The
  compiled code overflows the stack.
- A decimal has at most 64 bytes. One of a megabyte takes minutes.
- An array or map of items without any bytes, such as nulls, may have any number of them, and is rejected.
- The records of a value have at most `MAX_VALUES` fields, counted while they are read. A type that has another twice,
  which has another twice and so on, is of a few kilobytes and gives any number of values for no bytes.
- A symbol of an enum has at most `MAX_SYMBOL` characters, as each byte of an array gives one.
- Types are nested at most `MAX_DEPTH` deep by their names, as the compiled code has no limit.
- Times are given as the numbers that they are encoded as, of which the intake knows the unit by the magnitude: dates
  have a range, and these do not.
"""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
import orjson
from fastavro import _read_py
from fastavro.read import LOGICAL_READERS

from ragweir.schemas.registry.schema import InvalidData, Read, check_values

MAX_DECIMAL_BYTES = 64
"""Maximum size of a decimal's digits."""
MAX_DEPTH = 100
"""Maximum number of types within each other."""
MAX_SYMBOL = 200
"""Maximum number of characters of an enum's symbol."""
_OWN_DECIMAL = "ragweir-decimal"
"""Logical type of decimals in the schemas that fastavro gets."""
_COUNTED = "ragweir-counted"
"""Logical type of records in the schemas that fastavro gets."""
_VALUES = "ragweir-values"
"""Attribute of such records: the number of values so far."""
_PRIMITIVES = frozenset("null boolean int long float double bytes string".split())

_ATTRIBUTES = ("type", "name", "namespace", "fields", "items", "values", "symbols", "size", "precision", "scale")


class _Features:
    """Properties of a schema that decide how it is read."""

    is_recursive = False
    has_bytes = False


class _Type(NamedTuple):
    """The properties of a type that decide where it may be used."""

    takes_bytes: bool
    """True if every value takes at least one byte."""
    depth: int
    """The number of types within each other."""


class _Values(threading.local):
    """The number of values of the data that a thread reads by a schema."""

    count = 0


def avro_reader(text: str, references: Sequence[str] = ()) -> Read:
    """Return the reader of an Avro schema.

    >>> read = avro_reader('{"type": "record", "name": "A", "fields": [{"name": "query", "type": "string"}]}')
    >>> read(bytes([8]) + b"Who?")
    {'query': 'Who?'}

    Args:
        text: the schema.
        references: the schemas of the names that it uses, each after those that it uses itself.

    Raises:
        Exception: of any kind if it is not a schema, or one that is rejected.
    """
    named: dict[str, Any] = {}
    normaliser = _Normaliser()
    features = normaliser.features
    parsed: Any = None
    for each in (*references, text):
        own, _ = normaliser.normalised(orjson.loads(each), "")
        parsed = fastavro.parse_schema(own, named_schemas=named)
    read = _read_py.schemaless_reader if features.is_recursive else fastavro.schemaless_reader

    def reader(data: bytes) -> object:
        stream = BytesIO(data)
        normaliser.values.count = 0
        value = read(stream, parsed, None)
        if stream.tell() != len(data):
            raise InvalidData("bytes follow the data")
        return _plain(value) if features.has_bytes else value

    return reader


class _Normaliser:
    """Makes of a schema the one that fastavro gets."""

    def __init__(self) -> None:
        self.features, self.values = _Features(), _Values()
        self._types: dict[str, _Type | None] = {}
        """The types by their full names; None while their parts are read."""

    def normalised(self, schema: Any, space: str) -> tuple[Any, _Type]:
        """Return a schema without logical types, but for decimals and records, and its properties.

        Args:
            schema: the schema, or a part of it.
            space: the namespace of its names.

        Raises:
            InvalidData: if it has an array whose items have no bytes, or is nested too deeply.
        """
        made, found = self._normalised(schema, space)
        if found.depth > MAX_DEPTH:
            raise InvalidData(f"more than {MAX_DEPTH} types within each other")
        return made, found

    def _normalised(self, schema: Any, space: str) -> tuple[Any, _Type]:
        if isinstance(schema, list):  # The branch's number is a byte.
            branches = [self.normalised(each, space) for each in schema]
            return [made for made, _ in branches], _around((found for _, found in branches), takes_bytes=True)
        if isinstance(schema, str):
            return schema, self._named(schema, space)
        kind = schema["type"]
        if not isinstance(kind, str) or (kind not in _PRIMITIVES and kind not in _COMPLEX):
            return self.normalised(kind, space)
        # No others, as fastavro has attributes by which it takes a schema for one that it has read before.
        own = {name: schema[name] for name in _ATTRIBUTES if name in schema}
        found = _COMPLEX[kind](self, own, space) if kind in _COMPLEX else self._named(kind, space)
        if kind in ("bytes", "fixed"):
            self.features.has_bytes = True
            if schema.get("logicalType") == "decimal":
                own["logicalType"] = _OWN_DECIMAL
        return own, found

    def _named(self, name: str, space: str) -> _Type:
        """Return the properties of a primitive type, or of one that is declared before."""
        if name in _PRIMITIVES:
            self.features.has_bytes |= name == "bytes"
            return _Type(name != "null", 1)
        full = _full_name(name, space)
        if (found := self._types.get(full, _UNKNOWN)) is not None:
            return found
        self.features.is_recursive = True
        # A record that holds itself without a union or a list has no finite value.
        return _UNKNOWN

    def _record(self, own: dict[str, Any], space: str) -> _Type:
        name = _full_name(own["name"], own.get("namespace", space))
        self._types[name] = None
        inner = name.rpartition(".")[0]
        parts = [self.normalised(field["type"], inner) for field in own["fields"]]
        fields = [{"name": field["name"], "type": made} for field, (made, _) in zip(own["fields"], parts, strict=True)]
        found = [part for _, part in parts]
        own.update(type="record", fields=fields, logicalType=_COUNTED)
        own[_VALUES] = self.values
        self._types[name] = made = _around(found, takes_bytes=any(part.takes_bytes for part in found))
        return made

    def _array(self, own: dict[str, Any], space: str) -> _Type:
        own["items"], items = self.normalised(own["items"], space)
        if not items.takes_bytes:
            raise InvalidData("an array whose items have no bytes can have any length")
        return _around((items,), takes_bytes=True)

    def _map(self, own: dict[str, Any], space: str) -> _Type:
        own["values"], values = self.normalised(own["values"], space)
        return _around((values,), takes_bytes=True)

    def _enum(self, own: dict[str, Any], space: str) -> _Type:
        if any(len(symbol) > MAX_SYMBOL for symbol in own["symbols"]):  # A byte of data gives all of it.
            raise InvalidData(f"an enum has a symbol of more than {MAX_SYMBOL} characters")
        return self._declared(own, space, _Type(takes_bytes=True, depth=1))

    def _fixed(self, own: dict[str, Any], space: str) -> _Type:
        return self._declared(own, space, _Type(own["size"] > 0, 1))

    def _declared(self, own: dict[str, Any], space: str, found: _Type) -> _Type:
        self._types[_full_name(own["name"], own.get("namespace", space))] = found
        return found


_UNKNOWN = _Type(takes_bytes=True, depth=0)
"""A name that is not declared, which fastavro rejects, or whose type is around its use."""
_COMPLEX: Mapping[str, Callable[[_Normaliser, dict[str, Any], str], _Type]] = {
    "record": _Normaliser._record,
    "error": _Normaliser._record,
    "array": _Normaliser._array,
    "map": _Normaliser._map,
    "enum": _Normaliser._enum,
    "fixed": _Normaliser._fixed,
}


def _around(parts: Iterable[_Type], *, takes_bytes: bool) -> _Type:
    return _Type(takes_bytes, 1 + max((part.depth for part in parts), default=0))


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _decimal(value: bytes, schema: dict[str, Any] | None = None, *_: object) -> object:
    """Return a decimal as a number; as text if a float does not have all its digits."""
    if len(value) > MAX_DECIMAL_BYTES:
        raise InvalidData("a decimal of too many digits")
    digits = int.from_bytes(value, "big", signed=True)
    number = Decimal(f"{digits}E-{(schema or {}).get('scale', 0)}")  # All digits, whatever the context's precision.
    return float(number) if Decimal(repr(float(number))) == number else str(number)


def _counted(record: Any, schema: dict[str, Any] | None = None, *_: object) -> Any:
    values: _Values = (schema or {})[_VALUES]
    values.count += 1 + len(record)
    check_values(values.count)
    return record


LOGICAL_READERS[f"record-{_COUNTED}"] = _counted
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
