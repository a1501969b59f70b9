"""Sizes of the texts, and the ones that a limit cut."""

from __future__ import annotations

from ragweir.metrics.counts.text_counts import TextCounts
from ragweir.metrics.lazy import lazy


class SizeCounts(TextCounts):
    """Numbers of tokens, which are words, numbers, dates, times, identifiers and character pairs."""

    @lazy
    def query_tokens(self) -> int:
        """Tokens of the query."""
        return len(self.texts.query)

    @lazy
    def response_tokens(self) -> int:
        """Tokens of the response."""
        return len(self.texts.response)

    @lazy
    def expected_tokens(self) -> int:
        """Tokens of all expected answers together."""
        return sum(map(len, self.texts.expected))

    @lazy
    def context_tokens(self) -> int:
        """Tokens of all contexts together."""
        return sum(map(len, self.texts.contexts))

    @lazy
    def query_cut(self) -> bool:
        """True if the query was cut at a limit."""
        return self.texts.query.cut

    @lazy
    def response_cut(self) -> bool:
        """True if the response was cut at a limit."""
        return self.texts.response.cut

    @lazy
    def expected_cut(self) -> bool:
        """True if an expected answer was cut at a limit."""
        return any(text.cut for text in self.texts.expected)

    @lazy
    def contexts_cut(self) -> bool:
        """True if one of the first `max_contexts` contexts was cut at a limit."""
        return any(text.cut for text in self.texts.contexts)
