"""The items of a dataset: chosen answers with their texts, redacted, each question once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from ragweir.metrics.metric import Null
from ragweir.schemas.codec.json import encode
from ragweir.schemas.interaction import Context, Interaction, Message
from ragweir.streams.analysis.dataset.choice import Chosen
from ragweir.streams.analysis.dataset.duplicates import SameQuestions
from ragweir.streams.services.judge.redaction import Redactor

_KEPT = (
    "application",
    "environment",
    "pipeline_version",
    "model",
    "trace_id",
    "span_id",
    "question_id",
    "answerable",
)
"""Fields of the interaction that an item has as they are."""


@dataclass(frozen=True, slots=True)
class DatasetItem:
    """A question whose answer was bad."""

    event: Interaction
    """The event, with redacted texts and no more fields than a test needs."""
    because: tuple[str, ...]
    """The conditions that its answer meets."""
    people: tuple[Mapping[str, Any], ...]
    """People's labels: question, value, kind, time, and the comment if there is one. Raters are left out."""
    scores: Mapping[str, float]
    source: Mapping[str, Any] | None
    """Position at which evaluate read the event."""
    redacted: bool
    """True if `judge.redaction` is on."""
    duplicates: list[str] = field(default_factory=list)
    """Ids of the further events that ask the same."""

    @property
    def query(self) -> str:
        """The question."""
        return self.event.query or ""

    @property
    def response(self) -> str:
        """The answer."""
        return self.event.response or ""

    @property
    def passages(self) -> list[str] | None:
        """The texts of the passages, without those that were not captured; None if the event names none."""
        contexts = self.event.contexts
        return None if contexts is None else [each.text for each in contexts if each.text is not None]

    @property
    def asked(self) -> str:
        """The question, after the conversation that led to it, for formats that have no conversations."""
        turns = [f"{each.role}: {each.text}" for each in self.event.history or ()]
        return "\n".join([*turns, f"user: {self.query}"]) if turns else self.query

    def origin(self) -> dict[str, Any]:
        """Return where the item comes from, as plain data."""
        event = self.event
        named = {name: value for name in _KEPT if (value := getattr(event, name)) is not None}
        return {
            "event_id": event.event_id,
            "event_time": _written(event.ended_at),
            **named,
            "because": list(self.because),
            "people": [dict(each) for each in self.people],
            "scores": dict(self.scores),
            "source": self.source,
            "duplicates": self.duplicates,
            "redacted": self.redacted,
        }


@dataclass(slots=True)
class Left:
    """Numbers of chosen answers that are no item of their own."""

    gone: int = 0
    """Answers whose texts were not found."""
    duplicates: int = 0
    """Answers to questions that an item has."""
    withheld: int = 0
    """Answers with texts that may not leave."""


def items(
    chosen: Iterable[Chosen], events: Mapping[str, Interaction], redactor: Redactor, *, redacts: bool
) -> tuple[list[DatasetItem], Left]:
    """Return the items of chosen answers, of which the first of each question counts.

    Args:
        chosen: the answers in the order of their importance.
        events: the events by id.
        redactor: redacts the texts.
        redacts: true if it is not off.
    """
    found: dict[int, DatasetItem] = {}
    asked, left = SameQuestions(), Left()
    for each in chosen:
        if (event := events.get(each.event_id)) is None:
            left.gone += 1
            continue
        item = _item(each, event, redactor, redacts=redacts)
        if item is None:
            left.withheld += 1
            continue
        # Redacted texts are compared, so that two names of a person make no second item.
        place = asked.add(item.asked)
        if place in found:
            left.duplicates += 1
            found[place].duplicates.append(each.event_id)
        else:
            found[place] = item
    return list(found.values()), left


def _item(chosen: Chosen, event: Interaction, redactor: Redactor, *, redacts: bool) -> DatasetItem | None:
    """Return the item of an answer; None if its texts may not leave."""
    contexts, history, expected = event.contexts or (), event.history or (), event.expected or ()
    comments = [each.comment or "" for each in chosen.people]
    texts = redactor.texts(
        [
            event.query or "",
            event.response or "",
            *(each.text or "" for each in contexts),
            *(each.text for each in history),
            *expected,
            *comments,
        ]
    )
    if isinstance(texts, Null):
        return None
    rest = iter(texts)
    query, response = next(rest), next(rest)
    passages = tuple(
        Context(
            text=None if each.text is None else text,
            chunk_id=each.chunk_id,
            document_id=each.document_id,
            rank=each.rank,
        )
        for each, text in _with(contexts, rest)
    )
    turns = tuple(Message(role=each.role, text=text) for each, text in _with(history, rest))
    answers = tuple(text for _, text in _with(expected, rest))
    said = []
    for label, comment in _with(chosen.people, rest):
        told = {"question": label.question, "value": label.value, "kind": label.kind, "time": _written(label.time)}
        said.append(told | ({"comment": comment} if comment else {}))
    kept = Interaction(
        event_id=event.event_id,
        query=query,
        response=response,
        ended_at=chosen.time,
        expected=None if event.expected is None else answers,
        history=turns or None,
        contexts=None if event.contexts is None else passages,
        **{name: getattr(event, name) for name in _KEPT},
    )
    source = orjson.loads(encode(chosen.source)) if chosen.source else None
    return DatasetItem(kept, chosen.because, tuple(said), chosen.scores, source, redacts)


def _with(parts: Sequence[Any], texts: Iterable[str]) -> Iterable[tuple[Any, str]]:
    """Pair parts with the next texts, and take no more of these."""
    texts = iter(texts)
    return [(part, next(texts)) for part in parts]


def _written(time: datetime | None) -> str | None:
    return None if time is None else orjson.loads(orjson.dumps(time, option=orjson.OPT_UTC_Z))
