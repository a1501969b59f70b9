"""A format of the tests: a record is a JSON array of interactions, and holds any number of them."""

from collections.abc import Iterator

import orjson
from typing_extensions import override

from ragweir.errors import Rejected
from ragweir.schemas.codec.decoder import Decoder
from ragweir.schemas.codec.json import interaction, parse
from ragweir.schemas.interaction import Interaction


class ArrayDecoder(Decoder):
    """Reads each element for itself."""

    @override
    def events(self, value: bytes | None) -> Iterator[Interaction | Rejected]:
        elements = parse(value)
        if not isinstance(elements, list):
            raise Rejected("invalid", "not an array")
        for element in elements:
            try:
                yield interaction(element)
            except Rejected as rejected:
                yield rejected


def array(*event_ids: str | None) -> bytes:
    """A record with these events; None is an element that is none."""
    return orjson.dumps(
        [
            {} if each is None else {"event_id": each, "query": "q", "response": "r", "ended_at": 1_700_000_000_000}
            for each in event_ids
        ]
    )
