"""The calls in a tree of spans: which of nested spans count, and what is above each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragweir.streams.traces.step import Step, StepKind
from ragweir.streams.traces.tree import Tree

LISTED: frozenset[StepKind] = frozenset({"llm", "tool", "api", "retrieval", "embedding", "rerank", "agent", "other"})
"""Kinds of steps that are listed as spans of an interaction; chains are not."""
_INNERMOST: frozenset[StepKind] = frozenset({"llm", "embedding"})
"""Kinds of which the innermost of nested spans counts; of retrievals the outermost that has documents."""
_CLOSED: frozenset[StepKind] = frozenset({"tool", "retrieval", "rerank", "embedding", "other"})
"""Kinds of steps whose model calls say nothing to the user."""
_FILLED = (
    *("model", "input_tokens", "output_tokens", "cost_usd", "finish_reason", "first_token_ns"),
    *("input", "input_messages", "output_messages"),
)


class Calls:
    """The calls of a trace, by the numbers of its spans.

    Attributes:
        steps: the steps; a call lacks nothing that a span around it alone says.
        is_duplicate: True for a span whose call counts for another one, such as LlamaIndex's nested spans of a call.
        is_inner: True for a span within a tool, a retrieval, a guardrail and the like.
        tool: number of the tool that a span is a part of; -1 without one.
        listed: number of the nearest span above that is listed in an interaction; -1 without one.
    """

    def __init__(self, tree: Tree, steps: Sequence[Step | None]) -> None:
        count = len(steps)
        self.steps = list(steps)
        self.is_duplicate = [False] * count
        self.is_inner = [False] * count
        self.tool = [-1] * count
        self.listed = [-1] * count
        self._call = [-1] * count
        self._descend(tree)
        self._find_innermost(tree)
        self._find_outermost(tree)
        self._find_listed(tree)

    def is_listed(self, number: int) -> bool:
        """Return whether a span is listed in an interaction."""
        step = self.steps[number]
        return step is not None and step.kind in LISTED and not self.is_duplicate[number]

    def _descend(self, tree: Tree) -> None:
        """Find the nearest call and tool above each span."""
        for number in tree.order:
            above = tree.parents[number]
            if above < 0:
                continue
            self._call[number], self.tool[number] = self._call[above], self.tool[above]
            self.is_inner[number] = self.is_inner[above]
            step = self.steps[above]
            if step is None:
                continue
            if step.kind not in ("chain", "agent"):
                self._call[number] = above
            if step.kind == "tool":
                self.tool[number] = above
            self.is_inner[number] = self.is_inner[above] or step.kind in _CLOSED

    def _outer(self, number: int, step: Step) -> int:
        """Return the number of the span of the same kind that a call is nested in; -1 if it is in none."""
        above = self._call[number]
        outer = self.steps[above] if above >= 0 else None
        return above if outer and outer.kind == step.kind else -1

    def _find_innermost(self, tree: Tree) -> None:
        """Mark models and embeddings that have others within, and complete these."""
        within: dict[int, list[int]] = {}  # By span: the number of calls within, and one of them.
        for number in reversed(tree.order):
            step = self.steps[number]
            if step is None or step.kind not in _INNERMOST:
                continue
            count, leaf = within.pop(number, (0, number))
            if count:
                self.is_duplicate[number] = True
                if count == 1:
                    self._fill(leaf, step)
            if (outer := self._outer(number, step)) >= 0:
                known = within.setdefault(outer, [0, leaf])
                known[0] += count or 1

    def _fill(self, number: int, outer: Step) -> None:
        inner = self.steps[number]
        missing = {name: getattr(outer, name) for name in _FILLED if getattr(inner, name) is None}
        if inner and any(value is not None for value in missing.values()):
            self.steps[number] = replace(inner, **missing)

    def _find_outermost(self, tree: Tree) -> None:
        """Mark retrievals within others, except where the outer one has no documents and the inner one has some."""
        count = len(self.steps)
        delegates, is_covered, has_within = [False] * count, [False] * count, [False] * count
        numbers = [number for number in tree.order if (step := self.steps[number]) and step.kind == "retrieval"]
        for number in reversed(numbers):
            step = self.steps[number]
            if step is None:
                continue
            delegates[number] = step.documents is None and has_within[number]
            outer = self._outer(number, step)
            if outer >= 0 and (step.documents is not None or has_within[number]):
                has_within[outer] = True
        for number in numbers:
            step = self.steps[number]
            outer = self._outer(number, step) if step else -1
            is_covered[number] = outer >= 0 and (is_covered[outer] or not delegates[outer])
            self.is_duplicate[number] = is_covered[number] or delegates[number]

    def _find_listed(self, tree: Tree) -> None:
        for number in tree.order:
            above = tree.parents[number]
            if above >= 0:
                self.listed[number] = above if self.is_listed(above) else self.listed[above]
