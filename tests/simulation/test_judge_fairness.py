"""Fairness between tenants: one floods, and another is judged in time all the same; one alone loses nothing by it."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from statistics import quantiles
from typing import Any

import pytest
from scripted_judge import NOON, Log, ScriptedPool, Worker, config, request
from typing_extensions import override

from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.judge import agent, holding
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.fairness import NAMES, TenantShares
from ragweir.streams.services.judge.held_requests import HeldRequest
from ragweir.streams.services.judge.job import Job, JobId, JobResult

FLOOD = 10_000
CONCURRENCY = 16


class LimitedPool(ScriptedPool):
    """Answers jobs in the order of their start, one in so many seconds of the simulated time: a rate limit."""

    def __init__(self, per_minute: float) -> None:
        super().__init__()
        self.pace = timedelta(minutes=1) / per_minute
        self.now = self.free = NOON
        self.ends: dict[JobId, datetime] = {}

    @override
    def start(self, job: Job) -> None:
        super().start(job)
        self.free = self.ends[job.id] = max(self.free, self.now) + self.pace

    @override
    def take_results(self) -> list[JobResult]:
        for job in [job for job in self.jobs if self.ends[job] <= self.now]:
            self.land(job)
        return super().take_results()


@dataclass
class Simulation:
    """Traffic of tenants, one worker, and a clock of its own."""

    per_minute: float = 240.0
    partitions: int = 1
    concurrency: int = CONCURRENCY
    most: int = 1_000
    """Records of a partition that are read in one turn."""
    settings: dict[str, Any] = field(default_factory=dict)
    now: datetime = NOON
    asked: dict[str, datetime] = field(default_factory=dict)
    waits: dict[str, float] = field(default_factory=dict)
    """Seconds from each request to its result, by event id."""
    moved: int = 0

    def __post_init__(self) -> None:
        self.log, self.pool = Log(), LimitedPool(self.per_minute)
        chosen = config(self.partitions, concurrency=self.concurrency, daily_budget_usd="none", **self.settings)
        self.worker = Worker(self.log, JudgeAgent(chosen, self.pool), range(self.partitions))

    def ask(self, tenant: str | None, count: int = 1, **fields: Any) -> None:
        for _ in range(count):
            name = f"{tenant}-{len(self.asked)}"
            lane = len(self.asked) % self.partitions
            self.log.ask(request(name, tenant=tenant, **fields), partition=lane, at=self.now)
            self.asked[name] = self.now

    def run(
        self,
        until: Callable[[], bool],
        each_minute: Callable[[], None] = lambda: None,
        each_turn: Callable[[], None] = lambda: None,
    ) -> None:
        """Turn once a second."""
        begun = self.now
        while not until():
            if (self.now - begun) % timedelta(minutes=1) == timedelta(0):
                each_minute()
            self.pool.now = self.now
            self.worker.prefer_another()
            for emission in self.worker.turn(self.now, most=self.most):
                name = (emission.key or b"").decode()
                if emission.topic == "evaluations":
                    assert name not in self.waits, "nothing is judged twice"
                    self.waits[name] = (self.now - self.asked[name]).total_seconds()
                self.moved += emission.topic == "judge.retry"
            each_turn()
            self.now += timedelta(seconds=1)

    def waits_of(self, tenant: str) -> list[float]:
        return [wait for name, wait in self.waits.items() if name.startswith(tenant)]


@pytest.mark.heavy
@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.long), 6])
def test_a_tenant_that_asks_once_a_minute_does_not_wait_for_another_ones_flood(partitions: int) -> None:
    """Its 95th percentile is at most two minutes above the wait that the rate limit makes of the jobs under way.

    The flood loses nothing but what the other takes: the limit is used up to the end.
    """
    simulation = Simulation(partitions=partitions)
    simulation.ask("loud", FLOOD)
    simulation.run(lambda: len(simulation.waits_of("loud")) >= FLOOD, lambda: simulation.ask("quiet"))
    simulation.run(lambda: len(simulation.waits) == len(simulation.asked))
    waits = simulation.waits_of("quiet")
    assert len(waits) >= 40
    twentieths = quantiles(waits, n=20)
    taken = simulation.now - NOON
    print(f"{len(waits)} of quiet: p50 {twentieths[9]:.0f} s, p95 {twentieths[18]:.0f} s; {simulation.moved} moved")
    pace = simulation.pool.pace
    assert twentieths[18] <= (CONCURRENCY * pace).total_seconds() + 120
    assert taken <= len(simulation.asked) * pace + timedelta(seconds=10)
    moves = Counter(each["evaluation"]["event_id"] for each in simulation.log.read("judge.retry"))
    assert set(moves.values()) == {1}, "a request is moved once"


@pytest.mark.parametrize(("tenant", "most"), [("loud", 1), (None, 0)])
def test_a_tenant_alone_loses_no_time_and_a_deployment_without_tenants_writes_no_record_more(
    tenant: str | None, most: int
) -> None:
    simulation = Simulation(per_minute=600, partitions=2)
    simulation.ask(tenant, 2_000)
    simulation.run(lambda: len(simulation.waits) == 2_000)
    assert simulation.now - NOON <= 2_000 * simulation.pool.pace + timedelta(seconds=2)
    assert simulation.moved <= most * 2_000


def test_what_fits_is_never_moved() -> None:
    simulation = Simulation(per_minute=60)
    for tenant, count in (("a", 3), ("b", 1)):
        simulation.ask(tenant, count * CONCURRENCY)
    simulation.run(lambda: len(simulation.waits) == 4 * CONCURRENCY)
    assert simulation.moved == 0


def test_a_request_that_is_moved_is_as_old_as_before_and_has_all_its_attempts() -> None:
    log, pool = Log(), ScriptedPool()
    worker = Worker(log, JudgeAgent(config(concurrency=1, expire_h=1), pool))
    for number in range(20):
        log.ask(request(str(number), tenant="loud", because=("floor",)), at=NOON - timedelta(minutes=number))
    for turn in range(8):
        worker.turn(NOON + timedelta(seconds=turn))
        pool.land_all()
    moved = [JudgeRequest.model_validate(each) for each in log.read("judge.retry")]
    assert moved
    for each in moved:
        number = int(each.evaluation.event_id)
        assert (each.attempts, each.requested_at) == (0, NOON - timedelta(minutes=number))
        assert each.not_before is not None
        assert each.not_before <= NOON + timedelta(seconds=turn), "it waits for its turn alone"
        assert each.evaluation.decision.suites[0].status == "selected"
    assert log.counts["ragweir_judge_requests_total", "moved"] == len(moved)
    pool.unavailable_reason = "down"
    for _ in range(20):
        worker.turn(NOON + timedelta(hours=2))
        pool.land_all()
    expired = [each for each in log.read("evaluations") if each["decision"]["suites"][0]["status"] == "expired"]
    assert len(expired) + len(pool.started) == 20
    newest = log.read("judge.ledger")[-1]
    assert (
        newest["floor"]
        == newest["wanted"]
        == len(pool.started)
        + len({each.evaluation.event_id for each in moved} - {pool_id(log, job) for job in pool.started})
    ), "each asks once, moved or not"


def pool_id(log: Log, job: JobId) -> str:
    topic, partition, offset = job
    return JudgeRequest.model_validate_json(log.records[topic, partition][offset].value or b"").evaluation.event_id


def test_names_are_made_up_and_memory_stays_bounded() -> None:
    """Thousands of tenants ask; one thousand are told apart, those with a budget always, and none is shown."""
    simulation = Simulation(per_minute=60_000, concurrency=600, settings={"budgets_by_tenant": {"late": 1}})
    for number in range(3_000):
        simulation.ask(f"tenant{number}")
    simulation.ask("late")
    shares = simulation.worker.agent._shares
    told: list[int] = []
    simulation.run(lambda: len(simulation.waits) == 3_001, each_turn=lambda: told.append(len(shares._turns)))
    assert NAMES <= max(told) <= NAMES + 2
    assert not any("tenant" in label for labels in (*simulation.log.counts, *simulation.log.levels) for label in labels)


def test_large_requests_fill_a_share_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held is bounded in bytes too. A flood of large texts is passed more slowly, but it is passed."""
    for module in (agent, holding):
        monkeypatch.setattr(module, "MOST_HELD_BYTES", 1_000_000)
    simulation = Simulation(per_minute=60, concurrency=40, most=10)
    simulation.ask("loud", 600, response="x" * 10_000)
    simulation.ask("quiet")
    simulation.run(lambda: bool(simulation.waits_of("quiet")))
    assert simulation.waits_of("quiet")[0] < 450, "600 s if it was not passed"


def held(number: int, tenant: str | None) -> HeldRequest:
    return HeldRequest(Record("judge.requests", 0, number, b"", b"{}", 0), request(str(number), tenant=tenant))


def given(shares: TenantShares, requests: Iterable[HeldRequest], most: int) -> list[str | None]:
    return [each.request.evaluation.tenant for each in islice(shares.in_turn(requests), most)]


def test_turns_go_round_and_go_on_where_they_ended() -> None:
    shares = TenantShares([], 100, 100)
    requests = [held(number, tenant) for number, tenant in enumerate(("a", "a", "a", "b", "b", None, "c"))]
    shares.count(requests)
    assert given(shares, requests, 7) == ["a", "b", None, "c", "a", "b", "a"]
    assert given(shares, requests, 3) == [None, "c", "b"]
    assert given(shares, requests, 2) == ["a", None]
    newcomers = [*requests, *(held(10 + number, f"new{number}") for number in range(5))]
    shares.count(newcomers)
    assert given(shares, newcomers, 4) == ["c", "b", "a", None], "who comes later does not go first"


def test_tenants_that_are_not_told_apart_have_one_turn_together() -> None:
    shares = TenantShares(["own"], 10_000, 10_000)
    requests = [held(number, f"tenant{number}") for number in range(NAMES + 50)] + [held(5_000, "own")]
    shares.count(requests)
    round_ = given(shares, requests, NAMES + 2)
    assert len(set(round_)) == NAMES + 2
    assert sum(shares.name(request(tenant=name)) is None for name in round_) == 1
    assert "own" in round_
    fewer = requests[500:]
    shares.count(fewer)
    assert all(shares.name(each.request) is not None for each in fewer), "names are given again"


def test_the_newest_of_those_that_hold_most_are_surplus() -> None:
    shares = TenantShares([], 6, 600)
    tenants = ("loud", "loud", "loud", "mid", "mid", "loud", "quiet", "loud")
    requests = [held(number, tenant) for number, tenant in enumerate(tenants)]
    shares.count(requests)
    assert sorted(each.record.offset for each in shares.surplus(requests)) == [5, 7]
    shares.count(requests[:6])
    assert not shares.surplus(requests[:6]), "all of it may be held"
