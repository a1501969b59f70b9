"""Owners and permissions (POSIX): checks of files that ragweir reads, and private modes for those that it writes."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from typing_extensions import Buffer, override

_OWN = 0o600
_ROOT = 0


def open_to_all(path: Path) -> Path | None:
    """Return the first of a path, its folder and the targets of links that every user may change; None without one.

    A folder with the sticky bit, such as /tmp, is not open to all, as only owners can replace its files. Missing paths
    are not, and none is on Windows.
    """
    if os.name != "posix":
        return None
    for candidate in _places(path):
        try:
            mode = candidate.stat().st_mode
        except OSError:
            continue
        if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            return candidate
    return None


def owned_by_another(path: Path) -> tuple[Path, str] | None:
    """Return the first of a path, its folder and the targets of links that another user owns, and that user.

    The owner of a file may change it, whatever its mode is. This process's user, root, and the owner of ragweir's own
    files, whose code runs already, are no other users. Missing paths have no owner, nor have any on Windows.
    """
    if os.name != "posix":
        return None
    trusted = {os.geteuid(), _ROOT, Path(__file__).stat().st_uid}
    for candidate in _places(path):
        for place in (candidate, candidate.parent.resolve()):
            try:
                owner = place.lstat().st_uid  # The owner of a link in a sticky folder may point it elsewhere.
            except OSError:
                continue
            if owner not in trusted:
                return place, user_name(owner)
    return None


def open_to_new_files(folder: Path) -> bool:
    """Return whether every user may add files to a folder, as to /tmp; never on Windows.

    Nobody may where the file system is mounted read-only, as Kubernetes mounts a ConfigMap.
    """
    try:
        return os.name == "posix" and bool(folder.stat().st_mode & stat.S_IWOTH and not _read_only(folder))
    except OSError:
        return False


def _read_only(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def user_name(number: int) -> str:
    """Return the name of a user; the number of one that has none.

    >>> user_name(2**31 - 7)
    '2147483641'
    """
    import pwd  # noqa: PLC0415 - there is none on Windows

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _places(path: Path) -> Iterator[Path]:
    for each in (path.absolute(), path.resolve()):
        yield from (each, each.parent)


def readable_by_others(path: Path) -> bool:
    """Return whether a file's group or every user of the machine may read it; never on Windows.

    The group may where the file system is mounted read-only, as Kubernetes mounts a Secret for the group of a pod.
    """
    if os.name != "posix":
        return False
    try:
        others = stat.S_IROTH if _read_only(path) else stat.S_IRGRP | stat.S_IROTH
        return bool(path.stat().st_mode & others)
    except OSError:
        return False


def create(file: Path) -> BinaryIO:
    """Open a file for writing and truncate it; a new one has mode 0600.

    Raises:
        OSError: if it cannot be opened.
    """
    return os.fdopen(_opened(file, os.O_TRUNC), "wb")


def create_later(file: Path) -> BinaryIO:
    """Open a file for writing, whose content stays until something is written; a new one has mode 0600.

    Raises:
        OSError: if it cannot be opened.
    """
    return io.BufferedWriter(_Later(_opened(file), "wb"))


def _opened(file: Path, flags: int = 0) -> int:
    return os.open(file, os.O_WRONLY | os.O_CREAT | flags | getattr(os, "O_BINARY", 0), _OWN)


class _Later(io.FileIO):
    """A file that is truncated by the first write; a device or a pipe is not."""

    _is_written = False

    @override
    def write(self, data: Buffer, /) -> int:
        if not self._is_written and stat.S_ISREG(os.fstat(self.fileno()).st_mode):
            self.truncate(0)
        self._is_written = True
        return super().write(data)


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
