"""Makes interactions of the spans of one trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from ragweir.schemas.interaction import Assembly, AssemblyFlag, Interaction
from ragweir.streams.traces.build import Builder
from ragweir.streams.traces.calls import Calls
from ragweir.streams.traces.dialects import DIALECTS
from ragweir.streams.traces.gaps import HARMLESS, Fate, Gap
from ragweir.streams.traces.roots import Roots
from ragweir.streams.traces.span import TraceLog, TraceSpan
from ragweir.streams.traces.step import Step, StepKind
from ragweir.streams.traces.tree import Tree, shown

__all__ = ["Assembled", "Fate", "Gap", "Made", "assemble"]

_PENDING: Mapping[str, str] = {"logfire.span_type": "pending_span"}
"""Attributes of spans that were exported when they began."""
_FATES: Mapping[StepKind, Fate] = {
    "llm": "llm",
    "tool": "tool",
    "retrieval": "retrieval",
    "rerank": "rerank",
    "embedding": "embedding",
}


@dataclass(frozen=True, slots=True)
class Made:
    """One interaction of a trace."""

    interaction: Interaction
    root_id: str
    """Span id of its root, which may be missing."""
    gaps: tuple[Gap, ...] = ()
    """The reasons why it is not full."""

    @property
    def is_full(self) -> bool:
        """True if it has question, answer and the texts of all contexts."""
        return HARMLESS.issuperset(self.gaps)


@dataclass(frozen=True, slots=True)
class Assembled:
    """The interactions of one trace, and the use of its spans."""

    made: tuple[Made, ...]
    """The interactions, in the order of their beginnings, then of their root ids."""
    gaps: tuple[Gap, ...] = ()
    """The reasons why the trace gives no interaction; empty if it gives one."""
    fates: Mapping[str, Fate] = field(default_factory=dict)
    """The use of each span, by span id."""


def assemble(spans: Sequence[TraceSpan], logs: Sequence[TraceLog] = (), *, max_interactions: int = 100) -> Assembled:
    """Make the interactions of one trace.

    The result depends on the set of spans and logs alone, not on their order. Nothing is raised but MemoryError,
    whatever they contain.

    Args:
        spans: all spans of one trace; of repeated span ids the one that ended last counts.
        logs: its log records.
        max_interactions: the most interactions; the others are left out, and `spans_missing` is a gap of the last one.
    """
    tree = Tree.of(spans)
    by_span = _by_span(logs)
    read = {span.span_id: _read(span, by_span.get(span.span_id, ())) for span in tree.spans}
    fates: dict[str, Fate] = {id_: "pending" if _is_pending(*read[id_]) else "ignored" for id_ in read}
    if "pending" in fates.values():
        tree = Tree.of(span for span in tree.spans if fates[span.span_id] != "pending")
    pairs = [read[span.span_id][1:] for span in tree.spans]
    calls = Calls(tree, [step for _, step in pairs])
    roots = Roots(tree, calls.steps)
    builder = Builder(tree, calls, [name for name, _ in pairs], roots.tops)
    items = roots.items(builder.is_full)
    if not items:
        return Assembled((), ("no_root" if roots.is_ambiguous else "no_genai",), fates)
    made = []
    for item in items[:max_interactions]:
        built = builder.build(item)
        made.append(Made(built.interaction, item.root_id, built.gaps))
        for number in builder.members(item):
            if step := calls.steps[number]:
                fate = "duplicate" if calls.is_duplicate[number] else _FATES.get(step.kind, "step")
                fates[tree.spans[number].span_id] = fate
        if item.root >= 0:
            fates[item.root_id] = "root"
    if len(items) > max_interactions and made:
        made[-1] = _without_others(made[-1])
    return Assembled(tuple(made), (), fates)


def _by_span(logs: Sequence[TraceLog]) -> dict[str, list[TraceLog]]:
    """Return the log records of each span once each, in the order of their times."""
    found: dict[str, list[TraceLog]] = {}
    for log in sorted(logs, key=lambda log: (log.time_ns, log.event_name, shown(log.body), shown(log.attributes))):
        known = found.setdefault(log.span_id, [])
        if not known or known[-1] != log:
            known.append(log)
    return found


def _read(span: TraceSpan, logs: Sequence[TraceLog]) -> tuple[TraceSpan, str | None, Step | None]:
    """Return a span with the name of its dialect and its step, both None if it is in none."""
    for dialect in DIALECTS:
        if dialect.reads(span):
            return span, dialect.name, dialect.step(span, logs)
    return span, None, None


def _is_pending(span: TraceSpan, _: str | None, step: Step | None) -> bool:
    return bool(step and step.is_pending) or any(span.attributes.get(name) == _PENDING[name] for name in _PENDING)


def _without_others(made: Made) -> Made:
    """Return the last interaction of a trace that holds more."""
    interaction = made.interaction
    assembly = interaction.assembly or Assembly()
    if "spans_missing" in made.gaps:
        return made
    flags = tuple(flag for flag in get_args(AssemblyFlag) if flag in (*assembly.flags, "spans_missing"))
    cut = interaction.model_copy(update={"assembly": assembly.model_copy(update={"flags": flags})})
    return replace(made, interaction=cut, gaps=(*made.gaps, "spans_missing"))
