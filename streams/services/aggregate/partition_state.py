"""The aggregate agent's state of one partition, and its restore from the windows topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from ragweir.schemas.window import Progress
from ragweir.schemas.window_key import ProgressKey, WindowKey, parse_window_key
from ragweir.streams.runtime.agent import Changelog
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.aggregate.held_windows import HeldWindows, RestoredWindows
from ragweir.streams.services.aggregate.window_times import WindowTimes
from ragweir.streams.services.shared.dimensions import Dimensions

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_TAIL_RECORDS = 64
"""Records that are read first of the changelog's end, to find the newest progress."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of one partition. It is replaced, never changed, so that an abort has nothing to undo."""

    next_offset: int
    held: HeldWindows = field(default_factory=HeldWindows)
    first: Mapping[datetime, int] = field(default_factory=dict)
    """A lower bound of the changelog offset at which each held window was written first."""
    written: int = 0
    """A lower bound of the changelog offset that the next record gets."""
    newest: datetime | None = None
    """The largest event time, where none counts for more than its record's timestamp."""
    active_s: float = 0.0
    """The clock at the last tick that found new events."""
    idle: bool = False
    topic_id: str = ""
    """Kafka's id of the topic that the offsets belong to; empty where it is not known."""
    part_base: int = 0
    """Added to the offset at which a part is opened, for its number."""
    progress_s: float | None = None
    """The clock at the first tick after the progress was emitted as it is now: 0 before that tick, None if the
    progress has not been emitted."""


def restored_state(
    changelog: Changelog, dimensions: Dimensions, times: WindowTimes, max_bytes: int
) -> PartitionState | None:
    """Return the state that a changelog leads to; None if it has no progress.

    Only windows that are held at the newest progress, with these dimensions, are restored.
    """
    progress = _newest_progress(changelog)
    if progress is None:
        return None
    names = dimensions.names
    newest = times.newest(progress.watermark)
    restored = RestoredWindows(max_bytes)
    first: dict[datetime, int] = {}
    foreign = 0
    for record in changelog.since(progress.changelog_offset or 0):
        key = _key(record)
        foreign += key is None
        if not isinstance(key, WindowKey) or key.dimensions.keys() != set(names) or key.part < 0:
            continue
        if times.is_held(key.start, newest):
            labels = dimensions.shared(tuple([key.dimensions[name] for name in names]))
            if record.value is None:
                restored.remove(key.start, labels, key.part)
            else:
                restored.add(key.start, labels, key.part, record.value)
                first.setdefault(key.start, record.offset)
    if foreign:
        log.warning("foreign records in the windows topic are ignored", records=foreign)
    held = restored.held()
    return PartitionState(
        progress.next_offset,
        held,
        {start: first[start] for start in held.windows},
        changelog.end,
        newest,
        idle=progress.idle,
        topic_id=progress.topic_id,
        part_base=progress.part_base,
    )


def _newest_progress(changelog: Changelog) -> Progress | None:
    """Return the progress that was written last; the search goes back from the end in growing steps."""
    first, step = changelog.end, _TAIL_RECORDS
    while first > 0:
        first = max(0, first - step)
        found: Progress | None = None
        for record in changelog.since(first):
            if record.value is not None and isinstance(_key(record), ProgressKey):
                found = Progress.model_validate_json(record.value)
                if found.changelog_offset is not None and found.changelog_offset > record.offset:
                    # Its offset is one of a topic that was deleted and created again.
                    found = found.model_copy(update={"changelog_offset": None})
        if found is not None:
            return found
        step *= 8
    return None


def _key(record: Record) -> WindowKey | ProgressKey | None:
    try:
        return parse_window_key(record.key)
    except ValueError:
        return None
