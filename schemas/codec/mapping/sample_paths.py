"""The paths of a sample of foreign events, with their values."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from ragweir.schemas.codec.mapping.paths import Steps

Columns = Mapping[Steps, dict[int, object]]
"""The paths of a sample, each with one value of every event that has it, by the event's index. Null is absent."""

_MOST_PATHS = 1_000
_MOST_STEPS = 2_000
"""Most paths of the whole sample and of one event, since keys that are data make any number of paths."""
_DEEPEST = 7
_ITEMS = 3
_FIRST_OF = frozenset({"choices"})
"""Lists of which only the first item is used."""
_LAST_OF = frozenset({"messages"})
"""Lists of which the last item matters most."""


def columns(events: Sequence[object]) -> Columns:
    """Return the values of a sample by their paths; events that are no objects have none.

    >>> columns([{"a": {"b": 1}}, {"a": {"b": 2}}])[("a", "b")]
    {0: 1, 1: 2}
    """
    found: dict[Steps, dict[int, object]] = {}
    for place, event in enumerate(events):
        if isinstance(event, dict):
            for path, value in islice(_walk(event), 1, _MOST_STEPS):
                if value is not None and (path in found or len(found) < _MOST_PATHS):
                    found.setdefault(path, {}).setdefault(place, value)
    return found


def _walk(event: object) -> Iterator[tuple[Steps, object]]:
    """Yield the paths of an event that a map can use, with their values, those near the top first."""
    ahead: deque[tuple[Steps, object]] = deque([((), event)])
    while ahead:
        path, data = ahead.popleft()
        yield path, data
        if len(path) == _DEEPEST:
            continue
        if isinstance(data, dict):
            # A map cannot name the others.
            names = (name for name in data if name and '"' not in name and name != "[]")
            ahead.extend(((*path, name), data[name]) for name in islice(names, _MOST_STEPS))
        elif isinstance(data, list) and None not in path:
            if data and path and path[-1] in _FIRST_OF:
                ahead.append(((*path, 0), data[0]))
            if data and path and path[-1] in _LAST_OF:
                ahead.append(((*path, -1), data[-1]))
            ahead.extend(((*path, None), item) for item in data[:_ITEMS])
