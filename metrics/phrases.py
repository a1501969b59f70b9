"""Phrases, runs of tokens, looked for in a text all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from metrics.text import Text

Phrase = tuple[str, ...]


def phrase(text: str) -> Phrase:
    """The tokens of a short text.

    >>> phrase("I don’t know")
    ('i', "don't", 'know')
    """
    return tuple(Text(text, 100).tokens)


class Phrases:
    """A set of phrases as an automaton: one step per token of the text, however many phrases there are.

    Aho and Corasick, Efficient string matching (1975), on tokens instead of characters.

    >>> phrases = Phrases([phrase("rate change"), phrase("change"), phrase("premium")])
    >>> list(phrases.found(Text("The rate change is a change.", 100)))
    [('rate', 'change'), ('change',), ('change',)]
    """

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        self._phrases = frozenset(phrases)
        self._next: list[dict[str, int]] = [{}]
        self._ends: list[tuple[Phrase, ...]] = [()]
        for each in self._phrases:
            node = 0
            for token in each:
                following = self._next[node]
                node = following.setdefault(token, len(self._next))
                if node == len(self._next):
                    self._next.append({})
                    self._ends.append(())
            self._ends[node] = (each,)
        self._fallback = [0] * len(self._next)
        queue = list(self._next[0].values())
        for node in queue:
            for token, child in self._next[node].items():
                shorter = self._step(self._fallback[node], token)
                self._fallback[child] = shorter
                self._ends[child] += self._ends[shorter]
                queue.append(child)

    def _step(self, node: int, token: str) -> int:
        while node and token not in self._next[node]:
            node = self._fallback[node]
        return self._next[node].get(token, 0)

    def found(self, text: Text) -> Iterator[Phrase]:
        """Each phrase, as often as it stands in the text."""
        if not any(map(text.distinct.issuperset, self._phrases)):
            return
        node = 0
        for token in text.tokens:
            node = self._step(node, token)
            if self._ends[node]:
                yield from self._ends[node]

    def stand_in(self, text: Text) -> bool:
        """Whether any of the phrases stands in the text."""
        return next(self.found(text), None) is not None
