"""The view of one event that metrics read: its fields, its texts, tokenised once, and what is counted in them."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ragweir.metrics.counts import Counts
from ragweir.metrics.lazy import lazy
from ragweir.metrics.text.text import Text
from ragweir.metrics.texts import TextLimits, TokenisedTexts
from ragweir.metrics.unavailable import Unavailable, absent_contents, guard_fields, unavailable_fields
from ragweir.metrics.values import leaves
from ragweir.schemas.interaction import Interaction

__all__ = ["Counting", "Extracted", "TextLimits", "View", "example", "reference"]

_TEXTS = ("query", "response", "contexts", "expected")
_TOKENS = ("query_tokens", "response_tokens", "context_tokens", "expected_tokens")
_LIMITS = TextLimits()
_MAX_LEAVES = 4_096
"""Maximum number of texts and numbers in the extractions of one event."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """The texts of one extraction."""

    value: tuple[Text, ...]
    """The texts and numbers in its value."""
    evidence: Text


def reference(view: "View") -> Counts:
    """Return the counts of a view by the reference; see `View.reference`."""
    return view.reference


Counting = Callable[["View"], Counts]
"""A way to count. It is not called for an event of which a field is unavailable."""


class View:
    """An interaction with texts that are tokenised once, on first access.

    Args:
        interaction: the event.
        limits: limits on its texts.
        counting: the way to count in the texts; all ways give the same numbers.
    """

    def __init__(self, interaction: Interaction, limits: TextLimits = _LIMITS, counting: Counting = reference) -> None:
        self.absent = absent_contents(interaction)
        """The fields whose content was not captured."""
        self.interaction = guard_fields(interaction, unavailable_fields(interaction, self.absent))
        """The event. Reading a list that was cut, or content that was not captured, raises
        `ragweir.metrics.unavailable.Unavailable`."""
        self.is_guarded = self.interaction is not interaction
        """True if a field of the event is unavailable."""
        self.limits = limits
        self.texts = TokenisedTexts(self.interaction, limits)
        """The texts, of which `query`, `response`, `expected` and `contexts` are shortcuts."""
        self._counting = reference if self.is_guarded else counting
        self._contexts = len(interaction.contexts or ())
        self.memo: dict[Callable[..., Any], Any] = {}
        """Results that metrics share; see `ragweir.metrics.metric.shared`."""

    @property
    def query(self) -> Text:
        """The query."""
        return self.texts.query

    @property
    def response(self) -> Text:
        """The response."""
        return self.texts.response

    @property
    def expected(self) -> tuple[Text, ...]:
        """The expected answers."""
        return self.texts.expected

    @property
    def contexts(self) -> tuple[Text, ...]:
        """The retrieved contexts in their order."""
        return self.texts.contexts

    @lazy
    def reference(self) -> Counts:
        """The counts by the reference, with the sets behind them."""
        return Counts(self.texts)

    @lazy
    def counts(self) -> Counts:
        """The counts in the event's texts; only those of `ragweir.metrics.counts.NAMES` are sure to be there."""
        return self._counting(self)

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
        left = self.limits.max_event_tokens
        for name in _TOKENS:
            with suppress(Unavailable):
                left -= getattr(self.counts, name)
        texts = self.texts.read(raws, left)
        if any(text.cut for text in texts):
            return None
        rest = iter(texts)
        return tuple(Extracted(tuple(islice(rest, size)), next(rest)) for size in sizes)

    @property
    def cuts(self) -> tuple[str, ...]:
        """The flags of the texts that a limit cuts, and of contexts beyond `max_contexts`.

        They are the same for all metrics; texts that no metric reads are tokenised where their length leaves it open.
        """
        flags = []
        if not self.texts.fit:
            for name in _TEXTS:
                with suppress(Unavailable):
                    if getattr(self.counts, f"{name}_cut"):
                        flags.append(f"{name}_cut")
        if self._contexts > self.limits.max_contexts:
            flags.append("contexts_dropped")
        return tuple(flags)


def example(**fields: Any) -> View:
    """Return a view of an interaction with these fields, for examples and tests; other required ones are empty.

    >>> example(response="Yes.").response.tokens
    ['yes']
    """
    return View(Interaction.model_validate({"event_id": "example", "query": "", "response": ""} | fields))
