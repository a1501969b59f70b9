"""Counts how many traces give full interactions, and says what to change for the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from ragweir.streams.analysis.traces.collection import CollectedTrace
from ragweir.streams.traces.advice import ADVICE
from ragweir.streams.traces.gaps import HARMLESS, Gap


@dataclass(slots=True)
class TraceReport:
    """The counts of some traces."""

    traces: int = 0
    foreign: int = 0
    """Traces without a span of a GenAI convention."""
    full: int = 0
    """Traces with an interaction, all of whose interactions have question, answer and the texts of all contexts."""
    interactions: int = 0
    cut: int = 0
    """Traces over the limits on one trace."""
    gaps: Counter[Gap] = field(default_factory=Counter)
    """Traces by the reason why one is not full."""
    dialects: Counter[str] = field(default_factory=Counter)
    """Interactions by the convention of their spans."""
    scopes: Counter[str] = field(default_factory=Counter)
    """Traces by the instrumentation scopes of their spans, with their versions."""

    def add(self, trace: CollectedTrace) -> None:
        """Count a trace."""
        made, gaps = (
            trace.assembled.made,
            {*trace.assembled.gaps, *(gap for each in trace.assembled.made for gap in each.gaps)},
        )
        self.traces += 1
        self.cut += trace.cut
        self.scopes.update({f"{span.scope} {span.scope_version}".strip() for span in trace.spans} - {""})
        if not made and "no_genai" in gaps:
            self.foreign += 1
            return
        self.interactions += len(made)
        self.full += bool(made) and gaps <= HARMLESS
        self.gaps.update(gaps)
        self.dialects.update(each.interaction.assembly.dialect or "" for each in made if each.interaction.assembly)

    @property
    def concerned(self) -> int:
        """The number of traces with a span of a GenAI convention."""
        return self.traces - self.foreign

    @property
    def share(self) -> float | None:
        """The share of full traces among those with a span of a GenAI convention; None without one."""
        return self.full / self.concerned if self.concerned else None

    def lines(self) -> Iterator[str]:
        """Yield the counts as lines, and for each gap what to change."""
        if self.share is None:
            has = "it has no span" if self.traces == 1 else "none of them has a span"
            yield f"{_traces(self.traces)}: {has} of a GenAI convention (OpenInference, gen_ai, Traceloop)"
            if self.traces:
                yield f"  {self.traces:>5,}  no_genai: {ADVICE['no_genai']}"
            return
        interactions = f"{self.interactions:,} interaction{'' if self.interactions == 1 else 's'}"
        yield (
            f"{_traces(self.concerned)} gave {interactions}; {_traces(self.full)} ({self.share:.0%}) gave full ones, "
            "with question, answer and the texts of all contexts"
        )
        for gap, number in most_common(self.gaps):
            yield f"  {number:>5,}  {gap}: {ADVICE[gap]}"
        if self.cut:
            yield f"  {self.cut:>5,}  over assemble.max_spans or assemble.max_trace_bytes: flagged incomplete"
        if self.foreign:
            has = "has no span" if self.foreign == 1 else "have no span"
            yield f"{_traces(self.foreign, 'more trace')} {has} of a GenAI convention"


_Name = TypeVar("_Name", bound=str)


def most_common(counted: Counter[_Name]) -> list[tuple[_Name, int]]:
    """Return names and numbers, the greatest first, and equal ones by name."""
    return sorted(counted.items(), key=lambda each: (-each[1], each[0]))


def _traces(number: int, noun: str = "trace") -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
