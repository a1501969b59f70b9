"""Finds the interactions of a trace: the spans that are roots, and the topmost GenAI spans that belong to each.

The rule: the topmost span of a GenAI convention is the root of an interaction. Where loose calls (of models,
retrievals, embeddings) share a parent of another kind, such as an HTTP server span, that parent is the root. A parent
that is missing counts like one that is there. Calls beside several interactions belong to the one that begins next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ragweir.streams.traces.step import Step, StepKind
from ragweir.streams.traces.tree import Tree

_WHOLE: frozenset[StepKind] = frozenset({"chain", "agent"})
"""Kinds of spans that may be a whole interaction; the others are calls within one."""
_MODELS: frozenset[StepKind] = frozenset({"llm", "agent"})
_CANDIDATES: frozenset[StepKind] = frozenset({"llm", "agent", "chain", "retrieval", "rerank"})
"""Kinds of which one must be among the topmost spans of an interaction. Embeddings alone, as of documents that are
indexed, are none."""
_BESIDE: frozenset[StepKind] = frozenset({"api", "other"})
"""Kinds of topmost spans that belong to no interaction, such as an evaluator or the creation of an agent."""


@dataclass(frozen=True, slots=True)
class Item:
    """The spans of one interaction."""

    root_id: str
    root: int
    """Number of the root; -1 if that span is missing."""
    tops: tuple[int, ...]
    """Numbers of its topmost GenAI spans, in the order of their beginnings."""
    has_model: bool
    """True if a model or an agent is among its spans."""
    is_call: bool = False
    """True for a single call directly under the parent in question."""
    is_fixed: bool = False
    """True if it is one of several under a span below."""
    flags: tuple[str, ...] = ()


class Roots:
    """The interactions of a tree.

    Attributes:
        tops: number of the topmost GenAI span above each span or itself, -1 outside of these.
        is_ambiguous: True if there are several spans without a parent, and no single one is the interaction.
    """

    def __init__(self, tree: Tree, steps: Sequence[Step | None]) -> None:
        self._tree, self._steps = tree, steps
        self.is_ambiguous = False
        self.tops = [-1] * len(steps)
        self._has_model = [False] * len(steps)
        self._find_tops()

    def items(self, is_full: Callable[[Item], bool]) -> list[Item]:
        """Return the interactions in the order of their beginnings; none if they are ambiguous.

        Args:
            is_full: returns whether an item has question and answer; it decides among several spans without a parent.
        """
        found = self._whole_trace(is_full)
        return sorted((each for each in found if self._is_candidate(each)), key=self._beginning)

    def _find_tops(self) -> None:
        for number in self._tree.order:
            parent = self._tree.parents[number]
            above = self.tops[parent] if parent >= 0 else -1
            step = self._steps[number]
            self.tops[number] = above if above >= 0 else number if step else -1
            if step and step.kind in _MODELS:
                self._has_model[self.tops[number]] = True

    def _beginning(self, item: Item) -> tuple[int, str]:
        spans = self._tree.spans
        return min(spans[number].started_ns for number in (item.root, *item.tops) if number >= 0), item.root_id

    def _kind(self, number: int) -> StepKind:
        step = self._steps[number]
        return step.kind if step else "other"

    def _is_candidate(self, item: Item) -> bool:
        return any(self._kind(top) in _CANDIDATES for top in item.tops)

    def _item(self, top: int) -> Item:
        root_id, is_call = self._tree.spans[top].span_id, self._kind(top) not in _WHOLE
        return Item(root_id, top, (top,), self._has_model[top], is_call)

    def _merged(self, root_id: str, root: int, items: Iterable[Item]) -> Item:
        items = list(items)
        tops = sorted(top for item in items for top in item.tops)  # Spans are numbered in the order of beginnings.
        flags = tuple(dict.fromkeys(flag for item in items for flag in item.flags))
        return Item(root_id, root, tuple(tops), any(item.has_model for item in items), flags=flags)

    # From the leaves up.

    def _whole_trace(self, is_full: Callable[[Item], bool]) -> list[Item]:
        """Return the items of the trace, by resolving the spans outside of GenAI spans from the leaves up."""
        tree = self._tree
        pending: dict[int, list[Item]] = {}
        topmost: dict[int, list[Item]] = {}
        for number in reversed(tree.order):
            if self.tops[number] == number:
                items = [] if self._kind(number) in _BESIDE else [self._item(number)]
            elif self.tops[number] < 0:
                items = self._resolved(tree.spans[number].span_id, number, pending.pop(number, []))
            else:
                continue
            parent = tree.parents[number]
            if parent < 0:
                topmost[number] = items
            else:
                pending.setdefault(parent, []).extend(items)
        return self._joined(topmost, is_full)

    def _joined(self, topmost: dict[int, list[Item]], is_full: Callable[[Item], bool]) -> list[Item]:
        """Return the items of the whole trace from those under each span whose parent is not known.

        A trace is a tree: if one of these spans is its root, the others are below it, and spans between are missing.
        """
        root = self._root(topmost)
        without: list[int] = []
        under: dict[str, list[Item]] = {}
        for number, items in topmost.items():
            if (missing := self._tree.missing[number]) is None:
                without.append(number)
            elif number != root:
                is_missed = not self._tree.spans[number].remote_parent
                found = [replace(item, flags=("spans_missing",)) for item in items] if is_missed else items
                under.setdefault(missing, []).extend(found)
        groups = [item for missing, items in sorted(under.items()) for item in self._resolved(missing, -1, items)]
        if root >= 0:
            return self._below(root, topmost[root], groups)
        if not without and len(under) <= 1:
            return groups
        items = [item for number in without for item in topmost[number]] + groups
        return self._chosen([item for item in items if self._is_candidate(item)], is_full)

    def _root(self, topmost: dict[int, list[Item]]) -> int:
        """Return the number of the span that is the root of the trace, -1 if none is known.

        It is the only span without a parent, or the only one of these that has interactions below it; if there is none,
        the only one whose parent belongs to another process, unless all have the same parent.
        """
        missing, spans = self._tree.missing, self._tree.spans
        found = [number for number in topmost if missing[number] is None]
        if len(found) > 1:
            found = [number for number in found if topmost[number]]
        elif not found and len({missing[number] for number in topmost}) > 1:
            found = [number for number in topmost if spans[number].remote_parent]
        return found[0] if len(found) == 1 else -1

    def _below(self, root: int, items: list[Item], groups: list[Item]) -> list[Item]:
        if not groups:
            return items
        root_id = self._tree.spans[root].span_id
        if self.tops[root] == root:
            return [self._merged(root_id, root, [*items, *groups])]
        return self._resolved(root_id, root, [*items, *groups])

    def _chosen(self, items: list[Item], is_full: Callable[[Item], bool]) -> list[Item]:
        """Return the single interaction among items of which none is above the others."""
        if len(items) <= 1:
            return items
        candidates = [item for item in items if item.has_model] or items
        if len(candidates) > 1:
            candidates = [item for item in candidates if is_full(item)]
        if len(candidates) != 1:
            self.is_ambiguous = True
            return []
        chosen = candidates[0]
        rest = [item for item in items if not item.has_model and item is not chosen]
        joined = self._merged(chosen.root_id, chosen.root, [chosen, *rest])
        return [replace(joined, flags=(*joined.flags, "several_roots"))]

    def _resolved(self, root_id: str, root: int, items: list[Item]) -> list[Item]:
        """Return the items under a span that is in no GenAI convention: the same, or some of them as one.

        Several items that are left are fixed: spans above do not join them.
        """
        fixed = [item for item in items if item.is_fixed]
        found = self._under_one_parent(root_id, root, [item for item in items if not item.is_fixed])
        is_fixed = len(found) + len(fixed) > 1
        return [*(replace(item, is_call=False, is_fixed=is_fixed) for item in found), *fixed]

    def _under_one_parent(self, root_id: str, root: int, items: list[Item]) -> list[Item]:
        if len(items) <= 1:
            return items
        names = Counter(self._name(item) for item in items if not item.is_call)
        whole = [item for item in items if item.has_model and not item.is_call]
        models = [item for item in items if item.has_model and item.is_call]
        failed: list[Item] = []
        parts: list[Item] = []
        for item in items:
            if not item.has_model:
                (failed if not item.is_call and self._is_failed(item, names) else parts).append(item)
        if whole and (len(whole) > 1 or models):
            return [*self._divided([*whole, *models], parts), *failed]
        within = [*whole, *models, *parts]
        return [self._merged(root_id, root, within), *failed] if len(within) > 1 else [*within, *failed]

    def _name(self, item: Item) -> str:
        return self._tree.spans[item.root].name if item.root >= 0 else ""

    def _is_failed(self, item: Item, names: Counter[str]) -> bool:
        """Return whether an item without a model is an interaction of its own: it failed early, or has siblings."""
        return item.root >= 0 and (self._tree.spans[item.root].error is not None or names[self._name(item)] > 1)

    def _divided(self, items: list[Item], parts: list[Item]) -> list[Item]:
        """Return the items, each with the parts that began after the item before it."""
        items = sorted(items, key=self._beginning)
        shares: list[list[Item]] = [[] for _ in items]
        place = 0
        for part in sorted(parts, key=self._beginning):
            while place < len(items) - 1 and self._beginning(items[place]) < self._beginning(part):
                place += 1
            shares[place].append(part)
        return [
            self._merged(item.root_id, item.root, [item, *share]) if share else item
            for item, share in zip(items, shares, strict=True)
        ]
