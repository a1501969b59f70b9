"""The judge agent: every request settled exactly once, in order, within the budget, whatever happens meanwhile."""

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest
from scripted_judge import AMOUNT, GOOD, NOON, Log, ScriptedPool, Worker, config, dollars, request

from ragweir.metrics.judged.suite import Case
from ragweir.metrics.metric import Null
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.judging import JudgeRequest, LedgerEntry, ledger_key, rates_entry
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.job import JobId
from ragweir.streams.services.judge.ledger import Budget, affordable
from ragweir.streams.services.judge.rate_ledger import RateLedger, StoredUse
from ragweir.streams.services.judge.rate_limit import RateLimits
from ragweir.streams.services.judge.results import CUT
from ragweir.streams.settings import JudgeSettings


def judging(**settings: Any) -> tuple[Log, ScriptedPool, Worker]:
    log, pool = Log(), ScriptedPool()
    return log, pool, Worker(log, JudgeAgent(config(**settings), pool))


def test_a_judged_evaluation_repeats_the_scored_one_and_adds_what_the_judge_found() -> None:
    log, pool, worker = judging()
    log.ask(request("a", application="bot", labels={"region": "eu"}))
    worker.turn()
    pool.land(pool.started[0], cost=250)
    worker.turn()
    (found,) = (Evaluation.model_validate(each) for each in log.read("evaluations"))
    assert (found.stage, found.event_id, found.application, found.labels) == ("judged", "a", "bot", {"region": "eu"})
    assert found.scores == {"context_support": 0.5, "grade": 0.75}
    assert found.categories == {"mark": "A"}
    assert found.explanations == {"grade": "fine"}
    (suite,) = found.decision.suites
    assert (suite.status, suite.probability, suite.because) == ("judged", 1.0, ("risk",))
    assert found.judge is not None
    assert (found.judge.model, found.judge.prompt_version, found.judge.cost_usd) == ("tested", "grading:3", 0.00025)
    assert log.committed["judge.requests", 0] == 1


def test_nothing_is_called_before_its_reservation_is_committed() -> None:
    log, pool, worker = judging()
    log.ask(request())
    worker.turn(abort=True)
    assert not pool.started
    worker.turn()
    assert len(pool.started) == 1
    (entry,) = log.read("judge.ledger")
    assert entry["reserved"] == AMOUNT == pool.jobs[pool.started[0]].allowance


def test_the_ledger_tells_up_to_where_requests_are_finished() -> None:
    """Never further than what is committed with it, whatever finishes first and whatever is aborted."""
    log, pool, worker = judging()
    log.ask(*map(request, "abc"))
    log.append("judge.requests", 0, None, b"nonsense", NOON)
    worker.turn()
    first, second, third = pool.started

    def told() -> list[tuple[str, int, str]]:
        newest = log.records["judge.ledger", 0][-1]
        return [(topic, offset, name) for (topic, _), (offset, _), name, _ in worker.agent.recovery.origins(newest)]

    pool.land(second)
    worker.turn()
    assert told() == []
    pool.land(first)
    worker.turn(abort=True)
    assert told() == []
    worker.turn()
    assert log.committed["judge.requests", 0] == 2
    assert told() == [("judge.requests", 1, "b")]
    pool.land(third)
    worker.turn()
    assert log.committed["judge.requests", 0] == 4
    assert told() == [("judge.requests", 2, "c")], "of nonsense no id can be told"
    requests = log.records["judge.requests", 0]
    found = [[name for _, name in worker.agent.recovery.identities(each)] for each in requests]
    assert found == [["a"], ["b"], ["c"], []]
    assert not list(worker.agent.recovery.origins(requests[0]))


def test_what_finishes_out_of_order_is_emitted_in_order_and_only_as_a_finished_prefix() -> None:
    log, pool, worker = judging()
    log.ask(*map(request, "abc"))
    worker.turn()
    first, second, third = pool.started
    pool.land(third)
    pool.land(second)
    worker.turn()
    assert not log.read("evaluations")
    assert ("judge.requests", 0) not in log.committed
    pool.land(first)
    worker.turn()
    assert [each["event_id"] for each in log.read("evaluations")] == ["a", "b", "c"]
    assert log.committed["judge.requests", 0] == 3


def test_an_abort_emits_the_same_again_and_calls_nobody_again() -> None:
    log, pool, worker = judging()
    log.ask(*map(request, "ab"))
    worker.turn()
    pool.land_all()
    worker.turn(abort=True)
    worker.turn(abort=True)
    assert not log.read("evaluations")
    worker.turn()
    assert [each["event_id"] for each in log.read("evaluations")] == ["a", "b"]
    assert len(pool.started) == 2


def test_a_rejected_result_becomes_the_same_dead_letter_until_it_is_committed() -> None:
    """Its cost is booked, it is settled once, and those behind it go on."""
    log, pool, worker = judging()
    log.ask(*map(request, "abc"))
    worker.turn()
    pool.land_all(cost=70)
    worker.turn(abort=True)  # All three are refused, and then the first alone.
    worker.turn(abort=True, settle=1)
    refused = log.records["judge.requests", 0][0]
    worker.turn(abort=True, settle=1, refused=refused)
    assert ("judge.requests", 0) not in log.committed
    assert log.read("judge.ledger")[-1]["spent"] == 0
    (letter, entry) = worker.turn(settle=1, refused=refused)
    assert (letter.topic, letter.value) == ("dead-letter", refused.value)
    assert dict(letter.headers)["ragweir-error-class"] == b"refused"
    assert orjson.loads(entry.value or b"")["spent"] == 3 * 70, "the costs of all three"
    assert log.committed["judge.requests", 0] == 1
    worker.turn()
    assert [each["event_id"] for each in log.read("evaluations")] == ["b", "c"]
    assert len(log.records["dead-letter", 0]) == 1
    assert log.committed["judge.requests", 0] == 3
    assert log.read("judge.ledger")[-1]["spent"] == 3 * 70
    assert len(pool.started) == 3


def test_a_request_that_is_under_way_can_become_a_dead_letter_too() -> None:
    """Its job is cancelled, and costs all that was reserved, since nobody hears what its calls cost."""
    log, pool, worker = judging()
    log.ask(*map(request, "ab"))
    worker.turn()
    worker.turn(abort=True, refused=log.records["judge.requests", 0][0])
    assert list(pool.jobs) == [pool.started[1]]
    worker.turn()
    assert len(log.records["dead-letter", 0]) == 1, "an abort does not bring its job back"
    (spent, reserved) = (log.read("judge.ledger")[-1][name] for name in ("spent", "reserved"))
    assert (spent, reserved) == (AMOUNT, AMOUNT)
    pool.land(pool.started[1])
    worker.turn()
    assert [each["event_id"] for each in log.read("evaluations")] == ["b"]


def test_an_aborted_transaction_finishes_nothing_in_the_ledger() -> None:
    """After an abort that halves the batch, another partition's entry tells nothing of what was to be settled here."""
    log, pool, worker = judging()
    log.ask(*map(request, "ab"))
    log.append("judge.retry", 0, b"c", encode(request("c")), NOON)
    worker.turn()
    pool.land_all()
    worker.turn(abort=True)
    worker.turn(settle=1)
    finished = {each["topic"]: each["event_id"] for each in log.read("judge.ledger")[-1]["finished"]}
    assert finished == {"judge.requests": "a"}


def test_no_more_jobs_fly_than_the_concurrency_and_what_is_held_is_bounded() -> None:
    log, pool, worker = judging(concurrency=3)
    log.ask(*(request(str(number)) for number in range(100)))
    for _ in range(5):
        worker.turn()
    assert len(pool.jobs) == 3
    assert worker.agent.holding.capacity == 0
    assert len(worker.agent._requests) == 12
    while pool.jobs:
        pool.land(next(iter(pool.jobs)))
        worker.turn()
        worker.turn()
        assert len(pool.jobs) <= 3
    assert len(log.read("evaluations")) == 100


@pytest.mark.slow
def test_what_is_held_is_bounded_in_bytes_too() -> None:
    log, pool, worker = judging(concurrency=500, max_input_chars=1_000)
    pool.unavailable_reason = "down"
    log.ask(*(request(str(number), response="x" * 1_000_000) for number in range(100)))
    for _ in range(100):
        worker.turn(most=1)
    assert len(worker.agent._requests) == 68
    assert worker.agent.holding.capacity == 0


def test_while_the_endpoint_is_down_nothing_is_begun_and_nothing_is_lost() -> None:
    log, pool, worker = judging()
    pool.unavailable_reason = "the judge does not answer"
    log.ask(*map(request, "ab"))
    worker.turn()
    assert not pool.started
    assert not log.read("judge.retry")
    pool.unavailable_reason = ""
    worker.turn()
    assert len(pool.started) == 2


def test_what_is_over_the_budget_waits_for_the_next_day_and_is_judged_then() -> None:
    log, pool, worker = judging(daily_budget_usd=dollars(2.5))
    log.ask(*map(request, "abc"))
    worker.turn()
    pool.land_all(cost=AMOUNT)
    worker.turn()
    assert [each["event_id"] for each in log.read("evaluations")] == ["a", "b"]
    (waits,) = (JudgeRequest.model_validate(each) for each in log.read("judge.deferred"))
    assert waits.evaluation.event_id == "c"
    assert waits.evaluation.decision.suites[0].status == "deferred"
    assert waits.why == "the day's budget is spent"
    assert waits.not_before is not None
    assert waits.not_before.isoformat() == "2026-11-23T00:00:00+00:00"
    for hours in (1, 6, 11.9):
        worker.turn(NOON + timedelta(hours=hours))
        assert not pool.jobs
    worker.turn(NOON + timedelta(hours=12, seconds=1))
    worker.turn(NOON + timedelta(hours=12, seconds=2))
    (job,) = pool.jobs
    pool.land(job)
    worker.turn(NOON + timedelta(hours=12, seconds=3))
    assert [each["event_id"] for each in log.read("evaluations")] == ["a", "b", "c"]
    assert log.read("evaluations")[-1]["decision"]["suites"][0]["status"] == "judged"


def test_a_run_has_one_budget_and_no_day_after() -> None:
    """With its costs booked on one day, what is asked for on later days finds that day's budget spent."""
    log, pool = Log(), ScriptedPool()
    agent = JudgeAgent(replace(config(daily_budget_usd=dollars(2.5)), day="2026-11-22"), pool)
    worker = Worker(log, agent)
    worker.forget("judge.deferred")  # As a run does.
    for day, name in enumerate("abcd"):
        log.ask(request(name), at=NOON + timedelta(days=day))
        for _ in range(2):
            worker.turn(NOON + timedelta(days=day))
            pool.land_all(cost=AMOUNT)
    assert [each["event_id"] for each in log.read("evaluations")] == ["a", "b"]
    assert [each["evaluation"]["event_id"] for each in log.read("judge.deferred")] == ["c", "d"]
    assert {each["day"] for each in log.read("judge.ledger")} == {"2026-11-22"}


def test_money_that_was_reserved_and_not_needed_is_there_for_the_next() -> None:
    log, pool, worker = judging(daily_budget_usd=dollars(1.5), concurrency=1)
    log.ask(*map(request, "abcd"))
    for _ in range(12):
        worker.turn()
        pool.land_all(cost=AMOUNT // 10)
    assert [each["event_id"] for each in log.read("evaluations")] == ["a", "b", "c", "d"]
    assert log.read("judge.ledger")[-1]["spent"] == 4 * (AMOUNT // 10)
    assert log.read("judge.ledger")[-1]["reserved"] == 0


def test_a_request_that_waits_for_money_is_not_waited_for_by_those_that_hold_it() -> None:
    """The first of a partition needs much, those behind it hold it reserved, and cannot be emitted before the first."""
    log, pool, worker = judging(daily_budget_usd=dollars(3))
    log.ask(request("small-1"))
    log.ask(request("large", response="x" * 15_000))
    log.ask(request("small-2"))
    worker.turn()
    assert [job[2] for job in pool.started] == [0, 2]
    for _ in range(6):
        pool.land_all(cost=10)
        worker.turn()
    assert [each["event_id"] for each in log.read("evaluations")] == ["small-1", "large", "small-2"]


def test_an_application_over_its_budget_does_not_hold_up_another() -> None:
    log, pool, worker = judging(daily_budget_usd=dollars(50), budgets_by_application={"greedy": dollars(1)})
    log.ask(*(request(f"greedy{number}", application="greedy") for number in range(5)))
    log.ask(request("modest", application="modest"))
    worker.turn()
    assert {pool.jobs[job].id[2] for job in pool.jobs} == {0, 5}
    pool.land_all(cost=AMOUNT)
    worker.turn()
    waiting = [each["evaluation"]["event_id"] for each in log.read("judge.deferred")]
    assert waiting == ["greedy1", "greedy2", "greedy3", "greedy4"]


def test_what_no_day_could_pay_for_fails_and_says_so() -> None:
    log, pool, worker = judging(daily_budget_usd=dollars(0.5))
    log.ask(request("a"))
    worker.turn()
    assert not pool.started
    (found,) = (Evaluation.model_validate(each) for each in log.read("evaluations"))
    assert found.decision.suites[0].status == "failed"
    assert found.reasons["grade"] == "what it may cost is above a worker's part of a day's budget"


def test_a_tenants_budget_bounds_it_over_all_applications() -> None:
    log, pool, worker = judging(daily_budget_usd=dollars(50), budgets_by_tenant={"acme": dollars(2)})
    log.ask(*(request(str(number), application=f"bot{number}", tenant="acme") for number in range(4)))
    worker.turn()
    assert len(pool.jobs) == 2


def test_tenants_without_a_budget_share_a_pool_and_leave_the_rest_to_those_with_one() -> None:
    """Half of the budget has room for two requests; a tenant with a budget of its own is not held to that half."""
    log, pool, worker = judging(
        daily_budget_usd=dollars(4), budgets_by_tenant={"acme": dollars(2)}, other_tenants_share=0.5
    )
    for number, tenant in enumerate(("one", "two", None, "three", "acme", "acme", "acme")):
        log.ask(request(str(number), tenant=tenant))
    worker.turn()
    assert [job[2] for job in pool.started] == [0, 1, 4, 5]
    pool.land_all(cost=AMOUNT)
    worker.turn()
    waiting = [each["evaluation"]["event_id"] for each in log.read("judge.deferred")]
    assert waiting == ["2", "3", "6"]


def test_the_pool_of_other_tenants_holds_after_a_restart_and_counts_tenants_that_lost_their_budgets() -> None:
    log, pool, worker = judging(daily_budget_usd=dollars(4), budgets_by_tenant={"acme": dollars(2)})
    log.ask(*(request(str(number), tenant="acme") for number in range(2)))
    worker.turn()
    pool.land_all(cost=AMOUNT)
    worker.turn()
    again = ScriptedPool()
    successor = Worker(log, JudgeAgent(config(daily_budget_usd=dollars(4), other_tenants_share=0.75), again))
    log.ask(*(request(str(number)) for number in range(2, 4)))
    successor.turn()
    assert [job[2] for job in again.started] == [2]


def test_a_request_that_the_pool_of_other_tenants_could_never_pay_for_fails() -> None:
    log, pool, worker = judging(daily_budget_usd=dollars(4), other_tenants_share=0.2)
    log.ask(request("a", tenant="one"))
    worker.turn()
    assert not pool.started
    assert log.read("evaluations")[0]["decision"]["suites"][0]["status"] == "failed"


@pytest.mark.parametrize("budget", [dollars(50), "none"])
def test_what_is_spent_today_is_a_gauge_by_applications_with_a_budget(budget: float | str) -> None:
    """Other applications have no name there, whatever they call themselves; at midnight it begins anew."""
    log, pool, worker = judging(daily_budget_usd=budget, budgets_by_application={"bot": dollars(5), "idle": 1})
    for number, application in enumerate(("bot", "x", "y", None, "bot")):
        log.ask(request(str(number), application=application, tenant="acme"))
    worker.turn()
    for cost, job in enumerate(list(pool.jobs), 1):
        pool.land(job, cost=cost)
    worker.turn()

    def spent() -> dict[str, float]:
        return {labels[0]: value for (name, *labels), value in log.levels.items() if name.endswith("spent_dollars")}

    assert spent() == pytest.approx({"": 9e-6, "bot": 6e-6, "idle": 0})
    worker.turn(NOON + timedelta(hours=12))
    assert spent() == {"": 0, "bot": 0, "idle": 0}


def test_what_a_crash_leaves_reserved_counts_as_spent() -> None:
    log, pool, worker = judging(daily_budget_usd=dollars(3))
    log.ask(*map(request, "ab"))
    worker.turn()
    assert len(pool.started) == 2
    again = ScriptedPool()
    successor = Worker(log, JudgeAgent(config(daily_budget_usd=dollars(3)), again))
    successor.turn()
    assert len(again.started) == 1, "two of three are spent, though nobody knows whether the calls went out"
    again.land(again.started[0], cost=AMOUNT)
    successor.turn()
    assert [each["evaluation"]["event_id"] for each in log.read("judge.deferred")] == ["b"]


def test_failed_calls_are_tried_again_after_a_fixed_delay_and_at_last_the_status_is_failed() -> None:
    log, pool, worker = judging(retries=2, retry_delay_s=60)
    log.ask(request("a"))
    now = NOON
    for attempt in range(3):
        worker.turn(now)
        worker.turn(now)
        (job,) = pool.jobs
        pool.land(job, judged=None, why="the judge timed out")
        worker.turn(now)
        assert len(log.read("judge.retry")) == min(attempt + 1, 2)
        worker.turn(now + timedelta(seconds=59))
        assert not pool.jobs
        now += timedelta(seconds=61)
    (found,) = (Evaluation.model_validate(each) for each in log.read("evaluations"))
    assert found.decision.suites[0].status == "failed"
    assert found.scores == {"context_support": 0.5, "grade": None}
    assert found.categories == {"mark": None}
    assert found.reasons == {"grade": "the judge timed out", "mark": "the judge timed out"}
    assert found.judge is None


def test_requests_that_must_wait_do_not_take_the_room_of_those_that_need_not() -> None:
    log, pool, worker = judging(concurrency=2)
    for number in range(50):
        waits = request(f"late{number}", requested_at=NOON, not_before=NOON + timedelta(hours=1))
        log.append("judge.retry", 0, b"", orjson.dumps(waits.model_dump(), option=orjson.OPT_UTC_Z), NOON)
    log.ask(request("now"))
    worker.turn()
    worker.turn()
    assert worker.agent.holding.paused == {("judge.retry", 0): 0}
    assert [pool.jobs[job].id[0] for job in pool.jobs] == ["judge.requests"]


def test_a_request_that_waited_too_long_expires() -> None:
    log, pool, worker = judging(expire_h=1)
    log.ask(request("a"), at=NOON - timedelta(hours=2))
    pool.unavailable_reason = "down"
    worker.turn()
    (found,) = (Evaluation.model_validate(each) for each in log.read("evaluations"))
    assert found.decision.suites[0].status == "expired"
    assert found.reasons["grade"] == "it waited too long"


def test_what_cannot_be_read_is_buried_and_the_rest_goes_on() -> None:
    log, pool, worker = judging()
    for value in (b"not json", None, b"[]", b'{"evaluation": {}}', b"\xff"):
        log.append("judge.requests", 0, b"k", value, NOON)
    log.ask(request("a"))
    worker.turn()
    (job,) = pool.jobs
    pool.land(job)
    worker.turn()
    assert len(log.records["dead-letter", 0]) == 5
    assert len(log.read("evaluations")) == 1
    assert log.committed["judge.requests", 0] == 6


def test_a_suite_that_is_no_longer_there_has_failed() -> None:
    log, pool, worker = judging()
    asked = request("a")
    decided = asked.evaluation.decision.suites[0].model_copy(update={"suite": "gone"})
    evaluation = asked.evaluation.model_copy(
        update={"decision": asked.evaluation.decision.model_copy(update={"suites": (decided,)})}
    )
    log.ask(asked.model_copy(update={"evaluation": evaluation}))
    worker.turn()
    (job,) = pool.jobs
    pool.land(job, GOOD)
    worker.turn()
    assert log.read("evaluations")[0]["decision"]["suites"][0]["status"] == "failed"


def test_partitions_given_up_are_forgotten_and_their_calls_broken_off() -> None:
    log, pool = Log(), ScriptedPool()
    worker = Worker(log, JudgeAgent(config(partitions=2), pool), (0, 1))
    log.ask(request("a"))
    log.ask(request("b"), partition=1)
    worker.turn()
    worker.agent.on_revoked([("judge.requests", 0)])
    assert [job[1] for job in pool.jobs] == [1]
    assert set(worker.agent.holding.held) == {("judge.requests", 1)}


def test_long_texts_are_cut_and_the_evaluation_says_so() -> None:
    log, pool, worker = judging(max_input_chars=1_000)
    log.ask(request("a", response="x" * 5_000, contexts=("y" * 400, "z" * 400, "w")))
    worker.turn()
    (job,) = pool.jobs.values()
    texts = [job.case.query, job.case.response, *(job.case.contexts or ())]
    assert sum(map(len, texts)) <= 1_000
    assert job.case.contexts == ("y" * 400, "z" * 346)
    pool.land(job.id)
    worker.turn()
    assert CUT in log.read("evaluations")[0]["flags"]


def test_metrics_that_are_off_are_not_published() -> None:
    log, pool = Log(), ScriptedPool()
    chosen = config()
    without = replace(chosen, off=frozenset({"mark"}))
    worker = Worker(log, JudgeAgent(without, pool))
    log.ask(request("a"))
    worker.turn()
    pool.land(pool.started[0])
    worker.turn()
    assert log.read("evaluations")[0]["categories"] == {}


def test_what_may_not_leave_is_not_judged() -> None:
    log, pool = Log(), ScriptedPool()
    chosen = config()
    refusing = replace(chosen, redact=lambda _: Null("they must stay"))
    worker = Worker(log, JudgeAgent(refusing, pool))
    log.ask(request("a"))
    worker.turn()
    assert not pool.started
    (found,) = log.read("evaluations")
    assert found["decision"]["suites"][0]["status"] == "failed"
    assert found["reasons"] == {"grade": "they must stay", "mark": "they must stay"}
    assert log.counts["ragweir_judge_requests_total", "failed"] == 1


def test_slow_redaction_does_not_hold_up_a_whole_look() -> None:
    """Each event takes 4 s of 5 s a look: the runtime gets its turn after two of twenty, and nothing is lost."""
    log, pool, now = Log(), ScriptedPool(), [0.0]

    def slow(_: Case) -> Null:
        now[0] += 4
        return Null("redaction took longer than judge.redact_timeout_s")

    chosen = replace(config(concurrency=20), redact=slow, clock=lambda: now[0])
    worker = Worker(log, JudgeAgent(chosen, pool))
    log.ask(*(request(f"{number}") for number in range(20)))
    turns = [len(worker.turn()) and round(now[0]) for _ in range(10)]
    assert turns == [8 * turn for turn in range(1, 11)]
    assert [each["event_id"] for each in log.read("evaluations")] == [f"{number}" for number in range(20)]


class Trouble:
    """Random traffic on two partitions, with aborts, crashes and calls that fail; what each day really cost."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log, self.now = Log(), NOON
        self.cap = dollars(8 + 8 * self.chance.random())
        self.costs: dict[JobId, int] = {}
        self.by_day: Counter[str] = Counter()
        for number in range(40):
            self.log.ask(request(str(number), application=self.chance.choice("ab")), partition=number % 2)
        self.crash()

    def crash(self) -> None:
        settings = {"concurrency": 4, "retries": 3, "retry_delay_s": 30, "expire_h": 500}
        self.pool = ScriptedPool()
        self.worker = Worker(self.log, JudgeAgent(config(2, daily_budget_usd=self.cap, **settings), self.pool), (0, 1))

    def step(self) -> None:
        chance, pool = self.chance, self.pool
        self.now += timedelta(seconds=chance.choice((1, 5, 40, 2_000)))
        known = len(pool.started)
        self.worker.turn(self.now, abort=chance.random() < 0.1, most=chance.randint(1, 8))
        for job in pool.started[known:]:
            # Its calls cost something whether or not their answer is ever heard.
            self.costs[job] = chance.randint(0, pool.jobs[job].allowance)
            self.by_day[self.now.date().isoformat()] += self.costs[job]
        for job in list(pool.jobs):
            if chance.random() < 0.5:
                pool.land(job, None if chance.random() < 0.2 else GOOD, self.costs[job], "it timed out")
        if chance.random() < 0.03:
            self.crash()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_crashes_aborts_and_failures_lose_nothing_double_nothing_and_never_break_the_budget(seed: int) -> None:
    trouble = Trouble(seed)
    for _ in range(4_000):
        trouble.step()
        if sum(1 for _ in trouble.log.records["evaluations", 0]) >= 40:
            break
    found = [each["event_id"] for each in trouble.log.read("evaluations")]
    assert sorted(found) == sorted(map(str, range(40)))
    assert max(trouble.by_day.values()) <= trouble.cap * 1_000_000, "the calls of crashed workers among them"


def test_the_ledger_tells_which_floor_the_budget_affords() -> None:
    log, pool, worker = judging(daily_budget_usd=dollars(4), concurrency=1)
    log.ask(*(request(str(number), because=("floor",) if number % 2 else ("risk", "floor")) for number in range(10)))
    for _ in range(30):
        worker.turn()
        pool.land_all(cost=AMOUNT // 2)
    newest = log.read("judge.ledger")[-1]
    assert newest["wanted"] == 10
    assert newest["floor"] == 5
    share = log.levels["ragweir_judge_affordable_floor_ratio",]
    assert share == pytest.approx((8 - 5) / 5)
    assert log.levels["ragweir_judge_budget_left_dollars",] == pytest.approx(dollars(4) - newest["spent"] / 1e6)


def test_the_parts_of_all_partitions_stay_within_the_budget() -> None:
    for partitions in (1, 3, 7, 12):
        part = Budget.share(JudgeSettings(daily_budget_usd=1, budgets_by_application={"a": 0.1}), 0.0, partitions)
        assert part.total is not None
        assert part.total * partitions <= 1_000_000
        assert part.applications["a"] * partitions <= 100_000


def test_without_a_bound_nothing_is_deferred() -> None:
    log, pool, worker = judging(daily_budget_usd="none")
    log.ask(request("a"))
    worker.turn()
    assert len(pool.jobs) == 1
    assert affordable([], None, 0.0) is None


def test_an_evaluation_says_that_its_usage_cannot_be_believed() -> None:
    log, pool, worker = judging()
    log.ask(request("a"))
    worker.turn()
    pool.land(pool.started[0], flags=["usage_implausible"])
    worker.turn()
    assert "usage_implausible" in log.read("evaluations")[0]["flags"]


def test_after_a_restart_calls_go_on_with_the_rate_limits_that_the_ledger_has() -> None:
    """Whichever partition the worker has, and although its first process was killed: within 5 s, and not a minute."""
    log, clock = Log(), [1_000.0]

    def stored(member: str) -> StoredUse | None:
        """Return what a reader of partition 0 finds."""
        own = [each for each in log.records["judge.ledger", 0] if each.key == ledger_key(rates_entry(member, {}))]
        return StoredUse(LedgerEntry.model_validate_json(own[-1].value or b""), NOON.timestamp()) if own else None

    def process() -> tuple[RateLimits, Worker]:
        limits = RateLimits(60, 6_000, 1, lambda: clock[0], granted=True)
        agent = JudgeAgent(replace(config(2), rates=RateLedger(limits, stored)), ScriptedPool())
        agent.preparation.on_member("rag.judge-node-1-0")
        return limits, Worker(log, agent, (1,), 2)

    limits, worker = process()
    assert limits.wait_s(100) > 60, "nothing is known of an earlier process"
    clock[0] += 61.0
    for _ in range(40):
        assert 0 < limits.wait_s(100) < 1, "a call waits for a grant"
        worker.turn(abort=True)
        assert limits.wait_s(100) > 0
        worker.turn()
        for _ in range(5):
            assert limits.wait_s(100) == 0
            limits.take(100)
            limits.settle(100, 100)
        if stored("rag.judge-node-1-0") and limits.wait_s(100) > 1:
            break
    assert {each.partition for each in worker.agent._ledgers._committed.values()} == {1}
    entries = [each for each in log.read("judge.ledger") if each["day"] == "0 rates"]
    assert len(entries) == 12, "sixty calls are a minute's"
    clock[0] += 30.0
    again, worker = process()
    worker.turn(NOON + timedelta(seconds=30))
    assert 29 < again.wait_s(100) < 31, "what was sent half a minute ago still counts"
    clock[0] += 31.0
    assert again.wait_s(100) < 1
    worker.turn(NOON + timedelta(seconds=61))
    assert again.wait_s(100) == 0
