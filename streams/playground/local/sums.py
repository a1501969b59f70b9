"""The SHA-256 sums of Kafka's jars in this repository, without which fetched jars are not run."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import file_digest
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

_TABLE: Final = files("ragweir.streams.playground.local").joinpath("jars.sha256")


def paths() -> list[str]:
    """Return the paths of the jars in a Maven repository."""
    return [line.split()[1] for line in _TABLE.read_text(encoding="utf-8").splitlines()]


def expected() -> dict[str, str]:
    """Return the sums in this repository, by the jars' names."""
    lines = (line.split() for line in _TABLE.read_text(encoding="utf-8").splitlines())
    return {path.rpartition("/")[2]: digest for digest, path in lines}


def found(folder: Path) -> dict[str, str]:
    """Return the sums of all files in a folder, by their names."""
    sums = {}
    for file in sorted(folder.iterdir()):
        with file.open("rb") as content:
            sums[file.name] = file_digest(content, "sha256").hexdigest()
    return sums


def difference(there: Mapping[str, str], named: Mapping[str, str]) -> str | None:
    """Describe the first jar that is missing, is not named, or has another sum; return None if there is none.

    >>> difference({"a.jar": "1"}, {"a.jar": "1"}), difference({"a.jar": "1"}, {"a.jar": "2"})
    (None, 'a.jar has another SHA-256 sum than streams/playground/local/jars.sha256 names')
    >>> difference({"b.jar": "1"}, {})
    'b.jar is not named in streams/playground/local/jars.sha256'
    """
    for name in sorted({*there, *named}):
        if name not in there:
            return f"{name} is missing"
        if name not in named:
            return f"{name} is not named in streams/playground/local/jars.sha256"
        if there[name] != named[name]:
            return f"{name} has another SHA-256 sum than streams/playground/local/jars.sha256 names"
    return None


def write(repository: Path) -> None:
    """Write the sums of a Maven repository's jars to jars.sha256, in the form that `sha256sum --check` reads."""
    lines = []
    for jar in sorted(repository.rglob("*.jar"), key=lambda path: path.name):
        with jar.open("rb") as content:
            lines.append(f"{file_digest(content, 'sha256').hexdigest()}  {jar.relative_to(repository).as_posix()}\n")
    with as_file(_TABLE) as table:
        table.write_text("".join(lines), encoding="utf-8")
