"""Decoders: the value of one Kafka record in, its interactions out, and a rejection for each that cannot be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import final

from typing_extensions import override

from ragweir.errors import Rejected
from ragweir.schemas.codec.intake import MAX_ITEMS
from ragweir.schemas.codec.json import decode
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.topics import MAX_EVENT_BYTES

MOST_EVENTS = 1_000
"""The events that are read of one record: all that a record comes to is written in one transaction."""


class Decoder(ABC):
    """Reads the records of one format.

    A format is added by a subclass with `events`. Its users call `decode`, which holds every format to this contract:

    - What comes from a record has the order of the record. The index of an event is the number of events and
      rejections before it. It is written as `source.index`, and compared when a record is read again after a restart,
      so that equal values must give equal events: a decoder keeps nothing of one record for another.
    - Nothing is raised but MemoryError, whatever the bytes are.
    - At most `MOST_EVENTS` events come from one record, and then one rejection for all others.

    A decoder is given the value and nothing else of a record. All records of a topic have one format, so that its user
    chooses the decoder by the topic, and a format with schemas names the schema within the value.
    """

    @final
    def decode(self, value: bytes | None) -> Iterator[Interaction | Rejected]:
        """Read a record's value; a record may hold no event at all.

        Raises:
            MemoryError: if there is no memory left, which says nothing about the record.
        """
        number = 0
        try:
            for event in self.events(value):
                if number == MOST_EVENTS:
                    yield Rejected(
                        "too_large", f"the record holds more than {MOST_EVENTS} events; the others are not read"
                    )
                    return
                yield event
                number += 1
        except Rejected as rejected:
            yield rejected
        except MemoryError:
            raise
        except Exception as error:  # Nothing about one record may stop the stream.
            yield Rejected("unreadable", f"decoding raised {type(error).__name__}")

    @abstractmethod
    def events(self, value: bytes | None) -> Iterable[Interaction | Rejected]:
        """Return the events of a record in their order; a value may be None or anything else that a topic can hold.

        Raises:
            Rejected: if nothing more of the record can be read. One event that cannot be read is returned as a
                rejection, and the events behind it follow.
        """


class JsonDecoder(Decoder):
    """Reads a record that is one interaction in our own shape, as JSON.

    >>> [event.event_id for event in JsonDecoder().decode(b'{"event_id": "1", "query": "Who?", "response": "Ada."}')]
    ['1']
    >>> [str(rejected) for rejected in JsonDecoder().decode(None)]
    ['the record has no value']

    Args:
        max_bytes: the largest value that is read.
        max_items: the number of elements that is read of each list; see `ragweir.schemas.codec.intake`.
    """

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES, max_items: Mapping[str, int] = MAX_ITEMS) -> None:
        self._max_bytes, self._max_items = max_bytes, max_items

    @override
    def events(self, value: bytes | None) -> Iterator[Interaction]:
        """Yield the one interaction."""
        yield decode(value, max_bytes=self._max_bytes, max_items=self._max_items)


class MappedDecoder(Decoder):
    """Reads a record that is one interaction in a foreign shape, as JSON, through a map.

    Args:
        mapping: gives the fields of an interaction for a foreign event; see `ragweir.schemas.codec.mapping`.
        max_bytes, max_items: as for `JsonDecoder`.
    """

    def __init__(
        self,
        mapping: Callable[[object], object],
        max_bytes: int = MAX_EVENT_BYTES,
        max_items: Mapping[str, int] = MAX_ITEMS,
    ) -> None:
        self._mapping, self._max_bytes, self._max_items = mapping, max_bytes, max_items

    @override
    def events(self, value: bytes | None) -> Iterator[Interaction]:
        """Yield the one interaction."""
        yield decode(value, max_bytes=self._max_bytes, mapping=self._mapping, max_items=self._max_items)
