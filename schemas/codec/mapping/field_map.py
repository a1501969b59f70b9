"""Maps of foreign schemas: a TOML file with, for each field of an interaction, the path to it in a foreign event.

    event_id = ["task_id", "model"]              # several paths are joined with ":"
    query = "choices[0].question"
    "contexts[].text" = "docs[].text"            # [] goes through a list, on both sides
    ended_at = { path = "ts", unit = "ms" }      # other rules are tables

A field that the foreign event lacks is absent; fields that the map does not name are left out. The guide to maps
lists all rules.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from ragweir.errors import MapError, Rejected
from ragweir.schemas.codec.intake import DEFAULT_MAX_ITEMS
from ragweir.schemas.codec.mapping.lists import single
from ragweir.schemas.codec.mapping.paths import ABSENT, Reader, path_text, steps
from ragweir.schemas.codec.mapping.rules import ROW, compile_condition, compile_rule
from ragweir.schemas.codec.mapping.scope import CompiledRule, Scope
from ragweir.schemas.codec.mapping.uses import Alternatives
from ragweir.schemas.interaction import Interaction

_WHERE = "where"
_SHOWN_PATHS = 3
Names = tuple[str, ...]


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
        self._scalars: list[tuple[Names, Reader]] = []
        self._columns: dict[str, list[tuple[Names, Reader]]] = {}
        self._constants: dict[str, list[tuple[Names, Any]]] = {}
        """Values of all elements of a list."""
        self.numbers_rows = False
        """True if a rule needs the row number, which only the events of a file have."""
        made_by = rules.get("event_id")
        self.hashes_ids = isinstance(made_by, Mapping) and "hash" in made_by
        """True if the ids of events are hashes of their content."""
        fields = {field: rule for field, rule in rules.items() if field != _WHERE}
        self._selects = None
        self._conditions: tuple[Alternatives, ...] = ()
        self._uses: list[Alternatives] = []
        self.origins: dict[str, str] = {}
        """The paths of each field, for messages; empty for a constant."""
        if _WHERE in rules:
            self._selects, self._conditions = compile_condition(rules[_WHERE], Scope(_WHERE))
        _check_distinct(fields)
        columns: dict[str, dict[str, CompiledRule]] = {}
        for field, rule in fields.items():
            names, is_column = _target(field)
            compiled = compile_rule(rule, Scope(field, columns=is_column))
            self.numbers_rows |= compiled.numbers_rows
            self._uses += compiled.uses
            self.origins[field] = _origin(compiled)
            if not is_column:
                if compiled.lists and len(names) > 1 and field not in DEFAULT_MAX_ITEMS:
                    raise MapError(f"{field}: a path through a list needs [] on both sides")
                self._scalars.append((names, compiled.read))
            elif compiled.is_constant:
                self._constants.setdefault(names[0], []).append((names[1:], compiled.read(None)))
            else:
                columns.setdefault(names[0], {})[field] = compiled
        for name in self._constants.keys() - columns.keys():
            raise MapError(f"{name}[]: a constant needs another field of {name}[] that is read from a list")
        for name, group in columns.items():
            self._columns[name] = [(_target(field)[0][1:], aligned(field, group)) for field in group]
        missing = {"event_id", "query", "response"} - set(rules)
        if missing:
            raise MapError(f"the map must name {', '.join(sorted(missing))}")

    @classmethod
    def parse(cls, toml: str) -> FieldMap:
        """Compile a map from TOML.

        Raises:
            MapError: if it is not TOML, or a rule is wrong.
        """
        return cls(rules_in(toml))

    def selects(self, data: object) -> bool:
        """Return true if `where` selects the event."""
        return self._selects is None or self._selects(data)

    @property
    def conditions(self) -> Sequence[Alternatives]:
        """The uses of paths in `where`."""
        return self._conditions

    @property
    def uses(self) -> Sequence[Alternatives]:
        """The uses of paths in the rules of fields."""
        return self._uses

    def __call__(self, data: object, row: int | None = None) -> dict[str, Any] | None:
        """Return the fields of an interaction for a foreign event; None for an event that `where` does not select.

        Args:
            data: the event, as parsed JSON.
            row: number of the event in its file, for the rule `row`.

        Raises:
            Rejected: if the event is not an object, a path through a list leads to something else, or a text cannot be
                parsed.
        """
        if not isinstance(data, dict):
            raise Rejected("unmapped", "the event is not an object")
        if self.numbers_rows and row is not None:
            data = {**data, ROW: str(row)}
        if self._selects is not None and not self._selects(data):
            return None
        ours: dict[str, Any] = {}
        for names, read in self._scalars:
            value = read(data)
            if isinstance(value, list):
                value = [item for item in value if item is not ABSENT]
            if value is not ABSENT:
                _put(ours, names, value)
        for name, columns in self._columns.items():
            if (items := _items(data, columns, self._constants.get(name, ()))) is not None:
                ours[name] = items
        return ours


def rules_in(toml: str) -> dict[str, Any]:
    """Return the rules of a map.

    Raises:
        MapError: if it is not TOML.
    """
    try:
        return tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise MapError(f"not TOML: {error}") from None
    except RecursionError:
        raise MapError("it is nested too deeply") from None


def _items(
    data: object, columns: Sequence[tuple[Names, Reader]], constants: Sequence[tuple[Names, Any]]
) -> list[dict[str, Any]] | None:
    """Return the elements of a list that is read column by column; None if no column is there."""
    found = ((names, read(data)) for names, read in columns)
    lists = [(names, values) for names, values in found if values is not ABSENT and values is not None]
    if not lists:
        return None
    items: list[dict[str, Any]] = [{} for _ in range(max(len(values) for _, values in lists))]
    for names, values in lists:
        for item, value in zip(items, values, strict=False):
            if value is not ABSENT:
                _put(item, names, value)
    for names, constant in constants:
        for item in items:
            _put(item, names, constant)
    return items


def _check_distinct(fields: Mapping[str, object]) -> None:
    """Check that no field is set both as a whole and in parts."""
    paths = {steps(field): field for field in fields}
    for path, field in paths.items():
        if whole := next((paths[path[:end]] for end in range(1, len(path)) if path[:end] in paths), None):
            raise MapError(f"{field}: {whole} is already set as a whole")


def _origin(rule: CompiledRule) -> str:
    """Return the paths of a rule, the first three of them."""
    paths = list(dict.fromkeys(path_text(use.path) for alternatives in rule.uses for use in alternatives))
    return ", ".join(paths[:_SHOWN_PATHS]) + (", ..." if len(paths) > _SHOWN_PATHS else "")


def _target(field: str) -> tuple[Names, bool]:
    """Return the names of a field, and true if it is one of a list's elements.

    >>> _target("contexts[].text")
    (('contexts', 'text'), True)
    """
    path = steps(field)
    names = tuple(step for step in path if isinstance(step, str))
    if names[:1] != path[:1] or names[0] not in Interaction.model_fields:
        raise MapError(f"{field}: an interaction has no field {field.partition('.')[0]!r}")
    is_column = None in path
    if len(path) != len(names) + is_column or (is_column and path[1] is not None):
        raise MapError(f"{field}: [] may only follow the first name, and places have no meaning here")
    if is_column and len(names) == 1:
        raise MapError(f"{field}: needs a name after [], such as {field}.text")
    return names, is_column


def aligned(field: str, columns: Mapping[str, CompiledRule]) -> Reader:
    """Return the reader of a field of a list's elements, with as many values as the fields of the same list.

    Raises:
        MapError: if other fields select other elements, or go through different lists within its own.
    """
    rule = columns[field]
    if not rule.lists:
        return single(rule.read)
    deepest, its_field = rule, field
    for other, fellow in columns.items():
        depth = min(len(rule.lists), len(fellow.lists))
        if rule.lists[:depth] != fellow.lists[:depth] or not depth:
            continue
        if rule.conditions[:depth] != fellow.conditions[:depth]:
            raise MapError(f"{field}: needs the same `where` as {other}, which goes through the same list")
        if depth == len(rule.lists) < len(fellow.lists):
            common = min(len(deepest.lists), len(fellow.lists))
            if deepest.lists[:common] != fellow.lists[:common]:
                raise MapError(
                    f"{field}: {its_field} and {other} go through different lists within {rule.lists[-1]}, so that it "
                    "has no number of values"
                )
            if len(fellow.lists) > len(deepest.lists):
                deepest, its_field = fellow, other
    if deepest is rule or rule.repeat is None:
        return rule.read
    return rule.repeat(deepest.below[len(rule.lists) - 1])
