"""The data files of a folder."""

from __future__ import annotations

from pathlib import Path

from ragweir.streams.files.formats import SUFFIXES, suffix_of


def data_files(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the data files of a folder by name, and the names of its other files and folders.

    Data files are known by their suffixes; links are followed, and folders within it are not read.

    Raises:
        OSError: if the folder cannot be read.
    """
    entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    files = [entry for entry in entries if suffix_of(entry.name) in SUFFIXES and entry.is_file()]
    return files, [entry.name for entry in entries if entry not in set(files)]
