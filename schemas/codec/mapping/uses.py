"""Uses of paths in a map, and where each path begins, for reports on those that lead to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ragweir.errors import Rejected
from ragweir.schemas.codec.mapping.paths import Reader, Steps, values


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a path in a map."""

    field: str
    path: Steps
    starts: Callable[[Any], list[Any]] = lambda data: [data]
    """Returns the values of an event at which the path begins: itself, elements of a list, or parsed values."""


Alternatives = tuple[Use, ...]
"""Uses of which one has to lead to a value."""


def within(uses: Iterable[Alternatives], path: Steps, parse: Reader | None = None) -> list[Alternatives]:
    """Return uses that begin at the values of a path, which are parsed if there is a parser."""

    def moved(use: Use) -> Use:
        return Use(
            use.field,
            use.path,
            lambda data: [start for each in _parsed(data, path, parse) for start in use.starts(each)],
        )

    return [tuple(map(moved, alternatives)) for alternatives in uses]


def _parsed(data: Any, path: Steps, parse: Reader | None) -> list[Any]:
    """Return the values of a path, parsed; those that cannot be parsed are left out."""
    found = []
    for value in values(data, path):
        with suppress(Rejected):
            found.append(parse(value) if parse else value)
    return found
