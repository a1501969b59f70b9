"""OpenMetrics output of past windows, as input of `promtool tsdb create-blocks-from openmetrics`.

Live series have the values of the last closed window only; these series have the times of the windows. promtool needs
ascending times and silently drops other samples, so samples are neither grouped by family nor typed.
"""

from __future__ import annotations

from typing_extensions import override

from ragweir.streams.analysis.backfill.output_formats import OutputFormat
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.aggregate.merged_window import MergedWindow
from ragweir.streams.services.export.exposition import FAMILIES, LabelSet, label_names, pairs, quoted
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import Settings

_LIVE, _HISTORY = "ragweir_window", "ragweir_backfill_window"
_MAX_AHEAD_SECONDS = 300
"""Tolerance for clock differences. Prometheus's retention deletes all blocks older than one that is far ahead."""


class OpenMetrics(OutputFormat):
    """Formats windows as samples of the series of `export`, with the label `run`, at the second of a window's end.

    Windows that end in the future, by a wrong clock, or before 1970 are left out.

    Args:
        run: value of the label.
        settings: settings of windows and metrics.
        now_s: current time in epoch seconds; defaults to the clock's.

    Raises:
        ConfigurationError: if a metric or a pack is invalid.
    """

    end = b"# EOF\n"

    def __init__(self, run: str, settings: Settings, now_s: float | None = None) -> None:
        self._run = quoted(run)
        self._booleans = frozenset(
            name for name, metric in known_catalogue(settings).metrics.items() if metric.unit == "boolean"
        )
        self._dimensions = settings.windows.dimensions
        self._names = label_names(self._dimensions)
        self._families = [(each.name.replace(_LIVE, _HISTORY, 1), each.samples) for each in FAMILIES]
        self._until_s = (machine.time() if now_s is None else now_s) + _MAX_AHEAD_SECONDS
        self._last_end_s = 0.0
        self.left_out = 0
        """Number of windows outside the range of times."""

    @override
    def lines(self, window: MergedWindow) -> bytes:
        """Return the lines of a window.

        Raises:
            ValueError: if it ends before the previous one.
        """
        end_s = window.end.timestamp()
        if not 0 < end_s <= self._until_s:
            self.left_out += 1
            return b""
        if end_s < self._last_end_s:
            raise ValueError("windows are not in order of their ends")
        self._last_end_s = end_s
        shown = LabelSet.of(window.aggregate, self._booleans)
        values = [window.dimensions[name] for name in self._dimensions]
        common = f'run="{self._run}",window="{quoted(window.size)}"{pairs(self._names, values)}'
        return "".join(
            f"{name}{{{own}{common}}} {value} {end_s:.0f}\n"
            for name, samples in self._families
            for own, value in samples(shown)
        ).encode()
