"""The tree of a trace: its spans once each, parents before children, without cycles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ragweir.streams.traces.span import TraceSpan


def unique(spans: Iterable[TraceSpan]) -> list[TraceSpan]:
    """Return the spans without repetitions, in the order of their beginnings, then of their ids.

    Spans with the same id are one span: that which ended last, among several of these that which began last, then the
    greatest by content.
    """
    kept: dict[str, TraceSpan] = {}
    for span in spans:
        known = kept.get(span.span_id)
        if known is None or (known != span and _later(span, known)):
            kept[span.span_id] = span
    return sorted(kept.values(), key=lambda span: (span.started_ns, span.span_id))


def _later(span: TraceSpan, known: TraceSpan) -> bool:
    times, known_times = (span.ended_ns, span.started_ns), (known.ended_ns, known.started_ns)
    return times > known_times if times != known_times else _content(span) > _content(known)


def _content(span: TraceSpan) -> tuple[object, ...]:
    """Return a key that orders repetitions of a span, which differ in little else, by their content."""
    attributes = sorted((key, shown(value)) for key, value in span.attributes.items())
    events = sorted((event.time_ns, event.name) for event in span.events)
    return len(attributes), attributes, events, span.parent_id or "", span.name, span.error or "", span.scope


def shown(value: object) -> str:
    """Return a value as text by which equal values are ordered alike, empty if it is nested too deeply."""
    try:
        return repr(value)
    except RecursionError:
        return ""


@dataclass(slots=True)
class Tree:
    """The spans of a trace and their places in its tree, by their numbers in `spans`."""

    spans: Sequence[TraceSpan]
    parents: list[int] = field(default_factory=list)
    """Number of the parent; -1 for a span whose parent is not known."""
    missing: list[str | None] = field(default_factory=list)
    """Id of the parent that is not among the spans; None where there is none."""
    order: list[int] = field(default_factory=list)
    """The numbers of all spans, parents before children."""

    @classmethod
    def of(cls, spans: Iterable[TraceSpan]) -> Tree:
        """Return the tree of spans.

        In a cycle of parents the span that began first has no parent.
        """
        tree = cls(unique(spans))
        numbers = {span.span_id: number for number, span in enumerate(tree.spans)}
        for span in tree.spans:
            parent = numbers.get(span.parent_id, -1) if span.parent_id else -1
            tree.parents.append(parent)
            tree.missing.append(span.parent_id if span.parent_id and parent < 0 else None)
        tree._open_cycles()
        tree._sort()
        return tree

    def _open_cycles(self) -> None:
        unseen, on_path, done = 0, 1, 2
        states = [unseen] * len(self.spans)
        for start in range(len(self.spans)):
            path = []
            number = start
            while number >= 0 and states[number] == unseen:
                states[number] = on_path
                path.append(number)
                number = self.parents[number]
            if number >= 0 and states[number] == on_path:
                self.parents[min(path[path.index(number) :])] = -1
            for each in path:
                states[each] = done

    def _sort(self) -> None:
        children: dict[int, list[int]] = {}
        for number, parent in enumerate(self.parents):
            children.setdefault(parent, []).append(number)
        self.order = list(children.get(-1, ()))
        for number in self.order:  # Grows while it is read.
            self.order += children.get(number, ())
