"""The answer sentence by sentence: the words that occur in no context, and the passage that is nearest to each.

Words are compared as the grounding metrics compare them, by stems. A word without support is no proof of an error, nor
is a passage that shares words proof of the contrary; both are where a person looks first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ragweir.metrics.text.text import Text
from ragweir.metrics.unavailable import Unavailable
from ragweir.metrics.view import View

_INK = re.compile(r"\S")
_WHITE_OR_END = re.compile(r"\s|\Z")


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

    @property
    def weakest(self) -> tuple[SentenceSpan, ...]:
        """The sentences with words that occur in no context, the largest share of such stems first."""
        lacking = [each for each in self.sentences if each.unsupported]
        return tuple(sorted(lacking, key=lambda each: (each.supported / each.stems, -each.stems)))


def support_spans(view: View) -> SupportSpans | None:
    """Return the support of the answer by the contexts; None without `contexts`.

    `context_support`, `unsupported_words` and `unsupported_sentences` follow from it. Time is linear in the length of
    the texts, times the number of contexts at most.

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
    asked: frozenset[str] = frozenset()
    with suppress(Unavailable):
        asked = view.query.stems
    passages = [(place, view.contexts[place].stems) for place in view.texts.passages]
    sentences = []
    for (first, last), place, stems in zip(answer.sentences, _places(answer), answer.sentence_stems, strict=True):
        span = slice(first, last)
        words = zip(answer.spans[span], answer.tokens[span], answer.token_stems[span], strict=True)
        lacking = tuple(
            WordSpan(*at, token, stem, stem in asked) for at, token, stem in words if stem and stem not in known
        )
        sentences.append(SentenceSpan(*place, len(stems), len(stems & known), lacking, _nearest(stems, passages)))
    return SupportSpans(answer.text, tuple(sentences))


def _nearest(stems: frozenset[str], passages: Sequence[tuple[int, frozenset[str]]]) -> int | None:
    common = [len(stems & known) for _, known in passages]
    most = max(common, default=0)
    return passages[common.index(most)][0] if most else None


def _places(text: Text) -> Iterator[tuple[int, int]]:
    """Yield the start and stop of each sentence, with the signs beside it: up to the first white space between two."""
    raw, stop = text.text, 0
    firsts = [text.spans[first][0] for first, _ in text.sentences[1:]]
    for (_, last), following in zip(text.sentences, [*firsts, len(raw)], strict=False):
        start = _INK.search(raw, stop)
        end = _WHITE_OR_END.search(raw, text.spans[last - 1][1], following)
        if start and end:  # A sentence has a token, and the end matches anywhere.
            stop = end.start()
            yield start.start(), stop
