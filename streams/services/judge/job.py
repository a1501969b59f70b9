"""Jobs, their results and costs, and the pool that works on them: the border between the judge agent and the calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ragweir.metrics.judged.driver import Judged
from ragweir.metrics.judged.suite import Case, Suite
from ragweir.streams.runtime.records import Measurements

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
    """Millionths of a dollar that are reserved on each of its days."""
    days: tuple[str, ...]
    """The days on which its calls may be sent."""
    today: Callable[[], str]
    """Returns the day on which a call is booked that is sent now."""
    fresh: bool = False
    """True if no answer of the cache may be used, and none is kept there."""


class DayOver(Exception):
    """The days for which a job has a reservation are over. The message is fixed words."""


@dataclass(slots=True)
class JobUsage:
    """The usage of a job's calls, those that failed included."""

    input_tokens: int = 0
    output_tokens: int = 0
    costs: Counter[str] = field(default_factory=Counter)
    """Millionths of a dollar, by the day on which each call was sent. A call that broke off without reporting its usage
    counts with the most it can cost."""
    calls: int = 0
    """Requests that were sent."""
    cached: int = 0
    """Questions that the cache answered."""
    flags: set[str] = field(default_factory=set)
    """The flags of an evaluation about reported usage."""
    model: str = ""
    """The model that answered, by the endpoint's name for it; empty without an answer."""

    @property
    def cost(self) -> int:
        """The cost on all days, in millionths of a dollar."""
        return self.costs.total()


@dataclass(slots=True)
class JobBudget:
    """A job and its spending."""

    job: Job
    usage: JobUsage = field(default_factory=JobUsage)
    broken: int = 0
    """The cost of calls that broke off, in millionths of a dollar."""

    def day(self) -> str:
        """Return the day on which a call is booked that is sent now; raises DayOver if nothing is reserved on it."""
        day = self.job.today()
        if day not in self.job.days:
            raise DayOver("the day of its reservation is over")
        return day


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job."""

    id: JobId
    judged: Judged | None
    """The findings of its suites; None if its calls failed as often as allowed, or its days are over."""
    usage: JobUsage = field(default_factory=JobUsage)
    why: str = ""
    """The reason for a missing judgement, in fixed words that quote nothing of the event."""
    day_over: bool = False
    """True if the days of its reservation ended before its calls did."""


class JudgePool(ABC):
    """Works on many jobs concurrently. No method blocks."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Start a job; raises ValueError if `judge.concurrency` jobs are running, or this one is."""

    @abstractmethod
    def take_results(self) -> list[JobResult]:
        """Return the results of the jobs that have ended since the last call, in any order."""

    @abstractmethod
    def cancel(self, jobs: Collection[JobId]) -> None:
        """Cancel jobs; none of them has a result any more."""

    @property
    @abstractmethod
    def unavailable_reason(self) -> str:
        """The reason why no job should be started now; empty while the endpoint works, or if a new job should probe it.

        Jobs that are running wait by themselves.
        """

    @abstractmethod
    def drain_metrics(self) -> Measurements:
        """Return the counts and call durations since the last call, and the gauges."""
