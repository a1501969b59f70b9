"""Checks of the files that settings name: other users of the machine must not be able to change them."""

from __future__ import annotations

import os
from pathlib import Path

from ragweir.errors import ConfigurationError
from ragweir.streams.settings.permissions import open_to_all, open_to_new_files, owned_by_another, user_name


def check_trusted(path: Path) -> None:
    """Check that no other user of this machine may change a file or folder that ragweir trusts.

    Raises:
        ConfigurationError: if it, or its folder, is writable by all, or belongs to a user who is neither the one that
            ragweir runs as nor root; on Windows never.
    """
    if (place := open_to_all(path)) is not None:
        raise ConfigurationError(
            f"every user of this machine may change {_named(place, path)}, so it is not used: chmod o-w {place}"
        )
    if (found := owned_by_another(path)) is not None:
        place, owner = found
        own, change = user_name(os.geteuid()), "chown -h" if place.is_symlink() else "chown"
        raise ConfigurationError(
            f"the user {owner} owns {_named(place, path)}, and may change it, so it is not used by the user {own}: "
            f"{change} {own} {place}, if you trust what is in it, or run ragweir as {owner}"
        )


def check_modules_of(folder: Path) -> None:
    """Check that no other user of this machine may add modules to a folder that ragweir imports from.

    Raises:
        ConfigurationError: if every user may, also in a folder with the sticky bit, or it belongs to another user.
    """
    check_trusted(folder)
    if open_to_new_files(folder):
        raise ConfigurationError(
            f"every user of this machine may add modules to {folder}, so none is imported from there: "
            "move yours to a folder of your own, and run ragweir there"
        )


def _named(place: Path, path: Path) -> str:
    return str(place) if place == path.absolute() else f"{place}, where {path} lies"
