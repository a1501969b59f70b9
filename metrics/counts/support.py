"""Counts of the response's words, runs of tokens, values, names and sentences that occur in the contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise
from typing import TypeVar

from ragweir.metrics.counts.text_counts import TextCounts
from ragweir.metrics.lazy import lazy
from ragweir.metrics.text.phrases import Phrases

Tokens = tuple[str, ...]
T = TypeVar("T", str, Tokens)


def _triplewise(tokens: list[str]) -> Iterator[Tokens]:
    return zip(tokens, tokens[1:], tokens[2:], strict=False)


class SupportCounts(TextCounts):
    """Numbers of distinct elements of the response, and of those of them that occur in any context.

    Stems are the first five code points of content words (`Text.stems`). Contexts are those that the limits admit.
    """

    def _supported(self, wanted: set[T], read: Callable[[list[str]], Iterable[T]]) -> set[T]:
        """Return the wanted elements that are read in some context."""
        if not wanted:
            return wanted
        # Intersecting an iterator with the few wanted ones needs no large set of a context's elements.
        return wanted.intersection(chain.from_iterable(read(text.tokens) for text in self.texts.contexts))

    # Stems -----------------------------------------------------------------------------------------------------------

    @lazy
    def known_stems(self) -> frozenset[str]:
        """The distinct stems of all contexts. It is no count: only explanations read it."""
        return frozenset().union(*(text.stems for text in self.texts.contexts))

    @lazy
    def response_stems(self) -> int:
        """Distinct stems of the response."""
        return len(self.texts.response.stems)

    @lazy
    def context_stems(self) -> int:
        """Distinct stems of all contexts together."""
        return len(self.known_stems)

    @lazy
    def supported_stems(self) -> int:
        """Distinct stems of the response that occur in a context."""
        return len(self.texts.response.stems & self.known_stems)

    @lazy
    def unsupported_stems(self) -> int:
        """Distinct stems of the response that occur in neither the contexts nor the query."""
        return len(self.texts.response.stems - self.known_stems - self.texts.query.stems)

    @lazy
    def query_stems(self) -> int:
        """Distinct stems of the query."""
        return len(self.texts.query.stems)

    @lazy
    def covered_query_stems(self) -> int:
        """Distinct stems of the query that occur in a context."""
        return len(self.texts.query.stems & self.known_stems)

    # Runs of tokens --------------------------------------------------------------------------------------------------

    @lazy
    def pairs(self) -> set[Tokens]:
        """The response's distinct pairs of neighbouring tokens. It is no count."""
        return set(pairwise(self.texts.response.tokens))

    @lazy
    def _known_pairs(self) -> set[Tokens]:
        return self._supported(self.pairs, pairwise)

    @lazy
    def response_pairs(self) -> int:
        """Distinct pairs of neighbouring tokens of the response, stop words included."""
        return len(self.pairs)

    @lazy
    def supported_pairs(self) -> int:
        """Distinct pairs of the response that are neighbours in a context."""
        return len(self._known_pairs)

    @lazy
    def _triples(self) -> set[Tokens]:
        return set(_triplewise(self.texts.response.tokens))

    @lazy
    def response_triples(self) -> int:
        """Distinct runs of three tokens of the response."""
        return len(self._triples)

    @lazy
    def supported_triples(self) -> int:
        """Distinct triples of the response that occur in a context."""
        return len(self._supported(self._triples, _triplewise))

    # Values ----------------------------------------------------------------------------------------------------------

    @lazy
    def _moments(self) -> frozenset[str]:
        return self.texts.response.dates | self.texts.response.times

    @lazy
    def known_values(self) -> set[str]:
        """The response's numbers, dates and times that occur in a context. It is no count: only explanations read it.

        The canonical forms of numbers, dates and times differ from each other and from all other tokens.
        """
        return self._supported({*self.texts.response.numbers, *self._moments}, iter)

    @lazy
    def response_numbers(self) -> int:
        """Distinct numbers of the response, by value; digits in dates, times and identifiers are none."""
        return len(self.texts.response.numbers)

    @lazy
    def supported_numbers(self) -> int:
        """Distinct numbers of the response that occur in a context."""
        return len(self.texts.response.numbers & self.known_values)

    @lazy
    def response_moments(self) -> int:
        """Distinct dates and clock times of the response, in any notation."""
        return len(self._moments)

    @lazy
    def supported_moments(self) -> int:
        """Distinct dates and clock times of the response that occur in a context."""
        return len(self._moments & self.known_values)

    # Names -----------------------------------------------------------------------------------------------------------

    @lazy
    def response_phrases(self) -> int:
        """Distinct capitalised phrases of the response (`Text.phrases`)."""
        return len(self.texts.response.phrases)

    @lazy
    def supported_phrases(self) -> int:
        """Distinct capitalised phrases of the response that occur in a context as a run of tokens, whatever the case.

        A phrase does not run from one context into the next.
        """
        phrases = self.texts.response.phrases
        if not phrases:
            return 0
        words = {phrase[0] for phrase in phrases if len(phrase) == 1}
        # The pairs are known already; they decide runs of two and exclude most longer ones.
        runs = [phrase for phrase in phrases if len(phrase) > 1 and self._known_pairs.issuperset(pairwise(phrase))]
        longer = Phrases(run for run in runs if len(run) > 2).found_in(self.texts.contexts)
        return len(self._supported(words, iter)) + sum(len(run) == 2 for run in runs) + len(longer)

    # Sentences -------------------------------------------------------------------------------------------------------

    @lazy
    def _sentences(self) -> list[frozenset[str]]:
        return [stems for stems in self.texts.response.sentence_stems if stems]

    @lazy
    def content_sentences(self) -> int:
        """Sentences of the response that have stems."""
        return len(self._sentences)

    @lazy
    def weak_sentences(self) -> int:
        """Sentences of the response with under half of their distinct stems in the contexts."""
        known = self.known_stems
        return sum(2 * len(stems & known) < len(stems) for stems in self._sentences)
