"""The projection of the windows topic that Prometheus scrapes: the last closed window of each size."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection

from typing_extensions import override

from ragweir.metrics.aggregation.merger import WindowMerger
from ragweir.metrics.aggregation.window_aggregate import WindowDecoder
from ragweir.schemas.window import duration_s
from ragweir.streams.aggregate.dimensions import admission_limits
from ragweir.streams.export.exposition import Exposition
from ragweir.streams.projection import Projection
from ragweir.streams.records import Count, Measurements, Record
from ragweir.streams.settings import WindowSettings

_SLACK_SECONDS = 900
"""The time by which a record that is needed may be older than the end of its window: disorder, grace, and lag of the
aggregation."""


class PrometheusExporter(Projection):
    """Merges records of windows and renders the windows that have closed.

    Args:
        windows: the settings of the windows.
        reading: the decoder of the windows' records.
        booleans: the metrics that are shown as shares.
    """

    def __init__(self, windows: WindowSettings, reading: WindowDecoder, booleans: Collection[str]) -> None:
        # The last closed window of the largest size can have been written this long ago.
        self._since_s = 2 * duration_s(windows.sizes[-1]) + windows.grace_s + _SLACK_SECONDS
        limits = admission_limits(windows)
        self._closing = WindowMerger(windows.sizes, windows.dimensions, reading, windows.grace_s, limits)
        self._exposition = Exposition(windows.dimensions, booleans)
        self._counts: Counter[Count] = Counter()

    @property
    @override
    def topics(self) -> tuple[str, ...]:
        return ("windows",)

    @property
    @override
    def since_s(self) -> float:
        return self._since_s

    @override
    def take(self, record: Record) -> None:
        written_s = time.time() if record.timestamp_ms is None else record.timestamp_ms / 1000
        self._closing.take(record.key, record.value, written_s)

    @override
    def flush(self, now_s: float) -> None:
        if closed := self._closing.advance(now_s):
            self._exposition.show(closed.values())
            for size, window in closed.items():
                name = "ragweir_windows_revised_total" if window.revised else "ragweir_windows_shown_total"
                self._counts[name, size] += 1

    @override
    def drain_metrics(self) -> Measurements:
        counts, self._counts = self._counts, Counter()
        for fate, number in self._closing.fates.items():
            counts["ragweir_window_records_total", fate] = number
        for size, number in self._closing.folded.items():
            counts["ragweir_label_sets_folded_total", size] = number
        self._closing.fates.clear()
        self._closing.folded.clear()
        return Measurements(counts, {("ragweir_open_window_bytes",): self._closing.held_bytes})

    @override
    def exposition(self) -> bytes:
        return self._exposition.content
