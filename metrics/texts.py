"""The texts of one event, each tokenised once, within the limits on the work for one event."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from ragweir.metrics.lazy import lazy
from ragweir.metrics.text.text import Text
from ragweir.metrics.unavailable import Unavailable
from ragweir.schemas.interaction import Interaction


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits on the work for one event; see `limits` of the settings."""

    max_tokens: int = 20_000
    max_contexts: int = 64
    span_tolerance_ms: int = 1_000
    max_event_tokens: int = 60_000


class TokenisedTexts:
    """The texts of an interaction, tokenised on first access.

    Each has at most `max_tokens` tokens, and all together `max_event_tokens`: query and response come first, then the
    expected answers, then the contexts. The last ones are cut.

    Args:
        interaction: the event; see `ragweir.metrics.view.View.interaction`.
        limits: limits on the texts.
    """

    def __init__(self, interaction: Interaction, limits: TextLimits) -> None:
        self._interaction = interaction
        self._limits = limits

    @lazy
    def query(self) -> Text:
        """The query."""
        return Text(self._interaction.query or "", self._limits.max_tokens)

    @lazy
    def response(self) -> Text:
        """The response."""
        return Text(self._interaction.response or "", self._limits.max_tokens)

    @lazy
    def expected(self) -> tuple[Text, ...]:
        """The expected answers."""
        return self.read(self._interaction.expected or (), self._tokens_left())

    @lazy
    def raw_contexts(self) -> list[str]:
        """The contexts as they are in the event, in their order, at most `max_contexts`."""
        contexts = (self._interaction.contexts or ())[: self._limits.max_contexts]
        return [context.text or "" for context in contexts]

    @lazy
    def contexts(self) -> tuple[Text, ...]:
        """The retrieved contexts in their order, at most `max_contexts`."""
        left = self._tokens_left()
        if not self.fit:
            with suppress(Unavailable):
                left -= sum(map(len, self.expected))
        return self.read(self.raw_contexts, left)

    @lazy
    def ranked(self) -> tuple[int, ...]:
        """The places of the contexts in their list, best rank first; the default of `rank` is the place."""
        ranks = [
            place + 1 if context.rank is None else context.rank
            for place, context in enumerate(self._interaction.contexts or ())
        ]
        return tuple(sorted(range(len(ranks)), key=ranks.__getitem__))

    @lazy
    def passages(self) -> tuple[int, ...]:
        """The places in `contexts` of the distinct ones, best rank first.

        A context that occurs twice with one chunk_id and one text, since two methods found it, is one passage.
        """
        contexts = self._interaction.contexts or ()
        last = self._limits.max_contexts
        places: dict[object, int] = {}
        for place in self.ranked:
            if place < last:
                context = contexts[place]
                places.setdefault((context.chunk_id, context.text) if context.chunk_id else place, place)
        return tuple(places.values())

    @lazy
    def fit(self) -> bool:
        """True if the texts are so short that no limit can cut one: a text has no more tokens than characters."""
        event = self._interaction
        try:
            characters = len(event.query or "") + len(event.response or "") + sum(map(len, self.raw_contexts))
            characters += sum(map(len, event.expected)) if event.expected else 0
        except Unavailable:
            return False
        return characters <= min(self._limits.max_tokens, self._limits.max_event_tokens)

    def _tokens_left(self) -> int:
        """Return the number of the event's tokens that query and response leave; an unavailable one takes none."""
        left = self._limits.max_event_tokens
        if self.fit:
            return left
        with suppress(Unavailable):
            left -= len(self.query)
        with suppress(Unavailable):
            left -= len(self.response)
        return left

    def read(self, raws: Iterable[str], left: int) -> tuple[Text, ...]:
        """Return texts that have at most `left` tokens together; the last ones are cut."""
        texts = []
        for raw in raws:
            texts.append(Text(raw, max(min(left, self._limits.max_tokens), 0)))
            left -= len(texts[-1])
        return tuple(texts)
