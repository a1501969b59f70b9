"""Records that name a schema of a registry: their schemas, each asked for once, and their data as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Self

import orjson

from ragweir.errors import PermanentError, RegistryUnavailable, Rejected
from ragweir.schemas.registry.frame import unframed
from ragweir.schemas.registry.readers import name_of
from ragweir.schemas.registry.schema import FORMATS, Read, Schema, unknown
from ragweir.streams.runtime.registry.client import RegistryClient, SchemaNotFound
from ragweir.streams.services.shared.from_settings import schema_reader
from ragweir.streams.settings import Settings


class RecordSchemas:
    """The schemas that records name, each asked for once.

    Args:
        settings: all settings.
        form: the value of `input.format` by which records are read; None to read each by the type of its schema.

    Raises:
        PermanentError: if the settings name no registry.
    """

    def __init__(self, settings: Settings, form: str | None = None) -> None:
        if settings.registry.url is None:
            raise PermanentError(
                "these records name schemas of a Schema Registry: set registry.url, such as http://registry:8081"
            )
        self._settings, self._form, self._client = settings, form, RegistryClient(settings.registry)
        self._max_bytes = settings.limits.max_event_bytes
        self._known: dict[int, Schema | str] = {}
        """The schemas, or what is wrong with them."""
        self._readers: dict[int, Read | Rejected] = {}
        self.url = self._client.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def form(self) -> str | None:
        """The format of most schemas; None if there are none."""
        types = Counter(each.type for each in self._known.values() if isinstance(each, Schema))
        names = {kind: form for form, kind in FORMATS.items()}
        return names.get(types.most_common(1)[0][0]) if types else None

    def described(self, number: int) -> str:
        """Return the type and the name of a schema."""
        schema = self._known.get(number, "is not read")
        return schema if isinstance(schema, str) else " ".join(filter(None, (schema.type, name_of(schema))))

    def as_json(self, value: bytes | None) -> bytes:
        """Return the data of a record.

        Raises:
            Rejected: if it cannot be read.
            PermanentError: if the registry does not answer.
        """
        number, data = unframed(value, self._max_bytes)
        found = self.reader(number)
        if isinstance(found, Rejected):
            raise Rejected(found.error_class, found.message)  # As in `RegistryDecoder`.
        read = found(data)
        try:
            return orjson.dumps(read)
        except orjson.JSONEncodeError as error:
            raise Rejected("unreadable", f"a record of schema {number} has no JSON: {error}") from None

    def reader(self, number: int) -> Read | Rejected:
        """Return the reader of a schema; a rejection for its records if it is not known or cannot be used.

        Raises:
            PermanentError: if the registry does not answer.
        """
        if number not in self._readers:
            self._readers[number] = self._made(number)
        return self._readers[number]

    def _made(self, number: int) -> Read | Rejected:
        try:
            schema = self._known[number] = self._client.schema(number)
        except SchemaNotFound as missing:
            why = self._known[number] = str(missing)
            return unknown(number, why)
        except RegistryUnavailable as unavailable:
            raise PermanentError(f"the registry {self.url} does not answer: {unavailable}") from None
        form = self._form or next((form for form, kind in FORMATS.items() if kind == schema.type), None)
        if form is None:
            return Rejected("unknown_schema", f"schema {number} is of the type {schema.type}")
        return schema_reader(self._settings, form)(number, schema)
