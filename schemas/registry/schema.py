"""Schemas of a registry, and readers of the data that they describe."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple, Protocol

from ragweir.errors import Rejected

AVRO, PROTOBUF, JSON_SCHEMA = "AVRO", "PROTOBUF", "JSON"
"""The types of schemas, as registries name them."""
FORMATS: Mapping[str, str] = {"avro": AVRO, "protobuf": PROTOBUF, "jsonschema": JSON_SCHEMA}
"""The type of schema by the value of `input.format`."""

MAX_SCHEMA_BYTES = 1024 * 1024
"""Maximum size of a schema with the schemas that it refers to."""

MAX_VALUES = 250_000
"""Maximum number of the fields of all records in the data of one record.

Every other value takes at least one byte. A field may take none, so that few bytes could have any number of them.
"""

Read = Callable[[bytes], object]
"""Returns the data as JSON would give it: objects, lists, texts, numbers, booleans and null.

Raises:
    Rejected: if the bytes are not of the schema. Readers of single formats raise any exception but MemoryError for it.
"""


class Schema(NamedTuple):
    """A schema as a registry gives it."""

    type: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: tuple[str, ...] = ()
    """The texts of the schemas that it refers to, each after those that it refers to itself."""


class InvalidData(ValueError):
    """A schema, or data, is invalid. Unlike those of other exceptions, the message quotes nothing of it."""


def check_values(count: int) -> None:
    """Raise InvalidData if data has more than `MAX_VALUES` values."""
    if count > MAX_VALUES:
        raise InvalidData(f"it has more than {MAX_VALUES} values")


class Schemas(Protocol):
    """The schemas that are known, by their ids."""

    def reader(self, schema_id: int) -> Read | Rejected:
        """Return the reader of a schema; a rejection for its records if it is not known or cannot be used.

        May wait for the registry, but not for an id for which `ready` returned true since the last other call.
        """

    def ready(self, schema_id: int, source: Hashable = None) -> bool:
        """Return whether `reader` would answer at once. If not, the schema is asked for in the background.

        The time for which one source of records waits for schemas may be limited.
        """

    def start(self, stopped: Callable[[], bool]) -> None:
        """Prepare for a worker; see `ragweir.schemas.codec.decoder.Decoder.start`."""


class ReaderTable:
    """The schemas of a mapping of their readers, of which no other is ever known.

    >>> str(ReaderTable({}).reader(7))
    'schema 7 is not in the registry'
    """

    def __init__(self, readers: Mapping[int, Read | Rejected]) -> None:
        self._readers = readers

    def reader(self, schema_id: int) -> Read | Rejected:
        """Return a reader, or a rejection."""
        return self._readers.get(schema_id) or unknown(schema_id)

    def ready(self, schema_id: int, source: Hashable = None) -> bool:  # noqa: ARG002
        """Return true."""
        return True

    def start(self, stopped: Callable[[], bool]) -> None:
        """Do nothing."""


def unknown(schema_id: int, why: str = "is not in the registry") -> Rejected:
    """Return the rejection of a record whose schema the registry does not have, or not as one that can be used."""
    return Rejected("unknown_schema", f"schema {schema_id} {why}")


def given_up(schema_id: int) -> Rejected:
    """Return the rejection of a record whose schema is not known in time."""
    return Rejected(
        "unknown_schema",
        f"schema {schema_id} is not known yet, and records have waited too long for schemas that the registry does not "
        "have; redrive the record if it has this one",
    )
