"""Null for metrics that read a list of which the event has only the first elements, since it was cut on reading."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeVar, cast

from ragweir.schemas.codec.intake import CUT

LIST_CUT = "list_cut"
"""The reason of such a null."""


T = TypeVar("T")


class ListCut(Exception):
    """A list that was cut has been accessed."""


def cut_fields(flags: Iterable[str]) -> frozenset[str]:
    """Return the names of the lists that were cut, from the flags of their event.

    >>> sorted(cut_fields(("cut:expected", "cut:retrieval.relevant_ids", "time_implausible")))
    ['expected', 'retrieval.relevant_ids']
    """
    return frozenset(flag.removeprefix(CUT) for flag in flags if flag.startswith(CUT))


def guard_fields(part: T, fields: Collection[str]) -> T:
    """Return a view of a record that raises `ListCut` when one of these fields is read.

    Guarding the access also covers metrics of users, and a metric that does not get to the list keeps its value.

    >>> from ragweir.schemas.interaction import Interaction
    >>> event = guard_fields(Interaction(event_id="1", query="", response="", contexts=()), {"spans"})
    >>> event.contexts
    ()
    >>> event.spans
    Traceback (most recent call last):
        ...
    ragweir.metrics.list_cut.ListCut
    """
    return cast("T", _Guarded(part, fields)) if fields else part


class _Guarded:
    def __init__(self, part: object, fields: Collection[str]) -> None:
        self._part, self._fields = part, fields

    def __getattr__(self, name: str) -> Any:
        if name in self._fields:
            raise ListCut
        value = getattr(self._part, name)
        inner = {field.removeprefix(f"{name}.") for field in self._fields if field.startswith(f"{name}.")}
        return value if value is None else guard_fields(value, inner)
