"""The Prometheus exporter: a projection of the windows topic to the last closed window of each size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from math import inf

from typing_extensions import override

from ragweir.metrics.aggregation.merger import WindowMerger
from ragweir.metrics.aggregation.window_aggregate import WindowDecoder
from ragweir.schemas.window import duration_s
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.projection import Projection
from ragweir.streams.runtime.records import Count, Measurements, Record
from ragweir.streams.services.export.anchor_series import AnchorSeries
from ragweir.streams.services.export.exposition import Exposition
from ragweir.streams.services.export.shift_series import ShiftSeries
from ragweir.streams.services.shared.dimensions import admission_limits
from ragweir.streams.settings import WindowSettings

ANCHORS = "judge.anchors"
_ALL_PARTITIONS = range(10_000)
"""The partitions that a topic may have."""
_SLACK_SECONDS = 900
"""Time by which a needed record may be older than the end of its window: disorder, grace, and lag of aggregate."""


class PrometheusExporter(Projection):
    """Merges records of windows and renders closed windows.

    Args:
        windows: the settings of the windows.
        decoder: the decoder of the windows' records.
        booleans: the metrics that are shown as shares.
        anchors: true to show the anchors of the judge too.
        shifts: the series of shifts; None to show none.
    """

    def __init__(
        self,
        windows: WindowSettings,
        decoder: WindowDecoder,
        booleans: Collection[str],
        *,
        anchors: bool = False,
        shifts: ShiftSeries | None = None,
    ) -> None:
        # The age of the oldest record of the last closed window of the largest size.
        self._window_since_s = 2 * duration_s(windows.sizes[-1]) + windows.grace_s + _SLACK_SECONDS
        limits = admission_limits(windows)
        self._merger = WindowMerger(windows.sizes, windows.dimensions, decoder, windows.grace_s, limits)
        self._exposition = Exposition(windows.dimensions, booleans)
        self._counts: Counter[Count] = Counter()
        self._shifts = shifts
        self._windows_from_s = -inf
        """Timestamp of the first record that the last closed windows need."""
        self._anchors = AnchorSeries() if anchors else None
        self._anchor_topic = ""
        self._shown_anchors = b""
        self._anchors_of = ""
        """The day on which they were rendered; empty once there are more of them."""

    @property
    @override
    def topics(self) -> tuple[str, ...]:
        run = None if self._shifts is None else self._shifts.run_topic
        return ("windows", *([ANCHORS] if self._anchors else []), *([] if run is None else [run]))

    @property
    @override
    def since_s(self) -> float:
        if self._shifts is None:
            return self._window_since_s
        return max(self._window_since_s, self._shifts.since_s(machine.time()))

    @override
    def open(self) -> None:
        self._windows_from_s = machine.time() - self._window_since_s

    @override
    def resume(self, topic: str, topic_id: str) -> Mapping[int, int]:
        """Read all anchors, and all windows of a run: baselines may be as old as the topic."""
        if self._shifts is not None and self._shifts.is_run(topic):
            return dict.fromkeys(_ALL_PARTITIONS, 0)
        if self._anchors is None or not topic.endswith(ANCHORS):
            return {}
        self._anchor_topic = topic
        return {0: 0}

    @override
    def take(self, record: Record) -> None:
        if self._anchors is not None and record.topic == self._anchor_topic:
            self._anchors.take(record.value)
            self._anchors_of = ""
            return
        written_s = machine.time() if record.timestamp_ms is None else record.timestamp_ms / 1000
        if self._shifts is not None:
            is_readable = self._shifts.take(record)
            if self._shifts.is_run(record.topic) or written_s < self._windows_from_s:
                self._counts["ragweir_window_records_total", "unreadable"] += not is_readable
                return
        self._merger.take(record.key, record.value, written_s)

    @override
    def flush(self, now_s: float, *, caught_up: bool) -> None:
        if caught_up and (closed := self._merger.advance(now_s)):
            self._exposition.show(closed.values())
            for size, window in closed.items():
                name = "ragweir_windows_revised_total" if window.revised else "ragweir_windows_shown_total"
                self._counts[name, size] += 1
        if caught_up and self._shifts is not None:
            self._shifts.show(self._merger.closed_until(now_s))
        if caught_up and self._anchors is not None and (today := day_of(now_s)) != self._anchors_of:
            self._anchors_of, self._shown_anchors = today, self._anchors.rendered(today)

    @override
    def drain_metrics(self) -> Measurements:
        counts, self._counts = self._counts, Counter()
        for fate, number in self._merger.fates.items():
            counts["ragweir_window_records_total", fate] += number
        for size, number in self._merger.folded.items():
            counts["ragweir_label_sets_folded_total", size] = number
        self._merger.fates.clear()
        self._merger.folded.clear()
        levels: dict[Count, float | None] = {("ragweir_open_window_bytes",): self._merger.held_bytes}
        if self._shifts is not None:
            levels["ragweir_shift_applications_ignored",] = self._shifts.left_out
        return Measurements(counts, levels)

    @override
    def exposition(self) -> bytes:
        shifts = b"" if self._shifts is None else self._shifts.content
        return self._exposition.content + self._shown_anchors + shifts


def day_of(now_s: float) -> str:
    """Return the day (UTC) of a time in epoch seconds.

    >>> day_of(0)
    '1970-01-01'
    """
    return datetime.fromtimestamp(now_s, UTC).date().isoformat()
