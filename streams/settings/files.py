"""Checks of the files that settings name: other users of the machine must not be able to change them."""

from __future__ import annotations

from pathlib import Path

from ragweir.errors import ConfigurationError
from ragweir.streams.permissions import open_to_all


def check_not_world_writable(path: Path) -> None:
    """Check that not every user of this machine may change a file or folder that ragweir trusts.

    Raises:
        ConfigurationError: if it, or its folder, is writable by all; on Windows never.
    """
    if (place := open_to_all(path)) is not None:
        of = "" if place == path.absolute() else f", where {path} lies"
        raise ConfigurationError(
            f"every user of this machine may change {place}{of}, so it is not used: chmod o-w {place}"
        )
