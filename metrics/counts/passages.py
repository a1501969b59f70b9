"""Counts per passage, which is a distinct context: terms of the query, repeated words, use in the response."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from ragweir.metrics.counts.support import SupportCounts
from ragweir.metrics.lazy import lazy
from ragweir.metrics.text.text import Text


class PassageCounts(SupportCounts):
    """Counts with one element per passage, best rank first (`Texts.passages`), and the number of the query's terms."""

    @lazy
    def _passages(self) -> tuple[Text, ...]:
        contexts = self.texts.contexts
        return tuple([contexts[place] for place in self.texts.passages])

    @lazy
    def passage_tokens(self) -> tuple[int, ...]:
        """Tokens of each passage."""
        return tuple([len(passage.tokens) for passage in self._passages])

    @lazy
    def passage_content(self) -> tuple[int, ...]:
        """Content tokens of each passage."""
        return tuple([len(passage.content) for passage in self._passages])

    @lazy
    def passage_distinct(self) -> tuple[int, ...]:
        """Distinct content tokens of each passage."""
        return tuple([len(passage.content_set) for passage in self._passages])

    @lazy
    def passage_repeated(self) -> tuple[int, ...]:
        """Distinct content tokens of each passage that occur in an earlier one."""
        seen: set[str] = set()
        repeated = []
        for passage in self._passages:
            repeated.append(len(passage.content_set & seen))
            seen |= passage.content_set
        return tuple(repeated)

    @lazy
    def query_terms(self) -> int:
        """Distinct content tokens of the query."""
        return len(self.texts.query.content_set)

    @lazy
    def _found_terms(self) -> list[list[tuple[int, int]]]:
        """The terms of the query in each passage with their occurrences, in ascending order of the terms."""
        terms = {token: term for term, token in enumerate(dict.fromkeys(self.texts.query.content))}
        having = terms.__contains__
        found = (Counter(filter(having, passage.content)) for passage in self._passages)
        return [sorted((terms[token], count) for token, count in each.items()) for each in found]

    @lazy
    def passage_terms(self) -> tuple[tuple[int, ...], ...]:
        """The distinct terms of the query in each passage, in ascending order.

        A term is the index of a distinct content token of the query in their order of first occurrence.
        """
        return tuple([tuple([term for term, _ in found]) for found in self._found_terms])

    @lazy
    def passage_occurrences(self) -> tuple[tuple[int, ...], ...]:
        """The number of occurrences of each of `passage_terms` in its passage."""
        return tuple([tuple([count for _, count in found]) for found in self._found_terms])

    @lazy
    def term_passages(self) -> tuple[int, ...]:
        """The number of passages that have each term of the query."""
        having = Counter(chain.from_iterable(self.passage_terms))
        return tuple([having[term] for term in range(self.query_terms)])

    @lazy
    def passage_used(self) -> tuple[bool, ...]:
        """True for each passage that the response drew on.

        A sentence of the response draws on a passage that has at least half of the sentence's distinct stems, and no
        fewer of them than any other passage.
        """
        having: dict[str, list[int]] = {stem: [] for stem in self.texts.response.stems}
        for place, passage in enumerate(self._passages):
            for stem in passage.stems & having.keys():
                having[stem].append(place)
        used: set[int] = set()
        for sentence in self._sentences:
            # Only passages that share a stem are counted, so that the time is not sentences x passages.
            shares = Counter(chain.from_iterable(map(having.__getitem__, sentence)))
            best = max(shares.values(), default=0)
            if 2 * best >= len(sentence):
                used.update(place for place, share in shares.items() if share == best)
        return tuple([place in used for place in range(len(self._passages))])
