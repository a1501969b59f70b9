"""Counts of the response's wording: refusals, hedges, references to sources, citation marks, scripts."""

from __future__ import annotations

from ragweir.metrics.counts.text_counts import TextCounts
from ragweir.metrics.lazy import lazy
from ragweir.metrics.text.phrases import Phrase, Phrases, phrase
from ragweir.metrics.text.refusal import declines


def _phrases(text: str) -> frozenset[Phrase]:
    """Return the phrases of a list in which underscores stand for spaces."""
    return frozenset(phrase(each.replace("_", " ")) for each in text.split())


DONT_KNOW = _phrases(
    """
    I_don't_know I_do_not_know unknown not_sure cannot_determine no_information insufficient_data unable_to_answer
    cannot_answer don't_have_enough_information not_available no_data
    """
)
"""The GraphRAG metrics guide's phrases of answers that do not know."""

NON_ANSWERS = _phrases("unknown n/a none null")
"""Words that are the whole of an answer."""

NON_ANSWER_CHARACTERS = 10
"""Number of characters below which an answer with such a word is a non-answer."""

HEDGES = _phrases(
    """
    may might could perhaps maybe possibly probably presumably supposedly apparently arguably seemingly potentially
    conceivably reportedly allegedly plausibly likely unlikely seem seems seemed appears_to appear_to appeared_to
    suggest suggests suggested I_think I_believe I_guess I_assume I_suppose I_suspect in_my_opinion as_far_as_I_know
    to_my_knowledge not_sure not_certain unsure uncertain it_is_possible it's_possible to_some_extent tend_to tends_to
    """
)
"""Hedging words and phrases."""

INDICATORS = {phrase(each): each for each in ("according to", "based on", "from")} | {
    phrase(word + ending): word for word in ("source", "table", "page", "document", "pdf") for ending in ("", "s")
}
"""Indicators of a reference to a source, by their forms."""

_DONT_KNOW, _NON_ANSWERS, _HEDGES = Phrases(DONT_KNOW), Phrases(NON_ANSWERS), Phrases(HEDGES)
_INDICATORS = Phrases(INDICATORS)


class WordingCounts(TextCounts):
    """Counts and signs of the response alone, and the scripts of query and response."""

    @lazy
    def dont_know(self) -> bool:
        """True if one of `DONT_KNOW` occurs in the response."""
        return _DONT_KNOW.occur_in(self.texts.response)

    @lazy
    def non_answer(self) -> bool:
        """True if the response has under `NON_ANSWER_CHARACTERS` without white space at its ends, and a `NON_ANSWERS`.

        The length is that of the text in NFC, cut at the limit.
        """
        response = self.texts.response
        return len(response.text.strip()) < NON_ANSWER_CHARACTERS and _NON_ANSWERS.occur_in(response)

    @lazy
    def declines(self) -> bool:
        """True if the response declines to answer (`ragweir.metrics.text.refusal`).

        It has a meaning only with `response_supported`.
        """
        return declines(self.texts.response)

    @lazy
    def hedges(self) -> int:
        """Occurrences of `HEDGES` in the response, without the month of May.

        A phrase within another one counts too. "May" is the month if its first letter alone is a capital.
        """
        response = self.texts.response
        found = sum(1 for _ in _HEDGES.occurrences(response))
        if "may" not in response.distinct or "May" not in response.text:
            return found
        text = response.text
        return found - sum(
            word == "may" and text[start] == "M" and text[end - 1] == "y"
            for word, (start, end) in zip(response.tokens, response.spans, strict=True)
        )

    @lazy
    def source_indicators(self) -> int:
        """Distinct indicators of `INDICATORS` in the response."""
        return len({INDICATORS[form] for form in _INDICATORS.occurrences(self.texts.response)})

    @lazy
    def citations(self) -> tuple[int, ...]:
        """The numbers of the response's citation marks in order: [1, 2] and [1][2] alike."""
        return self.texts.response.citations

    @lazy
    def query_script(self) -> str | None:
        """The script of most of the query's letters; None without letters of a known script."""
        return self.texts.query.script

    @lazy
    def response_script(self) -> str | None:
        """The script of most of the response's letters; None without letters of a known script."""
        return self.texts.response.script
