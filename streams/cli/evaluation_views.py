"""What commands share that look at many evaluations: how far they are, by what they divide them, what they show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.progress import BarColumn, Progress, TextColumn

from ragweir.errors import PermanentError
from ragweir.streams.cli.app import err
from ragweir.streams.evaluations import ShowProgress
from ragweir.streams.kafka.reader import Moved
from ragweir.streams.permissions import create
from ragweir.streams.settings import Settings
from ragweir.streams.terminal import printable

_DIMENSION = r"application|tenant|environment|pipeline_version|model|question_id|labels\.\w{1,60}"


@contextmanager
def progress() -> Iterator[Progress]:
    """A bar that stands on a terminal for as long as something takes."""
    columns = BarColumn(), TextColumn("{task.description}", markup=False)
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        yield bar


def showing(bar: Progress) -> ShowProgress:
    """Shows on a bar how far it is with reading evaluations."""

    @contextmanager
    def shown(what: str, size: int) -> Iterator[Moved]:
        task = bar.add_task(printable(what), total=size)
        try:
            yield lambda more: bar.advance(task, more)
        finally:
            bar.remove_task(task)

    return shown


def sliced_by(effective: Settings, by: Sequence[str] | None) -> tuple[str, ...]:
    """The dimensions that `--by` names, each once; by default those of the windows.

    Raises:
        typer.BadParameter: if one of them is none.
    """
    dimensions = tuple(dict.fromkeys(by or effective.windows.dimensions))
    if wrong := [name for name in dimensions if not re.fullmatch(_DIMENSION, name)]:
        raise typer.BadParameter(f"--by {wrong[0]}: there is no such dimension")
    return dimensions


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
