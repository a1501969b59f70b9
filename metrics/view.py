"""One event as the metrics read it: its fields, and its texts tokenised once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from metrics.lazy import lazy
from metrics.list_cut import cut_fields, withhold
from metrics.text import Text
from schemas.interaction import Interaction

_TEXTS = ("query", "response", "contexts", "expected")


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the work on one event."""

    max_tokens: int = 20_000
    """Longer texts are cut at this many tokens."""
    max_contexts: int = 64
    """Contexts beyond this many are left out."""
    span_tolerance_ms: int = 1_000
    """How far a span may lie outside its interaction before it is not believed."""


class View:
    """An interaction with lazily tokenised texts. Each text is walked once, however many metrics read it."""

    def __init__(self, interaction: Interaction, limits: Limits = Limits()) -> None:
        self.interaction = withhold(interaction, cut_fields(interaction.flags))
        """The event. Reading a list of it that was cut raises `metrics.list_cut.ListCut`."""
        self.limits = limits
        self._contexts = len(interaction.contexts or ())
        self.memo: dict[Callable[..., Any], Any] = {}
        """What metrics share; see `metrics.metric.shared`."""

    @lazy
    def query(self) -> Text:
        """The question."""
        return Text(self.interaction.query, self.limits.max_tokens)

    @lazy
    def response(self) -> Text:
        """The answer."""
        return Text(self.interaction.response, self.limits.max_tokens)

    @lazy
    def contexts(self) -> tuple[Text, ...]:
        """The retrieved contexts in their order; empty when there are none."""
        contexts = self.interaction.contexts or ()
        return tuple(Text(context.text, self.limits.max_tokens) for context in contexts[: self.limits.max_contexts])

    @lazy
    def expected(self) -> tuple[Text, ...]:
        """The reference answers; empty when there are none."""
        return tuple(Text(answer, self.limits.max_tokens) for answer in self.interaction.expected or ())

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
