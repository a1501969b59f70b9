"""The requests that the judge agent holds, and the partitions of which it takes no more for now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from typing_extensions import override

from ragweir.streams.runtime.agent_parts import Holding
from ragweir.streams.runtime.records import Record, TopicPartition
from ragweir.streams.services.judge.fairness import Name, TenantShares
from ragweir.streams.services.judge.held_requests import HeldRequests
from ragweir.streams.services.judge.request_state import RequestState

HELD_PER_JOB = 4
"""Held requests for each job that may run: those that wait, and those that finished before an earlier one."""
MOST_HELD_BYTES = 64 * 1024 * 1024
"""The most bytes of held requests as they were read, not counting the last batch."""
_MOST_MOVED = 4_000
"""The most held requests that were moved to `judge.retry`: they are held until all before them are finished."""
_MIN_READ = 100
"""The least number of requests that are read together to find those of other tenants behind a flood."""
_RESUME = 0.75
"""The part of a limit or share at which reading resumes, since pausing a partition discards what was fetched."""
RUNNING = RequestState.RESERVED, RequestState.IN_FLIGHT


class JudgeHolding(Holding):
    """Limits the held requests, and pauses the partitions whose next request has to wait.

    Args:
        requests: the held requests.
        shares: the shares of tenants in them.
        concurrency: the number of jobs that may run.
        moves: true if requests above a share are moved, so that reading goes on to find those of other tenants.
    """

    def __init__(self, requests: HeldRequests, shares: TenantShares, concurrency: int, *, moves: bool) -> None:
        self._requests, self._shares, self._moves = requests, shares, moves
        self._most_held = HELD_PER_JOB * concurrency
        self._paused: dict[TopicPartition, tuple[int, datetime]] = {}
        """The offset of the next request, and the time until which it has to wait."""
        self._crowded: dict[TopicPartition, tuple[int, Name]] = {}
        """The offset of the next request, which was moved, and its tenant, whose share has no room for it."""
        self._newly_paused: set[TopicPartition] = set()
        """Those since the last `resume`: the runtime has to see each of them once, to seek back."""
        self._full = False
        self.draining = False
        """True once no more work is to start."""

    @property
    @override
    def capacity(self) -> int:
        moved = sum(request.moved for request in self._requests)
        held = len(self._requests) - moved
        most = self._most_held * (2 if self.reads_on else 1)
        fill = max(held / most, moved / _MOST_MOVED, self._requests.size / MOST_HELD_BYTES)
        if fill >= 1:
            self._full = True
        elif fill <= _RESUME:
            self._full = False
        if self._full or self.draining:
            return 0
        return max(_MIN_READ if self.reads_on else 1, self._most_held - held)

    @property
    @override
    def paused(self) -> Mapping[TopicPartition, int]:
        return {partition: offset for partition, (offset, _) in (*self._paused.items(), *self._crowded.items())}

    @property
    @override
    def held(self) -> Collection[TopicPartition]:
        return self._requests.partitions

    @property
    @override
    def in_flight(self) -> bool:
        """True while jobs run or are about to start, or results can be emitted."""
        return self._requests.is_emitting or bool(self._requests.in_state(*RUNNING))

    @property
    def reads_on(self) -> bool:
        """True if reading goes on beyond the limit, to find requests of other tenants."""
        return self._moves and self._shares.known

    def __contains__(self, partition: TopicPartition) -> bool:
        """Return whether a partition is paused."""
        return partition in self._paused or partition in self._crowded

    def pause(self, record: Record, until: datetime) -> None:
        """Pause a partition at its next request until a time."""
        self._paused[record.topic_partition] = record.offset, until
        self._newly_paused.add(record.topic_partition)

    def pause_for_share(self, record: Record, tenant: Name) -> None:
        """Pause a partition at its next request until its tenant's share has room."""
        self._crowded[record.topic_partition] = record.offset, tenant
        self._newly_paused.add(record.topic_partition)

    def is_crowded(self, tenant: Name) -> bool:
        """Return whether a request of a tenant waits for room in its share."""
        return any(tenant == other for _, other in self._crowded.values())

    def resume(self, now: datetime) -> None:
        """Resume partitions whose next request has waited long enough, or whose tenant has room again."""
        self._paused = {
            partition: (offset, until)
            for partition, (offset, until) in self._paused.items()
            if until > now or partition in self._newly_paused
        }
        self._crowded = {
            partition: (offset, tenant)
            for partition, (offset, tenant) in self._crowded.items()
            if partition in self._newly_paused or self._shares.has_share(tenant, _RESUME)
        }
        self._newly_paused.clear()

    def drop(self, numbers: Collection[int]) -> None:
        """Forget the pauses of partitions that are given up, by their numbers."""
        self._paused = {each: pause for each, pause in self._paused.items() if each[1] not in numbers}
        self._crowded = {each: pause for each, pause in self._crowded.items() if each[1] not in numbers}
