"""Fills a JSON schema in: a valid value for any schema, as near as can be to what is thought of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, floor
from types import MappingProxyType
from typing import Any

WORD = "simulated"
"""What a text says for which there is no thought."""

Node = Mapping[str, Any]


def filled(schema: Node, thought: object, share: float = 0.0) -> Any:
    """A value that is valid for a schema, the same every time.

    Serves what schemas of structured outputs consist of: types, properties, items, enum, const, anyOf, references
    within the schema, bounds of numbers, lengths. What is optional is filled in too. Patterns and formats are not
    looked at.

    Args:
        schema: the whole schema.
        thought: what to say where the schema permits it, in the form of the value. A float is a share between 0 and 1
            of the way from the least to the most that is allowed; a text is cut, a list cut or continued; what does not
            fit is passed over.
        share: thought of numbers of which nothing else is.

    >>> schema = {"type": "object", "properties": {
    ...     "score": {"type": "number", "minimum": 0, "maximum": 100},
    ...     "grade": {"enum": ["good", "bad"]},
    ...     "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2}}}
    >>> filled(schema, {"score": 0.25, "grade": "bad", "tags": ["short"]})
    {'score': 25.0, 'grade': 'bad', 'tags': ['short', 'simulated']}
    """
    return _Filling(schema, share).value(schema, thought)


class _Filling:
    """Fills in one schema."""

    def __init__(self, root: Node, share: float) -> None:
        self._root, self._share = root, share

    def value(self, node: Node, thought: object) -> Any:
        if "$ref" in node:
            return self.value(_referred(node["$ref"], self._root), thought)
        if choices := [node["const"]] if "const" in node else node.get("enum"):
            return _choice(choices, thought)
        if alternatives := node.get("anyOf") or node.get("oneOf"):
            return self.value(_alternative(alternatives, thought), thought)
        return _BY_TYPE[_type(node)](self, node, thought)

    def members(self, node: Node, thought: object) -> dict[str, Any]:
        known = thought if isinstance(thought, Mapping) else {}
        return {name: self.value(each, known.get(name)) for name, each in node.get("properties", {}).items()}

    def items(self, node: Node, thought: object) -> list[Any]:
        thoughts = list(thought) if isinstance(thought, list) else []
        thoughts += [None] * (node.get("minItems", 0) - len(thoughts))
        return [self.value(node.get("items", {}), each) for each in thoughts[: node.get("maxItems")]]

    def number(self, node: Node, thought: object) -> float:
        """A whole number that is thought of is meant as it is; a share is of the way between the bounds."""
        low, high = node.get("minimum"), node.get("maximum")
        under, over = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
        start, end = _bounds(low if low is not None else under, high if high is not None else over)
        if isinstance(thought, int) and not isinstance(thought, bool):
            aim = float(thought)
        else:
            aim = start + (end - start) * (thought if isinstance(thought, float) else self._share)
        step = node.get("multipleOf", 1 if _type(node) == "integer" else 0)
        if not step:
            inner = (end - start) / 100
            return _clamped(aim, low if under is None else under + inner, high if over is None else over - inner)
        first = (None if low is None else ceil(low / step)) if under is None else floor(under / step) + 1
        last = (None if high is None else floor(high / step)) if over is None else ceil(over / step) - 1
        steps = int(_clamped(round(aim / step), first, last))
        return float(steps * step) if isinstance(step, float) else steps * step

    def flag(self, _: Node, thought: object) -> bool:
        return thought if isinstance(thought, bool) else self._share >= 0.5

    def text(self, node: Node, thought: object) -> str:
        said = thought if isinstance(thought, str) else WORD
        return said.ljust(node.get("minLength", 0), ".")[: node.get("maxLength")]


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


def _referred(reference: str, root: Node) -> Node:
    node = root
    for step in reference.removeprefix("#").split("/")[1:]:
        node = node[step.replace("~1", "/").replace("~0", "~")]
    return node


def _choice(choices: list[Any], thought: object) -> Any:
    if any(type(each) is type(thought) and each == thought for each in choices):  # True equals 1, and is none.
        return thought
    if isinstance(thought, float) and all(isinstance(each, int | float) for each in choices):
        aim = min(choices) + thought * (max(choices) - min(choices))
        return min(choices, key=lambda each: abs(each - aim))
    return choices[0]


def _alternative(nodes: list[Node], thought: object) -> Node:
    """Nothing is said where nothing is thought of and nothing may be said: so what contains itself comes to an end."""
    nulls = [node for node in nodes if node.get("type") == "null"]
    others = [node for node in nodes if node not in nulls]
    return nulls[0] if nulls and (thought is None or not others) else others[0]


def _bounds(low: float | None, high: float | None) -> tuple[float, float]:
    """Between which numbers a share lies: 0 and 1, as far as they are allowed."""
    if low is None:
        return (0.0, 1.0) if high is None else (min(0.0, high - 1), high)
    return low, low + 1 if high is None else high


def _clamped(value: float, low: float | None, high: float | None) -> float:
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)
