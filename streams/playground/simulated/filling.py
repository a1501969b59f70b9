"""Fills in JSON schemas: makes a valid value for a schema, from the simulated judge's own values where they fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, floor
from types import MappingProxyType
from typing import Any

WORD = "simulated"
"""The text of fields without another value."""

Node = Mapping[str, Any]


def filled(schema: Node, proposal: object, share: float = 0.0) -> Any:
    """Return a value that is valid for a schema, the same every time.

    Supports types, properties, items, enum, const, anyOf, references within the schema, bounds of numbers, and lengths.
    Optional properties are filled in too. Patterns and formats are ignored.

    Args:
        schema: the whole schema.
        proposal: the value to use where the schema permits it. A float is a share, from 0 to 1, of the range between
            the bounds; texts are cut, lists cut or extended; other values that do not fit are ignored.
        share: the share for numbers without a proposal.

    >>> schema = {"type": "object", "properties": {
    ...     "score": {"type": "number", "minimum": 0, "maximum": 100},
    ...     "grade": {"enum": ["good", "bad"]},
    ...     "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2}}}
    >>> filled(schema, {"score": 0.25, "grade": "bad", "tags": ["short"]})
    {'score': 25.0, 'grade': 'bad', 'tags': ['short', 'simulated']}
    """
    return _Filling(schema, share).value(schema, proposal)


class _Filling:
    """Fills in one schema."""

    def __init__(self, root: Node, share: float) -> None:
        self._root, self._share = root, share

    def value(self, node: Node, proposal: object) -> Any:
        if "$ref" in node:
            return self.value(_resolved(node["$ref"], self._root), proposal)
        if choices := [node["const"]] if "const" in node else node.get("enum"):
            return _choice(choices, proposal)
        if alternatives := node.get("anyOf") or node.get("oneOf"):
            return self.value(_alternative(alternatives, proposal), proposal)
        return _BY_TYPE[_type(node)](self, node, proposal)

    def members(self, node: Node, proposal: object) -> dict[str, Any]:
        known = proposal if isinstance(proposal, Mapping) else {}
        return {name: self.value(each, known.get(name)) for name, each in node.get("properties", {}).items()}

    def items(self, node: Node, proposal: object) -> list[Any]:
        proposals = list(proposal) if isinstance(proposal, list) else []
        proposals += [None] * (node.get("minItems", 0) - len(proposals))
        return [self.value(node.get("items", {}), each) for each in proposals[: node.get("maxItems")]]

    def number(self, node: Node, proposal: object) -> float:
        """Return an int as it is, and a share as a number between the bounds."""
        low, high = node.get("minimum"), node.get("maximum")
        under, over = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
        start, end = _bounds(low if low is not None else under, high if high is not None else over)
        if isinstance(proposal, int) and not isinstance(proposal, bool):
            aim = float(proposal)
        else:
            aim = start + (end - start) * (proposal if isinstance(proposal, float) else self._share)
        step = node.get("multipleOf", 1 if _type(node) == "integer" else 0)
        if not step:
            inner = (end - start) / 100
            return _clamped(aim, low if under is None else under + inner, high if over is None else over - inner)
        first = (None if low is None else ceil(low / step)) if under is None else floor(under / step) + 1
        last = (None if high is None else floor(high / step)) if over is None else ceil(over / step) - 1
        steps = int(_clamped(round(aim / step), first, last))
        return float(steps * step) if isinstance(step, float) else steps * step

    def flag(self, _: Node, proposal: object) -> bool:
        return proposal if isinstance(proposal, bool) else self._share >= 0.5

    def text(self, node: Node, proposal: object) -> str:
        text = proposal if isinstance(proposal, str) else WORD
        return text.ljust(node.get("minLength", 0), ".")[: node.get("maxLength")]


_BY_TYPE: Mapping[str, Callable[[_Filling, Node, object], Any]] = MappingProxyType(
    {
        "object": _Filling.members,
        "array": _Filling.items,
        "number": _Filling.number,
        "integer": _Filling.number,
        "boolean": _Filling.flag,
        "string": _Filling.text,
        "null": lambda *_: None,
    }
)


def _type(node: Node) -> str:
    given = node.get("type", "object" if "properties" in node else "string")
    return str(given[0] if isinstance(given, list) else given)


def _resolved(reference: str, root: Node) -> Node:
    node = root
    for step in reference.removeprefix("#").split("/")[1:]:
        node = node[step.replace("~1", "/").replace("~0", "~")]
    return node


def _choice(choices: list[Any], proposal: object) -> Any:
    if any(type(each) is type(proposal) and each == proposal for each in choices):  # True equals 1.
        return proposal
    if isinstance(proposal, float) and all(isinstance(each, int | float) for each in choices):
        aim = min(choices) + proposal * (max(choices) - min(choices))
        return min(choices, key=lambda each: abs(each - aim))
    return choices[0]


def _alternative(nodes: list[Node], proposal: object) -> Node:
    """Choose null where it is permitted and there is no proposal, which ends recursive schemas."""
    nulls = [node for node in nodes if node.get("type") == "null"]
    others = [node for node in nodes if node not in nulls]
    return nulls[0] if nulls and (proposal is None or not others) else others[0]


def _bounds(low: float | None, high: float | None) -> tuple[float, float]:
    """Return the range of a share: 0 to 1, within the bounds."""
    if low is None:
        return (0.0, 1.0) if high is None else (min(0.0, high - 1), high)
    return low, low + 1 if high is None else high


def _clamped(value: float, low: float | None, high: float | None) -> float:
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)
