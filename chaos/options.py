"""The options of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.events import Mix
from chaos.target import Lengths
from chaos.trace_events import TraceMix


@dataclass(frozen=True, slots=True)
class Traces:
    """Further options of a run over traces."""

    mix: TraceMix = field(default_factory=TraceMix)
    backlog: float = 0.2
    """Share of the spans that have been written when key starts, as after an outage of it."""
    backlog_s: float = 600.0
    """Time over which these were written, by their timestamps."""
    sources: tuple[int, int] = 5, 3
    """Numbers of partitions of the source of traces without keys, and of that of traces with keys."""
    settle_s: float = 6.0
    patience_s: float = 30.0
    deadline_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run."""

    events: int
    """Number of records; over traces, of spans at least."""
    rate: float
    """Records per second, at most; over traces, spans per second while the services run."""
    seed: int = 1
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Numbers of faults, by the names in `chaos.schedule.KINDS`."""
    mix: Mix = field(default_factory=Mix)
    lengths: Lengths = field(default_factory=Lengths)
    partitions: int = 4
    brokers: int = 1
    """One, or three with three replicas of everything."""
    budget_usd: float | None = None
    """The judge's budget per day in dollars; None for no limit."""
    quick: bool = False
    """True for shorter timeouts, for runs of seconds."""
    all_metrics: bool = False
    mutant: str = ""
    """Rule of the runtime that is broken in every worker; none if empty."""
    kernel: str = "auto"
    """Use of the kernel in every worker: the setting `kernel.use`."""
    horizon: int = 10_000
    """Offsets within which a repeated id is skipped; 0 to skip none."""
    patience_s: float = 60.0
    """Time without any output after which missing output counts as lost, in seconds."""
    workers: Mapping[str, int] = field(default_factory=lambda: {"evaluate": 3, "aggregate": 2, "judge": 1, "export": 1})
    prefix: str = "chaos."
    """Prefix of the topics."""
    rows: bool = False
    """True to select events by routing rows, which planners write meanwhile."""
    feedback: bool = False
    """True to give feedback on the events, which match and tally join to them, and to judge anchors."""
    soak: bool = False
    """True to measure memory, handles, lag and latency; without faults, a proxy or pauses of sending."""
    traces: Traces | None = None
    """For a run over traces."""


def over_traces(spans: int, rate: float, traces: Traces = Traces(), **more: Any) -> Options:
    """Return the options of a run of key and join over traces."""
    usual: dict[str, Any] = {"workers": {"key": 2, "join": 2}, "prefix": "traces.", "patience_s": 90.0}
    return Options(spans, rate, traces=traces, **{**usual, **more})
