"""The arguments that the functions of the Python API share: settings and maps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragweir.schemas.codec.mapping import FieldMap
from ragweir.streams.services.shared.from_settings import read_map
from ragweir.streams.settings import Settings, from_groups, load

SettingsArgument = Settings | Mapping[str, Any] | str | os.PathLike[str] | None
"""Settings, the groups of settings by name, or the path of a settings file; None for the defaults."""
MapArgument = Mapping[str, Any] | str | os.PathLike[str] | None
"""The rules of a map by field, the path of a map, or the name of a ready map; None for ragweir's own fields."""


def settings_of(argument: SettingsArgument) -> Settings:
    """Return the settings of an argument.

    No file is read that the argument does not name, and the environment only together with a file.

    Raises:
        ConfigurationError: if a setting is wrong.
    """
    if isinstance(argument, Settings):
        return argument
    if argument is None or isinstance(argument, Mapping):
        return from_groups(argument or {})
    return load(Path(argument))


def map_of(argument: Mapping[str, Any] | str | os.PathLike[str]) -> FieldMap:
    """Return the map of an argument.

    Raises:
        ConfigurationError: if there is none, or a rule is wrong.
    """
    return FieldMap(argument) if isinstance(argument, Mapping) else read_map(Path(argument))
