"""The commands, with their arguments and options, as `--help` shows them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from ragweir.streams.commands import app
from tools.reference.markdown import blocks, code, plain, table

_VALUES: Mapping[Any, str] = {int: "NUMBER", float: "NUMBER", Path: "PATH"}
HEAD = ("argument or option", "meaning")


def page() -> str:
    """Return the generated part of the page."""
    return blocks(*(_section(name, command) for name, command in commands()))


def commands() -> Iterator[tuple[str, Any]]:
    """Yield all commands by their names, with `ragweir` before them, and `ragweir` itself first."""
    yield from _walk("ragweir", typer.main.get_command(app))


def parameters(command: Any) -> list[Any]:
    """Return the arguments and options of a command that its help shows, without `--help`."""
    return [each for each in command.params if not getattr(each, "hidden", False) and each.name != "help"]


def inner_commands(command: Any) -> dict[str, Any]:
    """Return the commands within a command that its help shows, by name."""
    inner = getattr(command, "commands", {})
    return {name: each for name, each in inner.items() if not getattr(each, "hidden", False)}


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for each, inner in inner_commands(command).items():
        yield from _walk(f"{name} {each}", inner)


def _section(name: str, command: Any) -> str:
    rows = [(_name(each), plain(_help(each))) for each in parameters(command)]
    texts = map(plain, re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")))
    listed = [(_link(name, each), plain(_first(one))) for each, one in inner_commands(command).items()]
    tables = (table(head, each) for head, each in ((HEAD, rows), (("command", "meaning"), listed)) if each)
    return blocks(f"## `{name}`", *texts, *tables)


def _link(name: str, command: str) -> str:
    return f"[{code(command)}](#{name.replace(' ', '-')}-{command})"


def _first(command: Any) -> str:
    return inspect.cleandoc(command.help or "").partition("\n\n")[0]


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return code(parameter.name.upper())
    value = "" if parameter.is_flag else f" {parameter.metavar or _value(parameter.type_descriptor.annotation)}"
    return ", ".join(code(f"{each}{value}") for each in (*parameter.opts, *parameter.secondary_opts))


def _value(annotation: Any) -> str:
    """Return the kind of an option's value, or its choices.

    >>> _value(list[int]), _value(Literal["never", "budget"])
    ('NUMBER', 'never|budget')
    """
    if get_origin(annotation) is Literal:
        return "|".join(map(str, get_args(annotation)))
    if inspect.isclass(annotation) and issubclass(annotation, Enum):
        return "|".join(str(each.value) for each in annotation)
    for inner in get_args(annotation):
        return _value(inner)
    return _VALUES.get(annotation, "TEXT")


def _help(parameter: Any) -> str:
    told = parameter.help or ""
    if parameter.required:
        return f"{told} Required."
    default = parameter.default
    shown = isinstance(default, str | int | float) and not isinstance(default, bool) and "Default: " not in told
    return f"{told} Default: {default}." if shown else told
