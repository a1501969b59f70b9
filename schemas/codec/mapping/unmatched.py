"""Paths of a map that lead to nothing in a sample of events, with the nearest paths that exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from typing_extensions import override

from ragweir.errors import Rejected
from ragweir.schemas.codec.mapping.paths import ABSENT, MOST_VALUES, Steps, path_text, walker
from ragweir.schemas.codec.mapping.sample_paths import columns
from ragweir.schemas.codec.mapping.uses import Alternatives
from ragweir.schemas.nearest import nearest

_MOST_EVENTS = 1_000
_MOST_STARTS = 300
_SHOWN_ALTERNATIVES = 3
_NEAR = 0.6
"""Least similarity of two paths that are near to each other, from 0 to 1."""


class PathMap(Protocol):
    """A map of events or of labels."""

    def selects(self, data: object) -> bool:
        """Return true if `where` selects the event."""

    @property
    def conditions(self) -> Sequence[Alternatives]:
        """The uses of paths in `where`."""

    @property
    def uses(self) -> Sequence[Alternatives]:
        """The uses of paths in the rules of fields."""


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A path of a map, or the alternatives of `first`, that leads to nothing in a sample."""

    field: str
    """The field of the rule, or `where`."""
    paths: tuple[str, ...]
    nearest: str | None
    """The path in the sample that is most like one of them; it is foreign text."""

    @override
    def __str__(self) -> str:
        """Return it as a sentence without a full stop.

        >>> print(Unmatched("query", ("qestion",), "question"))
        query: nothing is at qestion; the nearest path that exists is question
        >>> print(Unmatched("query", ("a", "b", "c", "d"), None))
        query: nothing is at a, b, c or 1 more
        """
        shown = list(self.paths[:_SHOWN_ALTERNATIVES])
        if left_out := len(self.paths) - len(shown):
            shown.append(f"{left_out} more")
        *others, last = shown
        places = f"{', '.join(others)} or {last}" if others else last
        return f"{self.field}: nothing is at {places}" + (
            f"; the nearest path that exists is {self.nearest}" if self.nearest else ""
        )


def unmatched_paths(path_map: PathMap, events: Sequence[object]) -> list[Unmatched]:
    r"""Return the paths that lead to nothing in any of the first 1,000 events, in the order of the map.

    A path leads to something if its names exist, even if the value is null or a list without elements, which may have
    more in other events. The rules of fields are compared with the events that `where` selects. Of the alternatives of
    `first` one is enough.

    >>> from ragweir.schemas.codec.mapping import FieldMap
    >>> rules = FieldMap.parse('event_id = "id"\nquery = "q"\nresponse = "answr"')
    >>> [str(each) for each in unmatched_paths(rules, [{"id": 1, "q": "Who?", "answer": "Ada."}])]
    ['response: nothing is at answr; the nearest path that exists is answer']

    Args:
        path_map: the map.
        events: events as parsed JSON, before the map; those that are no objects are left out.
    """
    objects = [event for event in islice(events, _MOST_EVENTS) if isinstance(event, dict)]
    selected = [event for event in objects if _selects(path_map, event)]
    found = [
        _unmatched(alternatives, sample)
        for uses, sample in ((path_map.conditions, objects), (path_map.uses, selected))
        for alternatives in uses
    ]
    return list(dict.fromkeys(each for each in found if each is not None))


def _selects(path_map: PathMap, event: object) -> bool:
    try:
        return path_map.selects(event)
    except Rejected:
        return False


def _unmatched(alternatives: Alternatives, events: Sequence[object]) -> Unmatched | None:
    """Return the alternatives if all begin somewhere and none leads anywhere."""
    starts: list[Any] = []
    for use in alternatives:
        for event in events:
            begun = use.starts(event)
            if any(_leads(start, use.path) for start in begun):
                return None
            starts += begun[: _MOST_STARTS - len(starts)]
    if not starts:
        return None
    paths = tuple(path_text(use.path) for use in alternatives)
    present = [path_text(path) for path in columns(starts)]
    near = filter(None, (nearest(path, present, _NEAR) for path in paths))
    return Unmatched(alternatives[0].field, paths, next(near, None))


def _leads(data: Any, path: Steps) -> bool:
    """Return true if a path exists, or ends early in a null or in a list without elements."""
    for number, step in enumerate(path):
        if data is None:
            return True
        if step is None:
            rest = path[number + 1 :]
            return isinstance(data, list) and (
                not data or any(_leads(item, rest) for item in islice(data, MOST_VALUES))
            )
        data = walker((step,))(data)
        if data is ABSENT:
            return False
    return True
