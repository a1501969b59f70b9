"""Readers of lists: all elements, those that a condition selects, and lists of lists as one list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from ragweir.errors import NotAList
from ragweir.schemas.codec.intake import MAX_ITEMS_LIMIT
from ragweir.schemas.codec.mapping.paths import ABSENT, Reader, Steps, path_text, walker

_MOST = MAX_ITEMS_LIMIT + 1
"""Maximum number of elements that are read: one more than the upper limit, so that the intake flags the list."""


def list_reader(
    segment: Steps, inner: Reader, select: Callable[[Any], bool] | None, origin: str, *, is_flat: bool
) -> Reader:
    """Return the reader of a list.

    Args:
        segment: the path to the list.
        inner: reads the value of an element.
        select: returns true for the elements that are read; None for all. If it selects none, the list is absent.
        origin: the field and its path, for messages.
        is_flat: False if `inner` reads lists, which become one list.
    """
    walk, place = walker(segment), path_text(segment) or "an element"

    def elements(data: Any) -> Any:
        items = walk(data)
        if items is ABSENT or items is None:
            return ABSENT
        if not isinstance(items, list):
            raise NotAList(f"{origin}: what is at {place} is no list")
        if select is None:
            return items
        # An empty list would say that there are no such elements, which a list of other ones does not.
        return list(islice(filter(select, items), _MOST)) or ABSENT

    def each(data: Any) -> Any:
        items = elements(data)
        return items if items is ABSENT else [inner(item) for item in islice(items, _MOST)]

    def every(data: Any) -> Any:
        items = elements(data)
        return items if items is ABSENT else list(islice(_flat(map(inner, items)), _MOST))

    return each if is_flat else every


def _flat(found: Iterable[Any]) -> Iterator[Any]:
    for each in found:
        if isinstance(each, list):
            yield from each
        elif each is not ABSENT and each is not None:
            yield each


def copies(read: Reader, deeper: Reader) -> Reader:
    """Return a reader that reads a value as often as another one, of the same data, reads values."""

    def read_copies(data: Any) -> Any:
        values = deeper(data)
        return [read(data)] * len(values) if isinstance(values, list) else ABSENT

    return read_copies


def single(read: Reader) -> Reader:
    """Return a reader of lists of one element, the value that a reader gives."""

    def read_list(data: Any) -> Any:
        value = read(data)
        return value if value is ABSENT else [value]

    return read_list
