"""Rows that are no label: counted by kind, with the first examples of each."""

from __future__ import annotations

from collections import Counter, defaultdict

from typing_extensions import override

from ragweir.streams.runtime.text.terminal import printable

KINDS = {
    "event": "of unknown events",
    "value": "with values that are no answer",
    "question": "of unknown questions",
    "id": "without the id of an event",
    "long_id": "with an id of more than 200 characters",
    "rater": "with raters that are no text",
    "time": "with times that are none",
    "seconds": "with seconds that are no number of 0 or more",
    "row": "that cannot be read",
}
"""The kinds of bad rows, with the words that follow their number."""
_SHOWN = 3
_SHOWN_CHARACTERS = 60


class BadRows:
    """The numbers of rows that are no label, by kind.

    >>> bad = BadRows()
    >>> bad.add("value", "maybe")
    >>> bad.add("value", "maybe")
    >>> str(bad)
    '2 with values that are no answer (maybe)'
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, list[str]] = defaultdict(list)

    def add(self, kind: str, example: object) -> None:
        """Add a row of a kind of `KINDS`; the first three different examples of a kind are shown."""
        self._counts[kind] += 1
        shown = self._examples[kind]
        if len(shown) < _SHOWN:
            text = printable(example if isinstance(example, str) else repr(example), _SHOWN_CHARACTERS)
            if text not in shown:
                shown.append(text)

    def number(self, kind: str) -> int:
        """Return the number of rows of a kind of `KINDS`."""
        return self._counts[kind]

    @property
    def parts(self) -> list[str]:
        """Each kind with its number and examples, in the order of `KINDS`."""
        return [
            f"{self._counts[kind]:,} {words} ({', '.join(self._examples[kind])})"
            for kind, words in KINDS.items()
            if self._counts[kind]
        ]

    @override
    def __str__(self) -> str:
        return ", ".join(self.parts)
