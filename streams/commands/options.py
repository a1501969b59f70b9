"""Options that several commands have."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from ragweir.schemas.codec.ready_maps import READY_MAPS
from ragweir.schemas.window import duration_s
from ragweir.streams.commands.app import FAILURE

MapFile = Annotated[
    Path | None,
    typer.Option(
        "--map",
        metavar="FILE|NAME",
        help=f"Map of foreign events to ragweir's fields: a TOML file of FIELD = PATH, or a ready map "
        f"({', '.join(READY_MAPS)}).",
    ),
]
DefaultTime = Annotated[
    str | None,
    typer.Option(
        "--default-time",
        help="Time of events that have none, which are flagged time_defaulted: RFC 3339, or a number since 1970.",
    ),
]
Workers = Annotated[
    int, typer.Option(min=1, max=256, help="Number of worker processes; at most one per partition has work.")
]
Every = Annotated[
    str, typer.Option(help="Interval whose multiples end the seven days of windows: 1d, or a part of a day such as 1h.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Go on without asking for confirmation.")]


def check_can_confirm(*, yes: bool) -> None:
    """Check that somebody can be asked for confirmation, or need not be.

    Raises:
        typer.BadParameter: if standard input is no terminal.
    """
    if not yes and not (sys.stdin and sys.stdin.isatty()):
        raise typer.BadParameter("--yes is required where standard input is no terminal, since nobody can be asked")


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation, and exit with status 1 if it is denied."""
    if not yes and not typer.confirm(question, err=True):
        raise typer.Exit(FAILURE)


def interval(text: str) -> timedelta:
    """Parse an interval of planning.

    >>> interval("1h")
    datetime.timedelta(seconds=3600)

    Raises:
        typer.BadParameter: if it is no duration from an hour to a day that divides a day.
    """
    try:
        seconds = duration_s(text)
    except ValueError:
        seconds = 0
    if not 3600 <= seconds <= 86_400 or 86_400 % seconds:
        raise typer.BadParameter(f"--every {text!r} is no interval from 1h to 1d that divides a day, such as 1h or 1d")
    return timedelta(seconds=seconds)
