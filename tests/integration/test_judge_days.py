"""The days of the judge's budget: by whose clock they are, and who may spend on them."""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message
from conftest import SharedBroker, transaction
from scripted_judge import AMOUNT, NOON, Log, ScriptedPool, Worker, config, dollars, request
from services import QUICK_CLIENT, Service, Services, eventually
from test_judge_service import PARTITIONS, Requests, cost, environment

from ragweir.schemas.codec.json import encode
from ragweir.schemas.judging import JudgeRequest, LedgerEntry, ledger_key, parse_ledger_key, parse_shares
from ragweir.streams.playground.simulated.server import simulated_judge
from ragweir.streams.runtime.loop.broker_clock import BrokerClock
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.days import AHEAD_S, DayClock

MIDNIGHT = NOON + timedelta(hours=12)
DAY_S = 86_400.0


def judging(**settings: Any) -> tuple[Log, ScriptedPool, Worker]:
    log, pool = Log(), ScriptedPool()
    return log, pool, Worker(log, JudgeAgent(replace(config(**settings), clock=lambda: 0.0), pool))


def booked(log: Log) -> dict[str, tuple[int, int]]:
    """By the ledger: what is spent, and what is reserved, by days."""
    newest = {each["day"]: each for each in log.read("judge.ledger")}
    return {day: (each["spent"], each["reserved"]) for day, each in newest.items()}


def taken(log: Log) -> dict[int, tuple[int, int]]:
    """By the ledger: what is spent, and what is reserved, by partitions."""
    newest = {each["partition"]: each for each in log.read("judge.ledger")}
    return {partition: (each["spent"], each["reserved"]) for partition, each in newest.items()}


# The time.


class Report:
    """A delivery report."""

    def __init__(self, kind: int, at_s: float, latency_s: float = 0.0) -> None:
        self.kind, self.at_s, self.latency_s = kind, at_s, latency_s

    def timestamp(self) -> tuple[int, int]:
        return self.kind, round(self.at_s * 1_000)

    def latency(self) -> float:
        return self.latency_s


def test_the_time_is_the_brokers_once_a_report_tells_it() -> None:
    elapsed, own = [100.0], [5_000.0]
    clock = BrokerClock(lambda: elapsed[0], lambda: own[0])
    assert (clock.now_s(), clock.is_asked) == (5_000.0, False)
    clock.on_delivery(cast("Message", Report(TIMESTAMP_CREATE_TIME, 9.0)))
    assert (clock.now_s(), clock.is_asked, clock.is_brokers) == (5_000.0, True, False), "that was our own time"
    clock.on_delivery(cast("Message", Report(TIMESTAMP_LOG_APPEND_TIME, 1_000.0)))
    elapsed[0], own[0] = 107.5, 4 * DAY_S
    assert (clock.now_s(), clock.is_brokers) == (1_007.5, True), "whatever becomes of our own clock"


@pytest.mark.parametrize(
    ("at_s", "latency_s", "now_s"),
    [
        pytest.param(1_000.0, 10.0, 1_010.0, id="the process was suspended before it read the report"),
        pytest.param(1_009.0, 10.0, 1_010.0, id="this report was read a second late"),
        pytest.param(1_011.0, 10.0, 1_011.0, id="the first report was read later than this one"),
        pytest.param(1_000.0, 0.5, 1_000.5, id="the brokers' clocks were set back"),
    ],
)
def test_a_report_that_is_read_late_does_not_set_the_time_back(at_s: float, latency_s: float, now_s: float) -> None:
    elapsed = [100.0]
    clock = BrokerClock(lambda: elapsed[0], lambda: 5_000.0)
    clock.on_delivery(cast("Message", Report(TIMESTAMP_LOG_APPEND_TIME, 1_000.0)))
    elapsed[0] += 10
    clock.on_delivery(cast("Message", Report(TIMESTAMP_LOG_APPEND_TIME, at_s, latency_s)))
    assert clock.now_s() == now_s


def test_no_day_follows_a_later_one_that_the_ledger_knows() -> None:
    """A clock that was ahead has spent a budget of that day; the days before it have none to spend any more."""
    log, pool, worker = judging(daily_budget_usd=dollars(1), expire_h=500)
    for now in (NOON + timedelta(days=4), NOON, NOON + timedelta(days=1)):
        log.ask(request(f"{now} once"), request(f"{now} twice"))
        for _ in range(2):
            worker.turn(now)
            pool.land_all(cost=AMOUNT)
        worker = Worker(log, JudgeAgent(config(daily_budget_usd=dollars(1), expire_h=500), pool))  # It starts again.
    assert booked(log) == {"2026-11-26": (AMOUNT, 0)}
    waits = [JudgeRequest.model_validate(each).not_before for each in log.read("judge.deferred")]
    assert {str(each) for each in waits} == {"2026-11-27 00:00:00+00:00"}


def test_tomorrows_entries_are_no_sign_that_it_has_begun_shortly_before_midnight() -> None:
    days = DayClock(lambda: 0.0)
    days.set(MIDNIGHT.timestamp() - AHEAD_S + 1, "2026-11-23")
    assert days.today() == "2026-11-22"
    days.set(MIDNIGHT.timestamp() - AHEAD_S - 1, "2026-11-23")
    assert days.today() == "2026-11-23"


# Midnight.


def test_a_job_that_begins_shortly_before_midnight_reserves_on_both_days_and_costs_what_each_saw() -> None:
    log, pool, worker = judging()
    log.ask(request("a"))
    worker.turn(MIDNIGHT - timedelta(seconds=AHEAD_S - 1))
    (job,) = pool.jobs.values()
    assert job.days == ("2026-11-22", "2026-11-23")
    assert booked(log) == dict.fromkeys(job.days, (0, AMOUNT))
    pool.land(job.id, cost={"2026-11-22": 70, "2026-11-23": 30})
    worker.turn(MIDNIGHT + timedelta(seconds=1), abort=True)
    worker.turn(MIDNIGHT + timedelta(seconds=1))
    assert booked(log) == {"2026-11-22": (70, 0), "2026-11-23": (30, 0)}
    assert [each["events"] for each in log.read("judge.ledger")[-2:]] == [1, 0], "it is one event"


def test_a_job_may_begin_today_though_tomorrow_has_no_room_for_it() -> None:
    log, pool, worker = judging(daily_budget_usd=dollars(1.5))
    before = MIDNIGHT - timedelta(seconds=60)
    log.ask(*map(request, "ab"))
    worker.turn(before)
    pool.land(pool.started[0], cost=100)
    worker.turn(before)
    assert [job.days for job in pool.jobs.values()] == [("2026-11-22", "2026-11-23")]
    pool.land(pool.started[1], cost={"2026-11-23": AMOUNT})
    log.ask(request("c"))
    worker.turn(before)
    assert [job.days for job in pool.jobs.values()] == [("2026-11-22",)]


def test_a_job_whose_day_is_over_is_asked_for_again_and_that_is_no_failure() -> None:
    log, pool, worker = judging(retries=0)
    log.ask(request("a"))
    worker.turn()
    (job,) = pool.jobs.values()
    assert job.days == ("2026-11-22",)
    pool.land(job.id, None, cost=40, why="the day of its reservation is over", day_over=True)
    later = MIDNIGHT + timedelta(seconds=1)
    worker.turn(later)
    (waits,) = log.read("judge.retry")
    assert waits["attempts"] == 0
    assert booked(log) == {"2026-11-22": (40, 0)}
    for _ in range(3):
        worker.turn(later + timedelta(seconds=1))
    (job,) = pool.jobs.values()
    assert job.days == ("2026-11-23",)


# The parts of a worker's partitions.


@pytest.mark.heavy
@pytest.mark.parametrize("partitions", [1, 6, 12, 40])
@pytest.mark.parametrize("share", [0.1, 0.35, 1.0])
def test_nine_tenths_of_twenty_reservations_are_spent_on_a_day_with_demand(partitions: int, share: float) -> None:
    """However many partitions have a part of it, and whatever part of its reservation a job costs in the end."""
    log, pool, chance, budget = Log(), ScriptedPool(), random.Random(partitions), dollars(20)
    agent = JudgeAgent(config(partitions, daily_budget_usd=budget, concurrency=8), pool)
    worker = Worker(log, agent, range(partitions))
    for number in range(300):
        log.ask(request(str(number)), partition=chance.randrange(partitions))
    while not log.read("judge.deferred"):
        worker.turn(most=3)
        for job in list(pool.jobs):
            pool.land(job, cost=round(share * AMOUNT * chance.uniform(0.8, 1)))
    for _ in range(50):
        worker.turn()
        for job in list(pool.jobs):
            pool.land(job, cost=round(share * AMOUNT * chance.uniform(0.8, 1)))
    newest = {each["partition"]: each for each in log.read("judge.ledger")}
    assert 0.9 * budget * 1e6 <= sum(each["spent"] for each in newest.values()) <= budget * 1e6
    assert all(each["spent"] + each["reserved"] <= budget * 1e6 / partitions for each in newest.values())


@pytest.mark.parametrize("lost", [(), (0,), (1,)], ids=str)
def test_a_job_that_borrows_gives_back_what_it_did_not_need_and_owes_what_nobody_heard(lost: tuple[int, ...]) -> None:
    """Each of two partitions has a job and a half; the second job of one of them takes a half of either."""
    log, pool = Log(), ScriptedPool()
    own, borrowed = 3 * AMOUNT // 2, 2 * AMOUNT - 3 * AMOUNT // 2
    worker = Worker(log, JudgeAgent(config(2, daily_budget_usd=2 * own / 1e6), pool), (0, 1))
    for name in "ab":
        log.ask(request(name))
    worker.turn()
    assert taken(log) == {0: (0, own), 1: (0, borrowed)}
    if lost:
        worker.agent.on_revoked([("judge.requests", partition) for partition in lost])
    pool.land_all(cost=AMOUNT // 4)
    worker.turn()
    expected = {
        (): {0: (AMOUNT // 4 * 2, 0), 1: (0, 0)},
        (0,): {0: (0, own), 1: (0, borrowed)},
        (1,): {0: (AMOUNT // 4 * 2, 0), 1: (0, borrowed)},
    }
    assert taken(log) == expected[lost], "a ledger that was given up has its reservation, which counts as spent there"


# Into how many parts a day is divided.


class Grown:
    """Workers in a log whose topics get more partitions; each of them holds one."""

    def __init__(self, **settings: Any) -> None:
        self.log, self.settings = Log(), settings
        self.workers: dict[int, Worker] = {}
        self.pools: dict[int, ScriptedPool] = {}
        self.asked = 0

    def hold(self, partitions: Sequence[int], number: int) -> None:
        """New processes, each of which takes one of these partitions over, of so many that there are."""
        for each in partitions:
            self.pools[each] = ScriptedPool()
            # At their starts there was one partition, and they know better.
            agent = JudgeAgent(replace(config(1, **self.settings), shares=self.shares), self.pools[each])
            self.workers[each] = Worker(self.log, agent, (each,), number)

    def shares(self, day: str) -> int | None:
        """What a reader of partition 0 finds."""
        entries = (LedgerEntry.model_validate_json(each.value or b"") for each in self.log.records["judge.ledger", 0])
        return dict(filter(None, map(parse_shares, entries))).get(day)

    def ask(self, partition: int, number: int) -> None:
        for each in range(self.asked, self.asked + number):
            self.log.ask(request(str(each)), partition=partition)
        self.asked += number

    def turns(self, now: datetime, number: int = 4) -> None:
        for _ in range(number):
            for partition, worker in self.workers.items():
                worker.turn(now)
                for job in list(self.pools[partition].jobs):
                    self.pools[partition].land(job, cost=AMOUNT)

    def spent(self, day: str) -> dict[int, int]:
        """By the ledger: what is spent on a day, in reservations, by partitions."""
        newest = {each["partition"]: each for each in self.log.read("judge.ledger") if each["day"] == day}
        return {partition: each["spent"] / AMOUNT for partition, each in newest.items() if each["spent"]}


def test_partitions_that_are_added_have_no_money_until_the_next_day() -> None:
    """A day is divided once, by who holds partition 0; each process of the new ones would divide it by their number."""
    grown = Grown(daily_budget_usd=dollars(12), expire_h=500)
    grown.hold(range(2), 2)
    for partition in range(2):
        grown.ask(partition, 20)
    grown.turns(NOON, 8)
    assert grown.spent("2026-11-22") == {0: 6, 1: 6}
    grown.hold(range(6), 6)
    for partition in range(6):
        grown.ask(partition, 20)
    grown.turns(NOON + timedelta(hours=1), 8)
    assert grown.spent("2026-11-22") == {0: 6, 1: 6}
    assert len(grown.log.records["judge.deferred", 5]) == 20, "they wait for the next day, as where it is spent"
    grown.turns(NOON + timedelta(days=1), 8)
    assert grown.spent("2026-11-23") == dict.fromkeys(range(6), 2)


def test_nothing_is_reserved_before_partition_0_says_into_how_many_parts_the_day_is_divided() -> None:
    grown = Grown(daily_budget_usd=dollars(12))
    grown.hold([1], 2)
    grown.ask(1, 3)
    grown.turns(NOON)
    assert grown.log.records["judge.ledger", 1] == []
    assert not grown.log.records["judge.deferred", 1], "they wait here"
    grown.hold([0], 2)
    grown.workers[0].turn(NOON, abort=True)
    grown.turns(NOON, 1)
    (key, *_) = (record.key for record in grown.log.records["judge.ledger", 0])
    assert parse_ledger_key(key) == ("2026-11-22 shares", "", "", 0)
    grown.turns(NOON)
    assert grown.spent("2026-11-22") == {1: 3}


def test_tomorrow_is_divided_shortly_before_midnight_so_that_jobs_can_reserve_on_it() -> None:
    grown = Grown(daily_budget_usd=dollars(12))
    grown.hold(range(2), 2)
    before = MIDNIGHT - timedelta(seconds=60)
    grown.turns(before)
    assert (grown.shares("2026-11-22"), grown.shares("2026-11-23"), grown.shares("2026-11-24")) == (2, 2, None)
    grown.ask(1, 1)
    grown.workers[1].turn(before)
    (job,) = grown.pools[1].jobs.values()
    assert job.days == ("2026-11-22", "2026-11-23")


def test_a_ledger_from_before_days_were_divided_goes_on_with_what_it_spent() -> None:
    """Its day is divided by the partitions that there are: the version before knew no other number."""
    grown = Grown(daily_budget_usd=dollars(12))
    entry = LedgerEntry(day="2026-11-22", application="", tenant="", partition=0, spent=5 * AMOUNT)
    grown.log.append("judge.ledger", 0, ledger_key(entry), encode(entry), NOON)
    assert "shares" not in grown.log.read("judge.ledger")[0]
    grown.hold(range(2), 2)
    for partition in range(2):
        grown.ask(partition, 20)
    grown.turns(NOON, 8)
    assert grown.spent("2026-11-22") == {0: 6, 1: 6}


def test_the_ledger_belongs_to_the_requests_so_that_it_has_one_owner_while_topics_grow() -> None:
    """Who has only what waits of a partition leaves it alone until it has the requests too."""
    log, pool = Log(), ScriptedPool()
    agent = JudgeAgent(config(2), pool)
    worker = Worker(log, agent, (0,))
    log.append("judge.retry", 1, b"late", encode(request("late")), NOON)
    worker.assign(1, ("judge.retry",))
    for second in range(12):
        worker.turn(NOON + timedelta(seconds=second))
    assert not pool.jobs
    assert not len(agent._requests), "it takes nobody's room"
    worker.assign(1)
    for second in range(12, 24):
        worker.turn(NOON + timedelta(seconds=second))
    assert [job[:2] for job in pool.jobs] == [("judge.retry", 1)]


# On a real broker.


@pytest.mark.heavy
def test_a_clock_that_is_days_ahead_for_a_while_spends_nothing_of_them_and_expires_nothing(
    kafka: SharedBroker, prefix: str, tmp_path: Path, services: Services
) -> None:
    requests, cap, ahead = Requests(kafka.bootstrap, prefix), 0.06, tmp_path / "ahead"
    ahead.write_text("0")
    with simulated_judge() as judge:
        requests.send(200)
        given = environment(requests, judge, judge__daily_budget_usd=cap, judge__max_output_tokens=100)
        command, shifted = ("judge", "--slot", "0"), ("-m", "chaos.shifted_clock", str(ahead))
        service = services.start(*command, before=shifted, variables=given)
        eventually(lambda: requests.read("evaluations"), "the judge answers")
        ahead.write_text(str(4 * DAY_S))
        requests.send(200)
        eventually(lambda: len(requests.read("evaluations")) + len(requests.read("judge.deferred")) >= 400, "settled")
        services.start(*command, before=shifted, variables=given)  # Another one has a wrong clock from its start.
        assert service.stop() == 0
        requests.send(20)
        eventually(lambda: len(requests.read("evaluations")) + len(requests.read("judge.deferred")) >= 420, "settled")
        ahead.write_text("0")
        requests.send(20)
        eventually(lambda: len(requests.read("evaluations")) + len(requests.read("judge.deferred")) >= 440, "settled")
        spent = cost(judge.calls())
    assert cap * 0.3e6 < spent <= cap * 1e6
    statuses = {each["decision"]["suites"][0]["status"] for each in requests.read("evaluations")}
    assert statuses == {"judged"}, "none has expired"
    days = {each["day"][:10] for each in requests.read("judge.ledger") if not each["reserved"]}
    assert max(days) <= datetime.now(UTC).date().isoformat()


@pytest.mark.heavy
def test_a_ledger_without_the_brokers_time_is_told_and_works_by_our_own_clock(
    kafka: SharedBroker, prefix: str, services: Services
) -> None:
    requests = Requests(kafka.bootstrap, prefix, ledger={"message.timestamp.type": "CreateTime"})
    with simulated_judge() as judge:
        requests.send(8)
        service = services.start("judge", "--slot", "0", variables=environment(requests, judge))
        requests.must_be_judged_exactly_once()
        (told,) = service.logged("all times follow this machine's clock", level="warning")
        assert "LogAppendTime" in told["setting"]


@pytest.mark.heavy
@pytest.mark.parametrize("last", [pytest.param("judge.requests", marks=pytest.mark.long), "judge.ledger"])
def test_partitions_that_are_added_under_running_workers_do_not_multiply_the_budget(
    kafka: SharedBroker, prefix: str, services: Services, last: str
) -> None:
    """Whichever topic gets them last; nor do the processes that see them from their starts."""
    requests, cap = Requests(kafka.bootstrap, prefix), 0.15
    client = {**QUICK_CLIENT, "topic.metadata.refresh.interval.ms": 1_000}
    with simulated_judge() as judge:
        given = environment(
            requests, judge, judge__daily_budget_usd=cap, judge__max_output_tokens=100, kafka__client=client
        )

        def begin() -> Service:
            return services.start("judge", "--workers", "2", variables=given)

        def settled() -> bool:
            return len(requests.read("evaluations")) + len(requests.read("judge.deferred")) >= requests.sent

        service = begin()
        held = ["ragweir_assigned_partitions"] * 2  # A rebalance would cost what is under way.
        eventually(lambda: [service.sample(each, slot) for slot, each in enumerate(held)] == [6, 6], "both work")
        requests.send(200)
        eventually(settled, "the budget is spent")
        first = cost(judge.calls())
        for name in sorted(("judge.retry", "judge.deferred", "judge.requests", "judge.ledger"), key=last.__eq__):
            requests.grow([name], 2 * PARTITIONS)
            time.sleep(1)
        requests.send(200)
        if last == "judge.ledger":  # Who has requests of a partition without a ledger cannot work.
            service.stop()
            service = begin()
        eventually(settled, "what is asked for in the new partitions waits")
        assert service.stop() == 0
        begin()
        requests.send(100)
        eventually(settled, "there is no money for another process either")
        spent = cost(judge.calls())
    assert 0.5 * cap * 1e6 < first <= spent <= cap * 1e6
    assert sum(each["shares"] for each in requests.read("judge.ledger") if "shares" in each) == PARTITIONS


@pytest.mark.heavy
@pytest.mark.parametrize("ends", ["committed", "aborted"])
def test_a_transaction_that_is_open_in_the_ledger_is_waited_for_before_anything_is_spent(
    kafka: SharedBroker, prefix: str, services: Services, ends: str
) -> None:
    """The offsets are stable all the while, as when the marks of an earlier owner's commit have not all come yet."""
    requests, cap = Requests(kafka.bootstrap, prefix), 0.2
    ledger, day = f"{prefix}judge.ledger", datetime.now(UTC).date().isoformat()
    earlier = transaction(kafka.bootstrap, prefix)
    for partition in range(PARTITIONS):
        spent = round(cap * 1e6) // PARTITIONS
        entry = LedgerEntry(day=day, application="", tenant="", partition=partition, spent=spent)
        earlier.produce(ledger, encode(entry), ledger_key(entry), partition=partition)
    earlier.flush()
    with simulated_judge() as judge:
        requests.send(8)
        given = environment(requests, judge, judge__daily_budget_usd=cap)
        service = services.start("judge", "--slot", "0", variables=given)
        eventually(lambda: service.logged("waiting for an open transaction to end"), "it waits")
        assert not judge.calls()["count"]
        if ends == "committed":
            earlier.commit_transaction()
            eventually(lambda: len(requests.read("judge.deferred")) == 8, "the money is spent")
            assert not judge.calls()["count"]
        else:
            earlier.abort_transaction()
            requests.must_be_judged_exactly_once()
