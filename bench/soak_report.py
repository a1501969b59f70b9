"""What a soak came to: tables, and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from ragweir.schemas.window import duration_s
from ragweir.streams.settings import Settings
from tools.plot import Panel, svg

if TYPE_CHECKING:
    from bench.soak_services import Seen
    from bench.soak_traffic import Observer, Sender, Waits

BACKLOG_S = 2.0
"""A rate does not hold where more than so much of it is unfinished."""
_SETTLING = 0.25
"""The part at the beginning of which a slope says nothing: caches fill."""
_HOUR_S = 3_600
_PARTS = 120
"""Points of a latency's line."""


def slope_per_hour(at_s: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """The slope of a line through what came after the settling, per hour, and its standard error; NaN with too little.

    The error takes the looks for independent, which memory is not: it is the least that it can be.

    >>> slope_per_hour([0, 10, 20, 30, 40, 50], [9, 9, 9, 10, 11, 12])
    (360.0, 0.0)
    """
    start = int(len(at_s) * _SETTLING) + 1
    x, y = np.array(at_s[start:]) / _HOUR_S, np.array(values[start:])
    if len(x) < 3:
        return float("nan"), float("nan")
    spread = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    rest = y - y.mean() - slope * (x - x.mean())
    return round(slope, 6), round(float(np.sqrt((rest**2).sum() / (len(x) - 2) / spread)), 6)


@dataclass(frozen=True, slots=True)
class Result:
    """One soak."""

    rate: float
    highest: float | None
    settings: Settings
    judge_ms: float
    seen: Seen
    waits: Mapping[str, Waits]
    observer: Observer
    sender: Sender

    @property
    def _judge(self) -> str:
        return f"simulated judge of {self.judge_ms:g} ms"

    @property
    def _missing(self) -> tuple[int, int]:
        return len(self.sender.due) - self.observer.count["scored"], self.observer.selected - self.observer.count[
            "judged"
        ]

    @property
    def _held(self) -> str:
        """Whether the services kept up to the end, or what the machine could do was less than the ramp had found."""
        last = {name: lags[-1] for name, lags in self.seen.lags.items() if lags}
        behind = [f"{name} is {lag:,.0f} events behind" for name, lag in last.items() if lag > BACKLOG_S * self.rate]
        return ", ".join(behind) or "yes"

    @property
    def healthy(self) -> bool:
        """Whether every event was evaluated once, and every selected one judged once."""
        return not any((*self._missing, *self.observer.twice.values()))

    def summary(self) -> Table:
        """What was sent, and what became of it, the ramp's events among them."""
        minutes = (self.seen.ended - self.seen.began) / 60
        result = Table("what", "figure", title=f"Soak of {minutes:.1f} minutes, {self._judge}")
        result.columns[1].justify = "right"
        ramp = f"{self.highest:,.0f}" if self.highest else "not looked for"
        scored, judged = self._missing
        rows = {
            "highest rate that held in the ramp, events/s": ramp,
            "steady rate, events/s": f"{self.rate:,.0f}",
            "the rate held to the end": self._held,
            "events sent, with those of the ramp": f"{len(self.sender.due):,}",
            "not evaluated": f"{scored:,}",
            "evaluated twice": f"{self.observer.twice['scored']:,}",
            "selected for the judge": f"{self.observer.selected:,}",
            "of them not judged": f"{judged:,}",
            "judged twice": f"{self.observer.twice['judged']:,}",
            "windows seen to close": f"{len(self.seen.closed_at):,}",
        }
        for row in rows.items():
            result.add_row(*row)
        return result

    def latencies(self) -> Table:
        """From when an event was due until what came of it could be read."""
        windows = self.settings.windows
        size = windows.sizes[0]
        half = duration_s(size) / 2 + windows.disorder_s + windows.grace_s
        rows = {
            "scored": "evaluation committed and readable",
            "judged": f"judged evaluation committed and readable ({self._judge})",
            "closed": f"its {size} window shown by export (a mean of {half:g} s of it is size, disorder and grace)",
        }
        result = Table("from produce to", "events", "p50 s", "p99 s", "most s", title="Latency at the steady rate")
        for column in result.columns[1:]:
            column.justify = "right"
        for stage, what in rows.items():
            waits = self.waits[stage]
            figures = [f"{each:,.2f}" for each in waits.quantiles(0.5, 0.99, 1)] or [""] * 3
            result.add_row(what, f"{len(waits.due):,}", *figures)
        return result

    def processes(self) -> Table:
        """Memory, handles, CPU and lag of each process."""
        names = ("process", "CPU, % of a core", "RSS MiB first", "last", "most", "slope MiB/h", "± at least")
        lags = ("handles first", "last", "most", "lag p50", "lag most")
        result = Table(*names, *lags, title=f"Processes; slopes leave out the first {_SETTLING:.0%}")
        for column in result.columns[1:]:
            column.justify = "right"
        for name, looks in self.seen.looks.items():
            if not looks:
                continue
            spent = looks[-1].cpu_s - looks[0].cpu_s
            passed = self.seen.at[-1] - self.seen.at[0]
            memory, handles = [each.rss_mib for each in looks], [each.handles for each in looks]
            slope, error = slope_per_hour(self.seen.at, memory)
            # Workers that evaluate share one lag.
            lag = self.seen.lags.get(name.split()[0], [])
            result.add_row(
                name,
                f"{100 * spent / passed:.0f}" if passed else "",
                *(f"{each:.1f}" for each in (memory[0], memory[-1], max(memory))),
                *("" if np.isnan(each) else f"{each:.1f}" for each in (slope, error)),
                *(f"{each}" for each in (handles[0], handles[-1], max(handles))),
                *((f"{np.median(lag):,.0f}", f"{max(lag):,.0f}") if lag else ("", "")),
            )
        return result

    def picture(self, where: str) -> str:
        """The same over time."""
        seen, at = self.seen, [each / 60 for each in self.seen.at]

        def over_time(values: Mapping[str, Sequence[float]]) -> dict[str, list[tuple[float, float]]]:
            return {name: list(zip(at, found, strict=True)) for name, found in values.items()}

        def spread(stage: str) -> dict[str, list[tuple[float, float]]]:
            span = seen.began, seen.ended, min(_PARTS, max(1, len(at)))
            return {name: self.waits[stage].over(*span, share) for name, share in (("p50", 0.5), ("p99", 0.99))}

        memory = {name: [each.rss_mib for each in looks] for name, looks in seen.looks.items()}
        handles = {name: [float(each.handles) for each in looks] for name, looks in seen.looks.items()}
        size = self.settings.windows.sizes[0]
        panels = (
            Panel("Resident memory", "minutes", "MiB", over_time(memory)),
            Panel("Open handles", "minutes", "handles", over_time(handles)),
            Panel("Lag", "minutes", "events", over_time(seen.lags)),
            Panel("From produce to committed evaluation", "minutes", "seconds", spread("scored")),
            Panel(f"From produce to judged ({self._judge})", "minutes", "seconds", spread("judged")),
            Panel(f"From produce to its {size} window shown", "minutes", "seconds", spread("closed")),
        )
        title = f"Soak at {self.rate:,.0f} events a second, {self._judge}"
        return svg(title, (where,), panels)
