"""Copies of events: the application may change its lists and objects after it has published them."""

from __future__ import annotations

from datetime import date, datetime
from sys import getsizeof
from types import NoneType
from typing import Any

from ragweir.errors import Rejected

_ATOMS = frozenset({int, float, bool, NoneType, datetime, date})
_CONTAINERS = (dict, list, tuple)
_CONTAINER_BYTES = 128
_ITEM_BYTES = 32
"""Assumed size of a place in a container, with the number or the like in it."""
_OBJECT_BYTES = 4096
"""Assumed size of an object of any other class, which is kept as it is."""
_MAX_DEPTH = 100
_TOO_LARGE = "it takes more memory than one event may"


def snapshot(value: object, max_bytes: int) -> tuple[Any, int]:
    """Return a copy of nested dicts and lists, and an estimate of its memory in bytes.

    It runs no code of foreign classes. Objects that are neither containers nor text are not copied.

    >>> event = {"query": "Who?", "contexts": ["Ada."]}
    >>> copy, size = snapshot(event, max_bytes=10_000)
    >>> event["contexts"].append("Grace.")
    >>> copy, 300 < size < 1000
    ({'query': 'Who?', 'contexts': ['Ada.']}, True)

    Raises:
        Rejected: if the estimate exceeds `max_bytes`, or the value is nested more than 100 levels deep, as one is that
            contains itself.
    """
    copy, size = _copy([value], max_bytes, _MAX_DEPTH)
    return copy[0], size


def _copy(value: Any, limit: int, depth: int) -> tuple[Any, int]:
    """Return the copy of a dict, list or tuple and its size."""
    if depth < 0:
        raise Rejected("invalid", f"it contains itself, or is nested more than {_MAX_DEPTH} levels deep")
    kind = type(value)
    known = dict if issubclass(kind, dict) else list if issubclass(kind, list) else tuple
    size = _CONTAINER_BYTES + _ITEM_BYTES * known.__len__(value)
    if size > limit:
        raise Rejected("too_large", _TOO_LARGE)
    # Copied at once, since another thread may be changing it. Setting values does not disturb the iteration.
    copy: Any = dict(known.items(value)) if known is dict else list(known.__iter__(value))
    for place, item in copy.items() if known is dict else enumerate(copy):
        kind = type(item)
        if kind is str:
            size += getsizeof(item)
        elif kind not in _ATOMS:
            if issubclass(kind, _CONTAINERS):
                copy[place], more = _copy(item, limit - size, depth - 1)
                size += more
            else:
                size += str.__sizeof__(item) if issubclass(kind, str) else _OBJECT_BYTES
        if type(place) is str:
            size += len(place)
        if size > limit:
            raise Rejected("too_large", _TOO_LARGE)
    return copy, size
