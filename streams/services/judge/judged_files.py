"""Judges the scored lines of a file in the same process, concurrently and never far ahead of the judge.

It drives a judge agent as the Kafka runtime does. Each request has its own partition, so that none waits for another,
and the ledger is in memory.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import orjson

from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Count, Emission, Outcome, Record, TopicPartition
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.config import JudgeConfig
from ragweir.streams.services.judge.job import JudgePool

Line = tuple[Record, Outcome]

_COST: Count = ("ragweir_judge_cost_microdollars_total",)
_MICRO = 1_000_000
_LINES = 64
"""Lines scored between two ticks of the judge."""
_TICK_SECONDS = 0.005
"""Time between two ticks while there is nothing to score and no answer."""
_LONGEST_RETRY_SECONDS = 5
"""Longest delay of a retry, as a user waits for the end of the run."""
_DRAIN_SECONDS = 10.0
"""Time for calls in flight to end when the run is to stop."""


class JudgedFiles:
    """Judges the requests of scored lines, and yields the outcomes of both.

    A run has its own clock that begins at 0: a day of its budget is 24 hours from its start. Failed requests are
    retried after a short delay; requests over the budget are emitted as `judge.deferred` and not read again. After
    `stopped` returns true, calls in flight have a short time to end.

    Args:
        config: a configuration for one partition.
        pool: the judge pool.
        stopped: returns true once the run is to stop.
        spent: the part of the budget that is spent already, in millionths of a dollar.
    """

    def __init__(self, config: JudgeConfig, pool: JudgePool, stopped: Callable[[], bool], spent: int = 0) -> None:
        config = _run_config(config, spent)
        self._agent, self._pool, self._stopped = JudgeAgent(config, pool), pool, stopped
        self._agent.on_assigned(Assignment(("judge.requests", 0), None, 0))
        self._retry_delay_s = config.judge.retry_delay_s
        self._retries: deque[tuple[float, Emission]] = deque()
        """The requests to retry, with the times of their retries."""
        self._used: set[TopicPartition] = set()
        """The partitions with a request."""
        self._free: list[TopicPartition] = []
        self._taken = 0
        self._reserved: dict[bytes | None, int] = {}
        self._began, self._now_s, self._stop_by = machine.monotonic(), 0.0, 0.0
        self.spent = spent
        """The cost of all calls, in millionths of a dollar."""

    @property
    def reserved(self) -> int:
        """The highest possible cost of the calls in flight, in millionths of a dollar."""
        return sum(self._reserved.values())

    @property
    def stopping(self) -> bool:
        """True once it stops before the end of the file."""
        return self._stop_by > 0

    @property
    def waits(self) -> str:
        """The reason why no request is started now; empty if requests are started."""
        return "stopping" if self.stopping else self._pool.unavailable_reason

    def run(self, scored: Iterable[Line]) -> Iterator[Line | tuple[None, Outcome]]:
        """Judge the outcomes of the files runtime.

        Yields:
            A record and its outcome, or None and an outcome of the judge, which is often empty.
        """
        lines, reading = iter(scored), True
        while reading or self._retries or self._used:
            if self._stopped():
                reading = False
                if self._is_over():
                    return
            capacity, seen = self._agent.holding.capacity, 0
            batch = self._due(capacity)
            while reading and seen < _LINES and len(batch) < capacity and not self._stopped():
                if (line := next(lines, None)) is None:
                    reading = False
                    break
                seen += 1
                batch += [self._queued(each) for each in line[1].emissions if each.topic == "judge.requests"]
                yield line
            outcome = self._tick(batch)
            yield None, outcome
            if not seen and not outcome.emissions:
                machine.sleep(_TICK_SECONDS)

    def _due(self, limit: int) -> list[Record]:
        """Return the requests to retry now."""
        due: list[Record] = []
        while self._retries and self._retries[0][0] <= self._now_s and len(due) < limit:
            due.append(self._queued(self._retries.popleft()[1]))
        return due

    def _queued(self, request: Emission) -> Record:
        """Return a request as the record of a free partition."""
        partition = self._free.pop() if self._free else (f"judge.requests.{len(self._used)}", 0)
        self._taken += 1
        self._used.add(partition)
        return Record(*partition, self._taken, request.key, request.value, round(1_000 * self._now_s))

    def _tick(self, batch: list[Record]) -> Outcome:
        """Hand requests to the agent; return its outcome."""
        agent = self._agent
        agent.handle(batch)
        self._now_s = machine.monotonic() - self._began
        outcome = agent.tick(self._now_s, (), sys.maxsize)
        agent.on_commit()
        self.spent += agent.drain_metrics().counts.get(_COST, 0)
        for emission in outcome.emissions:
            if emission.topic == "judge.ledger":
                self._reserved[emission.key] = orjson.loads(emission.value or b"{}")["reserved"]
            elif emission.topic == "judge.retry":
                # A little later than the agent's rounded time, before which it does not take the request.
                self._retries.append((self._now_s + self._retry_delay_s + _TICK_SECONDS, emission))
        for record in outcome.settled:
            self._used.remove(record.topic_partition)
            self._free.append(record.topic_partition)
        return outcome

    def _is_over(self) -> bool:
        """Start no more requests; return whether to stop waiting for the calls in flight."""
        self._agent.drain()
        self._stop_by = self._stop_by or machine.monotonic() + _DRAIN_SECONDS
        return (
            not self._agent.holding.in_flight
            or bool(self._pool.unavailable_reason)
            or machine.monotonic() > self._stop_by
        )


def _run_config(config: JudgeConfig, spent: int) -> JudgeConfig:
    judge = config.judge
    budget = judge.daily_budget_usd
    changes = {
        "retry_delay_s": min(judge.retry_delay_s, _LONGEST_RETRY_SECONDS),
        "daily_budget_usd": None if budget is None else max(0.0, budget - spent / _MICRO),
    }
    # No request has another one behind it in its partition.
    return replace(config, judge=judge.model_copy(update=changes), moves=False)
