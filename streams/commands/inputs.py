"""The input of a command: a file, the data files of a folder, or standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import typer

from ragweir.streams.commands.app import err
from ragweir.streams.files.bytestreams import ByteSource
from ragweir.streams.files.folders import data_files
from ragweir.streams.files.formats import SUFFIXES
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.terminal import printable

STANDARD_INPUT = Path("-")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Input:
    """A file, or standard input."""

    path: Path
    size: int | None
    """The size of a file in bytes; None for a pipe."""
    modified: datetime
    """The time when a file was changed; the present time for a pipe."""

    @property
    def name(self) -> str:
        """The name, without that of the folder."""
        return self.path.name

    @contextmanager
    def open(self) -> Iterator[ByteSource]:
        """Open it for the length of a `with` block.

        Raises:
            typer.BadParameter: if it cannot be opened.
        """
        if self.path == STANDARD_INPUT:
            yield _standard_input()
            return
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise typer.BadParameter(f"{self.path} cannot be opened: {error.strerror}") from None
        with file:
            yield file


def _standard_input() -> ByteSource:
    if sys.stdin is None:
        raise typer.BadParameter("standard input is closed")
    return open(sys.stdin.fileno(), "rb", closefd=False)


def read_inputs(path: Path) -> list[Input]:
    """Return the inputs that a path names; the files of a folder that are left out are reported.

    Raises:
        typer.BadParameter: if it does not exist, or is a folder without data files.
    """
    return [_input(file) for file in files_of(path)]


def total_size(inputs: Sequence[Input]) -> int | None:
    """Return the size of all inputs in bytes; None if it is not known, or 0."""
    sizes = [source.size for source in inputs]
    return None if None in sizes else sum(filter(None, sizes)) or None


def files_of(path: Path) -> list[Path]:
    """Return the file, or the data files of a folder by name; those that are left out are reported.

    Raises:
        typer.BadParameter: if it is a folder without data files, or one that cannot be read.
    """
    if not os.path.isdir(path):  # noqa: PTH112 - of a folder that may not be read it says no, and opening says why
        return [path]
    try:
        files, others = data_files(path)
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from None
    if not files:
        raise typer.BadParameter(f"the folder {path} has no data files ({', '.join(SUFFIXES)}, also with .gz or .zst)")
    if others:
        more = f" and {len(others) - _SHOWN:,} more" if len(others) > _SHOWN else ""
        names = ", ".join(printable(name) for name in others[:_SHOWN])
        err.say(f"left out, since they are no data files: {names}{more}")
    return files


def check_distinct(*files: Path | None) -> None:
    """Check that no file is named twice, to be read and written or to be written twice.

    Raises:
        typer.BadParameter: if two paths are the same file.
    """
    paths = [path.resolve() for path in files if path and path != Path(os.devnull)]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise typer.BadParameter(f"{twice} is named twice, and would be overwritten")


def _input(path: Path) -> Input:
    if path != STANDARD_INPUT:
        with suppress(OSError):
            status = path.stat()
            if path.is_file():
                return Input(path, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))
    return Input(path, None, machine.now())
