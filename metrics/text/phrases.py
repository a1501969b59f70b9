"""Search for a set of phrases, which are runs of tokens, in a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ragweir.metrics.text.text import Text

Phrase = tuple[str, ...]


def phrase(text: str) -> Phrase:
    """Return the tokens of a short text.

    >>> phrase("I don’t know")
    ('i', "don't", 'know')
    """
    return tuple(Text(text, 100).tokens)


class Phrases:
    """A set of phrases as an automaton: one step per token of the text, for any number of phrases.

    Aho and Corasick, Efficient string matching (1975), on tokens instead of characters.

    >>> phrases = Phrases([phrase("rate change"), phrase("change"), phrase("premium")])
    >>> list(phrases.occurrences(Text("The rate change is a change.", 100)))
    [('rate', 'change'), ('change',), ('change',)]
    """

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        self._phrases = frozenset(phrases)
        self._next: list[dict[str, int]] = [{}]
        self._ends: dict[int, Phrase] = {}
        """The phrase that ends at a node."""
        for each in self._phrases:
            node = 0
            for token in each:
                following = self._next[node]
                node = following.setdefault(token, len(self._next))
                if node == len(self._next):
                    self._next.append({})
            self._ends[node] = each
        self._fallback = [0] * len(self._next)
        self._last = [0] * len(self._next)
        """The node of the longest phrase that is a suffix of a node's path; 0 for none."""
        queue = [0]
        for node in queue:
            for token, child in self._next[node].items():
                shorter = self._fallback[child] = self._step(self._fallback[node], token) if node else 0
                self._last[child] = child if child in self._ends else self._last[shorter]
                queue.append(child)

    def _step(self, node: int, token: str) -> int:
        while node and token not in self._next[node]:
            node = self._fallback[node]
        return self._next[node].get(token, 0)

    def _nodes(self, text: Text) -> Iterator[int]:
        """Yield the node of the longest phrase at each position where one ends."""
        if not any(map(text.distinct.issuperset, self._phrases)):
            return
        node = 0
        for token in text.tokens:
            node = self._step(node, token)
            if self._last[node]:
                yield self._last[node]

    def occurrences(self, text: Text) -> Iterator[Phrase]:
        """Yield each phrase as often as it occurs in a text."""
        for last in self._nodes(text):
            node = last
            while node:
                yield self._ends[node]
                node = self._last[self._fallback[node]]

    def found_in(self, texts: Iterable[Text]) -> frozenset[Phrase]:
        """Return the phrases that occur in any of the texts, in linear time even if phrases end in phrases."""
        seen: set[int] = set()
        for text in texts:
            for node in set(self._nodes(text)):
                last = node
                while last and last not in seen:
                    seen.add(last)
                    last = self._last[self._fallback[last]]
        return frozenset(map(self._ends.__getitem__, seen))

    def occur_in(self, text: Text) -> bool:
        """Return True if any of the phrases occurs in the text."""
        return next(self._nodes(text), None) is not None
