"""The soak: memory, handles, CPU time, lag and latency of a run without faults at a steady rate, and their growth.

All services run with the default metrics except those that load a model, and events have about 4.5 KB. The simulated
judge has a fixed latency. The checker reads in batches, so that latencies are measured to within 0.15 s.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from typing_extensions import override

from chaos.checker import Checker
from chaos.fleet import Fleet, Slot
from chaos.latencies import QUANTILES, Latencies, quantiles
from tools.plot import Panel, svg

JUDGE_MS = 300.0
BROKER: Mapping[str, str] = MappingProxyType({"log.retention.bytes": str(2**29), "log.segment.bytes": str(2**26)})
"""Properties of the broker. Without them, an hour of records takes tens of gigabytes of disk."""
SETTINGS: Mapping[str, object] = MappingProxyType(
    {"metrics__off": ["ragas", "semantic"], "judge__cache_entries": 0, "judge__concurrency": 64}
)
_WINDOW, _WINDOW_S = "1m", 60
_TURN_S = 0.5
_SAMPLE_S = 5.0
_BACKLOG_S = 2.0
"""A service whose lag is more than the records of this time does not keep up."""
_GROWTH = 0.1
"""Share of the mean by which memory and handles may grow, in addition to 16 MiB and to 64 connections of the judge."""
_STEADY_MINUTES = 15
"""Growth is not judged in shorter runs, in which caches fill."""
_PARTS = 120
"""Number of points of a latency's line."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Sample:
    """State of a process at one time."""

    minutes: float
    rss_mib: float
    handles: int
    cpu_s: float
    lag: float
    """Records of its inputs that it has not processed, by its own telemetry."""


class Soak(threading.Thread):
    """Samples the processes of all services, and measures latencies."""

    def __init__(self, fleet: Fleet, checker: Checker, rate: float) -> None:
        super().__init__(name="soak", daemon=True)
        self._fleet, self._rate = fleet, rate
        self._over = threading.Event()
        self._began = 0.0
        self.samples: defaultdict[str, list[Sample]] = defaultdict(list)
        self._latencies = {"scored": Latencies(), "judged": Latencies()}
        self._closed: dict[float, float] = {}
        """The time at which the exporter first showed each window, by the window's end."""
        self._exits: dict[str, int] = {}
        checker.on_evaluation = self._observe

    @override
    def run(self) -> None:
        """Sample until stopped."""
        self._began = sampled = time.time()
        while not self._over.wait(_TURN_S):
            for slot in self._fleet.of("export"):
                for series, end in slot.samples().items():
                    if series.startswith("ragweir_window_end_timestamp_seconds{") and f'window="{_WINDOW}"' in series:
                        self._closed.setdefault(end, time.time())
            if time.time() >= sampled + _SAMPLE_S:
                sampled += _SAMPLE_S
                for slot in self._fleet.slots:
                    self._sample(slot)

    def stop(self) -> None:
        """Stop sampling."""
        self._over.set()
        self.join()
        self._exits = {slot.name: slot.exits.total() for slot in self._fleet.slots}

    def _sample(self, slot: Slot) -> None:
        try:
            process = Path("/proc") / str(slot.pid)
            # After the command's name, which may contain anything: state is field 3, user and system time 14 and 15.
            times = (process / "stat").read_text().rpartition(")")[2].split()
            pages = int((process / "statm").read_text().split()[1])
            handles = len(list((process / "fd").iterdir()))
        except OSError:
            return  # It ended, which `growth` reports.
        lag = sum(value for series, value in slot.samples().items() if series.startswith("ragweir_lag{"))
        mib = pages * os.sysconf("SC_PAGESIZE") / 2**20
        cpu_s = (int(times[11]) + int(times[12])) / _TICKS
        self.samples[slot.name].append(Sample((time.time() - self._began) / 60, mib, handles, cpu_s, lag))

    def _observe(self, evaluation: Mapping[str, Any]) -> None:
        due = datetime.fromisoformat(evaluation["event_time"]).timestamp()
        self._latencies[evaluation["stage"]].add(due, time.time())

    def growth(self) -> list[str]:
        """Return a sentence for each process that grew, fell behind or ended; none if the run was steady."""
        found = [f"{name} ended {times} times" for name, times in self._exits.items() if times]
        for name, samples in self.samples.items():
            minutes = samples[-1].minutes - samples[0].minutes
            for what, field, allowed in (("MiB of memory", "rss_mib", 16), ("handles", "handles", 64)):
                mean = statistics.mean(getattr(each, field) for each in samples)
                grown = minutes / 60 * (_slope(samples, field) or 0.0)
                if minutes > _STEADY_MINUTES and grown > _GROWTH * mean + allowed:
                    found.append(f"{name} grew by {grown:.0f} {what}")
            if (behind := samples[-1].lag) > _BACKLOG_S * self._rate:
                found.append(f"{name} is {behind:,.0f} records behind")
        return found

    def latencies(self) -> dict[str, Latencies]:
        """Return the latencies from when an event was due until its evaluations and its window were readable."""
        window = Latencies()
        for due in self._latencies["scored"].due:
            if (closed := self._closed.get((due // _WINDOW_S + 1) * _WINDOW_S)) is not None:
                window.add(due, closed)
        return {
            "committed evaluation": self._latencies["scored"],
            f"judged evaluation (simulated judge of {JUDGE_MS:g} ms)": self._latencies["judged"],
            f"its {_WINDOW} window in the exporter": window,
        }

    def as_json(self) -> dict[str, Any]:
        """Return the results as plain data."""
        return {
            "growth": self.growth(),
            "windows_closed": len(self._closed),
            "latency_s": {
                name: {"events": len(each.due)} | quantiles(each.seconds) for name, each in self.latencies().items()
            },
            "processes": {
                measure: {name: measured(samples) for name, samples in self.samples.items()}
                for measure, measured in _MEASURES.items()
            },
        }

    def picture(self, machine: str) -> str:
        """Return the results over time as an SVG picture with a line about the machine."""

        def lines(field: str) -> dict[str, list[tuple[float, float]]]:
            return {
                name: [(each.minutes, getattr(each, field)) for each in samples]
                for name, samples in self.samples.items()
            }

        part_s = max(_SAMPLE_S, (max(self._latencies["scored"].due, default=0.0) - self._began) / _PARTS)
        panels = [
            Panel("Resident memory", "minutes", "MiB", lines("rss_mib")),
            Panel("Open handles", "minutes", "handles", lines("handles")),
            Panel("Lag", "minutes", "records", lines("lag")),
        ]
        for name, latencies in self.latencies().items():
            over_time = {key: latencies.over_time(self._began, part_s, QUANTILES[key]) for key in ("p50", "p99")}
            panels.append(Panel(f"To {name}", "minutes", "seconds", over_time))
        return svg(f"Soak at {self._rate:,.0f} events per second", (machine,), panels)


def _slope(samples: Sequence[Sample], field: str) -> float | None:
    """Return the slope of a field per hour without the first quarter, in which caches fill; None with too few samples.

    >>> _slope([Sample(at, mib, 9, 0.0, 0.0) for at, mib in [(0, 9.0), (10, 9.0), (20, 10.0), (30, 11.0)]], "rss_mib")
    6.0
    """
    rest = samples[len(samples) // 4 :]
    if len(rest) < 3:
        return None
    values = [getattr(each, field) for each in rest]
    return round(60 * statistics.linear_regression([each.minutes for each in rest], values).slope, 6)


def _cpu(samples: Sequence[Sample]) -> float | None:
    seconds = 60 * (samples[-1].minutes - samples[0].minutes)
    return 100 * (samples[-1].cpu_s - samples[0].cpu_s) / seconds if seconds else None


_MEASURES: Mapping[str, Callable[[Sequence[Sample]], float | None]] = MappingProxyType(
    {
        "CPU, % of a core": _cpu,
        "memory, MiB, first": lambda samples: samples[0].rss_mib,
        "memory, MiB, last": lambda samples: samples[-1].rss_mib,
        "memory, MiB, most": lambda samples: max(each.rss_mib for each in samples),
        "memory, MiB/h": lambda samples: _slope(samples, "rss_mib"),
        "handles, first": lambda samples: samples[0].handles,
        "handles, last": lambda samples: samples[-1].handles,
        "handles, most": lambda samples: max(each.handles for each in samples),
        "lag, p50": lambda samples: statistics.median(each.lag for each in samples),
        "lag, most": lambda samples: max(each.lag for each in samples),
    }
)
