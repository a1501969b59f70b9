"""Lines of a file that are scored, and judged in the same process: many at once, and never far ahead of the judge.

It drives a judge agent as the Kafka runtime does. Each request is a queue of its own, so that none waits for another to
be finished, and the ledger is in memory.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import orjson

from ragweir.streams.agent import Assignment
from ragweir.streams.judge.agent import JudgeAgent
from ragweir.streams.judge.config import JudgeConfig
from ragweir.streams.judge.job import JudgePool
from ragweir.streams.records import Count, Emission, Outcome, Record, TopicPartition

Line = tuple[Record, Outcome]

_COST: Count = ("ragweir_judge_cost_microdollars_total",)
_MICRO = 1_000_000
_LINES = 64
"""Lines scored between two looks at the judge."""
_LOOK_S = 0.005
"""From one look to the next while there is nothing to score or to take."""
_LONGEST_RETRY_S = 5
"""How long at most an event waits after its calls failed: somebody waits for the end of the run."""
_DRAIN_S = 10.0
"""How long calls under way have to end when the run is to stop."""


class JudgedFiles:
    """Has judged what scored lines ask for, and passes on what becomes of both as it comes.

    A run has a clock of its own that begins at 0: a day of its budget is 24 hours from its start. What failed and may
    succeed later is tried again after a short while; what is over the budget comes out as `judge.deferred`, and that is
    the end of it. When told to stop, what is under way has a short while to end.

    Args:
        config: made for one partition.
        pool: where the calls are made.
        stopped: says whether to stop.
        spent: what of the budget is spent already, in millionths of a dollar.
    """

    def __init__(self, config: JudgeConfig, pool: JudgePool, stopped: Callable[[], bool], spent: int = 0) -> None:
        config = _for_a_run(config, spent)
        self._agent, self._pool, self._stopped = JudgeAgent(config, pool), pool, stopped
        self._agent.on_assigned(Assignment(("judge.requests", 0), None, 0))
        self._retry_delay_s = config.judge.retry_delay_s
        self._again: deque[tuple[float, Emission]] = deque()
        """What failed, and when it is to be tried again."""
        self._under_way: set[TopicPartition] = set()
        """The queues in use."""
        self._free: list[TopicPartition] = []
        self._taken = 0
        self._reserved: dict[bytes | None, int] = {}
        self._began, self._now_s, self._stop_by = time.monotonic(), 0.0, 0.0
        self.spent = spent
        """What calls have cost, in millionths of a dollar."""

    @property
    def reserved(self) -> int:
        """What calls may cost whose end is not known, at most, in millionths of a dollar."""
        return sum(self._reserved.values())

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop before its end."""
        return self._stop_by > 0

    @property
    def waits(self) -> str:
        """Why nothing more begins for now; empty while all is well."""
        return "told to stop" if self.stopping else self._pool.unavailable_reason

    def run(self, scored: Iterable[Line]) -> Iterator[Line | tuple[None, Outcome]]:
        """Judge what the files runtime gives.

        Yields:
            A line and its outcome, or None and an outcome of the judge, which is often empty.
        """
        lines, reading = iter(scored), True
        while reading or self._again or self._under_way:
            if self._stopped():
                reading = False
                if self._gives_up():
                    return
            room, met = self._agent.capacity, 0
            batch = self._due(room)
            while reading and met < _LINES and len(batch) < room and not self._stopped():
                if (line := next(lines, None)) is None:
                    reading = False
                    break
                met += 1
                batch += [self._queued(each) for each in line[1].emissions if each.topic == "judge.requests"]
                yield line
            outcome = self._turn(batch)
            yield None, outcome
            if not met and not outcome.emissions:
                time.sleep(_LOOK_S)

    def _due(self, most: int) -> list[Record]:
        """What is to be tried again."""
        due: list[Record] = []
        while self._again and self._again[0][0] <= self._now_s and len(due) < most:
            due.append(self._queued(self._again.popleft()[1]))
        return due

    def _queued(self, request: Emission) -> Record:
        """A request in a queue where no other is."""
        place = self._free.pop() if self._free else (f"judge.requests.{len(self._under_way)}", 0)
        self._taken += 1
        self._under_way.add(place)
        return Record(*place, self._taken, request.key, request.value, round(1_000 * self._now_s))

    def _turn(self, batch: list[Record]) -> Outcome:
        """Let the agent take requests and emit."""
        agent = self._agent
        agent.handle(batch)
        self._now_s = time.monotonic() - self._began
        outcome = agent.tick(self._now_s, (), sys.maxsize)
        agent.on_commit()
        self.spent += agent.drain_metrics().counts.get(_COST, 0)
        for emission in outcome.emissions:
            if emission.topic == "judge.ledger":
                self._reserved[emission.key] = orjson.loads(emission.value or b"{}")["reserved"]
            elif emission.topic == "judge.retry":
                # A little later than the agent wants it, whose times are rounded: what comes too early it passes over.
                self._again.append((self._now_s + self._retry_delay_s + _LOOK_S, emission))
        for record in outcome.settled:
            self._under_way.remove(record.topic_partition)
            self._free.append(record.topic_partition)
        return outcome

    def _gives_up(self) -> bool:
        """Begin nothing more; whether to wait no longer for what is under way."""
        self._agent.drain()
        self._stop_by = self._stop_by or time.monotonic() + _DRAIN_S
        return not self._agent.in_flight or bool(self._pool.unavailable_reason) or time.monotonic() > self._stop_by


def _for_a_run(config: JudgeConfig, spent: int) -> JudgeConfig:
    judge = config.judge
    budget = judge.daily_budget_usd
    changes = {
        "retry_delay_s": min(judge.retry_delay_s, _LONGEST_RETRY_S),
        "daily_budget_usd": None if budget is None else max(0.0, budget - spent / _MICRO),
    }
    # Nobody waits behind another's lines: each request is a queue of its own.
    return replace(config, judge=judge.model_copy(update=changes), moves=False)
