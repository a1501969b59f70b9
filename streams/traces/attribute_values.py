"""Reads attribute values of any type: texts, numbers, JSON, and lists that are spread over numbered keys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

REDACTED = "__REDACTED__"
"""Text that OpenInference writes in place of hidden content."""
_MAX_INDEX_DIGITS = 6
_MAX_TOKENS = 10**15
_REPR = re.compile(r"[A-Z]\w*\(\w+=")
_MAX_REPR = 200


def as_text(value: object) -> str | None:
    """Return a value as text that UTF-8 can hold; None for no value and for a redacted one.

    >>> as_text("a"), as_text(7), as_text(True), as_text(["a"]), as_text(None), as_text("__REDACTED__")
    ('a', '7', 'true', '["a"]', None, None)
    """
    if isinstance(value, str):
        if value == REDACTED:
            return None
        return value if value.isascii() else value.encode(errors="replace").decode()
    if value is None or isinstance(value, bytes):
        return None
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):  # Not JSON, or nested too deeply.
        return None


def as_name(value: object) -> str | None:
    """Return a value as text, None if it is empty."""
    return as_text(value) or None


def as_count(value: object) -> int | None:
    """Return a number of tokens; None if it is not one.

    >>> as_count(3), as_count("3"), as_count(3.0), as_count(-3), as_count(float("nan")), as_count("many")
    (3, 3, 3, None, None, None)
    """
    number = as_number(value)
    return int(number) if number is not None and 0 <= number <= _MAX_TOKENS else None


def as_number(value: object) -> float | None:
    """Return a finite number, or text that is one; None for any other value.

    >>> as_number(1), as_number("0.5"), as_number(True), as_number("inf"), as_number(10**400)
    (1.0, 0.5, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def parsed(value: object) -> Any:
    """Return the list or object that a text holds as JSON, and any other value as it is.

    >>> parsed('{"a": 1}'), parsed("[1, 2"), parsed("12"), parsed({"a": 1})
    ({'a': 1}, '[1, 2', '12', {'a': 1})
    """
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return orjson.loads(value)
        except ValueError:
            return value
    return value


def is_repr(text: str) -> bool:
    """Return whether a text is an object that a framework did not serialize.

    >>> is_repr("StopEvent(result=AgentOutput(response=..."), is_repr("<generator object>"), is_repr("<b>Ada</b>")
    (True, True, False)
    """
    if text.startswith("<"):
        return len(text) <= _MAX_REPR and text.endswith(">") and " object" in text
    return text.endswith((")", "...")) and _REPR.match(text) is not None


def as_object(value: object) -> Mapping[str, Any]:
    """Return a value, or the JSON that it holds, as a mapping; an empty one if it is none."""
    found = parsed(value)
    return found if isinstance(found, dict) else {}


def first(values: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the first value among the names that is neither None nor empty text.

    >>> first({"a": "", "b": 0}, ("a", "b"))
    0
    """
    for name in names:
        value = values.get(name)
        if value is not None and value != "":
            return value
    return None


class Numbered:
    """The attributes `PREFIX.INDEX.REST` of a span, by prefix and index.

    >>> numbered = Numbered({"docs.1.id": "b", "docs.0.id": "a", "docs.x.id": "c", "name": "n"}, ("docs",))
    >>> numbered["docs"]
    {0: {'id': 'a'}, 1: {'id': 'b'}}
    """

    def __init__(self, attributes: Mapping[str, Any], prefixes: Iterable[str]) -> None:
        found: dict[str, dict[int, dict[str, Any]]] = {prefix: {} for prefix in prefixes}
        starts = tuple(f"{prefix}." for prefix in found)
        for key, value in attributes.items():
            if not key.startswith(starts):
                continue
            for prefix, items in found.items():
                if key.startswith(f"{prefix}."):
                    index, _, rest = key[len(prefix) + 1 :].partition(".")
                    if index.isascii() and index.isdecimal() and len(index) <= _MAX_INDEX_DIGITS:
                        items.setdefault(int(index), {})[rest] = value
        self._found = {prefix: dict(sorted(items.items())) for prefix, items in found.items()}

    def __getitem__(self, prefix: str) -> dict[int, dict[str, Any]]:
        return self._found[prefix]
