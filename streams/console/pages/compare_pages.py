"""The pages of comparisons: what `ragweir compare --json` wrote to `compare/` in the console's folder."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ragweir.streams.analysis.compare.comparison import Comparison
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.rendering import render

_MAX_BYTES = 16 * 1024 * 1024
_MOST_FILES = 200
_MOST_SLICES = 100
_METRICS, _EVENTS = 5, 5
"""Metrics whose most changed events are shown, and events of each."""
_SUFFIX = ".json"
_READER = TypeAdapter(Comparison)


class StoredComparison(NamedTuple):
    """A file of a comparison."""

    name: str
    """Its name without the suffix."""
    written: datetime
    file: Path


def compare_routes(content: ConsoleContent) -> list[BaseRoute]:
    """Return the routes of the pages."""
    folder = content.settings.console.folder / "compare"

    def comparisons(request: Request) -> Response:
        return render(request, "comparisons.html", files=_files(folder), folder=str(folder), state=content.state())

    def comparison(request: Request) -> Response:
        # A name of the listing, so that none leads out of the folder.
        stored = next((each for each in _files(folder) if each.name == request.path_params["name"]), None)
        if stored is None:
            raise HTTPException(404, "There is no comparison of this name.")
        try:
            found = _READER.validate_json(stored.file.read_bytes())
        except (OSError, ValidationError):
            raise HTTPException(422, "This file is no comparison that ragweir compare --json wrote.") from None
        whole = [each for each in found.changes if each.dimension is None and each.difference.pairs]
        significant = [each for each in whole if each.significant]
        by_name = {each.metric: each for each in found.metrics}
        events = [(each.metric, by_name[each.metric].events[:_EVENTS]) for each in significant[:_METRICS]]
        content.seen.add(request.state.person, (each.event_id for _, shown in events for each in shown))
        return render(
            request,
            "comparison.html",
            name=stored.name,
            written=stored.written,
            found=found,
            moved=[each for each in whole if each.difference.rose or each.difference.fell],
            still=[each for each in whole if not (each.difference.rose or each.difference.fell)],
            sliced=[each for each in found.changes if each.dimension is not None and each.significant][:_MOST_SLICES],
            events=events,
            state=content.state(),
        )

    return [Route("/compare", comparisons), Route("/compare/{name}", comparison)]


def _files(folder: Path) -> list[StoredComparison]:
    """Return the comparisons of a folder, the newest first."""
    return sorted(_listed(folder), key=lambda each: each.written, reverse=True)[:_MOST_FILES]


def _listed(folder: Path) -> Iterator[StoredComparison]:
    try:
        entries = list(folder.iterdir())
    except OSError:
        return
    for file in entries:
        try:
            status = file.lstat()
        except OSError:
            continue
        if file.suffix == _SUFFIX and stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_BYTES:
            yield StoredComparison(file.stem, datetime.fromtimestamp(status.st_mtime, UTC), file)
