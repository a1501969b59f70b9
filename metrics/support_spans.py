"""The answer sentence by sentence: words and values that occur in no context, marks, and the passage nearest to each.

Words are compared as the grounding metrics compare them, by stems, and numbers, dates and times by value. A word
without support is no proof of an error, nor is a passage that shares words proof of the contrary; both are where a
person looks first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from ragweir.metrics.text.grammar import CITATION
from ragweir.metrics.text.text import Text
from ragweir.metrics.unavailable import Unavailable
from ragweir.metrics.view import View

_INK = re.compile(r"\S")
_TAIL = re.compile(rf"\S*+(?:\s++{CITATION.pattern}\S*+)*+")
"""The signs after the last token of a sentence, and the citation marks behind them."""
_DIGITS = re.compile("[0-9]++")
_VALUES = "NDT"
"""The kinds of tokens that are compared by value: numbers, dates and clock times."""
_MOST_STATED = 200
"""Values of a passage that are compared."""
_MOST_INSTEAD = 5


@dataclass(frozen=True, slots=True)
class CitationSpan:
    """A citation mark of the answer, such as [1] or [2, 3]."""

    start: int
    stop: int
    """Its place in the text of the answer."""
    numbers: tuple[int, ...]
    """The numbers in it, which count contexts from 1."""


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """A number, date or clock time."""

    start: int
    stop: int
    """Its place in its text."""
    token: str
    """Its canonical token, which equal values share."""
    kind: str
    """N for a number, D for a date, T for a clock time."""


@dataclass(frozen=True, slots=True)
class WordSpan:
    """A content word of the answer that occurs in no context."""

    start: int
    stop: int
    """Its place in the text of the answer."""
    token: str
    stem: str
    """Its canonical token and its stem, as metrics compare them."""
    in_query: bool
    """True if the question has it."""


@dataclass(frozen=True, slots=True)
class SentenceSpan:
    """A sentence of the answer."""

    start: int
    stop: int
    """Its place in the text of the answer."""
    stems: int
    """Number of its distinct content stems."""
    supported: int
    """Number of those that occur in a context."""
    unsupported: tuple[WordSpan, ...]
    """Its content words that occur in no context, in order; a word that repeats is there each time."""
    passage: int | None
    """Place in `contexts` of the one with the most of its stems, the best rank of equal ones; None if none has any."""
    values: tuple[ValueSpan, ...] = ()
    """Its numbers, dates and times whose value occurs in no context, in order."""
    instead: tuple[str, ...] = ()
    """The values of the same kinds that `passage` has and the answer has not, as they are written; at most five."""

    @property
    def is_weak(self) -> bool:
        """True if less than half of its stems occur in the contexts, as `unsupported_sentences` counts."""
        return 2 * self.supported < self.stems


@dataclass(frozen=True, slots=True)
class SupportSpans:
    """The support of an answer."""

    text: str
    """The answer, as the metrics read it: in NFC, and cut at their limit."""
    sentences: tuple[SentenceSpan, ...]
    """Its sentences that have tokens, in order."""
    citations: tuple[CitationSpan, ...] = ()
    """Its citation marks, in order."""

    @property
    def weakest(self) -> tuple[SentenceSpan, ...]:
        """The sentences with words that occur in no context, the largest share of such stems first."""
        lacking = [each for each in self.sentences if each.unsupported]
        return tuple(sorted(lacking, key=lambda each: (each.supported / each.stems, -each.stems)))


def support_spans(view: View) -> SupportSpans | None:
    """Return the support of the answer by the contexts; None without `contexts`.

    `context_support`, `unsupported_words`, `unsupported_sentences`, `number_support`, `date_support` and
    `citation_count` follow from it. Time is linear in the length of the texts, times the number of contexts at most.

    >>> from ragweir.metrics.view import example
    >>> spans = support_spans(example(contexts=[{"text": "Call us."}, {"text": "Returns take 30 days."}],
    ...                               response="Call us. Returns take 90 days."))
    >>> [(spans.text[each.start:each.stop], each.passage) for each in spans.sentences]
    [('Call us.', 0), ('Returns take 90 days.', 1)]
    >>> [spans.text[word.start:word.stop] for word in spans.sentences[1].unsupported]
    ['90']

    Raises:
        Unavailable: if a text was not captured, or the contexts were cut.
    """
    if view.interaction.contexts is None:
        return None
    answer, known = view.response, view.reference.known_stems
    known_values = view.reference.known_values
    asked: frozenset[str] = frozenset()
    with suppress(Unavailable):
        asked = view.query.stems
    passages = [(place, view.contexts[place].stems) for place in view.texts.passages]
    stated: dict[int, tuple[ValueSpan, ...]] = {}
    sentences = []
    for (first, last), place, stems in zip(
        answer.sentences, sentence_places(answer), answer.sentence_stems, strict=True
    ):
        span = slice(first, last)
        words = zip(answer.spans[span], answer.tokens[span], answer.token_stems[span], strict=True)
        lacking = tuple(
            WordSpan(*at, token, stem, stem in asked) for at, token, stem in words if stem and stem not in known
        )
        nearest = _nearest(stems, passages)
        values = tuple(each for each in _values(answer, first, last) if each.token not in known_values)
        instead: tuple[str, ...] = ()
        if values and nearest is not None:
            passage = view.contexts[nearest]
            if nearest not in stated:
                stated[nearest] = tuple(islice(_values(passage, 0, len(passage)), _MOST_STATED))
            instead = _instead(values, stated[nearest], passage.text, answer.distinct)
        sentences.append(SentenceSpan(*place, len(stems), len(stems & known), lacking, nearest, values, instead))
    return SupportSpans(answer.text, tuple(sentences), tuple(_citations(answer.text)))


def _values(text: Text, first: int, last: int) -> Iterator[ValueSpan]:
    """Yield the numbers, dates and times of some tokens of a text."""
    span = slice(first, last)
    for place, token, kind in zip(text.spans[span], text.tokens[span], text.kinds[span], strict=True):
        if kind in _VALUES:
            yield ValueSpan(*place, token, kind)


def _nearest(stems: frozenset[str], passages: Sequence[tuple[int, frozenset[str]]]) -> int | None:
    common = [len(stems & known) for _, known in passages]
    most = max(common, default=0)
    return passages[common.index(most)][0] if most else None


def _instead(
    values: Sequence[ValueSpan], stated: Iterable[ValueSpan], passage: str, answer: frozenset[str]
) -> tuple[str, ...]:
    """Return the values that a passage states of the kinds of others, without those of the answer."""
    kinds = {value.kind for value in values}
    found = (passage[each.start : each.stop] for each in stated if each.kind in kinds and each.token not in answer)
    return tuple(islice(dict.fromkeys(found), _MOST_INSTEAD))


def _citations(text: str) -> Iterator[CitationSpan]:
    for mark in CITATION.finditer(text):
        yield CitationSpan(*mark.span(), tuple(map(int, _DIGITS.findall(mark[0]))))


def sentence_places(text: Text) -> Iterator[tuple[int, int]]:
    """Yield the start and stop of each sentence, with the signs beside it: up to the first white space between two.

    Citation marks behind it belong to it, also after white space.
    """
    raw, stop = text.text, 0
    firsts = [text.spans[first][0] for first, _ in text.sentences[1:]]
    for (_, last), following in zip(text.sentences, [*firsts, len(raw)], strict=False):
        start = _INK.search(raw, stop)
        end = _TAIL.match(raw, text.spans[last - 1][1], following)
        if start and end:  # A sentence has a token, and the end matches anything.
            stop = end.end()
            yield start.start(), stop
