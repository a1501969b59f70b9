"""The texts of one event for a terminal, and the evidence: the sentences of its answer with words in no passage."""

from __future__ import annotations

from dataclasses import dataclass

from rich.padding import Padding
from rich.text import Text

from ragweir.metrics.support_spans import SentenceSpan
from ragweir.metrics.view import TextLimits
from ragweir.schemas.interaction import Context, Interaction
from ragweir.streams.analysis.evidence import (
    MAX_PASSAGE,
    MAX_PASSAGES,
    MAX_SENTENCE,
    MAX_SENTENCES,
    MAX_TEXT,
    cut,
    evidence_of,
    unsupported,
)
from ragweir.streams.analysis.originals import Original
from ragweir.streams.runtime.text.terminal import Terminal, printable


@dataclass(frozen=True, slots=True)
class TextScreen:
    """Prints the texts of events, and their evidence. Its lines are indented, and a text has none of its own beside.

    Args:
        terminal: the console to print on.
        limits: the limits on texts by which metrics read them.
        text: true to show the texts.
        evidence: true to show the evidence.
    """

    terminal: Terminal
    limits: TextLimits
    text: bool = True
    evidence: bool = True

    def show(self, original: Original) -> None:
        """Print what is asked for of an event that was read again, or why it could not be read."""
        if (event := original.interaction) is None:
            self.terminal.say(f"\nThe text is not shown: {printable(original.why, None)}")
            return
        if self.text:
            self._texts(event)
        if self.evidence:
            self._evidence(event)

    def _texts(self, event: Interaction) -> None:
        say = self.terminal.say
        say("\nText", "bold underline")
        for name, value in (("question", event.query), ("answer", event.response)):
            say(f"  {name}", "bold")
            self._indented("(not captured)" if value is None else cut(value, MAX_TEXT) or "(empty)")
        contexts = event.contexts
        say("  passages" if contexts else "  no passages", "bold")
        for number, context in enumerate((contexts or ())[:MAX_PASSAGES], 1):
            say(f"    {number}{_named(context)}", "dim")
            self._indented("(not captured)" if context.text is None else cut(context.text, MAX_PASSAGE))
        if contexts and len(contexts) > MAX_PASSAGES:
            say(f"    and {len(contexts) - MAX_PASSAGES} more")

    def _evidence(self, event: Interaction) -> None:
        say, found = self.terminal.say, evidence_of(event, self.limits)
        say("\nEvidence", "bold underline")
        if (spans := found.spans) is None:
            say(f"  none: {found.why}")
            return
        weakest = spans.weakest
        if not weakest:
            say("  every content word of the answer occurs in a passage")
            return
        lacking = f"{len(weakest)} of {len(spans.sentences)} sentences have words in no passage"
        say(f"  {lacking}, the weakest first")
        for sentence in weakest[:MAX_SENTENCES]:
            self._sentence(sentence, spans.text, event.contexts or ())
        if len(weakest) > MAX_SENTENCES:
            say(f"  and {len(weakest) - MAX_SENTENCES} more")

    def _sentence(self, sentence: SentenceSpan, text: str, contexts: tuple[Context, ...]) -> None:
        self._indented(cut(text[sentence.start : sentence.stop], MAX_SENTENCE), "bold", 2)
        own, asked = unsupported(sentence.unsupported, text)
        for what, words in (("in no passage", own), ("in the question alone", asked)):
            if words:
                self._indented(f"{what}: {', '.join(words)}", "yellow")
        if sentence.passage is None:
            self._indented("no passage shares a word with it", "dim")
        else:
            nearest = cut(contexts[sentence.passage].text or "", MAX_SENTENCE)
            self._indented(f"nearest passage, {sentence.passage + 1}: {nearest}", "dim")

    def _indented(self, text: str, style: str = "", left: int = 6) -> None:
        self.terminal.print(Padding(Text(text, style), (0, 0, 0, left)))


def _named(context: Context) -> str:
    name = context.document_id or context.chunk_id
    return "" if name is None else f"  {printable(name, 100)}"
