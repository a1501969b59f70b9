"""The sentences of an answer with their marks, and the sentence of the nearest passage that each is compared with."""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragweir.metrics.support_spans import CitationSpan, SentenceSpan, SupportSpans, sentence_places
from ragweir.metrics.view import View
from ragweir.streams.analysis.evidence.pieces import Mark, Piece, pieces
from ragweir.streams.analysis.evidence.support_evidence import unsupported

FOLDED_FROM = 8_000
"""Characters of an answer after which sentences with support are folded."""


@dataclass(frozen=True, slots=True)
class ShownSentence:
    """A sentence of the answer."""

    span: SentenceSpan
    number: int
    """Its number, from 1."""
    text: str
    pieces: tuple[Piece, ...]
    begins_paragraph: bool
    """True if an empty line, or a line's end, is before it."""
    is_weak: bool
    """True if less than half of its stems occur in the passages."""
    in_no_passage: tuple[str, ...]
    """Its words that neither a passage nor the question has."""
    in_query_alone: tuple[str, ...]
    """Its words that the question has and no passage."""
    differing: tuple[str, ...]
    """Its numbers, dates and times that no passage has, as they are written."""
    instead: tuple[str, ...]
    """Those that the nearest passage has and the answer has not."""
    passage: int | None
    """Number of the nearest passage, from 1; None if none shares a word with it."""
    passage_sentence: int
    """Number of the sentence of that passage that shares most words with it, from 1; 0 if there is none."""
    excerpt: str
    """The text of that sentence."""
    cited: tuple[int, ...]
    """Numbers of the passages that it cites, from 1, also those that do not exist."""
    is_folded: bool
    """True if it lies behind the first 8,000 characters and has support."""

    @property
    def other_words(self) -> tuple[str, ...]:
        """Its words that neither a passage nor the question has, but for values that differ from the passage's."""
        return tuple(word for word in self.in_no_passage if not (self.instead and word in self.differing))

    @property
    def has_remarks(self) -> bool:
        """True if something of it has no support."""
        return bool(self.in_no_passage or self.in_query_alone or self.differing)


class _PassageSentences:
    """The sentences of the passages by their stems, read where they are first needed."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._having: dict[int, dict[str, list[int]]] = {}
        self._places: dict[int, list[tuple[int, int]]] = {}

    def nearest(self, passage: int, stems: frozenset[str]) -> int | None:
        """Return the number of the sentence of a passage with most of some stems, from 0; None if none has any."""
        if passage not in self._having:
            found = self._having[passage] = defaultdict(list)
            for number, own in enumerate(self._view.contexts[passage].sentence_stems):
                for stem in own:
                    found[stem].append(number)
        having = self._having[passage]
        shares = Counter(number for stem in stems for number in having.get(stem, ()))
        return min(shares, key=lambda number: (-shares[number], number), default=None)

    def text(self, passage: int, number: int) -> str:
        """Return a sentence of a passage."""
        own = self._view.contexts[passage]
        if passage not in self._places:
            self._places[passage] = list(sentence_places(own))
        start, stop = self._places[passage][number]
        return own.text[start:stop]


def shown_sentences(view: View, spans: SupportSpans) -> Iterator[ShownSentence]:
    """Yield the sentences of an answer, in order."""
    text, passages, cited = spans.text, _PassageSentences(view), _cited(spans)
    stops = (0, *(each.stop for each in spans.sentences))
    for number, (sentence, before) in enumerate(zip(spans.sentences, stops, strict=False), 1):
        own, asked = unsupported(sentence.unsupported, text)
        differing = (text[value.start : value.stop] for value in sentence.values)
        passage, place, excerpt = sentence.passage, None, ""
        if passage is not None:
            place = passages.nearest(passage, view.response.sentence_stems[number - 1])
        if passage is not None and place is not None:
            excerpt = passages.text(passage, place)
        yield ShownSentence(
            sentence,
            number,
            text[sentence.start : sentence.stop],
            pieces(text, sentence.start, sentence.stop, _marks(sentence, cited[number])),
            number == 1 or "\n" in text[before : sentence.start],
            sentence.is_weak,
            tuple(own),
            tuple(asked),
            tuple(dict.fromkeys(differing)),
            sentence.instead,
            None if passage is None else passage + 1,
            0 if place is None else place + 1,
            excerpt,
            tuple(dict.fromkeys(each for mark in cited[number] for each in mark.numbers)),
            sentence.stop > FOLDED_FROM and not sentence.unsupported and not sentence.values,
        )


def _cited(spans: SupportSpans) -> dict[int, list[CitationSpan]]:
    """Return the citation marks by the number of their sentence, from 1."""
    starts = [each.start for each in spans.sentences]
    found: dict[int, list[CitationSpan]] = defaultdict(list)
    for mark in spans.citations:
        found[bisect(starts, mark.start)].append(mark)
    return found


def _marks(sentence: SentenceSpan, cited: Sequence[CitationSpan]) -> Iterator[Mark]:
    yield from (Mark(each.start, each.stop, "citation") for each in cited)
    values = {(each.start, each.stop) for each in sentence.values}
    yield from (Mark(start, stop, "differs") for start, stop in values)
    for word in sentence.unsupported:
        if (word.start, word.stop) not in values:
            yield Mark(word.start, word.stop, "asked" if word.in_query else "unsupported")
