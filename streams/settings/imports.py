"""Imports what settings name: a module, `module:attribute`, or an entry point of an installed package."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from ragweir.errors import ConfigurationError
from ragweir.streams.settings.files import check_modules_of, check_trusted

METRICS, PACKS, DECODERS, REDACTION = "ragweir.metrics", "ragweir.packs", "ragweir.decoders", "ragweir.redaction"
"""The groups of entry points of other packages."""


@dataclass(frozen=True, slots=True)
class Imported:
    """An object that a setting names."""

    value: Any
    name: str
    """The entry point with its distribution, or `module:attribute`."""
    version: str
    """The version of the distribution; without one the module's `__version__`, or a digest of its source."""


def available(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without importing any."""
    return {each.name: each for each in entry_points(group=group)}


def import_named(name: str, group: str | None = None, attribute: str | None = None) -> Imported:
    """Import what a name in the settings leads to; a module may lie in the working folder.

    Args:
        name: `module:attribute`, an entry point's name, or a module.
        group: the group of the entry points; None if they have none.
        attribute: the attribute of a module that is named alone; None if it must not be.

    Raises:
        ConfigurationError: if there is none, it cannot be imported, or another user may change its module.

    >>> import_named("json:dumps").value(1)
    '1'
    """
    place, owner, version = name, name, None
    if ":" not in name:
        if found := _entry_point(name, group):
            place = found.value.replace(" ", "")
            if found.dist is not None:
                owner, version = f"{found.dist.name}:{name}", found.dist.version
        elif attribute is not None:
            place = owner = f"{name}:{attribute}"
    module, _, path = place.partition(":")
    try:
        imported = _imported(module)
        value: Any = imported
        for step in path.split(".") if path or ":" in place else ():
            value = getattr(value, step)
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:
        searched = f"; the working folder is {Path.cwd()}" if isinstance(error, ModuleNotFoundError) else ""
        expected = _expected(group, attribute)
        raise ConfigurationError(f"{name!r} cannot be imported{expected} ({_why(error)}){searched}") from None
    return Imported(value, owner, _version(imported) if version is None else version)


def import_function(place: str, group: str | None = None) -> Callable[..., Any]:
    """Import the function that `module:function` or an entry point names.

    >>> import_function("json:dumps")(1)
    '1'

    Raises:
        ConfigurationError: as `import_named`, or if it is no function.
    """
    function = import_named(place, group).value
    if not callable(function) or isinstance(function, ModuleType):
        raise ConfigurationError(f"{place!r} is not a function")
    return function  # type: ignore[no-any-return]


def _entry_point(name: str, group: str | None) -> EntryPoint | None:
    found = [] if group is None else list(entry_points(group=group, name=name))
    if len({each.value for each in found}) > 1:
        owners = " and ".join(sorted(each.dist.name if each.dist else each.value for each in found))
        raise ConfigurationError(f"the packages {owners} both have an entry point {name!r} of the group {group}")
    return found[0] if found else None


def _expected(group: str | None, attribute: str | None) -> str:
    forms = ["module:function" if attribute is None else f"module:attribute, module (its {attribute})"]
    return f" as {', '.join(forms + [f'an entry point of {group}'] * bool(group))}"


def _why(error: BaseException) -> str:
    """Return the type of an error, with its message where that is about a name and not from the module's own code."""
    return (
        f"{type(error).__name__}: {error}" if isinstance(error, ImportError | AttributeError) else type(error).__name__
    )


def _imported(name: str) -> ModuleType:
    folder, steps = Path.cwd(), name.split(".")
    is_elsewhere = str(folder) in sys.path or importlib.util.find_spec(steps[0]) is not None
    if not is_elsewhere and PathFinder.find_spec(steps[0], [str(folder)]) is not None:
        check_modules_of(folder)
        sys.path.append(str(folder))  # At the end, so that no module there hides an installed one.
    for depth in range(1, len(steps) + 1):  # Finding a module runs the packages around it: check them first.
        _check_module(".".join(steps[:depth]))
    return importlib.import_module(name)


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
            check_trusted(place)


def _version(module: ModuleType) -> str:
    """Return a module's `__version__`, or a digest of its source files."""
    if isinstance(version := getattr(module, "__version__", None), str):
        return version
    files = [Path(module.__file__)] if module.__file__ else []
    for folder in getattr(module, "__path__", ()):
        files += sorted(Path(folder).rglob("*.py"))
    return sha256(b"".join(sha256(file.read_bytes()).digest() for file in files if file.is_file())).hexdigest()
