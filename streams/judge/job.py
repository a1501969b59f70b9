"""Jobs, their results and costs, and the pool that works on them: the border between the judge agent and the calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ragweir.metrics.judged.driver import Judged
from ragweir.metrics.judged.suite import Case, Suite
from ragweir.streams.records import Count

JobId = tuple[str, int, int]
"""Topic, partition and offset of the request."""


@dataclass(frozen=True, slots=True)
class Job:
    """One event to be judged.

    Its calls never cost more than `allowance`: a call whose most expensive answer would go beyond is not made. Nor is
    a call on a day for which nothing is reserved.
    """

    id: JobId
    case: Case
    suites: Sequence[Suite]
    allowance: int
    """Millionths of a dollar. So much is reserved on each of its days."""
    days: tuple[str, ...]
    """The days on which its calls may go out."""
    today: Callable[[], str]
    """Gives the day on which a call is booked that goes out now."""


class DayOver(Exception):
    """The days for which a job has a reservation are over. The message is fixed words."""


@dataclass(slots=True)
class JobUsage:
    """The usage of a job's calls, those that failed included."""

    input_tokens: int = 0
    output_tokens: int = 0
    costs: Counter[str] = field(default_factory=Counter)
    """Millionths of a dollar, by the day on which each call went out. A call that broke off without telling its usage
    counts with the most it can cost."""
    calls: int = 0
    """Requests that were sent."""
    cached: int = 0
    """Questions that the cache answered."""
    flags: set[str] = field(default_factory=set)
    """The flags of an evaluation that say how its usage was reported."""
    model: str = ""
    """The model that answered the questions, as the endpoint calls it; empty where none did."""

    @property
    def cost(self) -> int:
        """The cost on all days, in millionths of a dollar."""
        return self.costs.total()


@dataclass(slots=True)
class JobBudget:
    """The money of one job: what it may spend, and has spent."""

    job: Job
    usage: JobUsage = field(default_factory=JobUsage)
    broken: int = 0
    """The part of what is spent that is counted for calls that broke off, in millionths of a dollar."""

    def day(self) -> str:
        """Return the day on which a call is booked that goes out now.

        Raises:
            DayOver: if nothing is reserved on that day.
        """
        day = self.job.today()
        if day not in self.job.days:
            raise DayOver("the day of its reservation is over")
        return day


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job."""

    id: JobId
    judged: Judged | None
    """The findings of its suites; None where its calls failed as often as allowed: later they may succeed."""
    usage: JobUsage = field(default_factory=JobUsage)
    why: str = ""
    """Why it came to nothing: fixed words, nothing of the event."""
    day_over: bool = False
    """True where no call failed: the days of its reservation ended before its calls did."""


class JudgePool(ABC):
    """Works on jobs, many at once. No method waits."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Start a job.

        Raises:
            ValueError: if `judge.concurrency` jobs are under way, or this one is.
        """

    @abstractmethod
    def take_results(self) -> list[JobResult]:
        """Return the results of the jobs that have ended since the last call, in any order."""

    @abstractmethod
    def cancel(self, jobs: Collection[JobId]) -> None:
        """Break jobs off; none of them has a result any more."""

    @property
    @abstractmethod
    def unavailable_reason(self) -> str:
        """Why no job should be started now; empty while the endpoint works, or where only a new job could find out.

        Jobs that are under way wait by themselves.
        """

    @abstractmethod
    def counts(self) -> Mapping[Count, int]:
        """Return what was counted since the last call, by instruments of the telemetry table."""

    @abstractmethod
    def levels(self) -> Mapping[Count, float]:
        """Return the values of gauges of the telemetry table."""

    @abstractmethod
    def latencies(self) -> Sequence[float]:
        """Return the durations of the calls that have ended since the last call, in seconds."""
