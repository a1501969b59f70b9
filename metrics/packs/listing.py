"""The form of question packs for lists: coverage of the expected items by the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import override

from ragweir.metrics.metric import Metric, Null, Value, shared
from ragweir.metrics.packs.pack import Name, Pack, PackPart, Words
from ragweir.metrics.text.phrases import Phrase
from ragweir.metrics.text.text import Text
from ragweir.metrics.view import View

_MARK = re.compile(r"[ \t]*+(?:[*+\-•‣◦–]|[0-9]{1,3}[.)])[ \t]++")
_NAME_ENDS = re.compile(r":|[ \t][-–—][ \t]")
MAX_LIST_ITEMS = 2_000
"""Maximum number of list items of one event; beyond it the metrics are null."""
_TOO_MANY = Null(f"the texts have over {MAX_LIST_ITEMS:,} list items together")
Item = frozenset[Phrase]
"""The names of one item."""


def _list_lines(text: Text) -> Iterator[str]:
    """Yield the lines that begin with a list mark, without the mark."""
    for line in text.text.splitlines():
        if mark := _MARK.match(line):
            yield line[mark.end() :]


class Identifier(PackPart):
    """The numbering of items: a word, then an identifier with a prefix, as in "Rule C-1"."""

    word: Words
    prefix: Annotated[str, Field(min_length=1, max_length=16)]

    def found(self, text: Text) -> Iterator[Phrase]:
        """Yield each identifier that follows the word."""
        word, prefix = self.word, self.prefix.lower()
        tokens, kinds = text.tokens, text.kinds
        for place in range(len(word), len(tokens)):
            if kinds[place] == "I" and tokens[place].startswith(prefix):
                before = place - len(word)
                if tuple(tokens[before:place]) == word:
                    yield (*word, tokens[place])


class ListPack(Pack):
    """A list: the items of the expected answer, and those of them that the response has."""

    form: Literal["list"]
    items: Name
    identifier: Identifier | None = None

    def _item(self, line: str) -> Item:
        """Return the names of a list item: its identifier, and its words up to a colon or a dash."""
        names: set[Phrase] = set()
        for part in _NAME_ENDS.split(line, maxsplit=2)[:2]:
            text = Text(part)
            identifiers = frozenset(self.identifier.found(text)) if self.identifier else frozenset()
            names |= identifiers
            numbered = {token for identifier in identifiers for token in identifier}
            words = tuple(token for token in text.tokens if token not in numbered)
            if words:
                names.add(words)
                break
        return frozenset(names)

    def items_of(self, text: Text) -> tuple[Item, ...]:
        """Return the distinct items of a text: those of its lists, and other identifiers."""
        found = list(map(self._item, _list_lines(text)))
        if self.identifier:
            found += [frozenset({name}) for name in self.identifier.found(text)]
        seen: set[Phrase] = set()
        distinct: list[Item] = []
        for item in found:
            if item and seen.isdisjoint(item):
                distinct.append(item)
            seen |= item
        return tuple(distinct)

    @override
    def metrics(self) -> Iterator[Metric]:
        """Yield the number of items that are found, the number of all, and the share."""

        @shared
        def best(view: View) -> tuple[int, int] | Null:
            if sum(1 for text in (view.response, *view.expected) for _ in _list_lines(text)) > MAX_LIST_ITEMS:
                return _TOO_MANY
            names = frozenset(chain.from_iterable(self.items_of(view.response)))
            counts = [
                (sum(not names.isdisjoint(item) for item in items), len(items))
                for items in map(self.items_of, view.expected)
            ]
            return max(counts, key=lambda count: count[0] / count[1] if count[1] else -1.0, default=(0, 0))

        def part(place: int) -> Callable[[View], Value]:
            return lambda view: counted if isinstance(counted := best(view), Null) else counted[place]

        def coverage(view: View) -> Value:
            counted = best(view)
            if isinstance(counted, Null):
                return counted
            found, total = counted
            return found / total if total else Null("the expected answer lists nothing")

        items, needs = self.items, ("expected",)
        named = "by its name up to a colon or a dash"
        if self.identifier:
            named += f", or by an identifier such as {' '.join(self.identifier.word)} {self.identifier.prefix}1"
        formula = f"the distinct list items of both texts, each {named}, are compared; of several expected answers the "
        formula += "best covered one counts"
        absent = f"without `expected`, or if the texts have over {MAX_LIST_ITEMS:,} list items together"
        meaning = f"Number of {items} of the expected answer that the response has."
        yield self.metric(f"{items}_found", part(0), "count", "higher", meaning, formula, absent, needs)
        meaning = f"Number of {items} of the expected answer."
        yield self.metric(f"total_{items}", part(1), "count", "neither", meaning, formula, absent, needs)
        meaning = f"Share of the expected answer's {items} that the response has."
        formula, absent = f"{items}_found / total_{items}", f"{absent}, or if it lists nothing"
        yield self.metric(f"{items}_coverage", coverage, "ratio", "higher", meaning, formula, absent, needs)
