"""The passages of an event as a page shows them: cited ones first, then by rank, each with the words of the answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragweir.metrics.support_spans import sentence_places
from ragweir.metrics.text.text import Text
from ragweir.metrics.view import View
from ragweir.schemas.interaction import Context
from ragweir.streams.analysis.evidence.answer_sentences import FOLDED_FROM, ShownSentence
from ragweir.streams.analysis.evidence.pieces import Mark, Piece, pieces


@dataclass(frozen=True, slots=True)
class PassageSentence:
    """A sentence of a passage, with the white space before it."""

    number: int
    """Its number in the passage, from 1; 0 for what is behind the last sentence."""
    before: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage."""

    number: int
    """Its place in the event, from 1, to which citation marks refer."""
    rank: int
    """Its rank in the results, from 1."""
    context: Context
    sentences: tuple[PassageSentence, ...]
    """Its text, up to the first 8,000 characters; empty if its content was not captured."""
    rest: str
    """The text after these."""
    is_cited: bool
    """True if a citation mark of the answer refers to it."""
    nearest_to: tuple[int, ...]
    """Numbers of the sentences of the answer to which it is the nearest passage."""


def shown_passages(contexts: Sequence[Context], sentences: Sequence[ShownSentence], view: View) -> list[ShownPassage]:
    """Return the passages of an event whose answer is known, cited ones first, then by rank.

    Args:
        contexts: the contexts of the event.
        sentences: the sentences of the answer.
        view: the view of the event, all of whose texts were captured.
    """
    cited = {number for each in sentences for number in each.cited}
    nearest: dict[int, list[int]] = defaultdict(list)
    for each in sentences:
        if each.passage is not None:
            nearest[each.passage].append(each.number)
    instead = {value for each in sentences for value in each.instead}
    found = []
    for place, context in enumerate(contexts):
        number, read = place + 1, place < len(view.contexts)
        text = view.contexts[place] if read else None
        raw = context.text or ""
        shown = () if text is None else _sentences(text, view.response.stems, instead)
        rest = raw if text is None else whole(raw, text)[min(FOLDED_FROM, len(text.text)) :]
        rank = number if context.rank is None else context.rank
        found.append(
            ShownPassage(number, rank, context, tuple(shown), rest, number in cited, tuple(nearest.get(number, ())))
        )
    return sorted(found, key=lambda each: (not each.is_cited, each.rank))


def whole(raw: str, text: Text) -> str:
    """Return a text as the metrics read it, with what is behind the place where they cut it, if that is known."""
    return raw if raw.startswith(text.text) else text.text


def bare_passages(contexts: Sequence[Context]) -> list[ShownPassage]:
    """Return the passages of an event whose answer or passages were not captured, by rank."""
    found = []
    for number, context in enumerate(contexts, 1):
        raw, rank = context.text or "", number if context.rank is None else context.rank
        shown = (PassageSentence(1, "", (Piece(raw[:FOLDED_FROM]),)),) if raw else ()
        found.append(ShownPassage(number, rank, context, shown, raw[FOLDED_FROM:], is_cited=False, nearest_to=()))
    return sorted(found, key=lambda each: each.rank)


def _sentences(text: Text, answer: frozenset[str], instead: set[str]) -> Iterator[PassageSentence]:
    """Yield the sentences of a passage, with the words that the answer has and the values that it has not."""
    raw, at = text.text[:FOLDED_FROM], 0
    tokens = list(zip(text.spans, text.token_stems, strict=True))
    for number, ((start, stop), (first, last)) in enumerate(zip(sentence_places(text), text.sentences, strict=True), 1):
        if start >= len(raw):
            break
        marks = []
        for place, stem in tokens[first:last]:
            if raw[slice(*place)] in instead:
                marks.append(Mark(*place, "differs"))
            elif stem in answer:
                marks.append(Mark(*place, "shared"))
        end = min(stop, len(raw))
        yield PassageSentence(number, raw[at:start], pieces(raw, start, end, marks))
        at = end
    if at < len(raw):
        yield PassageSentence(0, raw[at:], ())
