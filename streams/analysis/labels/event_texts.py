"""The texts that a rater reads, of some events of the files that evaluations were scored from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from typing_extensions import override

from ragweir.errors import Rejected
from ragweir.schemas.interaction import Context, Interaction, Message
from ragweir.streams.runtime.records import Outcome, Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class EventTexts:
    """The texts of one event."""

    query: str
    response: str
    contexts: tuple[Context, ...] | None
    """The passages; None if the event does not name any. The text of one that was not captured is None."""
    history: tuple[Message, ...] = ()
    """The conversation before the query."""

    @classmethod
    def of(cls, event: Interaction) -> EventTexts | None:
        """Return the texts of an event; None if its query or its answer was not captured."""
        if event.query is None or event.response is None:
            return None
        return cls(event.query, event.response, event.contexts, tuple(event.history or ()))


def with_texts(event: Interaction) -> Interaction | None:
    """Return an event whose query and answer were captured, else None."""
    return None if event.query is None or event.response is None else event


class _Identity(msgspec.Struct, gc=False):
    event_id: str | int


_identity = msgspec.json.Decoder(_Identity)


class TextsAgent(EvaluateAgent, Generic[Kept]):
    """Reads events as evaluate does and keeps the texts of some; it scores nothing.

    The first event of an id that has texts counts, as later ones are duplicates.

    Args:
        config: how events are read.
        wanted: the ids of the events.
        found: the texts by id, to which those that are found are added.
        of: returns what is kept of an event; None if it has no texts.
    """

    def __init__(
        self,
        config: EvaluateConfig,
        wanted: Collection[str],
        found: dict[str, Kept],
        of: Callable[[Interaction], Kept | None],
    ) -> None:
        super().__init__(config)
        self._wanted, self._found, self._of, self._mapped = wanted, found, of, config.decoders

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        for record in filter(self._may_be_wanted, records):
            for event in self.read(record):
                if isinstance(event, Rejected) or event[0].event_id not in self._wanted:
                    continue
                if (texts := self._of(event[0])) is not None:
                    self._found.setdefault(event[0].event_id, texts)
        return Outcome(settled=list(records))

    def _may_be_wanted(self, record: Record) -> bool:
        """Return false for an event whose id is not wanted, in less time than reading it takes."""
        if record.value is None or record.topic in self._mapped:
            return True
        try:
            return str(_identity.decode(record.value).event_id) in self._wanted
        except msgspec.MsgspecError:
            return True
