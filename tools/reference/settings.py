"""The settings: a section for each group, with the tables within tables."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ragweir.metrics.judged.descriptions import field_docstrings
from ragweir.streams.settings import (
    OtlpOutputSettings,
    Price,
    RoutingSettings,
    Rule,
    SecretSource,
    Settings,
    SettingsGroup,
    Slo,
)
from ragweir.streams.settings.blame import Silence
from ragweir.streams.settings.labels import Question
from tools.reference.markdown import anchor, blocks, code, plain, table

HEAD = ("setting", "default", "meaning")
NESTED: tuple[tuple[str, type[SettingsGroup]], ...] = (
    ("[[slo]]", Slo),
    ("[[routing.rules]]", Rule),
    ("[judge.prices.MODEL]", Price),
    ("[judge.headers.NAME]", SecretSource),
    ("[output.otlp]", OtlpOutputSettings),
    ("[[labels.questions]]", Question),
    ("[[blame.silenced]]", Silence),
)
"""Tables within tables, by the TOML header that begins them."""


def page() -> str:
    """Return the generated part of the page."""
    return blocks(*(_group(*each) for each in groups()), *(_nested(*each) for each in NESTED), _rules())


def groups() -> Iterator[tuple[str, type[SettingsGroup]]]:
    """Yield the groups by name, each a TOML table of its own."""
    for name, field in Settings.model_fields.items():
        if isinstance(field.default, SettingsGroup):
            yield name, type(field.default)


def _group(name: str, group: type[SettingsGroup]) -> str:
    meanings = field_docstrings(group)
    rows = (
        (anchor(f"{name}.{field_name(each, field)}"), _default(field), plain(meanings[each]))
        for each, field in group.model_fields.items()
    )
    return blocks(f"## `{name}`", _about(group), table(HEAD, rows))


def _nested(header: str, group: type[SettingsGroup]) -> str:
    meanings = field_docstrings(group)
    rows = (
        (code(field_name(each, field)), _default(field), plain(meanings[each]))
        for each, field in group.model_fields.items()
    )
    return blocks(f"## `{header}`", _about(group), table(HEAD, rows))


def _rules() -> str:
    rows = (
        (
            code(rule.name),
            code(f"{rule.on} {rule.condition[0]} {_toml(rule.condition[1])}"),
            code(rule.unless) if rule.unless else "",
            ", ".join(map(code, rule.suites)),
            code(rule.probability),
        )
        for rule in RoutingSettings().rules
    )
    return blocks("## The default rules", table(("rule", "condition", "unless", "suites", "probability"), rows))


def _about(group: type[SettingsGroup]) -> str:
    return plain(inspect.getdoc(group) or "")


def field_name(name: str, field: FieldInfo) -> str:
    """Return a field's name in TOML."""
    return field.alias or name


def _default(field: FieldInfo) -> str:
    """Return a default as a cell."""
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return "required"
    if default is None:
        return "unset"
    if default in ((), {}):
        return "empty"
    if isinstance(default, tuple) and isinstance(default[0], SettingsGroup):
        names = ", ".join(code(each.name) for each in default if isinstance(each, Question))
        return names or "[the rules below](#the-default-rules)"
    if isinstance(default, dict):
        return ", ".join(code(f"{key} = {_toml(value)}") for key, value in default.items())
    return code(_toml(str(default) if isinstance(default, Path) else default))


def _toml(value: object) -> str:
    """Return a value as TOML has it.

    >>> [_toml(each) for each in (True, "a", ("1m", "5m"), 5.0, 1_048_576)]
    ['true', '"a"', '["1m", "5m"]', '5.0', '1048576']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(each) for each in value)}]"
    return repr(value)
