"""Counts per expected answer: what the response has of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from ragweir.metrics.counts.support import SupportCounts
from ragweir.metrics.lazy import lazy
from ragweir.metrics.text.phrases import Phrase, Phrases
from ragweir.metrics.text.text import Text
from ragweir.metrics.text.tokens import fold

LCS_TOKENS = 4_096
"""Maximum number of tokens of either text that the longest common subsequence reads.

Its time grows with the product of the lengths: some milliseconds at this length, over a hundred at 20,000 tokens."""

_MIN_KEYWORD_LETTERS = 4


def _spaced(text: Text) -> str:
    return " ".join(text.text.split())


def _keywords(text: Text) -> tuple[set[str], list[Phrase]]:
    """Return the text's keywords: single tokens, and phrases of several."""
    kinds, phrases = dict(zip(text.tokens, text.kinds, strict=True)), text.phrases
    tokens = {token for token in text.content_set if len(token) >= _MIN_KEYWORD_LETTERS or kinds[token] != "W"}
    tokens.update(each[0] for each in phrases if len(each) == 1)
    return tokens, [each for each in phrases if len(each) > 1]


class _Sequence:
    """A sequence of tokens with which others are compared.

    Hyyrö, Bit-parallel LCS-length computation revisited (2004): the rows of the table are the bits of an integer. Time
    len(sequence) x len(other) / 30, as Python's integers have digits of 30 bits, and at least len(other).

    >>> _Sequence("abcde").common("xbxdx")
    2
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self._full = (1 << len(tokens)) - 1
        self._length = len(tokens)
        self._places: dict[str, int] = {}
        for place, token in enumerate(tokens):
            self._places[token] = self._places.get(token, 0) | 1 << place

    def common(self, other: Sequence[str]) -> int:
        """Return the length of the longest common subsequence."""
        full, places = self._full, self._places
        row = full
        for token in other:
            if token in places:
                matches = row & places[token]
                row = (row + matches | row - matches) & full
        return self._length - row.bit_count()


class AnswerCounts(SupportCounts):
    """Counts with one element per expected answer, in their order."""

    @lazy
    def answer_tokens(self) -> tuple[int, ...]:
        """Tokens of each expected answer."""
        return tuple([len(answer.tokens) for answer in self.texts.expected])

    @lazy
    def answer_exact(self) -> tuple[bool, ...]:
        """True for each expected answer that equals the response.

        They are equal after folding (case, apostrophes, hyphens, minus signs), with each run of white space as one
        space and none at the ends. The texts are those in NFC, cut at the limit.
        """
        response = _spaced(self.texts.response)
        # Folding keeps the length, so that answers of another length need none; the response is folded once.
        answers = [answer if len(answer) == len(response) else None for answer in map(_spaced, self.texts.expected)]
        folded = fold(response) if any(answers) else response
        return tuple([answer is not None and fold(answer) == folded for answer in answers])

    @lazy
    def _answer_keywords(self) -> list[tuple[set[str], list[Phrase]]]:
        return [_keywords(answer) for answer in self.texts.expected]

    @lazy
    def answer_keywords(self) -> tuple[int, ...]:
        """Distinct keywords of each expected answer.

        Keywords are capitalised phrases (`Text.phrases`) of one token or several, and content tokens that are no words
        or have at least four code points. A token that occurs with several kinds has the kind of its last occurrence.
        """
        return tuple([len(tokens) + len(phrases) for tokens, phrases in self._answer_keywords])

    @lazy
    def answer_keywords_found(self) -> tuple[int, ...]:
        """Distinct keywords of each expected answer that the response has; phrases of several tokens as a run."""
        response, pairs = self.texts.response, self.pairs
        # Pairs decide phrases of two, and exclude most longer ones; the automaton is only built for the rest.
        possible = [
            [each for each in phrases if pairs.issuperset(pairwise(each))] for _, phrases in self._answer_keywords
        ]
        longer = Phrases(each for phrases in possible for each in phrases if len(each) > 2).found_in((response,))
        return tuple(
            [
                len(tokens & response.distinct) + sum(len(each) == 2 or each in longer for each in phrases)
                for (tokens, _), phrases in zip(self._answer_keywords, possible, strict=True)
            ]
        )

    @lazy
    def answer_numbers(self) -> tuple[int, ...]:
        """Distinct numbers of each expected answer, by value."""
        return tuple([len(answer.numbers) for answer in self.texts.expected])

    @lazy
    def answer_numbers_found(self) -> tuple[int, ...]:
        """Distinct numbers of each expected answer that the response has."""
        found = self.texts.response.numbers
        return tuple([len(answer.numbers & found) for answer in self.texts.expected])

    @lazy
    def answer_common(self) -> tuple[int, ...]:
        """Tokens that the response and each expected answer have in common, each as often as both have it."""
        response = Counter(self.texts.response.tokens)
        common = []
        for answer in self.texts.expected:
            tokens = Counter(answer.tokens)
            common.append(sum([min(response[token], tokens[token]) for token in response.keys() & tokens.keys()]))
        return tuple(common)

    @lazy
    def answer_subsequence(self) -> tuple[int, ...]:
        """Length of the longest common subsequence of the response's and each expected answer's first `LCS_TOKENS`."""
        response = _Sequence(self.texts.response.tokens[:LCS_TOKENS])
        return tuple([response.common(answer.tokens[:LCS_TOKENS]) for answer in self.texts.expected])
