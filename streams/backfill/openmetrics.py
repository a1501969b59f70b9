"""Windows as lines that `promtool tsdb create-blocks-from openmetrics` makes blocks of, under series of their own.

The live series speak of the last closed window and have no past; these have the windows' own times. promtool wants
time to ascend and drops what does not without a word, so that families are not grouped and have no types.
"""

from __future__ import annotations

import time

from ragweir.schemas.window import Window
from ragweir.streams.export.exposition import FAMILIES, Shown, label_names, pairs, quoted
from ragweir.streams.from_settings import catalogue, totals
from ragweir.streams.settings import Settings

_LIVE, _HISTORY = "ragweir_window", "ragweir_backfill_window"
_AHEAD_S = 300
"""Clocks may differ. A block that lies farther ahead makes Prometheus's retention delete all that lies before it."""


class OpenMetrics:
    """The output format OpenMetrics: the series that `export` shows, at the second of a window's end.

    They bear the name of the run as the label `run`. A window that ends in the future, by a wrong clock, is left out,
    and so is one before 1970, which promtool would drop.

    Args:
        run: what the windows come from.
        settings: of the windows and the metrics.
        now_s: the clock, epoch seconds; the present by default.

    Raises:
        ConfigurationError: if a metric or a pack is not what it should be.
    """

    end = b"# EOF\n"

    def __init__(self, run: str, settings: Settings, now_s: float | None = None) -> None:
        self._run = quoted(run)
        self._reading = totals(settings).decoder()
        self._booleans = frozenset(
            name for name, metric in catalogue(settings).metrics.items() if metric.unit == "boolean"
        )
        self._dimensions = settings.windows.dimensions
        self._names = label_names(self._dimensions)
        self._families = [(each.name.replace(_LIVE, _HISTORY, 1), each.samples) for each in FAMILIES]
        self._until_s = (time.time() if now_s is None else now_s) + _AHEAD_S
        self._reached_s = 0.0
        self.left_out = 0
        """Windows that have no place in Prometheus's time."""

    def of(self, window: Window) -> bytes:
        """The lines of a whole window.

        Raises:
            ValueError: if it ends before the one before it, or cannot be read by these settings.
        """
        end_s = window.end.timestamp()
        if not 0 < end_s <= self._until_s:
            self.left_out += 1
            return b""
        if end_s < self._reached_s:
            raise ValueError("windows that do not ascend by their ends")
        self._reached_s = end_s
        shown = Shown.of(self._reading.decode(window), self._booleans)
        values = [window.dimensions[name] for name in self._dimensions]
        common = f'run="{self._run}",window="{quoted(window.window)}"{pairs(self._names, values)}'
        return "".join(
            f"{name}{{{own}{common}}} {value} {end_s:.0f}\n"
            for name, samples in self._families
            for own, value in samples(shown)
        ).encode()
