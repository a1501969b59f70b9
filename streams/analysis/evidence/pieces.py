"""Texts in pieces, each with one mark, so that a page shows marks without positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

MarkKind = Literal["", "unsupported", "asked", "differs", "citation", "shared"]
"""`unsupported`: a word that occurs in no passage; `asked`: one that the question has; `differs`: a number, date or
time that no passage has; `citation`: a citation mark; `shared`: a word of a passage that the answer has."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked place in a text."""

    start: int
    stop: int
    kind: MarkKind


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text."""

    text: str
    kind: MarkKind = ""


def pieces(text: str, start: int, stop: int, marks: Iterable[Mark]) -> tuple[Piece, ...]:
    """Return a part of a text in pieces.

    Marks outside it are left out. Where two overlap, the one that begins first counts, then the one that comes first;
    marks of one kind that touch are one piece.

    >>> [(each.text, each.kind) for each in pieces("It costs 90 euros.", 3, 18, [Mark(9, 11, "differs")])]
    [('costs ', ''), ('90', 'differs'), (' euros.', '')]
    """
    found: list[Piece] = []
    at = start
    for mark in _joined(sorted(marks, key=lambda each: each.start)):
        first, last = max(mark.start, at), min(mark.stop, stop)
        if first >= last:
            continue
        if at < first:
            found.append(Piece(text[at:first]))
        found.append(Piece(text[first:last], mark.kind))
        at = last
    if at < stop:
        found.append(Piece(text[at:stop]))
    return tuple(found)


def _joined(marks: Iterable[Mark]) -> Iterator[Mark]:
    """Yield marks, those of one kind that touch as one. Tokens of scripts without spaces are pairs, which overlap."""
    held: Mark | None = None
    for mark in marks:
        if held is not None and mark.kind == held.kind and mark.start <= held.stop:
            held = Mark(held.start, max(held.stop, mark.stop), held.kind)
            continue
        if held is not None:
            yield held
        held = mark
    if held is not None:
        yield held
