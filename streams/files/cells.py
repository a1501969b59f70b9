"""Cells of tables that hold JSON or Python literals as text: finds these columns in a sample, and parses them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ragweir.schemas.codec.mapping.literals import PARSERS

_SHARE = 0.5
"""The least share of a column's texts that must be parsed."""
_LONGEST = 65_536
"""The most characters of a cell that is parsed."""
_MOST_COLUMNS = 100


def parse_cells(events: Sequence[object]) -> tuple[list[object], dict[str, str]]:
    r"""Return the events with such texts at their top parsed, and the parser (`parse` of a map) of each column.

    >>> parse_cells([{"id": "a", "docs": "['x', None]"}, {"id": "b", "docs": "[]"}])
    ([{'id': 'a', 'docs': ['x', None]}, {'id': 'b', 'docs': []}], {'docs': 'python'})
    """
    columns: defaultdict[str, list[str]] = defaultdict(list)
    for event in events:
        for name, value in event.items() if isinstance(event, dict) else ():
            is_cell = isinstance(value, str) and 0 < len(value) <= _LONGEST
            if is_cell and (name in columns or len(columns) < _MOST_COLUMNS):
                columns[name].append(value)
    kinds = {name: kind for name, texts in columns.items() if (kind := _parser(texts)) is not None}
    return [_parsed(event, kinds) for event in events] if kinds else list(events), kinds


def _parser(texts: Sequence[str]) -> str | None:
    """Return the parser of a column; None if most of its texts are to be read as they are."""
    structured = [text for text in texts if text.lstrip()[:1] in ("[", "{")]
    if len(structured) < _SHARE * len(texts):
        return None
    for kind in ("json", "python"):
        if all(not isinstance(_value(text, kind), str) for text in texts):
            return kind
    parsed = sum(not isinstance(_value(text, "any"), str) for text in structured)
    return "any" if parsed >= _SHARE * len(texts) else None


def _value(text: str, kind: str) -> object:
    """Return the value of a text, which is the text itself if it has none."""
    try:
        return PARSERS[kind](text)
    except ValueError:
        return text


def _parsed(event: object, kinds: Mapping[str, str]) -> object:
    if not isinstance(event, dict):
        return event
    return {
        name: _value(value, kinds[name])
        if name in kinds and isinstance(value, str) and len(value) <= _LONGEST
        else value
        for name, value in event.items()
    }
