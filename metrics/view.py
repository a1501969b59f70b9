"""The view of one event that metrics read: its fields, and its texts, tokenised once."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ragweir.metrics.lazy import lazy
from ragweir.metrics.text.text import Text
from ragweir.metrics.unavailable import Unavailable, absent_contents, guard_fields, unavailable_fields
from ragweir.metrics.values import leaves
from ragweir.schemas.interaction import Interaction

_TEXTS = ("query", "response", "contexts", "expected")
_MAX_LEAVES = 4_096
"""Maximum number of texts and numbers in the extractions of one event."""


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits on the work for one event; see `limits` of the settings."""

    max_tokens: int = 20_000
    max_contexts: int = 64
    span_tolerance_ms: int = 1_000
    max_event_tokens: int = 60_000


@dataclass(frozen=True, slots=True)
class Extracted:
    """The texts of one extraction."""

    value: tuple[Text, ...]
    """The texts and numbers in its value."""
    evidence: Text


class View:
    """An interaction with texts that are tokenised once, on first access."""

    def __init__(self, interaction: Interaction, limits: TextLimits = TextLimits()) -> None:
        self.absent = absent_contents(interaction)
        """The fields whose content was not captured."""
        self.interaction = guard_fields(interaction, unavailable_fields(interaction, self.absent))
        """The event. Reading a list that was cut, or content that was not captured, raises
        `ragweir.metrics.unavailable.Unavailable`."""
        self.limits = limits
        self._contexts = len(interaction.contexts or ())
        self.memo: dict[Callable[..., Any], Any] = {}
        """Results that metrics share; see `ragweir.metrics.metric.shared`."""

    @lazy
    def query(self) -> Text:
        """The query."""
        return Text(self.interaction.query or "", self.limits.max_tokens)

    @lazy
    def response(self) -> Text:
        """The response."""
        return Text(self.interaction.response or "", self.limits.max_tokens)

    @lazy
    def expected(self) -> tuple[Text, ...]:
        """The expected answers."""
        return self._texts(self.interaction.expected or (), self._tokens_left("query", "response"))

    @lazy
    def contexts(self) -> tuple[Text, ...]:
        """The retrieved contexts in their order."""
        contexts = (self.interaction.contexts or ())[: self.limits.max_contexts]
        return self._texts(
            [context.text or "" for context in contexts], self._tokens_left("query", "response", "expected")
        )

    @lazy
    def extracted(self) -> tuple[Extracted, ...] | None:
        """The texts of each extraction, in order; None if they exceed a limit, as a part of them would mislead."""
        extractions = self.interaction.extractions or ()
        raws: list[str] = []
        sizes = []
        for extraction in extractions:
            found = leaves(extraction.value, _MAX_LEAVES - len(raws))
            if found is None:
                return None
            sizes.append(len(found))
            raws += *found, extraction.evidence or ""
        texts = self._texts(raws, self._tokens_left(*_TEXTS))
        if any(text.cut for text in texts):
            return None
        rest = iter(texts)
        return tuple(Extracted(tuple(islice(rest, size)), next(rest)) for size in sizes)

    def _tokens_left(self, *before: str) -> int:
        """Return the number of the event's tokens that these fields leave; an unavailable one takes none."""
        left = self.limits.max_event_tokens
        for name in before:
            with suppress(Unavailable):
                texts = getattr(self, name)
                left -= sum(map(len, texts)) if isinstance(texts, tuple) else len(texts)
        return left

    def _texts(self, raws: Iterable[str], left: int) -> tuple[Text, ...]:
        """Return texts that have at most `left` tokens together; the last ones are cut."""
        texts = []
        for raw in raws:
            texts.append(Text(raw, max(min(left, self.limits.max_tokens), 0)))
            left -= len(texts[-1])
        return tuple(texts)

    @property
    def cuts(self) -> tuple[str, ...]:
        """The flags of the texts read so far that were cut."""
        kept = self.__dict__
        read = {name: kept[name] if isinstance(kept[name], tuple) else (kept[name],) for name in _TEXTS if name in kept}
        flags = [f"{name}_cut" for name in _TEXTS if any(text.cut for text in read.get(name, ()))]
        if self._contexts > self.limits.max_contexts:
            flags.append("contexts_dropped")
        return tuple(flags)


def example(**fields: Any) -> View:
    """Return a view of an interaction with these fields, for examples and tests; other required ones are empty.

    >>> example(response="Yes.").response.tokens
    ['yes']
    """
    return View(Interaction.model_validate({"event_id": "example", "query": "", "response": ""} | fields))
