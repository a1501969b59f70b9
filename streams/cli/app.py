"""The command line's frame: the options that all commands share, and errors in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from confluent_kafka import KafkaException
from rich.console import Console
from rich.markup import escape

from schemas.codec import Rejected
from streams import logs
from streams.kafka_client import Refusal, Unreachable
from streams.local.kafka import LocalKafkaError
from streams.local.prometheus import LocalPrometheusError
from streams.runtimes.kafka import Fatal
from streams.settings import Settings, WrongSettings, load

out = Console()
err = Console(stderr=True)

USAGE = 2
FAILURE = 1

_STATUS: Mapping[type[Exception], int] = {
    WrongSettings: USAGE,
    Refusal: FAILURE,
    Unreachable: FAILURE,
    Fatal: FAILURE,
    Rejected: FAILURE,
    LocalKafkaError: FAILURE,
    LocalPrometheusError: FAILURE,
    KafkaException: FAILURE,
}

_UsageError: Any = typer.BadParameter.__base__
"""What typer raises for all that is wrong on the command line; it has no public name."""

app = typer.Typer(
    name="ragweir",
    help="Evaluates RAG traffic on Kafka: every answered question scored, exactly once.\n\n"
    "Start with `ragweir demo`. Settings come from ragweir.toml, then RAGWEIR_... variables, then flags.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


class _Shared:
    """What the options before the command's name said."""

    config: Path | None = None
    overrides: Mapping[str, Any] = MappingProxyType({})
    debug = False


@app.callback()
def shared(
    config: Annotated[Path | None, typer.Option(help="Settings file; ragweir.toml of this folder by default.")] = None,
    bootstrap_servers: Annotated[str | None, typer.Option(help="Kafka's address, overriding the settings.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Prefix of ragweir's topics, overriding the settings.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and debug logs.")] = False,
) -> None:
    """Options that go before the command."""
    _Shared.config = config
    _Shared.overrides = {"kafka": {"bootstrap_servers": bootstrap_servers}, "topics": {"prefix": prefix}}
    _Shared.debug = debug
    logs.configure(debug=debug)


def settings(**overrides: Mapping[str, Any]) -> Settings:
    """The effective settings, with what the command's own flags set (None where a flag was not given)."""
    return load(_Shared.config, {**_Shared.overrides, **overrides})


def shared_flags() -> list[str]:
    """The shared options again, for another process of the same command."""
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
        if text:  # None where a command was given nothing, and its help has been shown.
            command = error.ctx.command_path if error.ctx else "ragweir"
            err.print(
                "[bold red]ragweir:[/]", escape(f"{text} (see `{command} --help`)"), highlight=False, soft_wrap=True
            )
        sys.exit(USAGE)
    except Exception as error:
        if _Shared.debug:
            raise
        known = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), None)
        text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        if known is None:
            text = f"unexpected {type(error).__name__}: {text} (--debug shows where)"
        err.print("[bold red]ragweir:[/]", escape(text), highlight=False, soft_wrap=True)
        sys.exit(known or FAILURE)
