"""What the judge agent and the desk say to each other: jobs, how they ended, and what they cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ragweir.metrics.judged.driver import Judged
from ragweir.metrics.judged.suite import Case, Suite
from ragweir.streams.records import Count

JobId = tuple[str, int, int]
"""Topic, partition and offset of the request."""


@dataclass(frozen=True, slots=True)
class Job:
    """One event to be judged.

    Its calls never cost more than `allowance`: a call whose most expensive answer would go beyond is not made.
    """

    id: JobId
    case: Case
    suites: Sequence[Suite]
    allowance: int
    """Millionths of a dollar."""


@dataclass(slots=True)
class Usage:
    """What a job's calls took, those too that came to nothing."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    """Millionths of a dollar. A call that broke off without telling its usage counts with the most it can cost."""
    calls: int = 0
    """Requests that were sent."""
    cached: int = 0
    """Questions that the cache answered."""
    model: str = ""
    """Which answered the questions, as the endpoint calls it; empty where none did."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended."""

    id: JobId
    judged: Judged | None
    """None: its calls failed as often as allowed; later they may succeed."""
    usage: Usage = field(default_factory=Usage)
    why: str = ""
    """Why it came to nothing: fixed words, nothing of the event."""


class Desk(Protocol):
    """Where jobs are worked on, many at once. No method waits."""

    def start(self, job: Job) -> None:
        """Begin a job."""

    def ended(self) -> list[Ended]:
        """The jobs that ended since last asked, in any order."""

    def cancel(self, jobs: Collection[JobId]) -> None:
        """Forget jobs: they are not heard of again. Calls under way are broken off."""

    @property
    def shut(self) -> str:
        """Why no new job should be started now; empty while the endpoint is well. Jobs begun wait by themselves."""

    def counts(self) -> Mapping[Count, int]:
        """What was counted since last asked, by instruments of the telemetry table."""

    def levels(self) -> Mapping[Count, float]:
        """What gauges of the telemetry table are to show now."""

    def latencies(self) -> Sequence[float]:
        """How many seconds the calls took that ended since last asked."""
