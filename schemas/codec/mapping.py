"""Maps of foreign schemas: a TOML file with, for each field of an interaction, the path to it in a foreign event.

    event_id = ["task_id", "model"]                        # several paths are joined with ":"
    query = "question"
    "contexts[].text" = "contexts[].text"                  # [] goes through a list, on both sides
    "contexts[].chunk_id" = "contexts[].document_id"
    "contexts[].page" = "page"                             # one value makes a list of one
    response = "choices[0].message.content"                # one element of a list
    session_id = 'attributes."session.id"'                 # a name with a dot in it
    environment = { constant = "prod" }
    ended_at = { path = "ts", unit = "ms" }                # s, ms, us or ns; without a unit, by magnitude

A field that the foreign event lacks is absent; fields that the map does not name are left out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import orjson

from ragweir.errors import MapError, Rejected
from ragweir.schemas.codec.intake import MAX_ITEMS_LIMIT
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.times import UNITS, Unit, epoch_number, from_epoch

_ABSENT: Any = object()
_EACH = "[]"
_TIMES = ("started_at", "ended_at", "first_token_at", "spans[].started_at", "spans[].ended_at")
_STEP = re.compile(r'"([^"]+)"|\[(\d{0,6})\]|([^.\[\]"]+)')

Step = str | int
Reader = Callable[[object], Any]


def _steps(path: str) -> tuple[Step, ...]:
    """Split a path into names, indexes and list markers.

    >>> _steps('a."b.c"[0].d[]')
    ('a', 'b.c', 0, 'd', '[]')
    """
    steps: list[Step] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise MapError(f"the path {path!r} is not understood at character {at + 1}")
        quoted, index, name = found.groups()
        steps.append(quoted or name or (int(index) if index else _EACH))
        at = found.end()
        if at < len(path) and path[at] == ".":
            at += 1
            if at == len(path):
                raise MapError(f"the path {path!r} ends in a dot")
    if not steps or steps.count(_EACH) > 1:
        raise MapError(f"the path {path!r} {'has more than one []' if steps else 'is empty'}")
    return tuple(steps)


def _walk(data: Any, steps: tuple[Step, ...]) -> Any:
    for step in steps:
        if isinstance(step, int):
            if not isinstance(data, list) or step >= len(data):
                return _ABSENT
            data = data[step]
        elif isinstance(data, dict) and step in data:
            data = data[step]
        else:
            return _ABSENT
    return data


def _as_json(constant: object, field: str) -> Any:
    """Return a constant as JSON data, in which TOML's dates are text, so that publishing does not change it."""
    try:
        return orjson.loads(orjson.dumps(constant, option=orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC))
    except (TypeError, ValueError):
        raise MapError(f"{field}: this constant cannot be written as JSON") from None


def _path(rule: object) -> str | None:
    """Return the path of a rule that has a single one."""
    path = rule.get("path") if isinstance(rule, Mapping) else rule
    return path if isinstance(path, str) else None


def _reader(rule: object, field: str) -> Reader:
    """Return the function that reads a field's value, which is a list if the path has a list marker."""
    if isinstance(rule, Mapping):
        if set(rule) == {"path", "unit"}:
            return _time_reader(rule["path"], rule["unit"], field)
        if set(rule) != {"constant"}:
            raise MapError(f"{field}: a table may only hold `constant`, or `path` and `unit`")
        constant = _as_json(rule["constant"], field)
        return lambda _: constant
    if isinstance(rule, list) and rule and all(isinstance(path, str) for path in rule):
        return _joining_reader([_reader(path, field) for path in rule])
    if not isinstance(rule, str):
        raise MapError(f"{field}: must be a path, a list of paths or {{ constant = ... }}")
    steps = _steps(rule)
    return _list_reader(steps, field) if _EACH in steps else lambda data: _walk(data, steps)


def _time_reader(path: object, unit: object, field: str) -> Reader:
    """Return a reader of times of a given unit, which become RFC 3339 text."""
    if field not in _TIMES:
        raise MapError(f"{field}: only a time has a unit, which are {', '.join(_TIMES)}")
    if unit not in UNITS:
        raise MapError(f"{field}: the unit must be one of {', '.join(UNITS)}")
    if not isinstance(path, str):
        raise MapError(f"{field}: `path` must be a path")
    read, is_list = _reader(path, field), _EACH in _steps(path)

    def read_time(data: object) -> Any:
        value = read(data)
        if is_list and isinstance(value, list):
            return [_rfc3339(each, unit) for each in value]
        return _rfc3339(value, unit)

    return read_time


def _rfc3339(value: object, unit: Unit) -> object:
    number = epoch_number(value)
    if number is None:
        return value
    try:
        return from_epoch(number, unit).isoformat()
    except ValueError:
        return f"{number} {unit}"  # Invalid, so that it is not read in another unit.


def _joining_reader(readers: list[Reader]) -> Reader:
    def join(data: object) -> Any:
        parts = [read(data) for read in readers]
        if not all(isinstance(part, str | int | float) for part in parts):
            return _ABSENT
        return ":".join(map(str, parts))

    return join


def _list_reader(steps: tuple[Step, ...], field: str) -> Reader:
    at = steps.index(_EACH)
    before, after = steps[:at], steps[at + 1 :]

    def each(data: object) -> Any:
        items = _walk(data, before)
        if items is _ABSENT or items is None:
            return _ABSENT
        if not isinstance(items, list):
            raise Rejected("unmapped", f"{field}: the map's path does not lead to a list")
        # One more than the limit, so that the intake flags the list.
        return [_walk(item, after) for item in islice(items, MAX_ITEMS_LIMIT + 1)]

    return each


def _single_element_reader(read: Reader) -> Reader:
    def read_list(data: object) -> Any:
        value = read(data)
        return value if value is _ABSENT else [value]

    return read_list


def _put(target: dict[str, Any], names: tuple[str, ...], value: Any) -> None:
    for name in names[:-1]:
        target = target.setdefault(name, {})
    target[names[-1]] = value


class FieldMap:
    r"""A compiled map, which returns the fields of an interaction for a foreign event.

    >>> mapping = FieldMap.parse('event_id = "id"\nquery = "q"\nresponse = "a"\n"contexts[].text" = "docs[]"')
    >>> mapping({"id": 7, "q": "Who?", "a": "Ada.", "docs": ["x", "y"]})
    {'event_id': 7, 'query': 'Who?', 'response': 'Ada.', 'contexts': [{'text': 'x'}, {'text': 'y'}]}
    """

    def __init__(self, rules: Mapping[str, object]) -> None:
        self._scalars: list[tuple[tuple[str, ...], Reader]] = []
        self._columns: dict[str, list[tuple[tuple[str, ...], Reader]]] = {}
        fields = {_steps(field): field for field in rules}
        for steps, field in fields.items():
            if whole := next((fields[steps[:end]] for end in range(1, len(steps)) if steps[:end] in fields), None):
                raise MapError(f"{field}: {whole} is already set as a whole")
        for field, rule in rules.items():
            steps = _steps(field)
            names = tuple(step for step in steps if isinstance(step, str))
            if names[0] not in Interaction.model_fields:
                raise MapError(f"{field}: an interaction has no field {names[0]!r}")
            if names != steps or (_EACH in names and names.index(_EACH) != 1):
                raise MapError(f"{field}: [] may only follow the first name, and places have no meaning here")
            if _EACH not in names:
                if (path := _path(rule)) is not None and _EACH in _steps(path) and len(names) > 1:
                    raise MapError(f"{field}: a path through a list needs [] on both sides")
                self._scalars.append((names, _reader(rule, field)))
            elif (path := _path(rule)) is None or len(names) == 2:
                raise MapError(f"{field}: needs a path on the right, and a name after [] on the left")
            else:
                read = _reader(rule, field)
                column = read if _EACH in _steps(path) else _single_element_reader(read)
                self._columns.setdefault(names[0], []).append((names[2:], column))
        missing = {"event_id", "query", "response"} - set(rules)
        if missing:
            raise MapError(f"the map must name {', '.join(sorted(missing))}")

    @classmethod
    def parse(cls, toml: str) -> FieldMap:
        """Compile a map from TOML.

        Raises:
            MapError: if it is not TOML, or a rule is wrong.
        """
        try:
            rules = tomllib.loads(toml)
        except tomllib.TOMLDecodeError as error:
            raise MapError(f"not TOML: {error}") from None
        except RecursionError:
            raise MapError("it is nested too deeply") from None
        return cls(rules)

    def __call__(self, data: object) -> dict[str, Any]:
        """Return the fields of an interaction for a foreign event.

        Raises:
            Rejected: if the event is not an object, or a path through a list leads to something else.
        """
        if not isinstance(data, dict):
            raise Rejected("unmapped", "the event is not an object")
        ours: dict[str, Any] = {}
        for names, read in self._scalars:
            value = read(data)
            if isinstance(value, list):
                value = [item for item in value if item is not _ABSENT]
            if value is not _ABSENT:
                _put(ours, names, value)
        for name, columns in self._columns.items():
            lists = [(names, values) for names, read in columns if (values := read(data)) is not _ABSENT]
            if not lists:
                continue
            items: list[dict[str, Any]] = [{} for _ in range(max(len(values) for _, values in lists))]
            for names, values in lists:
                for item, value in zip(items, values, strict=False):
                    if value is not _ABSENT:
                        _put(item, names, value)
            ours[name] = items
        return ours
