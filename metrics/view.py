"""One event as the metrics read it: its fields, and its texts tokenised once."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ragweir.metrics.lazy import lazy
from ragweir.metrics.list_cut import ListCut, cut_fields, withhold
from ragweir.metrics.text.text import Text
from ragweir.metrics.values import parts
from ragweir.schemas.interaction import Interaction

_TEXTS = ("query", "response", "contexts", "expected")
_MOST_PARTS = 4_096
"""Texts and numbers in the extractions of one event, at most."""


@dataclass(frozen=True, slots=True)
class TextLimits:
    """What bounds the work on one event."""

    max_tokens: int = 20_000
    """Longer texts are cut at this many tokens."""
    max_contexts: int = 64
    """Contexts beyond this many are left out."""
    span_tolerance_ms: int = 1_000
    """How far a span may lie outside its interaction before it is not believed."""
    max_event_tokens: int = 60_000
    """All texts of an event together are cut at this many tokens."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """The texts of one extraction."""

    value: tuple[Text, ...]
    """The texts and numbers that its value holds."""
    evidence: Text


class View:
    """An interaction with lazily tokenised texts. Each text is walked once, however many metrics read it."""

    def __init__(self, interaction: Interaction, limits: TextLimits = TextLimits()) -> None:
        self.interaction = withhold(interaction, cut_fields(interaction.flags))
        """The event. Reading a list of it that was cut raises `ragweir.metrics.list_cut.ListCut`."""
        self.limits = limits
        self._contexts = len(interaction.contexts or ())
        self.memo: dict[Callable[..., Any], Any] = {}
        """What metrics share; see `ragweir.metrics.metric.shared`."""

    @lazy
    def query(self) -> Text:
        """The question."""
        return Text(self.interaction.query, self.limits.max_tokens)

    @lazy
    def response(self) -> Text:
        """The answer."""
        return Text(self.interaction.response, self.limits.max_tokens)

    @lazy
    def expected(self) -> tuple[Text, ...]:
        """The reference answers; empty when there are none."""
        return self._texts(self.interaction.expected or (), self._left("query", "response"))

    @lazy
    def contexts(self) -> tuple[Text, ...]:
        """The retrieved contexts in their order; empty when there are none."""
        contexts = (self.interaction.contexts or ())[: self.limits.max_contexts]
        return self._texts([context.text for context in contexts], self._left("query", "response", "expected"))

    @lazy
    def extracted(self) -> tuple[Extracted, ...] | None:
        """The texts of each extraction, in order; None when they are over a limit, as a part of them would mislead."""
        extractions = self.interaction.extractions or ()
        raws: list[str] = []
        sizes = []
        for extraction in extractions:
            found = parts(extraction.value, _MOST_PARTS - len(raws))
            if found is None:
                return None
            sizes.append(len(found))
            raws += *found, extraction.evidence or ""
        texts = self._texts(raws, self._left(*_TEXTS))
        if any(text.cut for text in texts):
            return None
        rest = iter(texts)
        return tuple(Extracted(tuple(islice(rest, size)), next(rest)) for size in sizes)

    def _left(self, *before: str) -> int:
        """Return the tokens of the event that these fields leave; a list that was cut is not read and takes none."""
        left = self.limits.max_event_tokens
        for name in before:
            with suppress(ListCut):
                texts = getattr(self, name)
                left -= sum(map(len, texts)) if isinstance(texts, tuple) else len(texts)
        return left

    def _texts(self, raws: Iterable[str], left: int) -> tuple[Text, ...]:
        """Texts that have at most `left` tokens together; the first ones get theirs first."""
        texts = []
        for raw in raws:
            texts.append(Text(raw, max(min(left, self.limits.max_tokens), 0)))
            left -= len(texts[-1])
        return tuple(texts)

    @property
    def cuts(self) -> tuple[str, ...]:
        """Which limits cut the texts read so far, as flags."""
        read: dict[str, tuple[Text, ...]] = {}
        for name, texts in self.__dict__.items():
            if name in _TEXTS:
                read[name] = texts if isinstance(texts, tuple) else (texts,)
        flags = [f"{name}_cut" for name in _TEXTS if any(text.cut for text in read.get(name, ()))]
        if self._contexts > self.limits.max_contexts:
            flags.append("contexts_dropped")
        return tuple(flags)


def example(**fields: Any) -> View:
    """A view of an interaction with these fields, for examples and tests; what is required and not given is empty.

    >>> example(response="Yes.").response.tokens
    ['yes']
    """
    return View(Interaction.model_validate({"event_id": "example", "query": "", "response": ""} | fields))
