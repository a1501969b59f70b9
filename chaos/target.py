"""The target of faults: the brokers, the services, the judge and the workload of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from chaos.broker import Cluster
from chaos.feedback import FeedbackFaults
from chaos.fleet import Fleet, Slot
from chaos.schedule import Fault
from chaos.trace_sources import TraceSources
from chaos.workload import Workload
from ragweir.streams.playground.simulated.server import SimulatedJudge


@dataclass(frozen=True, slots=True)
class Lengths:
    """Durations of faults, in seconds."""

    zombie: float = 14.0
    """Longer than a session timeout."""
    broker: float = 1.0
    """Downtime of a killed broker before it is started again."""
    frozen: float = 14.0
    """Longer than clients wait for a broker."""
    network: float = 5.0
    outage: float = 10.0
    """Time without the judge, or without any worker of a service."""
    delay: float = 0.2
    """Delay of each packet while the network is slow."""
    idle: float = 30.0
    """Time that a partition receives nothing, at most, before its offset is reset."""
    twin: float = 10.0
    clock: float = 20.0
    """Time that clocks are ahead or behind, from when their processes work."""
    deleted: float = 15.0
    """Time without a source of traces: longer than its absence holds the assembly of the others."""


@dataclass(frozen=True, slots=True)
class Target:
    """Everything that faults are injected into."""

    cluster: Cluster
    fleet: Fleet
    judge: SimulatedJudge
    workload: Workload
    prefix: str
    """Prefix of the topics and groups."""
    lengths: Lengths = field(default_factory=Lengths)
    recreate_control: Callable[[], object] | None = None
    """Makes the topic of routing rows again; None in a run without rows."""
    sources: TraceSources | None = None
    """The sources of traces; None in a run without."""
    feedback: FeedbackFaults | None = None
    """The topics and files of feedback; None in a run without."""

    def slot(self, fault: Fault, service: str = "") -> Slot | None:
        """Return the slot that a fault is aimed at, of a service with transactions; None if there is none."""
        slots = self.fleet.of(service or (fault.service if fault.service != "export" else "evaluate"))
        return fault.choose(slots) if slots else None


Injections = Mapping[str, Callable[[Target, Fault], bool]]
"""By the kind of fault, a function that injects it, and returns False if it is skipped."""
