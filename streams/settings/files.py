"""Checks of the files and modules that settings name: other users of the machine must not be able to change them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def import_function(place: str) -> Callable[..., Any]:
    """Import the function that `module:function` names; the module may lie in the working folder.

    >>> import_function("json:dumps")(1)
    '1'

    Raises:
        ConfigurationError: if there is none, or every user of the machine may change its module.
    """
    module, _, name = place.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:  # At the end, so that no module there hides an installed one.
        sys.path.append(folder)
    steps = module.split(".")
    try:
        for depth in range(1, len(steps) + 1):  # Finding a module runs the packages around it: check them first.
            _check_module(".".join(steps[:depth]))
        function = getattr(importlib.import_module(module), name)
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"{place!r} cannot be imported as module:function ({type(error).__name__})") from None
    if not callable(function):
        raise ConfigurationError(f"{place!r} is not a function")
    return function  # type: ignore[no-any-return]


def _check_module(name: str) -> None:
    """Check the source, compiled form and package folder of a module."""
    found = importlib.util.find_spec(name)
    if found is None:
        return
    places = [Path(place) for place in found.submodule_search_locations or ()]
    if found.has_location and found.origin:
        places.append(Path(found.origin))
    if found.cached:
        places += [Path(found.cached), Path(found.cached).parent]
    for place in places:
        if place.exists():
            check_not_world_writable(place)
