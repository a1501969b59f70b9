"""The history that a windows topic holds: its base windows up to its present end, merged into those of all sizes."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from ragweir.errors import PermanentError
from ragweir.metrics.aggregation.cardinality import Labels
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate, WindowDecoder
from ragweir.schemas.window import Window, duration_s
from ragweir.schemas.window_key import ProgressKey, WindowKey, parse_window_key
from ragweir.streams.aggregate.windowing import has_windows, of_all_sizes
from ragweir.streams.backfill.compaction import CompactedRecords
from ragweir.streams.explain import Watch
from ragweir.streams.from_settings import totals
from ragweir.streams.kafka.reader import Moved, offset_range, read
from ragweir.streams.settings import Settings, WindowSettings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Fate = Literal["unreadable", "other_size"]
"""Why a record is in no window: it is none, or it is one of another size than the settings' first."""


def windows(settings: Settings, prefix: str, watch: Watch, left_out: Counter[Fate] | None = None) -> Iterator[Window]:
    """The merged windows of a windows topic, in the order of `ragweir.streams.aggregate.windowing.of_all_sizes`.

    Of the many revisions of a part the last one counts, and the last ones of all parts do not fit into memory: the
    temporary folder takes them, compressed.

    Args:
        settings: of the windows, and how to reach Kafka.
        prefix: of the topic: the live one, or a replay's.
        watch: is told of the topic's offsets, then of the records that are merged.
        left_out: counts the records that are in no window.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if there is no such topic, none of its records fits the settings, or the disk is full.
        ConfigurationError: if a metric or a pack is not what it should be.
    """
    fates: Counter[Fate] = Counter() if left_out is None else left_out
    merging = _Merging(settings.windows, totals(settings).decoder(), fates)
    topic = f"{prefix}windows"
    whole = offset_range(settings, topic)
    try:
        with TemporaryDirectory(prefix="ragweir-windows-") as folder, closing(CompactedRecords(Path(folder))) as latest:
            for kept in read(settings, whole, watch(topic, len(whole))):
                merging.take(kept.key, kept.value, latest)
            moved = watch("merging", len(latest))
            bases = (
                (start, merging.sets(start, values, moved))
                for start_s, values in latest.by_start()
                for start in [_EPOCH + timedelta(seconds=start_s)]
            )
            yield from of_all_sizes(bases, settings.windows)
    except sqlite3.OperationalError as error:
        raise PermanentError(
            f"the temporary folder does not hold the windows of {topic} ({error}); set TMPDIR to one with more room"
        ) from None
    if fates["other_size"] and not merging.merged:
        raise PermanentError(
            f"the windows of {topic} are not of {settings.windows.sizes[0]}; set windows.sizes as they were written"
        )


class _Merging:
    """Reads keys as records come, and values when their windows are merged."""

    def __init__(self, settings: WindowSettings, reading: WindowDecoder, fates: Counter[Fate]) -> None:
        self._settings, self._reading, self._fates = settings, reading, fates
        self._base_s = duration_s(settings.sizes[0])
        self.merged = 0
        """How many records."""

    def take(self, key: bytes | None, value: bytes | None, latest: CompactedRecords) -> None:
        """Keep a window's record; a tombstone removes the one before."""
        try:
            match parse_window_key(key):
                case ProgressKey():
                    pass
                case WindowKey(start) if key is not None and has_windows(start):
                    latest.put(round(start.timestamp()), key, value)
                case _:
                    self._fates["unreadable"] += 1
        except ValueError:
            self._fates["unreadable"] += 1

    def sets(self, start: datetime, values: Iterable[bytes], moved: Moved) -> dict[Labels, WindowAggregate]:
        """What the records of one base window hold together, per label set."""
        sets: dict[Labels, WindowAggregate] = {}
        for value in values:
            moved(1)
            try:
                window = Window.model_validate_json(value)
                if window.window != self._settings.sizes[0]:
                    self._fates["other_size"] += 1
                    continue
                contents = self._contents(window, start)
            except (ValueError, OverflowError):
                self._fates["unreadable"] += 1
                continue
            labels = tuple([window.dimensions.get(name, "") for name in self._settings.dimensions])
            sets.setdefault(labels, WindowAggregate()).merge(contents)
            self.merged += 1
        return sets

    def _contents(self, window: Window, start: datetime) -> WindowAggregate:
        """What a record says.

        Raises:
            ValueError, OverflowError: if it does not say what its key says, or cannot be merged with the others.
        """
        if window.start != start or start.timestamp() % self._base_s:
            raise ValueError("not the window of the key")
        return self._reading.decode(window)
