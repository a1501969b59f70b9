"""The random floor's part of the judge's budget: events selected by their risk cannot spend it."""

from dataclasses import replace
from typing import Any

import pytest
from scripted_judge import AMOUNT, Log, ScriptedPool, Worker, config, dollars, request

from ragweir.schemas.codec.json import encode
from ragweir.schemas.judging import LedgerEntry
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.ledger import Ledger

RISK, DRAWN, BOTH = ("share",), ("floor",), ("share", "floor")


def judging(log: Log, floor_share: float, **settings: Any) -> tuple[ScriptedPool, Worker]:
    pool = ScriptedPool()
    return pool, Worker(log, JudgeAgent(replace(config(**settings), floor_share=floor_share), pool))


def judge_all(pool: ScriptedPool, worker: Worker) -> None:
    """Run until no request is held, at the full cost of each."""
    for _ in range(20):
        worker.turn()
        pool.land_all(cost=AMOUNT)


def judged(log: Log) -> list[str]:
    return [each["event_id"] for each in log.read("evaluations")]


@pytest.mark.parametrize(
    "settings", [{"daily_budget_usd": dollars(8)}, {"budgets_by_application": {"bot": dollars(8)}}], ids=str
)
def test_many_risky_events_defer_no_event_of_the_floor(settings: dict[str, Any]) -> None:
    log = Log()
    pool, worker = judging(log, 0.25, **{"daily_budget_usd": dollars(50), **settings})
    log.ask(*(request(f"risky {number}", because=RISK, application="bot") for number in range(30)))
    for number, because in enumerate((DRAWN, BOTH)):
        log.ask(request(f"drawn {number}", because=because, application="bot"))
    judge_all(pool, worker)
    assert judged(log) == [*(f"risky {number}" for number in range(6)), "drawn 0", "drawn 1"]
    assert len(log.read("judge.deferred")) == 24


def test_the_floor_may_spend_what_nobody_else_does() -> None:
    log = Log()
    pool, worker = judging(log, 0.25, daily_budget_usd=dollars(4))
    log.ask(*(request(str(number), because=DRAWN) for number in range(6)))
    judge_all(pool, worker)
    assert judged(log) == ["0", "1", "2", "3"]
    assert log.levels["ragweir_judge_affordable_floor_ratio",] == pytest.approx(4 / 6)


def test_without_a_part_of_its_own_the_floor_waits_like_all_others() -> None:
    log = Log()
    pool, worker = judging(log, 0.0, daily_budget_usd=dollars(2))
    log.ask(*(request(f"risky {number}", because=RISK) for number in range(2)))
    log.ask(request("drawn", because=DRAWN))
    judge_all(pool, worker)
    assert judged(log) == ["risky 0", "risky 1"]


def test_the_floor_beside_rules_by_hand_is_no_sign_of_a_draw() -> None:
    """There `floor` is a reason of every event, so only an event that no rule selected was drawn for certain."""
    log = Log()
    pool, worker = judging(log, 0.5, daily_budget_usd=dollars(2))
    log.ask(*(request(f"rule {number}", because=("risk", "floor")) for number in range(2)))
    judge_all(pool, worker)
    assert judged(log) == ["rule 0"]


def test_a_crash_leaves_the_floors_part_as_it_was() -> None:
    log = Log()
    _, worker = judging(log, 0.5, daily_budget_usd=dollars(4))
    log.ask(request("drawn", because=DRAWN))
    worker.turn()
    (entry,) = log.read("judge.ledger")
    assert (entry["reserved"], entry["floor_reserved"]) == (AMOUNT, AMOUNT)
    again, successor = judging(log, 0.5, daily_budget_usd=dollars(4))
    log.ask(*(request(f"risky {number}", because=RISK) for number in range(3)))
    judge_all(again, successor)
    # The crash cost the floor one of its two events, and no other event one.
    assert judged(log) == ["drawn", "risky 0", "risky 1"]
    newest = log.read("judge.ledger")[-1]
    assert (newest["spent"], newest["floor_spent"]) == (4 * AMOUNT, 2 * AMOUNT)


def test_a_partition_that_is_given_up_counts_the_floors_part_as_spent() -> None:
    log = Log()
    _, worker = judging(log, 0.5, daily_budget_usd=dollars(2))
    log.ask(request("drawn", because=DRAWN))
    worker.turn()
    worker.revoke(0)
    ledger = Ledger.restored(0, log.records["judge.ledger", 0])
    (entry,) = ledger.accounts.values()
    assert (entry.spent, entry.reserved, entry.floor_spent, entry.floor_reserved) == (AMOUNT, 0, AMOUNT, 0)


def test_entries_without_a_floor_are_written_as_before() -> None:
    entry = LedgerEntry(day="2026-11-22", application="", tenant="", partition=0, spent=5)
    assert b"floor_" not in encode(entry)
