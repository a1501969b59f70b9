"""A compiled rule, and the place of a rule while it is compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ragweir.errors import MapError
from ragweir.schemas.codec.mapping.paths import Reader
from ragweir.schemas.codec.mapping.uses import Alternatives

_DEEPEST = 8
_TIMES = ("started_at", "ended_at", "first_token_at", "spans[].started_at", "spans[].ended_at")
"""The times of an interaction."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A compiled rule."""

    read: Reader
    lists: tuple[str, ...] = ()
    """The lists that it goes through, from the outermost on. If there are any, it reads a list, or `ABSENT`."""
    conditions: tuple[str, ...] = ()
    """The condition on the elements of each of these lists, in a form that can be compared."""
    uses: tuple[Alternatives, ...] = ()
    below: tuple[Reader, ...] = ()
    """For each of the lists, the reader of an element's values."""
    repeat: Callable[[Reader], Reader] | None = None
    """Returns a reader of the same values, each as often as its element has values for the given reader."""
    is_constant: bool = False
    numbers_rows: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """The place of a rule within a map."""

    field: str
    """The field that it is for, which messages name."""
    depth: int = 0
    is_root: bool = True
    """True if the rule begins at the event, False if at an element or a parsed value."""
    columns: bool = False
    """True if the field is one of a list's elements."""
    times: tuple[str, ...] = _TIMES
    """The fields that are times."""

    def error(self, message: str) -> MapError:
        """Return an error about the rule."""
        return MapError(f"{self.field}: {message}")

    def inner(self, *, is_root: bool | None = None) -> Scope:
        """Return the scope of a rule within this one.

        Raises:
            MapError: if rules are nested too deeply.
        """
        if self.depth == _DEEPEST:
            raise self.error(f"rules are nested more than {_DEEPEST} deep")
        return replace(self, depth=self.depth + 1, is_root=self.is_root if is_root is None else is_root)
