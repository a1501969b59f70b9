"""What a metric is: one pure function over a view of one event, and one line that describes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from ragweir.metrics.view import View

Unit = Literal["ratio", "percent", "ms", "count", "tokens_per_second", "usd", "score", "boolean", "category"]
Better = Literal["higher", "lower", "neither"]
T = TypeVar("T")
Cost = Literal["free", "local", "llm"]

_BOUNDS: dict[Unit, tuple[float | None, float | None]] = {
    "ratio": (0.0, 1.0),
    "percent": (0.0, 100.0),
    "ms": (0.0, None),
    "count": (0.0, None),
    "tokens_per_second": (0.0, None),
    "usd": (0.0, None),
    "score": (None, None),
    "boolean": (0.0, 1.0),
    "category": (None, None),
}


@dataclass(frozen=True, slots=True)
class Null:
    """No value, and why. A reason is fixed text: it never quotes the event."""

    reason: str


@dataclass(frozen=True, slots=True)
class Flagged:
    """A value that was obtained in a way the reader should know of."""

    value: float | str
    flag: str


Value = float | str | Null | Flagged
"""What a metric returns: a number (a boolean counts as 1 or 0), a label, or no value with a reason."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the catalogue. Its name is its function's, its meaning the first line of the function's docstring.

    `needs` names the interaction's fields without which the value is null. `question` limits it to the events with
    that question id. `explain` lists, for people, what the value rests on.
    """

    compute: Callable[..., object]
    """Of a free metric, from a view of one event to its `Value`. Of one that costs more, from what its suite was
    answered, which nobody but the suite knows how to ask for."""
    group: str
    unit: Unit
    better: Better
    needs: tuple[str, ...]
    source: str
    cost: Cost = "free"
    """`free` is computed for every event; `local` and `llm` only by the suite called as the group, where it runs."""
    order_free: bool = True
    """Whether permuting the contexts leaves the value unchanged."""
    labels: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    question: str | None = None
    explain: Callable[[View], tuple[str, ...]] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.compute.__name__)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Least and greatest value; None where there is none."""
        return _BOUNDS[self.unit]

    @property
    def text(self) -> str:
        """The full description."""
        return inspect.getdoc(self.compute) or ""

    @property
    def meaning(self) -> str:
        """The description's first line."""
        return self.text.partition("\n")[0]


def shared(function: Callable[[View], T]) -> Callable[[View], T]:
    """Compute once per event what several metrics need: the result is kept on the view."""

    @wraps(function)
    def once(view: View) -> T:
        memo = view.memo
        try:
            return memo[function]  # type: ignore[no-any-return]
        except KeyError:
            result = memo[function] = function(view)
            return result

    return once
