"""Anchors of the judge: each run is requested once, within the budget, and becomes no evaluation."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from scripted_judge import AMOUNT, GOOD, Log, ScriptedPool, Worker, config, dollars, request

from ragweir.errors import ConfigurationError
from ragweir.metrics.people.anchors import BASELINE_RUNS
from ragweir.schemas.judging import ANCHORS, AnchorProgress, LedgerEntry
from ragweir.streams.analysis.checks.judge import _spent as spent_on
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.anchor_file import anchor_set
from ragweir.streams.services.judge.anchor_runs import Anchor, AnchorSet
from ragweir.streams.services.judge.config import JudgeConfig
from ragweir.streams.services.judge.ledger import affordable
from ragweir.streams.settings import from_groups

MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)
THREE = AnchorSet(
    anchors=(
        Anchor("a", bad=True, query="Who?", response="Bob."),
        Anchor("b", bad=False, query="Who?", response="Ada."),
        Anchor("c", bad=True, query="When?", response="Now."),
    ),
    metric="grade",
    threshold=0.8,
    higher_is_better=True,
    suite="grading",
    suite_version="1",
    model="tested",
)


def with_anchors(anchors: AnchorSet | None = THREE, partitions: int = 1, **settings: object) -> JudgeConfig:
    return replace(config(partitions, **settings), anchors=anchors)


def worker(log: Log, anchors: AnchorSet | None = THREE, **settings: object) -> tuple[Worker, ScriptedPool]:
    pool = ScriptedPool()
    return Worker(log, JudgeAgent(with_anchors(anchors, **settings), pool)), pool


def at(day: int, hour: float = 0.0) -> datetime:
    return MIDNIGHT + timedelta(days=day, hours=hour)


def requested(anchors: AnchorSet, times: Sequence[datetime]) -> list[AnchorProgress]:
    """The runs that are due at these times."""
    found: list[AnchorProgress] = []
    for now in times:
        progress = anchors.due(found[-1] if found else None, now.date().isoformat(), now)
        if progress is not None:
            found.append(progress)
    return found


def hourly(days: int) -> list[datetime]:
    return [at(0, hour) for hour in range(24 * days)]


def test_a_baseline_of_ten_runs_in_five_days_and_then_three_a_day() -> None:
    runs = requested(THREE, hourly(8))
    by_day = Counter(each.day for each in runs)
    assert [by_day[at(day).date().isoformat()] for day in range(8)] == [2, 2, 2, 2, 2, 3, 3, 3]
    assert [each.is_baseline for each in runs] == [True] * 10 + [False] * 9
    assert runs[-1].baseline == BASELINE_RUNS


def test_the_runs_of_a_day_are_spread_over_it() -> None:
    times = [at(0, hour) for hour in range(24)]
    found = [now.hour for now in times if len(requested(THREE, [t for t in times if t <= now])) > len(
        requested(THREE, [t for t in times if t < now]))]  # fmt: skip
    assert found == [0, 12]


def test_days_without_a_judge_are_not_made_up_for_and_a_clock_that_goes_back_asks_nothing() -> None:
    runs = requested(THREE, [at(0, 23), at(0, 23), at(0, 23), at(9, 1), at(9, 2), at(3, 20)])
    assert [(each.day, each.runs, each.baseline) for each in runs] == [
        ("2026-11-21", 1, 1), ("2026-11-21", 2, 2), ("2026-11-30", 1, 3),
    ]  # fmt: skip


def test_a_baseline_that_ends_early_on_a_day_has_no_other_run_on_it() -> None:
    """On days 0 to 3 and on day 5 two runs, on day 4 one: the tenth is the first one of day 5."""
    times = [at(day, hour) for day in range(4) for hour in (0, 12)] + [at(4, 0)] + [at(5, hour) for hour in range(24)]
    runs = requested(THREE, times)
    assert [each.runs for each in runs if each.day == "2026-11-26"] == [1]
    assert [each.is_baseline for each in requested(THREE, [*times, at(6, 1)])] == [True] * 10 + [False]


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "other"}, {"suite_version": "2"}, {"threshold": 0.5}, {"metric": "other"},
        {"anchors": (*THREE.anchors[:2], replace(THREE.anchors[2], bad=False))},
    ],
)  # fmt: skip
def test_a_change_of_anything_that_verdicts_depend_on_begins_a_baseline(changed: dict[str, object]) -> None:
    last = requested(THREE, hourly(7))[-1]
    other = replace(THREE, **changed)
    assert other.digest != THREE.digest
    progress = other.due(last, "2026-12-01", at(10))
    assert progress is not None
    assert (progress.runs, progress.baseline, progress.is_baseline) == (1, 1, True)


def test_a_run_is_judged_in_its_own_account_and_becomes_no_evaluation() -> None:
    log = Log()
    work, pool = worker(log)
    work.turn(at(0))
    assert len(log.read("judge.retry")) == 3
    work.turn(at(0))
    assert all(job.fresh for job in pool.jobs.values())
    pool.land_all(cost=100)
    work.turn(at(0))
    found = {each["anchor"]: each for each in log.read("judge.anchors")}
    assert {name: (each["bad"], each["value"], each["judged_bad"]) for name, each in found.items()} == {
        "a": (True, 0.75, True), "b": (False, 0.75, True), "c": (True, 0.75, True),
    }  # fmt: skip
    assert found["a"]["cost_usd"] == pytest.approx(100 / 1e6)
    assert (found["a"]["run"], found["a"]["baseline"], found["a"]["day"]) == (0, True, "2026-11-21")
    assert log.read("evaluations") == []
    newest = {(each["day"], each["application"]): each for each in log.read("judge.ledger")}
    assert newest["2026-11-21", ANCHORS]["spent"] == 300
    assert newest["2026-11-21", ANCHORS]["reserved"] == 0
    assert newest["0 anchors", ""]["anchors"]["runs"] == 1
    assert log.committed["judge.retry", 0] == 3


def test_events_use_the_cache_and_anchors_do_not() -> None:
    log = Log()
    log.ask(request("e"), at=at(0))
    work, pool = worker(log)
    for _ in range(3):
        work.turn(at(0))
    assert Counter(job.fresh for job in pool.jobs.values()) == {False: 1, True: 3}


def test_a_run_beyond_the_budget_fails_and_waits_for_no_other_day() -> None:
    log = Log()
    work, pool = worker(log, daily_budget_usd=dollars(2))
    for _ in range(4):
        work.turn(at(0))
        pool.land_all(cost=AMOUNT)
    work.turn(at(0))
    found = log.read("judge.anchors")
    assert Counter(each["why"] for each in found) == {"": 2, "the day's budget is spent": 1}
    assert log.read("judge.deferred") == []
    spent = {each["application"]: each["spent"] for each in log.read("judge.ledger") if each["day"] == "2026-11-21"}
    assert spent[ANCHORS] == 2 * AMOUNT


def test_a_run_that_fails_is_tried_again_and_then_has_no_value() -> None:
    log = Log()
    work, pool = worker(log, retries=1, retry_delay_s=60)
    for minute in range(12):
        work.turn(at(0, minute / 30))
        pool.land_all(judged=None, why="timeout")
    found = log.read("judge.anchors")
    assert [(each["value"], each["judged_bad"], each["why"]) for each in found] == [(None, None, "timeout")] * 3
    assert log.read("evaluations") == []


def test_runs_of_anchors_that_the_settings_no_longer_have_are_settled_without_a_call() -> None:
    log = Log()
    worker(log)[0].turn(at(0))
    work, pool = worker(log, replace(THREE, model="other"))
    for _ in range(3):
        work.turn(at(0, 1))
    assert len(pool.started) == 3
    none, idle = worker(log, None)
    for _ in range(3):
        none.turn(at(0, 2))
    assert idle.started == []
    assert log.read("evaluations") == []
    assert log.committed["judge.retry", 0] == 6


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_kills_and_aborts_request_no_run_twice_and_lose_none(seed: int) -> None:
    """Eight days with a kill or an abort in every fourth transaction: each run has one result of each anchor."""
    chance, log = random.Random(seed), Log()
    work, pool = worker(log, daily_budget_usd=dollars(100))
    calls = 0
    for step in range(8 * 24 * 4):
        now = at(0, step / 4)
        fate = chance.random()
        if fate < 0.1:
            work, pool = worker(log, daily_budget_usd=dollars(100))
        work.turn(now, abort=fate > 0.85)
        for job in list(pool.jobs):
            if chance.random() < 0.7:
                calls += 1
                pool.land(job, cost=100)
    for _ in range(4):
        pool.land_all(cost=100)
        work.turn(at(7, 23.9))
    found = Counter((each["day"], each["run"], each["anchor"]) for each in log.read("judge.anchors"))
    assert found == Counter(
        {(at(day).date().isoformat(), run, each.id): 1
         for day in range(8) for run in range(2 if day < 5 else 3) for each in THREE.anchors}
    )  # fmt: skip
    newest = {(each["day"], each["application"]): each for each in log.read("judge.ledger")}
    booked = sum(each["spent"] for (_, application), each in newest.items() if application == ANCHORS)
    assert 100 * len(found) <= booked
    assert log.read("evaluations") == []


def test_the_budget_affords_events_by_what_anchors_leave() -> None:
    """Anchors are no events: their number and their cost do not change what an event costs."""
    events = LedgerEntry(day="", application="", tenant="", partition=0, spent=400, events=4, wanted=30, floor=20)
    anchors = LedgerEntry(day="", application=ANCHORS, tenant="", partition=0, spent=900, events=450, wanted=450)
    assert affordable([events], 2_000, 0.0) == affordable([events, anchors], 2_900, 0.0) == 0.5


def test_doctor_tells_the_cost_of_anchors_apart_and_counts_them_as_no_events() -> None:
    events = LedgerEntry(day="", application="", tenant="", partition=0, spent=400_000, events=4, wanted=30)
    anchors = LedgerEntry(day="", application=ANCHORS, tenant="", partition=0, spent=100_000, events=450, wanted=450)
    assert spent_on("today", [events, anchors], 2_000_000) == (
        "today $0.5000 of $2.0000 spent, $0.1000 of it for anchors, 4 events judged, 30 asked for"
    )
    assert "anchors" not in spent_on("today", [events], None)


def test_one_worker_requests_the_runs_that_has_the_first_partition() -> None:
    log = Log()
    pools = ScriptedPool(), ScriptedPool()
    workers = [
        Worker(log, JudgeAgent(with_anchors(partitions=2), pool), partitions=(number,))
        for number, pool in enumerate(pools)
    ]
    for _ in range(3):
        for each in workers:
            each.turn(at(0))
    assert len(log.read("judge.retry")) == 3
    assert [len(pool.started) for pool in pools] == [3, 0]


def lines(bad_ones: int, good_ones: int, **more: object) -> bytes:
    rows = [
        {"event_id": f"{kind}{n}", "query": "Who?", "response": "Ada.", "contexts": ["Ada."], **own, **more}
        for kind, own, number in (("b", {"bad": True}, bad_ones), ("g", {"bad": False}, good_ones))
        for n in range(number)
    ]
    return b"".join(orjson.dumps(each) + b"\n" for each in rows)


def test_anchors_are_read_from_a_file_and_from_datasets(tmp_path: Path) -> None:
    file = tmp_path / "anchors.jsonl"
    said = [{"question": "supported", "value": False}, {"question": "supported", "value": "cannot_tell"}]
    mine = {"event_id": "x", "query": "?", "response": "!", "dataset": {"people": said}}
    file.write_bytes(lines(100, 50) + orjson.dumps(mine))
    found = anchor_set(from_groups({"judge": {"anchor_file": str(file)}}))
    assert found is not None
    assert Counter(each.bad for each in found.anchors) == {True: 101, False: 50}
    assert (found.metric, found.suite, found.threshold) == ("judge_faithfulness", "rubric", 0.5)
    assert found.anchors[0].contexts == ("Ada.",)
    assert anchor_set(from_groups({})) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (lines(99, 50), "has 99 bad and 50 good answers; 100 and 50 are needed"),
        (lines(100, 50, bad=None), "it says neither `bad` nor what most people answered to supported"),
        (lines(100, 50, event_id="x"), "line 2 of the anchors .*: x is there twice"),
        (b"{}\n", "line 1 of the anchors"),
        (lines(1_990, 50), "has 2,040 answers; at most 2,000 are judged"),
    ],
)
def test_anchors_that_cannot_be_used_are_a_wrong_setting(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "anchors.jsonl"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=why):
        anchor_set(from_groups({"judge": {"anchor_file": str(file)}}))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        anchor_set(from_groups({"judge": {"anchor_file": str(tmp_path / "none.jsonl")}}))


def test_a_question_that_no_suite_judges_has_no_anchors(tmp_path: Path) -> None:
    file = tmp_path / "anchors.jsonl"
    file.write_bytes(lines(100, 50))
    question = {"name": "supported", "text": "?", "metric": "unsupported_risk"}
    with pytest.raises(ConfigurationError, match="needs a judge's metric: unsupported_risk"):
        anchor_set(from_groups({"judge": {"anchor_file": str(file)}, "labels": {"questions": [question]}}))


def test_a_value_is_judged_by_the_direction_of_the_metric() -> None:
    log = Log()
    work, pool = worker(log, replace(THREE, higher_is_better=False, threshold=0.7))
    for _ in range(2):
        work.turn(at(0))
    pool.land_all(judged=GOOD)
    work.turn(at(0))
    assert {each["judged_bad"] for each in log.read("judge.anchors")} == {True}
