"""Values of attributes, read by paths: of any type, with JSON that may be broken or cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import orjson

from ragweir.streams.traces.attribute_values import REDACTED, as_count, as_number, as_text
from ragweir.streams.traces.span import Attributes

Paths = tuple[str, ...]
"""Names of one attribute, the current one first."""

_JSON_BEGINS = ("{", "[", '"')
_MOST = 2**63 - 1
_Value = TypeVar("_Value")


def decoded(value: Any) -> Any:
    """Return a JSON text as its value, and anything else unchanged, as is a text that is not JSON.

    >>> decoded('[1, 2]'), decoded('{"cut": "of'), decoded("plain"), decoded(None)
    ([1, 2], '{"cut": "of', 'plain', None)
    """
    if not isinstance(value, str) or not value.lstrip()[:1].startswith(_JSON_BEGINS):
        return value
    try:
        return orjson.loads(value)
    except ValueError:
        return value


def as_id(value: Any) -> str | None:
    """Return an id: a text that is not empty, or a whole number.

    >>> as_id("d1"), as_id(7), as_id(""), as_id(1.5), as_id(True)
    ('d1', '7', None, None, None)
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MOST:
        return str(value)
    return as_text(value) or None if isinstance(value, str) else None


def first(values: Iterable[_Value | None]) -> _Value | None:
    """Return the first value that is not None.

    >>> first([None, "", 1])
    ''
    """
    return next((value for value in values if value is not None), None)


class Values:
    """The attributes of a span. The JSON of an attribute is parsed once, however often it is asked for.

    >>> values = Values({"new": '{"a": 1}', "old": 3})
    >>> values.json(("new", "old")), values.count(("missing", "old")), values.text(("old",))
    ({'a': 1}, 3, '3')
    """

    __slots__ = ("_attributes", "_decoded")

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes
        self._decoded: dict[str, Any] = {}

    def _present(self, paths: Paths) -> Iterator[tuple[str, Any]]:
        for path in paths:
            value = self._attributes.get(path)
            if value is not None and value != REDACTED:
                yield path, value

    def has(self, paths: Paths) -> bool:
        """Return whether one of the attributes has a value."""
        return any(True for _ in self._present(paths))

    def json(self, paths: Paths) -> Any:
        """Return the first value, decoded if it is JSON."""
        for path, value in self._present(paths):
            if path not in self._decoded:
                self._decoded[path] = decoded(value)
            return self._decoded[path]
        return None

    def is_cut(self, paths: Paths) -> bool:
        """Return whether a value begins as JSON of a list or an object, and is not: the SDK cut it at a length.

        >>> Values({"a": '[{"b": "of'}).is_cut(("a",)), Values({"a": '[{"b": 1}]'}).is_cut(("a",))
        (True, False)
        """
        value = self.json(paths)
        return isinstance(value, str) and value.lstrip().startswith(('[{"', '{"'))

    def is_redacted(self) -> bool:
        """Return whether the application replaced the content of an attribute."""
        return any(value == REDACTED for value in self._attributes.values() if isinstance(value, str))

    def text(self, paths: Paths) -> str | None:
        """Return the first value that is or gives a text."""
        return first(as_text(value) for _, value in self._present(paths))

    def id(self, paths: Paths) -> str | None:
        """Return the first value that is an id."""
        return first(as_id(value) for _, value in self._present(paths))

    def number(self, paths: Paths) -> float | None:
        """Return the first value that is a finite number."""
        return first(as_number(value) for _, value in self._present(paths))

    def count(self, paths: Paths) -> int | None:
        """Return the first value that is a whole number from 0."""
        return first(as_count(value) for _, value in self._present(paths))

    def below(self, prefix: str) -> dict[str, Any]:
        """Return the attributes whose names begin with a prefix, by the rest of their names, without redacted ones.

        >>> Values({"p.a": 1, "q.b": 2}).below("p.")
        {'a': 1}
        """
        return {
            path[len(prefix) :]: value
            for path, value in self._attributes.items()
            if path.startswith(prefix) and len(path) > len(prefix) and value is not None and value != REDACTED
        }

    def indexed(self, prefix: str) -> list[dict[str, Any]]:
        """Return numbered groups of attributes, such as `gen_ai.prompt.0.role`, in the order of their numbers.

        >>> Values({"p.10.role": "b", "p.2.role": "a", "p.2.content": "x", "p.x.role": 1}).indexed("p.")
        [{'role': 'a', 'content': 'x'}, {'role': 'b'}]
        """
        groups: dict[int, dict[str, Any]] = {}
        for path, value in self.below(prefix).items():
            number, _, name = path.partition(".")
            if name and len(number) < 10 and number.isascii() and number.isdecimal():
                groups.setdefault(int(number), {})[name] = value
        return [groups[number] for number in sorted(groups)]


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else.

    >>> as_mapping({"a": 1}), as_mapping([1])
    ({'a': 1}, {})
    """
    return value if isinstance(value, Mapping) else {}
