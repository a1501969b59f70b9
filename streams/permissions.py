"""File permissions (POSIX): checks of files that ragweir reads, and private modes for those that it writes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_OWN = 0o600


def open_to_all(path: Path) -> Path | None:
    """Return the first of a path, its folder and the targets of links that every user may change; None without one.

    A folder with the sticky bit, such as /tmp, is not open to all, as only owners can replace its files. Missing paths
    are not, and none is on Windows.
    """
    if os.name != "posix":
        return None
    for each in (path.absolute(), path.resolve()):
        for candidate in (each, each.parent):
            try:
                mode = candidate.stat().st_mode
            except OSError:
                continue
            if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
                return candidate
    return None


def readable_by_others(path: Path) -> bool:
    """Return whether a file's group or every user of the machine may read it; never on Windows."""
    try:
        return os.name == "posix" and bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except OSError:
        return False


def create(file: Path) -> BinaryIO:
    """Open a file for writing and truncate it; a new one has mode 0600.

    Raises:
        OSError: if it cannot be opened.
    """
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), _OWN), "wb")


@contextmanager
def replacing(file: Path) -> Iterator[BinaryIO]:
    """Write a file that replaces an earlier one, with its mode, when the block ends without an error.

    A new file has mode 0600. A path that exists and is no regular file, such as a pipe, is written to directly.

    Raises:
        OSError: if it cannot be written.
    """
    if file.exists() and not file.is_file():
        with create(file) as output:
            yield output
        return
    target = file.resolve()  # A link stays; its target is replaced.
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with create(part) as output:
            if target.exists():
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            yield output
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
