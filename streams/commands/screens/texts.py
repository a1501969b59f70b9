"""The texts of one event for a terminal, and the evidence: the sentences of its answer with words in no passage."""

from __future__ import annotations

from dataclasses import dataclass

from rich.padding import Padding
from rich.text import Text

from ragweir.schemas.interaction import Context, Interaction
from ragweir.streams.analysis.evidence.answer_evidence import AnswerEvidence, AnswerTexts
from ragweir.streams.analysis.evidence.answer_sentences import ShownSentence
from ragweir.streams.analysis.evidence.support_evidence import (
    MAX_PASSAGE,
    MAX_PASSAGES,
    MAX_SENTENCE,
    MAX_SENTENCES,
    MAX_TEXT,
    cut,
)
from ragweir.streams.runtime.text.terminal import Terminal, printable


@dataclass(frozen=True, slots=True)
class TextScreen:
    """Prints the texts of events, and their evidence. Its lines are indented, and a text has none of its own beside.

    Args:
        terminal: the console to print on.
        text: true to show the texts.
        evidence: true to show the evidence.
    """

    terminal: Terminal
    text: bool = True
    evidence: bool = True

    def show(self, found: AnswerEvidence) -> None:
        """Print what is asked for of an event that was read again, or why it could not be read."""
        if (texts := found.texts) is None:
            self.terminal.say(f"\nThe text is not shown: {printable(found.why, None)}")
            return
        if self.text:
            self._texts(texts.event)
        if self.evidence:
            self._evidence(texts)

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

    def _evidence(self, texts: AnswerTexts) -> None:
        say = self.terminal.say
        say("\nEvidence", "bold underline")
        if texts.support.spans is None:
            say(f"  none: {texts.support.why}")
            return
        weakest = texts.weakest
        if not weakest:
            say("  every content word of the answer occurs in a passage")
            return
        lacking = f"{len(weakest)} of {len(texts.sentences)} sentences have words in no passage"
        say(f"  {lacking}, the weakest first")
        for sentence in weakest[:MAX_SENTENCES]:
            self._sentence(sentence, texts.event.contexts or ())
        if len(weakest) > MAX_SENTENCES:
            say(f"  and {len(weakest) - MAX_SENTENCES} more")

    def _sentence(self, sentence: ShownSentence, contexts: tuple[Context, ...]) -> None:
        self._indented(cut(sentence.text, MAX_SENTENCE), "bold", 2)
        for what, words in (
            ("in no passage", sentence.in_no_passage),
            ("in the question alone", sentence.in_query_alone),
        ):
            if words:
                self._indented(f"{what}: {', '.join(words)}", "yellow")
        if sentence.passage is None:
            self._indented("no passage shares a word with it", "dim")
        else:
            nearest = cut(contexts[sentence.passage - 1].text or "", MAX_SENTENCE)
            self._indented(f"nearest passage, {sentence.passage}: {nearest}", "dim")
        if sentence.instead:
            self._indented(f"which has {', '.join(sentence.instead)} and not {', '.join(sentence.differing)}", "yellow")
        if sentence.cited:
            self._indented(f"cites passage {', '.join(map(str, sentence.cited))}", "dim")

    def _indented(self, text: str, style: str = "", left: int = 6) -> None:
        self.terminal.print(Padding(Text(text, style), (0, 0, 0, left)))


def _named(context: Context) -> str:
    name = context.document_id or context.chunk_id
    return "" if name is None else f"  {printable(name, 100)}"
