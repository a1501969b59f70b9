"""The decoder of records of a Schema Registry."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from typing_extensions import override

from ragweir.errors import Rejected
from ragweir.schemas.codec.decoder import Decoder, Skipped, mapped
from ragweir.schemas.codec.intake import DEFAULT_MAX_ITEMS
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.registry.frame import schema_id, unframed
from ragweir.schemas.registry.schema import Schemas
from ragweir.schemas.topics import MAX_EVENT_BYTES


class RegistryDecoder(Decoder):
    """Decoder of records that are one event of a schema that they name.

    >>> from ragweir.schemas.registry.schema import ReaderTable
    >>> import orjson
    >>> decoder = RegistryDecoder(ReaderTable({7: orjson.loads}))
    >>> value = bytes([0, 0, 0, 0, 7]) + b'{"event_id": "1", "query": "Who?", "response": "Ada."}'
    >>> [event.event_id for event in decoder.decode(value)]
    ['1']
    >>> [str(rejected) for rejected in decoder.decode(bytes([0, 0, 0, 0, 8]))]
    ['schema 8 is not in the registry']

    Args:
        schemas: the schemas.
        max_bytes: maximum size of a value.
        max_items: maximum number of elements by list; see `ragweir.schemas.codec.intake`.
        mapping: gives the fields of an interaction for an event of a foreign schema.
    """

    def __init__(
        self,
        schemas: Schemas,
        max_bytes: int = MAX_EVENT_BYTES,
        max_items: Mapping[str, int] = DEFAULT_MAX_ITEMS,
        mapping: FieldMap | None = None,
    ) -> None:
        self._schemas, self._max_bytes, self._max_items, self._mapping = schemas, max_bytes, max_items, mapping

    @override
    def row_events(self, value: bytes | None, row: int | None) -> Iterable[Interaction | Skipped]:
        """Return the one interaction, or that it is skipped."""
        frame = unframed(value, self._max_bytes)
        read = self._schemas.reader(frame.schema_id)
        if isinstance(read, Rejected):
            # The one that is kept would keep the frames of each record for which it is raised.
            raise Rejected(read.error_class, read.message)
        return (mapped(read(frame.data), self._mapping, self._max_items, row),)

    @override
    def events(self, value: bytes | None) -> Iterable[Interaction | Skipped]:
        """Return the one interaction, or that it is skipped."""
        return self.row_events(value, None)

    @override
    def start(self, stopped: Callable[[], bool]) -> None:
        """See `Decoder.start`."""
        self._schemas.start(stopped)

    @override
    def ready(self, value: bytes | None, source: Hashable = None) -> bool:
        """Return whether the schema of a value is known or no longer waited for, or the value names none."""
        number = schema_id(value)
        return number is None or self._schemas.ready(number, source)
