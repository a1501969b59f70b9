"""The timed steps of one answer as a waterfall: when each began and how long it took, below its parent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ragweir.schemas.interaction import Interaction, Span

MOST_STEPS = 200
"""Steps that are shown."""
_MOST_DEPTH = 20


@dataclass(frozen=True, slots=True)
class ShownStep:
    """One step."""

    span: Span
    depth: int
    """Number of its ancestors, at most 20."""
    offset_ms: float | None
    """Time from the beginning of the answer; None if the step has no times."""
    duration_ms: float | None
    left: float
    width: float
    """Its place on the axis, as shares of the whole, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The steps of an answer."""

    total_ms: float
    """Time from the first beginning to the last end."""
    steps: tuple[ShownStep, ...]
    """Each before its children, in the order of their beginnings."""
    left_out: int
    """Number of steps beyond the limit."""


def waterfall(event: Interaction) -> Waterfall | None:
    """Return the waterfall of an event; None without steps."""
    spans = event.spans
    if not spans:
        return None
    times = [time for span in spans for time in (span.started_at, span.ended_at) if time is not None]
    times += [time for time in (event.started_at, event.ended_at) if time is not None]
    began = min(times, default=None)
    total = max(times) - began if began is not None else timedelta()
    steps = tuple(_shown(span, depth, began, total) for span, depth in _tree(spans[:MOST_STEPS]))
    return Waterfall(_ms(total), steps, max(0, len(spans) - MOST_STEPS))


def _ms(time: timedelta) -> float:
    return time / timedelta(milliseconds=1)


def _shown(span: Span, depth: int, began: datetime | None, total: timedelta) -> ShownStep:
    start, end = span.started_at, span.ended_at
    if began is None or start is None:
        return ShownStep(span, depth, None, None, 0.0, 0.0)
    took = None if end is None else max(end - start, timedelta())
    left = (start - began) / total if total else 0.0
    width = took / total if total and took else 0.0
    return ShownStep(span, depth, _ms(start - began), None if took is None else _ms(took), left, min(width, 1 - left))


def _tree(spans: Sequence[Span]) -> Iterator[tuple[Span, int]]:
    """Yield the spans with their depths. One that is its own ancestor is shown as if it had no parent."""
    known = {span.id for span in spans if span.id is not None}
    children: dict[str | None, list[int]] = {}
    starts = [span.started_at.timestamp() if span.started_at else float("inf") for span in spans]
    for place in sorted(range(len(spans)), key=lambda each: (starts[each], each)):
        parent = spans[place].parent_id
        children.setdefault(parent if parent in known else None, []).append(place)
    done: set[int] = set()
    for top in (*children.get(None, ()), *range(len(spans))):
        waiting = [(top, 0)]
        while waiting:
            place, depth = waiting.pop()
            if place in done:
                continue
            done.add(place)
            yield spans[place], min(depth, _MOST_DEPTH)
            own = spans[place].id
            if own is not None:
                waiting += [(child, depth + 1) for child in reversed(children.get(own, ()))]
