"""The check of the console: its packages, its folder, and how far it has read."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed, CheckWarning
from ragweir.streams.runtime.serving.port_holder import answer
from ragweir.streams.services.console import PACKAGES, PORT
from ragweir.streams.settings import Settings

_READ = re.compile(r"^ragweir_console_read_ratio (\S+)$", re.MULTILINE)


def console(context: CheckContext) -> str:
    """Check that the console can start, and name the part of the evaluations that it has read."""
    own = context.settings.console
    if not own.enabled:
        return "it is off (console.enabled)"
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise CheckFailed(f"it needs the package {missing[0]}: pip install 'ragweir[console]'")
    place = _nearest(own.folder)
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise CheckFailed(f"console.folder {own.folder} cannot be written by this user")
    where = f"its store is in {own.folder}"
    ratio = _read_ratio(context.settings)
    if ratio is None:
        return f"{where}; it does not run on this machine"
    if ratio < 1:
        raise CheckWarning(f"{where}; it has read {ratio:.0%} of the evaluations, and its pages lack the others")
    return f"{where}; it has read all evaluations"


def _nearest(folder: Path) -> Path:
    """Return a folder, or the nearest one above it that is there."""
    there = folder.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    return there


def _read_ratio(settings: Settings) -> float | None:
    """Return the part of the evaluations that the console has read; None if none runs here."""
    if not settings.telemetry.port:
        return None
    is_there, text = answer(settings.telemetry.host, settings.telemetry.port + PORT, "/metrics")
    found = _READ.search(text) if is_there else None
    return None if found is None else float(found[1])
