"""Decoders: they turn the value of one record into interactions, and into rejections of what is none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import final

from typing_extensions import override

from ragweir.errors import Interrupted, PermanentError, Rejected
from ragweir.schemas.codec.intake import DEFAULT_MAX_ITEMS
from ragweir.schemas.codec.json import decode, interaction, parse
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.codec.strict import from_data
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.topics import MAX_EVENT_BYTES

MAX_EVENTS = 1_000
"""Maximum number of events of one record; all results of a record are written in one transaction."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An event that is not evaluated since `where` of the map does not select it."""


class Decoder(ABC):
    """Base of decoders, one per format.

    A subclass implements `events`. Users call `decode`, which holds every format to this contract:

    - Events and rejections have the order of the record. The index of an event is the number of events and rejections
      before it, without those that are skipped. It is written as `source.index`, and compared when a record is read
      again after a restart, so that equal values must give equal events: a decoder has no state.
    - Nothing is raised but MemoryError, whatever the bytes are; and PermanentError by a format that needs what it may
      not read, such as a registry.
    - A record gives at most `MAX_EVENTS` events, and then one rejection for all others.

    A decoder reads nothing but the value, and in a file its row number. All records of a topic have one format, so that
    its user chooses the decoder by the topic, and a format with schemas names the schema within the value.
    """

    @final
    def decode(self, value: bytes | None, row: int | None = None) -> Iterator[Interaction | Rejected | Skipped]:
        """Yield the events and rejections of a record's value, if any.

        Args:
            value: the record's value.
            row: number of the record in a file; None for a topic.

        Raises:
            MemoryError: if there is no memory left, which may not be the record's fault.
            PermanentError: if the format needs something that it may not read.
            Interrupted: if the worker is to stop while it waits for that.
        """
        number = 0
        try:
            for event in self.row_events(value, row):
                if isinstance(event, Skipped):
                    yield event
                    continue
                if number == MAX_EVENTS:
                    yield Rejected(
                        "too_large", f"the record holds more than {MAX_EVENTS} events; the others are not read"
                    )
                    return
                yield event
                number += 1
        except Rejected as rejected:
            yield rejected
        except (MemoryError, PermanentError, Interrupted):
            raise
        except Exception as error:  # One record must not stop the stream.
            yield Rejected("unreadable", f"decoding raised {type(error).__name__}")

    def start(self, stopped: Callable[[], bool]) -> None:
        """Prepare for a worker: where `decode` waits, it calls `stopped` and raises Interrupted once that is true."""

    def ready(self, value: bytes | None, source: Hashable = None) -> bool:  # noqa: ARG002
        """Return whether `decode` reads a value without waiting.

        What it would wait for is obtained in the background, so that a later call returns true.

        Args:
            value: the record's value.
            source: where the record comes from, such as its partition. The time for which one source waits may be
                limited.

        Raises:
            PermanentError: if it may not be read.
        """
        return True

    def row_events(self, value: bytes | None, row: int | None) -> Iterable[Interaction | Rejected | Skipped]:
        """Return the events of a record as `events` does, for a format in which they may depend on the row number."""
        del row
        return self.events(value)

    @abstractmethod
    def events(self, value: bytes | None) -> Iterable[Interaction | Rejected | Skipped]:
        """Return the events of a record in their order; a value may be None or any bytes.

        Raises:
            Rejected: if nothing more of the record can be read. If one event cannot be read, its rejection is returned,
                followed by the other events.
        """


def mapped(
    data: object, mapping: FieldMap | None, max_items: Mapping[str, int], row: int | None
) -> Interaction | Skipped:
    """Make an interaction of the data of one event.

    Args:
        data: the data as JSON gives it.
        mapping: gives the fields of an interaction; None if the data has them.
        max_items: maximum number of elements by list.
        row: number of the record in a file; None for a topic.

    Raises:
        Rejected: with the reason.
    """
    fields = data if mapping is None else mapping(data, row)
    if fields is None and mapping is not None:
        return Skipped()
    return from_data(fields, max_items) or interaction(fields, max_items, {} if mapping is None else mapping.origins)


class JsonDecoder(Decoder):
    """Decoder of records that are one interaction in JSON.

    >>> [event.event_id for event in JsonDecoder().decode(b'{"event_id": "1", "query": "Who?", "response": "Ada."}')]
    ['1']
    >>> [str(rejected) for rejected in JsonDecoder().decode(None)]
    ['the record has no value']

    Args:
        max_bytes: maximum size of a value.
        max_items: maximum number of elements by list; see `ragweir.schemas.codec.intake`.
        mapping: gives the fields of an interaction for an event of a foreign schema.
    """

    def __init__(
        self,
        max_bytes: int = MAX_EVENT_BYTES,
        max_items: Mapping[str, int] = DEFAULT_MAX_ITEMS,
        mapping: FieldMap | None = None,
    ) -> None:
        self._max_bytes, self._max_items, self._mapping = max_bytes, max_items, mapping

    @override
    def row_events(self, value: bytes | None, row: int | None) -> Iterable[Interaction | Skipped]:
        """Return the one interaction, or that it is skipped."""
        if self._mapping is None:
            return (decode(value, self._max_bytes, self._max_items),)
        return (mapped(parse(value, self._max_bytes), self._mapping, self._max_items, row),)

    @override
    def events(self, value: bytes | None) -> Iterable[Interaction | Skipped]:
        """Return the one interaction, or that it is skipped."""
        return self.row_events(value, None)
