"""The command line's entry point: the options of all commands, and errors as one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from confluent_kafka import KafkaException
from rich.text import Text
from typer.core import TyperGroup
from typing_extensions import override

from ragweir.errors import RagweirError
from ragweir.streams import logs
from ragweir.streams.settings import Settings, load
from ragweir.streams.terminal import Terminal

out = Terminal()
err = Terminal(stderr=True)

USAGE = 2
FAILURE = 1
STOPPED = 130
"""The exit status of a command that Ctrl-C ended, as in shells."""

_MODULES: Mapping[str, str] = {
    "demo": "demo",
    "score": "score",
    "tap": "tap",
    "explain": "explain",
    "compare": "compare",
    "metrics": "metrics",
    "publish": "publish",
    "doctor": "doctor",
    "topics": "topics",
    "assemble": "services",
    "key": "services",
    "join": "services",
    "evaluate": "services",
    "judge": "services",
    "aggregate": "services",
    "up": "services",
    "replay": "replay",
    "runs": "runs",
    "slo": "slo",
    "dead-letter": "dead_letter",
    "simulate-judge": "simulate_judge",
}
"""The module of each command. The help lists them in this order, and then those of the projections."""
_ORDER = {name: number for number, name in enumerate(_MODULES)}
_PROJECTIONS_MODULE = "services"
"""The module of all other commands: those of the projections, whose table takes too long to import here."""

_UsageError: Any = typer.BadParameter.__base__
"""The base of typer's errors about the command line, which has no public name."""


class _Commands(Mapping[str, Any]):
    """The commands by name. Modules are imported on demand: importing all takes longer than most commands."""

    def __init__(self, built: Mapping[str, Any]) -> None:
        self._built = dict(built)

    def _import(self, *modules: str) -> None:
        for module in modules:
            import_module(f"ragweir.streams.cli.{module}")
        group: Any = typer.main.get_command(app)
        self._built = group.commands._built

    @override
    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._import(_MODULES.get(name, _PROJECTIONS_MODULE))
        return self._built[name]

    @override
    def __iter__(self) -> Iterator[str]:
        self._import(*_MODULES.values())
        # Not in the order of the imports, which differs between processes.
        return iter(sorted(self._built, key=lambda name: _ORDER.get(name, len(_ORDER))))

    @override
    def __len__(self) -> int:
        return sum(1 for _ in self)


class _CommandGroup(TyperGroup):
    """The group of all commands."""

    def __init__(self, *, commands: Mapping[str, Any], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(commands)  # type: ignore[assignment] # read only


app = typer.Typer(
    cls=_CommandGroup,
    name="ragweir",
    help="Evaluates RAG traffic on Kafka: every answered question is scored, exactly once.\n\n"
    "Start with `ragweir demo`, which needs no configuration, or with `ragweir score FILE`, which needs no Kafka. "
    "Settings are read from ragweir.toml, overridden by RAGWEIR_... variables, overridden by options.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


class _Shared:
    """The options before the command's name."""

    config: Path | None = None
    overrides: Mapping[str, Any] = MappingProxyType({})
    debug = False


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ragweir {version('ragweir')}")
        raise typer.Exit


@app.callback()
def shared(
    config: Annotated[
        Path | None, typer.Option(help="Settings file. Default: ragweir.toml in the current folder.")
    ] = None,
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="Addresses of Kafka, host:port, in place of kafka.bootstrap_servers.")
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="Prefix of ragweir's topics, in place of topics.prefix.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors, and debug logs.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show ragweir's version and exit.")
    ] = False,
) -> None:
    """Options that go before the command."""
    _Shared.config = config
    _Shared.overrides = {"kafka": {"bootstrap_servers": bootstrap_servers}, "topics": {"prefix": prefix}}
    _Shared.debug = debug
    logs.configure(debug=debug)


def settings(**overrides: Mapping[str, Any]) -> Settings:
    """Return the effective settings; `overrides` are those of the command's own options, None if not given."""
    return load(_Shared.config, {**_Shared.overrides, **overrides})


def shared_flags() -> list[str]:
    """Return the shared options as words, for another process of ragweir."""
    overrides = _Shared.overrides
    given = {
        "--config": _Shared.config and str(_Shared.config),
        "--bootstrap-servers": overrides["kafka"]["bootstrap_servers"],
        "--prefix": overrides["topics"]["prefix"],
    }
    flags = [word for name, value in given.items() if value is not None for word in (name, value)]
    return [*flags, *(["--debug"] if _Shared.debug else [])]


def main() -> None:
    """Run the command line. Known errors are one sentence; a traceback only with --debug."""
    try:
        sys.exit(app(prog_name="ragweir", standalone_mode=False))
    except _UsageError as error:
        text = error.format_message().removeprefix("Invalid value: ").rstrip(".")
        if text:  # Empty after a command without arguments has shown its help.
            command = error.ctx.command_path if error.ctx else "ragweir"
            _print_error(f"{text} (see `{command} --help`)")
        sys.exit(USAGE)
    except typer.Abort:  # Ctrl-C or Ctrl-D at a question.
        sys.exit(STOPPED)
    except Exception as error:
        if _Shared.debug:
            raise
        known = error.exit_status if isinstance(error, RagweirError) else None
        text = str(error)
        if isinstance(error, KafkaException):
            known, text = FAILURE, error.args[0].str()
        if isinstance(error, OSError) and error.filename is not None:
            known, text = FAILURE, f"{error.filename} cannot be used: {error.strerror}"
        elif known is None:
            text = f"unexpected {type(error).__name__}: {text} (--debug shows where)"
        _print_error(text)
        sys.exit(known or FAILURE)


def _print_error(text: str) -> None:
    """Print an error, with its later lines indented, so that they cannot be taken for other messages."""
    err.say(Text.assemble(("ragweir:", "bold red"), " ", text.replace("\n", "\n  ")))
