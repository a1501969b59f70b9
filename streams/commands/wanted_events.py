"""Some events of a file or folder, read as `ragweir score` reads them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from ragweir.errors import PermanentError
from ragweir.schemas.interaction import Interaction
from ragweir.streams.analysis.labels.event_texts import Kept, TextsAgent
from ragweir.streams.commands.inputs import read_inputs, total_size
from ragweir.streams.commands.progress import Bars, FileProgress
from ragweir.streams.commands.scored_files import ScoredFiles
from ragweir.streams.commands.stopping import Stop
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import Settings


def kept_of(
    effective: Settings,
    events: Path,
    ids: Collection[str],
    stop: Stop,
    of: Callable[[Interaction], Kept | None],
    *,
    has_map: bool,
) -> dict[str, Kept]:
    """Return what is kept of events by id.

    Args:
        effective: all settings.
        events: the file or folder.
        ids: the ids of the events.
        stop: ends the reading.
        of: returns what is kept of an event; None for nothing.
        has_map: true if the command line names a map.

    Raises:
        PermanentError: if a file cannot be read to its end.
    """
    found: dict[str, Kept] = {}
    inputs = read_inputs(events)
    config = evaluate_config(effective, events.name, is_file=True)
    with Bars() as bars, inputs[0].open() as first:
        progress = FileProgress(bars, f"Reading {events.name}", total_size(inputs))
        files = ScoredFiles(
            inputs,
            config,
            stop,
            progress,
            events,
            effective,
            has_map=has_map,
            agent_of=lambda own: TextsAgent(own, ids, found, of),
        )
        for _ in files.run(first):
            pass
    if files.problems:
        raise PermanentError(f"{files.problems[0]}; without the rest of its events nothing is done")
    return found
