"""Past windows: the base windows of a topic, merged over partitions and parts into windows of all sizes."""

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
from ragweir.schemas.times import parse_rfc3339
from ragweir.schemas.window import duration_s
from ragweir.schemas.window_key import ProgressKey, WindowKey, parse_window_key
from ragweir.schemas.window_record import parse_window
from ragweir.streams.runtime.kafka.compaction import CompactedRecords
from ragweir.streams.runtime.kafka.reader import OnProgress, Watch, offset_range, read
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.aggregate.merged_window import MergedWindow
from ragweir.streams.services.aggregate.window_times import has_windows
from ragweir.streams.services.aggregate.windowing import of_all_sizes
from ragweir.streams.services.shared.from_settings import aggregator
from ragweir.streams.settings import Settings, WindowSettings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

UnusedReason = Literal["unreadable", "other_size"]
"""Reason why a record is in no window: it is not readable, or of another size than the first in the settings."""


def windows(
    settings: Settings, prefix: str, watch: Watch, unused: Counter[UnusedReason] | None = None
) -> Iterator[MergedWindow]:
    """Yield the merged windows of a topic, in the order of `ragweir.streams.services.aggregate.windowing.of_all_sizes`.

    Only the latest revision of each part counts. The revisions are held, compressed, in the temporary directory.

    Args:
        settings: settings of windows and Kafka.
        prefix: prefix of the topic: the live one, or a replay's.
        watch: shows the progress of reading the topic and of merging.
        unused: counts the records that are in no window.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if the topic does not exist, none of its records fits the settings, or the disk is full.
        ConfigurationError: if a metric or a pack is invalid.
    """
    topic = f"{prefix}windows"
    part = offset_range(settings, topic)
    yield from of_records(topic, read(settings, part, watch(topic, len(part))), settings, watch, unused)


def of_records(
    topic: str, records: Iterable[Record], settings: Settings, watch: Watch, unused: Counter[UnusedReason] | None = None
) -> Iterator[MergedWindow]:
    """Yield the merged windows of the records of a topic; see `windows`."""
    unused = Counter() if unused is None else unused
    merger = _PartMerger(settings.windows, aggregator(settings).decoder(), unused)
    try:
        with TemporaryDirectory(prefix="ragweir-windows-") as folder, closing(CompactedRecords(Path(folder))) as latest:
            for record in records:
                merger.put(record.key, record.value, latest)
            moved = watch("merging", len(latest))
            bases = (
                (start, merger.merge(start, values, moved))
                for start_s, values in latest.by_start()
                for start in [_EPOCH + timedelta(seconds=start_s)]
            )
            yield from of_all_sizes(bases, settings.windows)
    except sqlite3.OperationalError as error:
        raise PermanentError(
            f"the temporary folder does not hold the windows of {topic} ({error}); set TMPDIR to one with more room"
        ) from None
    if unused["other_size"] and not merger.merged:
        raise PermanentError(
            f"the windows of {topic} are not of {settings.windows.sizes[0]}; set windows.sizes as they were written"
        )


class _PartMerger:
    """Decodes keys while a topic is read, and values once all revisions are known."""

    def __init__(self, settings: WindowSettings, decoder: WindowDecoder, unused: Counter[UnusedReason]) -> None:
        self._settings, self._decoder, self._unused = settings, decoder, unused
        self._base_s = duration_s(settings.sizes[0])
        self.merged = 0
        """Number of merged records."""

    def put(self, key: bytes | None, value: bytes | None, latest: CompactedRecords) -> None:
        """Put a record of a window; other records are ignored or counted as unused."""
        try:
            match parse_window_key(key):
                case ProgressKey():
                    pass
                case WindowKey(start) if key is not None and has_windows(start):
                    latest.put(round(start.timestamp()), key, value)
                case _:
                    self._unused["unreadable"] += 1
        except ValueError:
            self._unused["unreadable"] += 1

    def merge(self, start: datetime, values: Iterable[bytes], moved: OnProgress) -> dict[Labels, WindowAggregate]:
        """Return the aggregates of one base window by label set."""
        sets: dict[Labels, WindowAggregate] = {}
        for value in values:
            moved(1)
            try:
                window = parse_window(value)
                if window.window != self._settings.sizes[0]:
                    self._unused["other_size"] += 1
                    continue
                contents = self._decoder.decode(window)
                is_of_key = parse_rfc3339(window.start) == start and not start.timestamp() % self._base_s
            except (ValueError, OverflowError):
                self._unused["unreadable"] += 1
                continue
            if not is_of_key:
                self._unused["unreadable"] += 1
                continue
            labels = tuple([window.dimensions.get(name, "") for name in self._settings.dimensions])
            if labels in sets:
                sets[labels].merge(contents)
            else:
                sets[labels] = contents
            self.merged += 1
        return sets
