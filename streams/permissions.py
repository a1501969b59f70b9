"""File permissions (POSIX): who may change what ragweir trusts, and who may read what it writes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_OWN = 0o600


def open_to_all(path: Path) -> Path | None:
    """The first of a path, its folder, and both behind links, that every user of the machine may change; None if none.

    A folder with the sticky bit, such as /tmp, is not open: its files can be replaced by their owners only. A path
    that does not exist is not open, and on Windows, which has no such bits, nothing is.
    """
    if os.name != "posix":
        return None
    for each in (path.absolute(), path.resolve()):
        for place in (each, each.parent):
            try:
                mode = place.stat().st_mode
            except OSError:
                continue
            if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
                return place
    return None


def readable_by_others(path: Path) -> bool:
    """Return whether a file's group or every user of the machine may read it; never on Windows."""
    try:
        return os.name == "posix" and bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except OSError:
        return False


def create(file: Path) -> BinaryIO:
    """Open a file for writing from its beginning: a new one for its owner alone (mode 0600), else with the mode it has.

    Raises:
        OSError: if it cannot be opened.
    """
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), _OWN), "wb")


@contextmanager
def replacing(file: Path) -> Iterator[BinaryIO]:
    """Write a whole file that takes an earlier one's place, and mode, when the block ends well; else nothing changes.

    A new file is its owner's alone (mode 0600). What is there and is no regular file, such as a pipe, is written to at
    once.

    Raises:
        OSError: if it cannot be written.
    """
    if file.exists() and not file.is_file():
        with create(file) as output:
            yield output
        return
    target = file.resolve()  # Where a link leads; the link stays.
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with create(part) as output:
            if target.exists():
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            yield output
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
