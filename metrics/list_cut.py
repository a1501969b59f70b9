"""Lists that were cut when their event was read: a metric that reads one is null, as it would not see the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeVar, cast

from ragweir.schemas.codec.intake import CUT

LIST_CUT = "list_cut"
"""The reason of such a null."""

T = TypeVar("T")


class ListCut(Exception):
    """A list was read that is not whole."""


def cut_fields(flags: Iterable[str]) -> frozenset[str]:
    """The lists that were cut, by the flags of their event.

    >>> sorted(cut_fields(("cut:expected", "cut:retrieval.relevant_ids", "time_implausible")))
    ['expected', 'retrieval.relevant_ids']
    """
    return frozenset(flag.removeprefix(CUT) for flag in flags if flag.startswith(CUT))


def withhold(part: T, fields: Collection[str]) -> T:
    """The same record, but that reading one of these fields raises `ListCut`.

    The guard stands at the field and not in a table of what each metric reads, so that it holds for metrics of others,
    and so that a metric which an event does not lead to the list keeps its value.

    >>> from ragweir.schemas.interaction import Interaction
    >>> event = withhold(Interaction(event_id="1", query="", response="", contexts=()), {"spans"})
    >>> event.contexts
    ()
    >>> event.spans
    Traceback (most recent call last):
        ...
    ragweir.metrics.list_cut.ListCut
    """
    return cast("T", _Withheld(part, fields)) if fields else part


class _Withheld:
    def __init__(self, part: object, fields: Collection[str]) -> None:
        self._part, self._fields = part, fields

    def __getattr__(self, name: str) -> Any:
        if name in self._fields:
            raise ListCut
        value = getattr(self._part, name)
        inner = {field.removeprefix(f"{name}.") for field in self._fields if field.startswith(f"{name}.")}
        return value if value is None else withhold(value, inner)
