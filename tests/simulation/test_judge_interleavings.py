"""The judge agent under random interleavings: requests, results of jobs, commits, aborts, rebalances, crashes, days.

The machine keeps an account of its own of what was started, what it cost and what is known to be booked.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from scripted_judge import AMOUNT, GOOD, NOON, Log, ScriptedPool, Worker, config, dollars, request
from typing_extensions import override

from ragweir.errors import ErrorClass
from ragweir.schemas.codec.json import encode
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.runtime.records import Outcome, Record
from ragweir.streams.services.judge import agent, held_requests, holding
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.days import day_of
from ragweir.streams.services.judge.held_requests import HeldRequest
from ragweir.streams.services.judge.job import Job, JobId, JobResult
from ragweir.streams.services.judge.request_state import TRANSITIONS, RequestEvent, RequestState, next_state
from ragweir.streams.services.judge.worker_ledgers import LedgerReservation

PARTITIONS = 2
PART = 4 * AMOUNT
"""One partition's part of the day's budget."""
GREEDY = 2 * AMOUNT
"""One partition's part of the budget of the application `greedy`."""
SETTINGS: dict[str, Any] = {
    "daily_budget_usd": dollars(PARTITIONS * 4),
    "budgets_by_application": {"greedy": dollars(PARTITIONS * 2)},
    "concurrency": 3,
    "retries": 2,
    "retry_delay_s": 60,
    "expire_h": 60,
}
KINDS = st.sampled_from(("small", "small", "small", "greedy", "large", "too large", "late", "unreadable"))


@dataclass(frozen=True)
class Turn:
    """One transaction of a worker."""

    worker: int
    abort: bool = False
    most: int = 1_000
    """The number of records that it reads of a partition."""
    settle: int = 1_000
    """The number of requests that it may settle."""
    refused: int | None = None
    """The partition whose next request becomes a dead letter."""


TURNS = st.lists(
    st.builds(
        Turn,
        st.integers(0, 1),
        st.sampled_from((False, False, True)),
        st.sampled_from((1_000, 1_000, 3, 1)),
        st.sampled_from((1_000, 1_000, 2, 1)),
        st.sampled_from((None, None, None, None, 0, 1)),
    ),
    min_size=1,
    max_size=4,
)
ENDS = st.tuples(st.integers(0, 5), st.sampled_from((True, True, False)), st.sampled_from((0.0, 0.3, 1.0)))


@dataclass
class Started:
    """A job that was started, by the machine's own account."""

    job: Job
    costs: dict[str, int] | None = None
    """What its calls have cost, by days; None while that is not known."""
    heard: bool = False
    """True once the agent has been told."""
    booked: bool = False
    """True once a transaction after that is committed."""
    deposits: tuple[tuple[LedgerReservation, ...], ...] = ()
    """Where the ledgers have its reservation, for each of its days."""
    given_up: set[int] = field(default_factory=set)
    """The partitions that were given up before its cost was booked: their next owners count the deposits as spent."""

    @property
    def owed(self) -> Counter[tuple[int, str]]:
        """What the ledgers have to hold for it, spent or reserved, by partitions and days."""
        owed = Counter[tuple[int, str]]()
        for day, deposits in zip(self.job.days, self.deposits, strict=True):
            left = (self.costs or {}).get(day, 0)
            for each in deposits:
                paid = min(left, each.amount)
                left -= paid
                known = self.booked and each.partition not in self.given_up
                owed[each.partition, day] += paid if known else each.amount
            assert left == 0
        return owed

    @property
    def reserved(self) -> dict[str, int]:
        """What was reserved for it."""
        return dict.fromkeys(self.job.days, self.job.allowance)


class NotingAgent(JudgeAgent):
    """Notes which records it is told to settle as dead letters."""

    noted: set[JobId]

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        self.noted.add((record.topic, record.partition, record.offset))
        return super().dead_letter(record, reason, error_class)


class CheckedPool(ScriptedPool):
    """Checks that what is started may be."""

    def __init__(self, machine: "JudgeMachine") -> None:
        super().__init__()
        self.machine = machine
        self.own: dict[JobId, Started] = {}

    @override
    def start(self, job: Job) -> None:
        assert self.machine.committing, "a job is started only once its reservation is committed"
        assert job.id not in self.own, "no job is started twice by the same owner of its partition"
        self.machine.check_wait_is_over(job.id)
        agent = next(each.agent for each in self.machine.workers.values() if each.agent._pool is self)
        self.own[job.id] = Started(job, deposits=agent._requests[job.id].reservation.by_day)
        assert job.days[0] == day_of(self.machine.now.timestamp())
        self.machine.started.append(self.own[job.id])
        super().start(job)

    @override
    def take_results(self) -> list[JobResult]:
        ended = super().take_results()
        for each in ended:
            self.own[each.id].heard = True
        return ended

    @override
    def cancel(self, jobs: Any) -> None:
        super().cancel(jobs)
        for job in jobs:
            self.own[job].heard, self.own[job].costs = True, self.own[job].reserved

    def lose(self, partition: int) -> None:
        """The process, or only its partition, is lost."""
        self.machine.log.refused -= {job for job in self.machine.log.refused if job[1] == partition}
        for each in self.own.values():
            if not each.booked:
                each.given_up.add(partition)
        for job in [job for job in self.own if job[1] == partition]:
            del self.own[job]


@dataclass
class CheckedLog(Log):
    """Checks each outcome on its way into the log."""

    most: int = 0
    """The number of requests that the outcome may settle."""
    refused: set[JobId] = field(default_factory=set)
    """The records that have to become dead letters, as long as their partitions keep their owners."""

    @override
    def commit(self, outcome: Outcome, at: Any) -> None:
        before, emissions = dict(self.committed), [e for e in outcome.emissions if e.topic != "judge.ledger"]
        for record, emission in zip(outcome.settled, emissions, strict=True):
            place = record.topic_partition
            assert record.offset == before.get(place, 0), "a partition is settled in order, and nothing twice"
            before[place] = record.offset + 1
            assert record.key == emission.key, "each record is settled by its own result"
            if (*place, record.offset) in self.refused:
                assert emission.topic == "dead-letter"
        assert len(outcome.settled) <= self.most
        super().commit(outcome, at)
        for partition in range(PARTITIONS):
            self.check_finished(partition)

    def check_finished(self, partition: int) -> None:
        """The ledger says of no request that it is finished that is not committed."""
        for record in self.records["judge.ledger", partition][-1:]:
            for each in orjson.loads(record.value or b"{}")["finished"]:
                assert each["offset"] < self.committed.get((each["topic"], each["partition"]), 0)


class JudgeMachine(RuleBasedStateMachine):
    """Two workers, one log; each partition belongs to one of them, or to none."""

    tenants: tuple[str | None, ...] = (None,)
    """The tenants of the requests, in turn."""

    @initialize()
    def begin(self) -> None:
        self.log, self.now, self.asked = CheckedLog(), NOON, 0
        self.committing = False
        self.started: list[Started] = []
        self.owners: dict[int, int | None] = {0: 0, 1: 1}
        self.pools: dict[int, CheckedPool] = {}
        self.workers: dict[int, Worker] = {}
        for number in (0, 1):
            self.spawn(number)

    def spawn(self, number: int) -> None:
        """A new process."""
        self.pools[number] = CheckedPool(self)
        agent = NotingAgent(config(PARTITIONS, **SETTINGS), self.pools[number])
        agent.noted = self.log.refused
        self.workers[number] = Worker(self.log, agent, self.owned(number))

    def owned(self, number: int) -> list[int]:
        return [partition for partition, owner in self.owners.items() if owner == number]

    def check_wait_is_over(self, job: JobId) -> None:
        topic, partition, offset = job
        asked = JudgeRequest.model_validate_json(self.log.records[topic, partition][offset].value or b"")
        assert asked.not_before is None or asked.not_before <= self.now

    # What happens. Each rule ends with transactions, since a run may leave out any rule.

    @rule(kinds=st.lists(KINDS, min_size=1, max_size=4), partition=st.integers(0, 1), then=TURNS)
    def ask(self, kinds: list[str], partition: int, then: list[Turn]) -> None:
        for kind in kinds:
            event = f"event-{self.asked}"
            self.asked += 1
            topic, value = "judge.requests", b"nonsense"
            if kind == "late":
                topic = "judge.retry"
                value = encode(request(event, requested_at=self.now, not_before=self.now + timedelta(seconds=90)))
            elif kind != "unreadable":
                length = {"large": 10_000, "too large": 70_000}.get(kind, 4)
                tenant = self.tenants[self.asked % len(self.tenants)]
                value = encode(request(event, application=kind, tenant=tenant, response="x" * length))
            self.log.append(topic, partition, event.encode(), value, self.now)
        self.turns(then)

    @rule(then=TURNS)
    def nothing(self, then: list[Turn]) -> None:
        self.turns(then)

    @rule(ends=st.lists(ENDS, min_size=1, max_size=3), then=TURNS)
    @precondition(lambda self: any(pool.jobs for pool in self.pools.values()))
    def jobs_end(self, ends: list[tuple[int, bool, float]], then: list[Turn]) -> None:
        for which, judged, share in ends:
            flying = [(pool, job) for pool in self.pools.values() for job in pool.jobs]
            if flying:
                pool, job = flying[which % len(flying)]
                self.end(pool, job, judged=judged, share=share)
        self.turns(then)

    @rule(share=st.sampled_from((0.0, 0.3, 1.0)))
    @precondition(lambda self: any(len(pool.jobs) > 1 for pool in self.pools.values()))
    def a_later_job_ends_first_and_the_transaction_aborts(self, share: float) -> None:
        for number, pool in self.pools.items():
            if len(pool.jobs) > 1:
                self.end(pool, max(pool.jobs), judged=True, share=share)
                self.turns([Turn(number, abort=True)])

    @rule(partition=st.integers(0, 1), owner=st.sampled_from((0, 1, 1, 0, None)), then=TURNS)
    def rebalance(self, partition: int, owner: int | None, then: list[Turn]) -> None:
        """A partition is revoked, and goes to another worker, to the same one, or for now to none."""
        before = self.owners[partition]
        if before is not None:
            self.workers[before].revoke(partition)
            self.pools[before].lose(partition)
        self.owners[partition] = owner
        if owner is not None:
            self.workers[owner].assign(partition)
        self.turns(then)

    @rule(number=st.integers(0, 1), drain=st.sampled_from((False, False, True)), then=TURNS)
    def crash(self, number: int, *, drain: bool, then: list[Turn]) -> None:
        """A process ends, perhaps after it has drained for a while, and another one begins."""
        if drain:
            self.workers[number].agent.drain()
            self.turns(then)
        for partition in self.owned(number):
            self.pools[number].lose(partition)
        self.spawn(number)
        self.turns(then)

    @rule(number=st.integers(0, 1), then=TURNS)
    def outage(self, number: int, then: list[Turn]) -> None:
        pool = self.pools[number]
        pool.unavailable_reason = "it is down"
        begun = len(self.started)
        self.turns([Turn(number, abort=turn.abort, settle=turn.settle) for turn in then])
        assert len(self.started) == begun
        pool.unavailable_reason = ""

    @rule(seconds=st.sampled_from((1, 50, 100, 3_600, 13 * 3_600, 13 * 3_600, 70 * 3_600)), then=TURNS)
    def time_passes(self, seconds: int, then: list[Turn]) -> None:
        self.now += timedelta(seconds=seconds)
        self.turns(then)

    @rule(then=TURNS)
    def it_is_nearly_midnight(self, then: list[Turn]) -> None:
        self.now = self.now.replace(hour=23, minute=55)
        self.turns(then)

    def turns(self, turns: list[Turn]) -> None:
        for turn in turns:
            self.transaction(turn)

    def transaction(self, turn: Turn) -> None:
        """One transaction of a worker."""
        worker, pool = self.workers[turn.worker], self.pools[turn.worker]
        refused = self.head(turn.worker, turn.refused)
        before = [(each, each.state) for each in worker.agent._requests]
        self.log.most = turn.settle
        self.committing = not turn.abort
        worker.turn(self.now, abort=turn.abort, most=turn.most, settle=turn.settle, refused=refused)
        self.committing = False
        if turn.abort:
            for each, state in before:
                undone = {
                    RequestState.WAITING: {RequestState.WAITING, RequestState.READY},
                    RequestState.IN_FLIGHT: {RequestState.IN_FLIGHT, RequestState.ENDED},
                }
                assert each.state in undone.get(state, {state}), "an abort leaves no emission and no reservation"
        else:
            for each in pool.own.values():
                each.booked = each.heard

    def head(self, number: int, partition: int | None) -> Record | None:
        """The next record of a partition of the worker that is to be settled."""
        if partition not in self.owned(number):
            return None
        place = "judge.requests", partition
        return next(iter(self.log.records[place][self.log.committed.get(place, 0) :]), None)

    def end(self, pool: CheckedPool, job: JobId, *, judged: bool, share: float) -> None:
        """A job ends, or gives up because its day is over. It pays on the day that it is, or else on its first."""
        today, own = day_of(self.now.timestamp()), pool.own[job]
        is_over = today not in own.job.days
        own.costs = {own.job.days[0] if is_over else today: int(share * own.job.allowance)}
        pool.land(job, GOOD if judged and not is_over else None, own.costs, "it ended", day_over=is_over)

    # What always holds.

    @invariant()
    def the_ledger_holds_what_was_started_and_stays_within_the_budget(self) -> None:
        owed = sum((each.owed for each in self.started), Counter[tuple[int, str]]())
        for partition in range(PARTITIONS):
            newest = {each.key: orjson.loads(each.value or b"") for each in self.log.records["judge.ledger", partition]}
            days, greedy = Counter[str](), Counter[str]()
            for entry in newest.values():
                days[entry["day"]] += entry["spent"] + entry["reserved"]
                greedy[entry["day"]] += (entry["spent"] + entry["reserved"]) * (entry["application"] == "greedy")
            mine = Counter({day: amount for (own, day), amount in owed.items() if own == partition})
            assert +days == mine, "neither a cost nor a reservation is lost or counted twice"
            assert all(amount <= PART for amount in days.values())
            assert all(amount <= GREEDY for amount in greedy.values())

    @invariant()
    def what_is_held_is_bounded_and_in_order(self) -> None:
        for number, worker in self.workers.items():
            held = [each.id for each in worker.agent._requests]
            assert len(held) == len(set(held))
            assert {partition for _, partition, _ in held} <= set(self.owned(number))
            flying = sum(each.state is RequestState.IN_FLIGHT for each in worker.agent._requests)
            assert flying <= SETTINGS["concurrency"]

    @override
    def teardown(self) -> None:
        """Once all troubles are over, every request is settled exactly once."""
        if not hasattr(self, "log"):
            return
        self.owners = {0: 0, 1: 0}
        for pool in self.pools.values():
            for partition in range(PARTITIONS):
                pool.lose(partition)
        self.spawn(0)
        for _ in range(200):
            if self.is_over():
                break
            self.now += timedelta(hours=2)
            self.transaction(Turn(0))
            for job in list(self.pools[0].jobs):
                self.end(self.pools[0], job, judged=True, share=0.5)
        finals = Counter(record.key for topic in ("evaluations", "dead-letter") for record in self.all(topic))
        assert finals == Counter(f"event-{number}".encode() for number in range(self.asked))
        self.the_ledger_holds_what_was_started_and_stays_within_the_budget()

    def all(self, topic: str) -> list[Record]:
        return [record for (name, _), records in self.log.records.items() if name == topic for record in records]

    def is_over(self) -> bool:
        return all(
            self.log.committed.get((topic, partition), 0) == len(self.log.records[topic, partition])
            for topic in ("judge.requests", "judge.retry", "judge.deferred")
            for partition in range(PARTITIONS)
        )


class CrowdedMachine(JudgeMachine):
    """So little may be held that requests above their tenants' shares are moved all the time."""

    tenants = ("loud", "loud", "loud", "quiet", "loud", None, "loud", "loud")


@pytest.mark.heavy
def test_requests_that_are_moved_are_not_lost_or_doubled_either(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[JobId] = []

    def noted(self: HeldRequest, result: Outcome) -> None:
        moved.append(self.id)
        move(self, result)

    move = HeldRequest.move
    monkeypatch.setattr(HeldRequest, "move", noted)
    for module in (agent, holding):
        monkeypatch.setattr(module, "HELD_PER_JOB", 1)
    run_state_machine_as_test(CrowdedMachine, settings=settings(max_examples=100, stateful_step_count=30))
    assert {topic for topic, *_ in moved} == {"judge.requests", "judge.deferred", "judge.retry"}


@pytest.mark.heavy
def test_random_interleavings_lose_nothing_double_nothing_and_keep_to_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They take every transition of the table: none of its rows is idle, and the machine leaves nothing out."""
    taken: set[tuple[RequestState, RequestEvent]] = set()

    def noted(state: RequestState, event: RequestEvent) -> RequestState:
        taken.add((state, event))
        return next_state(state, event)

    monkeypatch.setattr(held_requests, "next_state", noted)
    run_state_machine_as_test(JudgeMachine, settings=settings(max_examples=200, stateful_step_count=30))
    assert taken == set(TRANSITIONS)
