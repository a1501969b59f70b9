"""Counts of the words that query and response have in common, and of the response's claims."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from itertools import chain, filterfalse
from operator import and_

from ragweir.metrics.counts.text_counts import TextCounts
from ragweir.metrics.lazy import lazy
from ragweir.metrics.text.claims import Claim, claims
from ragweir.metrics.text.text import Text
from ragweir.metrics.text.words import STOP_WORDS

Stems = frozenset[str]


def _together(wanted: list[Stems], text: Text) -> set[Stems]:
    """Return the sets of stems that occur in full in one sentence of the text."""
    # The sentences of each stem are the bits of an integer, so that the time is not sets x sentences.
    sentences = dict.fromkeys(chain.from_iterable(wanted), 0)
    stems = frozenset(sentences)
    for number, sentence in enumerate(text.sentence_stems):
        for stem in sentence & stems:
            sentences[stem] |= 1 << number
    return {each for each in wanted if reduce(and_, map(sentences.__getitem__, each))}


class OverlapCounts(TextCounts):
    """Numbers of common words of query and response, and of claims of the response that the contexts support."""

    @lazy
    def query_distinct(self) -> int:
        """Distinct tokens of the query, stop words included."""
        return len(self.texts.query.distinct)

    @lazy
    def response_distinct(self) -> int:
        """Distinct tokens of the response, stop words included."""
        return len(self.texts.response.distinct)

    @lazy
    def common_distinct(self) -> int:
        """Distinct tokens that query and response have in common."""
        return len(self.texts.query.distinct & self.texts.response.distinct)

    # Products of occurrences, over tokens without stop words ---------------------------------------------------------

    @lazy
    def _occurrences(self) -> tuple[Counter[str], Counter[str]]:
        """The occurrences of each token without stop words, in the query and in the response."""
        query, response = self.texts.query.tokens, self.texts.response.tokens
        stops = STOP_WORDS.__contains__
        return Counter(filterfalse(stops, query)), Counter(filterfalse(stops, response))

    @lazy
    def _common(self) -> set[str]:
        query, response = self._occurrences
        return query.keys() & response.keys()

    @lazy
    def cosine_dot(self) -> int:
        """Sum, over the common tokens, of the occurrences in the query times those in the response."""
        query, response = self._occurrences
        return sum([query[token] * response[token] for token in self._common])

    @lazy
    def query_squares(self) -> int:
        """Sum of the squared occurrences of the query's tokens."""
        return sum([count * count for count in self._occurrences[0].values()])

    @lazy
    def response_squares(self) -> int:
        """Sum of the squared occurrences of the response's tokens."""
        return sum([count * count for count in self._occurrences[1].values()])

    @lazy
    def query_common_squares(self) -> int:
        """Sum of the squared occurrences in the query of the common tokens."""
        query = self._occurrences[0]
        return sum([query[token] ** 2 for token in self._common])

    @lazy
    def response_common_squares(self) -> int:
        """Sum of the squared occurrences in the response of the common tokens."""
        response = self._occurrences[1]
        return sum([response[token] ** 2 for token in self._common])

    # Keywords --------------------------------------------------------------------------------------------------------

    @lazy
    def _keywords(self) -> frozenset[str]:
        return self.texts.query.distinct - STOP_WORDS

    @lazy
    def query_keywords(self) -> int:
        """Distinct tokens of the query without stop words."""
        return len(self._keywords)

    @lazy
    def answered_keywords(self) -> int:
        """Distinct tokens of the query without stop words that occur in the response."""
        return len(self._keywords & self.texts.response.distinct)

    # Claims ----------------------------------------------------------------------------------------------------------

    @lazy
    def response_supported(self) -> bool:
        """True if the English word lists apply to the response (`Text.is_supported`)."""
        return self.texts.response.is_supported

    @lazy
    def _claims(self) -> tuple[Claim, ...]:
        return claims(self.texts.response) if self.response_supported else ()

    @lazy
    def missing_claims(self) -> tuple[Claim, ...]:
        """The response's claims whose stems no sentence of a context has in full. It is no count."""
        missing = {claim.stems for claim in self._claims}
        for text in self.texts.contexts:
            # Most texts lack a stem, and then their sentences are not needed.
            here = [stems for stems in missing if stems <= text.stems]
            if here:
                missing -= _together(here, text)
        return tuple(claim for claim in self._claims if claim.stems in missing)

    @lazy
    def response_claims(self) -> int:
        """Distinct claims of the response (`ragweir.metrics.text.claims`); 0 without `response_supported`."""
        return len(self._claims)

    @lazy
    def unsupported_claims(self) -> int:
        """Distinct claims of the response whose stems no sentence of a context has in full."""
        return len(self.missing_claims)
