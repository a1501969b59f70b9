"""Paths into foreign events: names, indexes and list markers."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import Any

from ragweir.errors import MapError

ABSENT: Any = object()
"""The value of a path that leads nowhere."""

Step = str | int | None
"""A name, an index of a list, or None for every element of a list."""
Steps = tuple[Step, ...]
Reader = Callable[[Any], Any]
"""Reads a value of a foreign event, or of an element of one of its lists; `ABSENT` if there is none."""

MOST_VALUES = 1_000
"""Maximum number of values of a path that `values` returns."""

_STEP = re.compile(r'"([^"]+)"|\[(-?\d{1,6}|)\]|([^.\[\]"]+)')
_BARE = re.compile(r'[^.\[\]"]+')


def steps(path: str) -> Steps:
    """Split a path into names, indexes and list markers.

    >>> steps('a."b.c"[0].d[]')
    ('a', 'b.c', 0, 'd', None)

    Raises:
        MapError: if it is no path.
    """
    found: list[Step] = []
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise MapError(f"the path {path!r} is not understood at character {at + 1}")
        quoted, index, name = step.groups()
        found.append(quoted or name or (int(index) if index else None))
        at = step.end()
        if at < len(path) and path[at] == ".":
            at += 1
            if at == len(path):
                raise MapError(f"the path {path!r} ends in a dot")
    if not found:
        raise MapError(f"the path {path!r} is empty")
    return tuple(found)


def segments(path: Steps) -> list[Steps]:
    """Split a path at its list markers.

    >>> segments(("a", None, "b", "c"))
    [('a',), ('b', 'c')]
    """
    parts: list[list[Step]] = [[]]
    for step in path:
        if step is None:
            parts.append([])
        else:
            parts[-1].append(step)
    return [tuple(part) for part in parts]


def _itself(data: Any) -> Any:
    return data


def walker(segment: Steps) -> Reader:
    """Return the reader of a path without list markers.

    >>> walker(("a", 1))({"a": [5, 6]}), walker(("a", 1))({"a": "text"}) is ABSENT
    (6, True)
    """
    if not segment:
        return _itself
    if len(segment) == 1 and not isinstance(segment[0], int):
        (name,) = segment
        return lambda data: data.get(name, ABSENT) if isinstance(data, dict) else ABSENT

    def walk(data: Any) -> Any:
        for step in segment:
            if isinstance(step, int):
                if not isinstance(data, list) or not -len(data) <= step < len(data):
                    return ABSENT
                data = data[step]
            elif isinstance(data, dict) and step in data:
                data = data[step]
            else:
                return ABSENT
        return data

    return walk


def values(data: Any, path: Steps) -> list[Any]:
    """Return the values that a path leads to, at most `MOST_VALUES` of them.

    >>> values({"a": [{"b": 1}, {}, {"b": 2}]}, ("a", None, "b"))
    [1, 2]
    """
    found = [data]
    for number, segment in enumerate(segments(path)):
        if number:
            items = (item for each in found if isinstance(each, list) for item in each)
            found = list(islice(items, MOST_VALUES))
        if segment:
            walk = walker(segment)
            found = [value for each in found if (value := walk(each)) is not ABSENT and value is not None]
    return found


def path_text(path: Steps) -> str:
    """Return a path as maps write it.

    >>> path_text(("choices", 0, "b.c", None))
    'choices[0]."b.c"[]'
    """
    text = ""
    for step in path:
        if isinstance(step, str):
            text += ("." if text else "") + (step if _BARE.fullmatch(step) else f'"{step}"')
        else:
            text += "[]" if step is None else f"[{step}]"
    return text
