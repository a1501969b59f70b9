"""Rules of maps: what stands on the right of a field, compiled to a function of the foreign event."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from ragweir.errors import NotAList, Rejected
from ragweir.schemas.codec.mapping.lists import copies, list_reader, single
from ragweir.schemas.codec.mapping.paths import ABSENT, Reader, path_text, segments, steps, walker
from ragweir.schemas.codec.mapping.scope import CompiledRule, Scope
from ragweir.schemas.codec.mapping.transformations import TRANSFORMATIONS, as_json, as_text, in_turn, later, origin
from ragweir.schemas.codec.mapping.uses import Alternatives, Use, within

_SOURCES: Mapping[str, frozenset[str]] = {
    "path": frozenset(
        {"where", "parse", "entries", "split", "then", "text", "translate", "otherwise", "unit", "after"}
    ),
    "first": frozenset(),
    "hash": frozenset(),
    "row": frozenset(),
    "constant": frozenset(),
}
"""The keys of which a table has one, with those that may stand beside it."""
_BEFORE_THEN = ("parse", "entries", "split")
_LAST = ("translate", "otherwise", "unit")
_HASH_DIGITS = 32

ROW: Any = object()
"""The key under which an event holds its row number. It is no text, so that no event can have it."""


def compile_rule(rule: object, scope: Scope) -> CompiledRule:
    """Compile a path, a list of rules to be joined, or a table.

    Raises:
        MapError: if it is none of them, or wrong.
    """
    if isinstance(rule, str):
        return _path_rule({"path": rule}, scope)
    if isinstance(rule, list) and rule and all(isinstance(each, str | Mapping) for each in rule):
        return _joining_rule(rule, scope)
    if not isinstance(rule, Mapping):
        raise scope.error("must be a path, a list of paths or a table such as { constant = ... }")
    source = next((name for name in _SOURCES if name in rule), None)
    unknown = sorted(rule.keys() - {source} - (_SOURCES[source] if source else set()))
    if source is None:
        *others, last = (f"`{name}`" for name in _SOURCES)
        names = f"{', '.join(others)} or {last}"
        hint = f'; write a name with a dot in quotes: "{scope.field}.{unknown[0]}"' if unknown else ""
        raise scope.error(f"a table needs one of {names}{hint}")
    if unknown:
        raise scope.error(f"{unknown[0]!r} has no meaning beside `{source}`")
    return _COMPILERS[source](rule, scope)


# Paths.


def _path_rule(rule: Mapping[str, Any], scope: Scope) -> CompiledRule:
    if "after" in rule:
        return _duration_rule(rule, scope)
    path = rule["path"]
    if not isinstance(path, str):
        raise scope.error("`path` must be a path")
    path_steps = steps(path)
    *outer, last = segments(path_steps)
    then = _then(rule, scope)
    uses: list[Alternatives] = [(Use(scope.field, path_steps),)]
    walk, change = walker(last), _transformation(rule, scope)
    leaf = _transformed(walk, change(then.read if then else None))
    lists, conditions = [f"{path_text(segment)}[]" for segment in outer], ["" for _ in outer]
    select = None
    if "where" in rule:
        if not outer:
            raise scope.error("`where` selects elements of a list, but its path has no []")
        select, used = compile_condition(rule["where"], scope.inner(is_root=False))
        conditions[-1] = repr(rule["where"])
        uses += within(used, path_steps[: len(path_steps) - len(last)])
    if then:
        changes = [TRANSFORMATIONS[name](rule, scope) for name in _BEFORE_THEN if name in rule]
        uses += within(then.uses, path_steps, in_turn(*changes) if changes else None)
    inner = then if then and then.lists else None
    if inner:
        tail = path_text(last)
        lists += [f"{tail}.{inner.lists[0]}" if tail else inner.lists[0], *inner.lists[1:]]
        conditions += inner.conditions

    def through(read: Reader, *, is_flat: bool) -> list[Reader]:
        """Return the reader of an innermost element, and those of the lists around it, the outermost last."""
        readers, chosen = [read], select
        for segment in reversed(outer):
            readers.append(list_reader(segment, readers[-1], chosen, origin(rule, scope), is_flat=is_flat))
            is_flat, chosen = False, None
        return readers

    def repeat(deeper: Reader) -> Reader:
        repeated = _transformed(walk, change(inner.repeat(deeper))) if inner and inner.repeat else copies(leaf, deeper)
        return through(repeated, is_flat=False)[-1]

    *below, read = through(leaf, is_flat=inner is None)
    readers = (*reversed(below), *(inner.below if inner else ()))
    return CompiledRule(read, tuple(lists), tuple(conditions), tuple(uses), readers, repeat)


def _transformed(read: Reader, change: Reader | None) -> Reader:
    """Return a reader that changes the values that are present, if there is a change."""
    if change is None:
        return read

    def read_changed(data: Any) -> Any:
        value = read(data)
        return value if value is ABSENT or value is None else change(value)

    return read_changed


# Transformations of a path's value.


def _then(rule: Mapping[str, Any], scope: Scope) -> CompiledRule | None:
    """Return the rule that follows a path."""
    if "then" not in rule:
        return None
    if misplaced := [name for name in _LAST if name in rule]:
        raise scope.error(f"`{misplaced[0]}` belongs into the table of `then`")
    then = compile_rule(rule["then"], scope.inner(is_root=False))
    if then.lists and "text" in rule:
        raise scope.error("`text` belongs into the table of `then`, which goes through a list")
    return then


def _transformation(rule: Mapping[str, Any], scope: Scope) -> Callable[[Reader | None], Reader | None]:
    """Return a function that makes the transformation of a value, if any, with a given reader for `then`."""
    if "otherwise" in rule and "translate" not in rule:
        raise scope.error("'otherwise' has no meaning without `translate`")
    before = [make(rule, scope) for name, make in TRANSFORMATIONS.items() if name in rule]
    after = [as_text(rule, scope)] if "text" in rule else []

    def with_then(then: Reader | None) -> Reader | None:
        chain = [*before, *([then] if then else []), *after]
        return in_turn(*chain) if chain else None

    return with_then


def _duration_rule(rule: Mapping[str, Any], scope: Scope) -> CompiledRule:
    """Return the rule of a time that is a duration after another one."""
    duration = compile_rule({name: rule[name] for name in rule if name not in {"unit", "after"}}, scope.inner())
    start = compile_rule(rule["after"], scope.inner())
    if duration.lists or start.lists:
        raise scope.error("`after` needs single values; for those of a list write it into `then`")
    return CompiledRule(later(rule, scope, duration.read, start.read), uses=_uses([duration, start]))


# Other sources.


def _constant_rule(rule: Mapping[str, Any], scope: Scope) -> CompiledRule:
    constant = as_json(rule["constant"], scope)
    return CompiledRule(lambda _: constant, is_constant=True)


def _row_rule(rule: Mapping[str, Any], scope: Scope) -> CompiledRule:
    if rule["row"] is not True:
        raise scope.error("`row` must be true")
    if not scope.is_root:
        raise scope.error("only an event has a row, not an element or a parsed value")
    return CompiledRule(walker((ROW,)), numbers_rows=True)


def _several(rules: object, name: str, scope: Scope) -> list[CompiledRule]:
    if not isinstance(rules, list) or not rules:
        raise scope.error(f"`{name}` must be a list of paths")
    return [compile_rule(each, scope.inner()) for each in rules]


def _first_rule(rule: Mapping[str, Any], scope: Scope) -> CompiledRule:
    rules = _several(rule["first"], "first", scope)
    through_lists = [each for each in rules if each.lists]
    readers = [single(each.read) if through_lists and scope.columns and not each.lists else each.read for each in rules]

    def first(data: Any) -> Any:
        rejected: Rejected | None = None
        others = 0
        for read in readers:
            try:
                value = read(data)
            except NotAList as reason:
                rejected, others = rejected or reason, others + 1
                continue
            except Rejected as reason:
                rejected, others = reason, len(readers)
                continue
            if value is ABSENT or value is None:
                continue
            if not isinstance(value, list) or not value or any(v is not ABSENT and v is not None for v in value):
                return value
        # What is no list has another form than this path's, which the others may have without the value.
        if rejected is not None and others >= len(readers):
            raise rejected
        return ABSENT

    lists = (f"first {[each.lists for each in through_lists]}",) if through_lists else ()
    conditions = tuple(repr([each.conditions for each in through_lists]) for _ in lists)
    alternatives = tuple(use for each in rules for uses in each.uses for use in uses)
    has_default = any(not each.uses for each in rules)
    uses = (alternatives,) if alternatives and not has_default else ()
    return CompiledRule(first, lists, conditions, uses, numbers_rows=any(each.numbers_rows for each in rules))


def _hash_rule(rule: Mapping[str, Any], scope: Scope) -> CompiledRule:
    rules = _several(rule["hash"], "hash", scope)
    readers = [each.read for each in rules]

    def digest(data: Any) -> Any:
        values = [_present(read(data)) for read in readers]
        if not any(values):
            return ABSENT
        try:
            text = orjson.dumps(values, option=orjson.OPT_SORT_KEYS)
        except TypeError:
            raise Rejected("unmapped", f"{scope.field}: a value is nested too deeply to be hashed") from None
        return hashlib.sha256(text).hexdigest()[:_HASH_DIGITS]

    return CompiledRule(digest, uses=_uses(rules), numbers_rows=any(each.numbers_rows for each in rules))


def _present(value: Any) -> list[Any]:
    """Return a list of the value, or of nothing if it is absent or null."""
    if value is ABSENT or value is None:
        return []
    if isinstance(value, list):
        return [[None if each is ABSENT else each for each in value]]
    return [value]


def _joining_rule(rules: Sequence[object], scope: Scope) -> CompiledRule:
    """Return the rule of several values joined with colons, which is absent if one of them is."""
    compiled = [compile_rule(each, scope.inner()) for each in rules]
    if any(each.lists for each in compiled):
        raise scope.error("a list cannot be joined with other values")
    readers = [each.read for each in compiled]

    def join(data: Any) -> Any:
        parts = [read(data) for read in readers]
        if not all(isinstance(part, str | int | float) for part in parts):
            return ABSENT
        return ":".join(map(str, parts))

    return CompiledRule(join, uses=_uses(compiled), numbers_rows=any(each.numbers_rows for each in compiled))


def _uses(rules: Iterable[CompiledRule]) -> tuple[Alternatives, ...]:
    return tuple(alternatives for rule in rules for alternatives in rule.uses)


_COMPILERS: Mapping[str, Callable[[Mapping[str, Any], Scope], CompiledRule]] = {
    "path": _path_rule,
    "first": _first_rule,
    "hash": _hash_rule,
    "row": _row_rule,
    "constant": _constant_rule,
}


# Conditions.


Condition = tuple[Callable[[Any], bool], tuple[Alternatives, ...]]
"""The function that returns true for what is selected, and the uses of paths in it."""


def compile_condition(condition: object, scope: Scope) -> Condition:
    """Compile a condition, or a list of them that must all hold.

    Raises:
        MapError: if it is wrong.
    """
    if isinstance(condition, list) and condition:
        every = [compile_condition(each, scope.inner()) for each in condition]
        holding = [holds for holds, _ in every]
        return (lambda data: all(holds(data) for holds in holding)), tuple(use for _, uses in every for use in uses)
    if not isinstance(condition, Mapping):
        raise scope.error("`where` must be a table such as { path = 'kind', in = ['chain'] }, or a list of such")
    rule = {name: value for name, value in condition.items() if name not in {"in", "absent"}}
    if ("in" in condition) == ("absent" in condition):
        raise scope.error("`where` needs one of `in` and `absent`")
    compiled = compile_rule(rule, scope.inner())
    if compiled.numbers_rows:
        raise scope.error("`where` cannot select by `row`")
    read = compiled.read
    if "absent" in condition:
        if not isinstance(condition["absent"], bool):
            raise scope.error("`absent` must be true or false")
        expected = condition["absent"]
        return (lambda data: (not _present_values(read(data))) is expected), compiled.uses
    listed = condition["in"]
    if not isinstance(listed, list) or not all(isinstance(each, str | int | float) for each in listed):
        raise scope.error("`in` must be a list of texts, numbers and booleans")
    allowed = {(isinstance(each, bool), each) for each in listed}

    def holds(data: Any) -> bool:
        found = _present_values(read(data))
        return any((isinstance(each, bool), each) in allowed for each in found if isinstance(each, str | int | float))

    return holds, compiled.uses


def _present_values(value: Any) -> list[Any]:
    """Return the values that are present: the elements of a list, or the value itself."""
    return [each for each in (value if isinstance(value, list) else [value]) if each is not ABSENT and each is not None]
