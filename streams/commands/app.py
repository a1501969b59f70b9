"""The command line's entry point: the options of all commands, and errors as one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from ragweir.errors import RagweirError
from ragweir.streams.commands.command_table import COMMANDS
from ragweir.streams.runtime.text.terminal import Terminal

if TYPE_CHECKING:
    from ragweir.streams.settings import Settings

out = Terminal()
err = Terminal(stderr=True)

USAGE = 2
FAILURE = 1
STOPPED = 130
"""The exit status of a command that Ctrl-C ended, as in shells."""

_UsageError: Any = typer.BadParameter.__base__
"""The base of typer's errors about the command line, which has no public name."""


class _Commands(Mapping[str, Any]):
    """The commands by name. The module of a command is imported on its first use."""

    def __init__(self, built: Mapping[str, Any]) -> None:
        self._built = dict(built)

    @override
    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            import_module(f"ragweir.streams.commands.{COMMANDS[name].module}")
            group: Any = typer.main.get_command(app)
            self._built = group.commands._built
        return self._built[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    @override
    def __len__(self) -> int:
        return len(COMMANDS)


class _CommandGroup(TyperGroup):
    """The group of all commands. Its help and completions list them without importing them."""

    def __init__(self, *, commands: Mapping[str, Any], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(commands)  # type: ignore[assignment] # read only

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS]

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command to list, which cannot be run."""
        if (listed := COMMANDS.get(cmd_name)) is None:
            return None
        return TyperCommand(cmd_name, help=listed.summary, hidden=not listed.summary)

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, remaining = super().resolve_command(ctx, args)
        return name, listed and self.commands[listed.name or ""], remaining


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
        from importlib.metadata import version  # noqa: PLC0415 - its parser of metadata is for this option alone

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
    from ragweir.streams.runtime.processes import logs  # noqa: PLC0415 - for commands that run, not for the help

    logs.configure(debug=debug)


def settings(**overrides: Mapping[str, Any]) -> Settings:
    """Return the effective settings; `overrides` are those of the command's own options, None if not given."""
    from ragweir.streams.settings import load  # noqa: PLC0415 - building their models takes longer than the help

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
        from confluent_kafka import KafkaException  # noqa: PLC0415 - not for the help

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
