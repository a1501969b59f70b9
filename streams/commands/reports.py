"""Options and report files of `ragweir compare` and `ragweir slo rehearse`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ragweir.errors import PermanentError
from ragweir.streams.commands.app import out
from ragweir.streams.runtime.text.terminal import printable_json
from ragweir.streams.settings import Settings, check_dimensions
from ragweir.streams.settings.permissions import create

By = Annotated[
    list[str] | None,
    typer.Option(
        help="Dimension whose values are reported one by one: application, tenant, environment, pipeline_version, "
        "model, question_id or labels.NAME. Repeatable. Default: the dimensions of the windows (windows.dimensions)."
    ),
]
STDOUT = Path("-")
"""The name of a file that stands for standard output."""


def _json_file(context: typer.Context, file: Path | None) -> Path | None:
    """Print the report to standard error if standard output gets its JSON."""
    if file == STDOUT:
        out.stderr = True
        context.call_on_close(lambda: setattr(out, "stderr", False))
    return file


JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        callback=_json_file,
        help="File for the whole report as JSON; with `-` standard output gets it, and standard error the report.",
    ),
]


def dimensions_of(effective: Settings, by: Sequence[str] | None) -> tuple[str, ...]:
    """Return the dimensions that `--by` names, each once; by default those of the windows.

    Raises:
        typer.BadParameter: if there is no such dimension.
    """
    dimensions = tuple(dict.fromkeys(by or effective.windows.dimensions))
    try:
        check_dimensions(dimensions)
    except ValueError as error:
        raise typer.BadParameter(f"--by {error}") from None
    return dimensions


def write_json(file: Path, data: bytes) -> None:
    """Write JSON to a file, or to standard output for `-`, there without control characters.

    Raises:
        PermanentError: if it cannot be written.
    """
    if file == STDOUT:
        typer.echo(printable_json(data))
    else:
        write(file, data)


def write(file: Path, data: bytes) -> None:
    """Write a whole file; a new one is readable by its owner alone.

    Raises:
        PermanentError: if it cannot be written.
    """
    try:
        with create(file) as output:
            output.write(data)
    except OSError as error:
        raise PermanentError(f"{file} cannot be written: {error.strerror}") from None
