"""Transformations of a path's value: texts that are parsed, values that are translated, times that have a unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from ragweir.errors import Rejected
from ragweir.schemas.codec.mapping.literals import PARSERS
from ragweir.schemas.codec.mapping.paths import ABSENT, Reader
from ragweir.schemas.codec.mapping.scope import Scope
from ragweir.schemas.times import UNITS, Unit, epoch_number, from_epoch, parse_time

_EPOCH = from_epoch(0, "s")
_NONE = "no time"
"""Text that is no time, so that the event is rejected or the time flagged."""
_NAMES_OF_FORMATS = {"json": "JSON", "python": "a Python literal"}


def as_json(constant: object, scope: Scope) -> Any:
    """Return a constant as JSON data, in which TOML's dates are text, so that publishing does not change it.

    Raises:
        MapError: if it has no JSON.
    """
    try:
        return orjson.loads(orjson.dumps(constant, option=orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC))
    except (TypeError, ValueError):
        raise scope.error("this constant cannot be written as JSON") from None


def in_turn(first: Reader, *others: Reader) -> Reader:
    """Return a function that applies functions in turn, as long as there is a value."""
    if not others:
        return first

    def change(value: Any) -> Any:
        value = first(value)
        for each in others:
            if value is ABSENT or value is None:
                return value
            value = each(value)
        return value

    return change


def origin(rule: Mapping[str, Any], scope: Scope) -> str:
    """Return the field and the path of a rule, for messages."""
    return f"{scope.field} (from {rule['path']})"


def _parsing(rule: Mapping[str, Any], scope: Scope) -> Reader:
    """Return the parser of a value's text; a value that is no text is parsed already."""
    kind = rule["parse"]
    if not isinstance(kind, str) or kind not in PARSERS:
        raise scope.error(f"`parse` must be one of {', '.join(PARSERS)}")
    parser = PARSERS[kind]
    message = f"{origin(rule, scope)}: the text is not {_NAMES_OF_FORMATS.get(kind)}"

    def parse(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if not value or value.isspace():
            return ABSENT
        try:
            return parser(value)
        except ValueError:
            raise Rejected("unmapped", message) from None

    return parse


def _splitting(rule: Mapping[str, Any], scope: Scope) -> Reader:
    """Return the function that splits text into a list; a value that is no text is kept."""
    separator = rule["split"]
    if not isinstance(separator, str) or not separator:
        raise scope.error("`split` must be the text between the elements")
    return lambda value: (value.split(separator) if value else ABSENT) if isinstance(value, str) else value


def _listing(rule: Mapping[str, Any], scope: Scope) -> Reader:
    """Return the function that makes a list of an object's entries; a value that is no object is kept."""
    if rule["entries"] is not True:
        raise scope.error("`entries` must be true")
    return lambda value: (
        [{"name": name, "value": each} for name, each in value.items()] if isinstance(value, dict) else value
    )


def as_text(rule: Mapping[str, Any], scope: Scope) -> Reader:
    """Return the function that makes text of any value: compact JSON of what is no text.

    Raises:
        MapError: if `text` is not true.
    """
    if rule["text"] is not True:
        raise scope.error("`text` must be true")

    def text(value: Any) -> Any:
        if isinstance(value, str):
            return value
        try:
            return orjson.dumps(value).decode()
        except TypeError:
            raise Rejected("unmapped", f"{scope.field}: a value is nested too deeply to be text") from None

    return text


def _translating(rule: Mapping[str, Any], scope: Scope) -> Reader:
    """Return the function that looks values up in a table."""
    table = rule["translate"]
    if not isinstance(table, Mapping) or not table:
        raise scope.error("`translate` must be a table of values, such as { LLM = 'llm' }")
    values: dict[object, Any] = {str(key): as_json(value, scope) for key, value in table.items()}
    if "otherwise" not in rule:
        return lambda value: values.get(_key(value), value)
    other = as_json(rule["otherwise"], scope)
    return lambda value: values.get(_key(value), other)


def _key(value: Any) -> object:
    """Return a value as a key of TOML, in which keys are text; None if it has none.

    >>> _key("LLM"), _key(True), _key(1), _key([])
    ('LLM', 'true', '1', None)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else None


def _unit(rule: Mapping[str, Any], scope: Scope) -> Unit:
    unit: Unit = rule["unit"]
    if scope.field not in scope.times:
        raise scope.error(f"only a time has a unit, which are {', '.join(scope.times)}")
    if unit not in UNITS:
        raise scope.error(f"the unit must be one of {', '.join(UNITS)}")
    return unit


def _timing(rule: Mapping[str, Any], scope: Scope) -> Reader:
    """Return the function that makes RFC 3339 text of a time in a unit."""
    unit = _unit(rule, scope)
    return lambda value: _rfc3339(value, unit)


def later(rule: Mapping[str, Any], scope: Scope, duration: Reader, start: Reader) -> Reader:
    """Return the reader of a time that is a duration after another one.

    Raises:
        MapError: if there is no unit, or the field is no time.
    """
    if "unit" not in rule:
        raise scope.error("`after` needs the `unit` of the duration")
    unit = _unit(rule, scope)

    def read_later(data: Any) -> Any:
        length, began = duration(data), start(data)
        if length is ABSENT or length is None or began is ABSENT or began is None:
            return ABSENT
        number = epoch_number(length)
        if number is None:
            return _NONE
        try:
            # A duration is the distance of two times.
            return (parse_time(began) + (from_epoch(number, unit) - _EPOCH)).isoformat()
        except (ValueError, OverflowError):
            return _NONE

    return read_later


def _rfc3339(value: object, unit: Unit) -> object:
    number = epoch_number(value)
    if number is None:
        return value
    try:
        return from_epoch(number, unit).isoformat()
    except ValueError:
        return f"{number} {unit}"  # Invalid, so that it is not read in another unit.


TRANSFORMATIONS: Mapping[str, Callable[[Mapping[str, Any], Scope], Reader]] = {
    "parse": _parsing,
    "entries": _listing,
    "split": _splitting,
    "translate": _translating,
    "unit": _timing,
}
"""The transformations in their order; `then` follows them."""
