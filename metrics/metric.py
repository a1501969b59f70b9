"""Metrics: a pure function of a view of one event, with a row of the catalogue that describes it."""

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
NullKind = Literal["undefined", "unanswered"]
"""`undefined`: the event lacks what the metric needs. `unanswered`: the metric has a value for the event, but none was
found, as when a judge's answer cannot be used; estimates allow for any value."""

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
    """No value, with the reason. Reasons are fixed texts that never quote the event."""

    reason: str
    kind: NullKind = "undefined"


@dataclass(frozen=True, slots=True)
class Flagged:
    """A value with a flag that limits its meaning, such as "cut"."""

    value: float | str
    flag: str


Value = float | str | Null | Flagged
"""The result of a metric: a number (a boolean counts as 1 or 0), a label, or no value with a reason."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue. The name is the function's, and the meaning the first line of its docstring.

    `needs` are the fields of the interaction without which the value is null. `question` restricts the metric to the
    events with that question id. `explain` returns the evidence of the value as short texts.
    """

    compute: Callable[..., object]
    """For a free metric, a function from a view of one event to its `Value`. Other metrics are computed by their suite,
    which calls its functions with the judge's answers or embeddings."""
    group: str
    unit: Unit
    better: Better
    needs: tuple[str, ...]
    source: str
    cost: Cost = "free"
    """`free` is computed for every event; `local` and `llm` only by the suite with the name of the group."""
    order_free: bool = True
    """True if permuting the contexts does not change the value."""
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
        """Lower and upper bound of the value; None if there is none."""
        return _BOUNDS[self.unit]

    @property
    def range(self) -> str:
        """The bounds, or the labels, as text: `0 to 1`, `0 and up`, `any`."""
        if self.labels:
            return ", ".join(self.labels)
        low, high = self.bounds
        if low is None:
            return "any"
        return f"{low:g} and up" if high is None else f"{low:g} to {high:g}"

    @property
    def text(self) -> str:
        """The docstring; facts that it lacks are taken from the catalogue."""
        description, prompt, example = (inspect.getdoc(self.compute) or "").partition("\n\n>>> ")
        better = "neither direction" if self.better == "neither" else self.better
        undefined = f"without {' or '.join(f'`{need}`' for need in self.needs)}" if self.needs else "never"
        facts = {"Range": f"{self.range}; {better} is better", "Undefined": undefined, "Reference": self.source}
        lines = [f"\n{name}: {fact}." for name, fact in facts.items() if f"\n{name}: " not in description]
        return "".join((description, *lines, prompt, example))

    @property
    def meaning(self) -> str:
        """The description's first line."""
        return self.text.partition("\n")[0]


def shared(function: Callable[[View], T]) -> Callable[[View], T]:
    """Decorate a function of a view that several metrics call: it is computed once per event."""

    @wraps(function)
    def once(view: View) -> T:
        memo = view.memo
        try:
            return memo[function]  # type: ignore[no-any-return]
        except KeyError:
            result = memo[function] = function(view)
            return result

    return once
