"""`ragweir score --judge`: the same router, agent and pool as the services, over a file, without a broker.

The judge is simulated: what is proved is about events, money and waiting, not about what a model would say.
"""

import io
import itertools
import os
import pty
import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import COMMAND, ROOT, begun, environment, ragweir, told
from rich.console import Console
from scripted_judge import GOOD, ScriptedPool, config, request
from services import eventually

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.commands.screens.evaluation_summary import EvaluationSummary
from ragweir.streams.playground.demo.samples import interactions
from ragweir.streams.playground.simulated.server import simulated_judge
from ragweir.streams.runtime.records import Emission, Outcome, Record
from ragweir.streams.services.judge.judged_files import JudgedFiles
from ragweir.streams.services.judge.probe import SIMULATED

EVENTS = 123
PRICES = {SIMULATED: {"input_usd": 0.15, "output_usd": 0.6}}
SUMMED = re.compile(r"(\d+) scored; (\d+) selected(.*); \$([\d.]+) spent(.*)")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some minutes of the demo's traffic."""
    path = tmp_path_factory.mktemp("events") / "events.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, interactions(EVENTS, datetime(2026, 11, 21, 10, tzinfo=UTC)))))
    return path


def judge(url: str, **settings: Any) -> dict[str, str]:
    """The environment in which a judge is configured."""
    chosen = {"base_url": url, "model": SIMULATED, "prices": PRICES, "breaker_wait_s": 0.1, **settings}
    return {
        f"RAGWEIR_JUDGE__{name.upper()}": value if isinstance(value, str) else orjson.dumps(value).decode()
        for name, value in chosen.items()
    }


def read(lines: bytes) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """The scored and the judged evaluations, each by event; none twice, and none judged before it is scored."""
    stages: dict[str, dict[str, dict[str, Any]]] = {"scored": {}, "judged": {}}
    for line in lines.splitlines():
        evaluation = orjson.loads(line)
        stage, event = evaluation["stage"], evaluation["event_id"]
        assert event not in stages[stage]
        assert stage == "scored" or event in stages["scored"]
        stages[stage][event] = evaluation
    return stages["scored"], stages["judged"]


def selected(evaluations: dict[str, dict[str, Any]]) -> set[str]:
    """The events that routing selects."""
    return {
        event
        for event, evaluation in evaluations.items()
        if any(suite["status"] == "selected" for suite in evaluation["decision"]["suites"])
    }


def summed(done: subprocess.CompletedProcess[bytes]) -> tuple[int, int, str, float, str]:
    """The last line on standard error: scored, selected, what became of them, dollars, what is said besides."""
    found = SUMMED.fullmatch(done.stderr.decode().splitlines()[-1])
    assert found, done.stderr.decode()
    return int(found[1]), int(found[2]), found[3], float(found[4]), found[5]


@pytest.mark.heavy
def test_an_evaluation_names_the_model_that_answered_and_not_the_one_asked_for(file: Path, tmp_path: Path) -> None:
    """Behind a familiar name may be another model, such as the simulated one; answers from the cache tell it too."""
    with simulated_judge() as simulated:
        asked = judge(simulated.base_url, model="gpt-9", daily_budget_usd="none", cache_file=str(tmp_path / "answers"))
        called = read(ragweir("score", file, "--judge", **asked).stdout)[1]
        count = simulated.calls()["count"]
        cached = read(ragweir("score", file, "--judge", **asked).stdout)[1]
        again = simulated.calls()["count"] - count
    assert again <= 1, "but for the check at the start, the cache answers"
    for judged in (called, cached):
        assert judged
        assert {each["judge"]["model"] for each in judged.values() if each["judge"]["input_tokens"]} <= {SIMULATED}
        assert SIMULATED in {each["judge"]["model"] for each in judged.values()}
    assert any(each["judge"]["cached"] for each in cached.values())


def test_each_selected_event_is_judged_once_and_the_bill_is_what_the_endpoint_charged(file: Path) -> None:
    """Judged evaluations repeat the scored ones; what is scored is the same bytes, judged or not."""
    with simulated_judge() as simulated:
        done = ragweir("score", file, "--judge", **judge(simulated.base_url))
        calls = simulated.calls()
        plain = ragweir("score", file, **judge(simulated.base_url))
        assert simulated.calls()["count"] == calls["count"], "without --judge nobody is called"
    assert (done.returncode, plain.returncode) == (0, 0)
    scored, judged = read(done.stdout)
    assert len(scored) == EVENTS
    assert set(judged) == selected(scored)
    assert {line for line in done.stdout.splitlines() if b'"stage":"scored"' in line} == set(plain.stdout.splitlines())
    for event, evaluation in judged.items():
        assert evaluation["scores"].items() >= scored[event]["scores"].items()
        assert evaluation["judge"]["model"] == SIMULATED
    became = [suite["status"] for each in judged.values() for suite in each["decision"]["suites"]]
    assert set(became) == {"judged", "not_selected"}
    number, wanted, rest, dollars, more = summed(done)
    assert (number, wanted, more) == (EVENTS, len(judged), "")
    assert rest == f": {len(judged)} judged by {SIMULATED} (simulated: no model is behind it)"
    charged = (calls["prompt_tokens"] * 0.15 + calls["completion_tokens"] * 0.6) / 1e6
    assert charged <= dollars + 1e-4
    assert dollars <= charged + 1e-6 * calls["count"] + 1e-4
    assert plain.stderr.decode().splitlines()[-1] == f"{EVENTS} scored; {len(judged)} selected for the judge"


@pytest.mark.heavy
def test_windows_hold_what_was_judged_and_do_not_depend_on_the_order(file: Path, tmp_path: Path) -> None:
    lines = file.read_bytes().splitlines()
    turned = tmp_path / "turned.jsonl"
    turned.write_bytes(b"\n".join(reversed(lines)))
    with simulated_judge() as simulated:
        for source, out in ((file, tmp_path / "one"), (turned, tmp_path / "other")):
            done = ragweir("score", source, "--judge", "--windows", out, **judge(simulated.base_url, concurrency=3))
            assert done.returncode == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    windows = [orjson.loads(line) for line in (tmp_path / "one").read_bytes().splitlines()]
    largest = [each for each in windows if each["window"] == windows[-1]["window"]]
    assert sum(each["events"] for each in largest) == EVENTS, "an event that was judged is one event"
    for window in largest:
        rubric = window["decisions"]["rubric"]
        assert rubric.get("selected") == rubric.get("judged")
    judged = [each["estimates"]["judge_relevance"] for each in largest if "judge_relevance" in each["estimates"]]
    assert sum(each["count"] for each in judged) > 0


@pytest.mark.heavy
def test_what_is_over_the_budget_is_told_and_stays_unjudged(file: Path) -> None:
    """It is no failure. What the endpoint charged is within the budget, the check at the start included."""
    cap = 0.01
    routing = {"RAGWEIR_ROUTING__RULES": "[]", "RAGWEIR_ROUTING__FLOORS": '{"rubric": 1}'}
    with simulated_judge() as simulated:
        settings = judge(simulated.base_url, daily_budget_usd=cap, cache_entries=0)
        done = ragweir("score", file, "--judge", **settings, **routing)
        calls = simulated.calls()
    scored, judged = read(done.stdout)
    assert done.returncode == 0
    assert len(scored) == EVENTS
    wanted = selected(scored)
    assert 0 < len(judged) < len(wanted)
    _, _, rest, dollars, _ = summed(done)
    assert f", {len(wanted) - len(judged)} deferred (over the budget)" in rest
    assert (calls["prompt_tokens"] * 0.15 + calls["completion_tokens"] * 0.6) / 1e6 <= dollars + 1e-4 <= cap


@pytest.mark.heavy
def test_what_fails_is_tried_again_until_it_is_judged(file: Path) -> None:
    """Each call is made once and half of them fail: what comes to nothing comes again, and nothing is lost."""
    once = {"attempts": 1, "breaker_failures": 10_000, "retry_delay_s": 1, "retries": 30, "cache_entries": 0}
    with simulated_judge() as simulated:
        simulated.set_faults(shares={"500": 0.5}, seed=0, requests=60)  # By this seed the first call is answered.
        done = ragweir("score", file, "--judge", **judge(simulated.base_url, **once))
        failed = sum(call["status"] == 500 for call in simulated.calls()["calls"])
    assert failed > 10
    scored, judged = read(done.stdout)
    assert set(judged) == selected(scored)
    assert {suite["status"] for each in judged.values() for suite in each["decision"]["suites"]} == {
        "judged",
        "not_selected",
    }


REFUSED = (
    ("a wrong key", {"key": "sk-right"}, {"api_key": "sk-wrong"}, 1, "the judge rejects the key (401)"),
    (
        "an unknown model",
        {"models": ("another",)},
        {},
        1,
        f"the judge does not know the model {SIMULATED} (404); are judge.",
    ),
    (
        "nobody there",
        {},
        {"base_url": "http://127.0.0.1:9/v1"},
        1,
        "the judge's endpoint cannot be reached; are judge.",
    ),
    ("no such path", {}, {"base_url": "{url}/api"}, 1, "nothing answers at judge.base_url (404)"),
    ("no price", {}, {"prices": {}}, 2, f"the price of {SIMULATED} is not known, so "),
    ("no key file", {}, {"api_key_file": "nowhere"}, 2, "judge.api_key_file cannot be read"),
)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("options", "settings", "status", "sentence"), [case[1:] for case in REFUSED], ids=lambda _: ""
)
def test_an_endpoint_that_cannot_be_used_is_rejected_at_the_start(
    file: Path, tmp_path: Path, options: dict[str, Any], settings: dict[str, Any], status: int, sentence: str
) -> None:
    """One sentence, before anything is written or scored: nobody waits for what waiting does not mend."""
    out = tmp_path / "out.jsonl"
    out.write_text("what was there before")
    with simulated_judge(**options) as simulated:
        given = {
            name: value.format(url=simulated.base_url) if isinstance(value, str) else value
            for name, value in settings.items()
        }
        done = ragweir(
            "score", file, "--judge", "--out", out, **judge(given.pop("base_url", simulated.base_url), **given)
        )
    assert sentence in told(done)
    assert "sk-" not in told(done)
    assert done.returncode == status
    assert out.read_text() == "what was there before"


def test_without_a_judge_there_is_nothing_to_judge_with(file: Path) -> None:
    done = ragweir("score", file, "--judge")
    assert "there is no judge: set judge.base_url" in told(done)
    assert done.returncode == 2


@pytest.mark.heavy
def test_an_outage_is_waited_out_and_an_interrupt_ends_with_what_is_done(file: Path, tmp_path: Path) -> None:
    """The first run sees the end of an outage. The second is interrupted in one: what was judged until then stands."""
    for interrupted in (False, True):
        out = tmp_path / f"{interrupted}.jsonl"
        with simulated_judge() as simulated:
            simulated.set_faults(latency_ms=50)
            settings = judge(simulated.base_url, cache_entries=0, concurrency=4)
            run = begun("score", file, "--judge", "--out", out, **settings)
            eventually(lambda: simulated.calls()["count"] >= 20, "it judges")
            simulated.set_faults(shares={"503": "all"})
            assert run.stderr is not None
            assert b"the judge's endpoint fails (503)" in run.stderr.readline(), "it says why it waits"
            if interrupted:
                run.send_signal(signal.SIGINT)
            else:
                simulated.set_faults(shares={})
            _, error = run.communicate(timeout=120)
        scored, judged = read(out.read_bytes())
        *_, last = [line for line in error.decode().splitlines() if not line.startswith("stopped after line ")]
        if interrupted:
            assert run.returncode == 130
            assert 0 < len(judged) < len(selected(scored))
            assert f"{len(judged)} judged by" in last
            assert f"{len(selected(scored)) - len(judged)} left when stopped" in last
            assert "for calls broken off" in last
        else:
            assert run.returncode == 0
            assert len(scored) == EVENTS
            assert set(judged) == selected(scored)


@pytest.mark.heavy
def test_a_terminal_shows_how_far_it_is_and_that_the_scores_are_simulated(file: Path, tmp_path: Path) -> None:
    """Under whichever name the simulated judge was asked."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []
    with simulated_judge() as simulated:
        settings = judge(simulated.base_url, model="gpt-9", prices={}, daily_budget_usd="none")
        command = [*COMMAND, "score", file, "--judge", "--out", tmp_path / "out"]
        run = subprocess.Popen(command, stderr=theirs, cwd=ROOT, env=environment(**settings, TERM="xterm"))
        os.close(theirs)
        try:
            while chunk := os.read(ours, 65_536):
                shown.append(chunk)
        except OSError:  # How a terminal ends.
            pass
        finally:
            os.close(ours)
        assert run.wait(60) == 0
    text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", b"".join(shown)).decode()
    scored, judged = read((tmp_path / "out").read_bytes())
    assert f"{len(judged)} of {len(selected(scored))}, $0.0000, " in text
    assert f"{EVENTS} evaluations, {len(judged)} judged by {SIMULATED} (simulated: no model is behind it)" in text
    assert "judge_relevance" in text
    assert text.rstrip().endswith("$0.0000 spent, not counting gpt-9, without a price")


# What follows needs no endpoint: a pool that answers when it is told to.


def line(number: int, event: str | None = None) -> tuple[Record, Outcome]:
    """A line that was scored; with an event, it is to be judged."""
    emissions = [] if event is None else [Emission("judge.requests", event.encode(), encode(request(event)), ())]
    return Record("file", 0, number, None, b"{}", None), Outcome(emissions)


def judging(pool: ScriptedPool, *, stop: threading.Event | None = None, **settings: Any) -> JudgedFiles:
    return JudgedFiles(config(**settings), pool, stop.is_set if stop else lambda: False)


def evaluations(outcomes: Iterator[tuple[Record | None, Outcome]]) -> Iterator[Evaluation | None]:
    """What is judged, one after the other; None where a look at the judge brought nothing."""
    for _, outcome in outcomes:
        found = [each.value for each in outcome.emissions if each.topic == "evaluations"]
        yield from (Evaluation.model_validate_json(value or b"") for value in found)
        if not found:
            yield None


def test_a_file_is_never_read_far_ahead_of_the_judge() -> None:
    """While the judge answers nothing, no more is read than may be held; lines that nobody judges are no hindrance."""
    pool, read_so_far = ScriptedPool(), 0

    def lines() -> Iterator[tuple[Record, Outcome]]:
        nonlocal read_so_far
        for number in itertools.count(1):
            read_so_far += 1
            yield line(number, f"event-{number}" if number % 10 == 0 else None)

    run = judging(pool, concurrency=2).run(lines())
    for _ in itertools.islice(run, 500):
        pass
    assert len(pool.jobs) == 2
    assert read_so_far == 80, "four requests are held for each that may be in flight, and each tenth line is one"


def test_one_event_that_takes_long_keeps_back_no_other() -> None:
    pool, stop = ScriptedPool(), threading.Event()
    run = evaluations(judging(pool, stop=stop, concurrency=2).run(line(n, f"event-{n}") for n in range(1, 31)))
    judged: list[str] = []
    for found in itertools.islice(run, 1_000):
        judged += [found.event_id] if found else []
        if len(judged) == 29:
            break
        for job in list(pool.jobs):
            if job != pool.started[0]:
                pool.land(job)
    assert judged == [f"event-{n}" for n in range(2, 31)]
    pool.unavailable_reason = "it is down"
    stop.set()
    assert list(run) == []


def test_what_fails_comes_again_and_in_the_end_says_that_it_failed() -> None:
    pool = ScriptedPool()
    run = judging(pool, retries=2, retry_delay_s=1).run([line(1, "good"), line(2, "bad")])
    emitted: Counter[str] = Counter()
    statuses: dict[str, str] = {}
    for _, outcome in run:
        emitted.update(each.topic for each in outcome.emissions)
        for each in outcome.emissions:
            if each.topic == "evaluations":
                found = Evaluation.model_validate_json(each.value or b"")
                statuses[found.event_id] = found.decision.suites[0].status
        for job in list(pool.jobs):
            good = pool.jobs[job].case.response == "Ada." and job == pool.started[0]
            pool.land(job, GOOD if good else None, why="the judge's endpoint fails (500)")
    assert statuses == {"good": "judged", "bad": "failed"}
    assert len(pool.started) == 4, "the bad one was begun three times"
    assert emitted["judge.retry"] == 2


def test_what_is_over_the_budget_comes_out_as_deferred() -> None:
    pool = ScriptedPool()
    files = JudgedFiles(config(daily_budget_usd=0.05, concurrency=1), pool, lambda: False, spent=0)
    emitted: Counter[str] = Counter()
    for _, outcome in files.run(line(number, str(number)) for number in range(1, 11)):
        emitted.update(each.topic for each in outcome.emissions)
        for job in list(pool.jobs):
            pool.land(job, cost=pool.jobs[job].allowance)
    assert emitted["evaluations"] == len(pool.started)
    assert 0 < emitted["evaluations"] < 10
    assert emitted["judge.deferred"] == 10 - emitted["evaluations"]
    assert files.reserved == 0


def test_what_the_check_at_the_start_cost_counts_within_the_budget() -> None:
    """Of a budget that has room for one event, nothing is left."""
    pool = ScriptedPool()
    files = JudgedFiles(config(daily_budget_usd=0.02), pool, lambda: False, spent=20_000)
    outcomes = [outcome for _, outcome in itertools.islice(files.run([line(1, "one")]), 100)]
    assert not pool.started
    assert [each.topic for outcome in outcomes for each in outcome.emissions if each.topic == "evaluations"]


def test_told_to_stop_it_begins_nothing_more_and_lets_end_what_is_under_way() -> None:
    pool, stop = ScriptedPool(), threading.Event()
    files = judging(pool, stop=stop, concurrency=2)
    run = evaluations(files.run(line(number, str(number)) for number in range(1, 100)))
    while len(pool.started) < 2:
        next(run)
    stop.set()
    assert next(run) is None
    assert files.waits == "stopping"
    pool.land_all()
    assert [each.event_id for each in run if each] == ["1", "2"]
    assert len(pool.started) == 2
    assert files.stopping


def test_a_summary_counts_an_event_once_and_shows_what_all_events_come_to() -> None:
    """Beside the plain mean of what was judged stands the weighted one, with its interval."""
    summary = EvaluationSummary(Aggregator(Catalogue(everything())), judging=True)
    for number in range(400):
        drawn = number < 40
        decided = {"suite": "rubric", "probability": 0.1, "because": ["floor"]}
        fields: dict[str, Any] = {"event_id": str(number), "event_time": 0, "catalogue_version": "1"}
        fields["scores"] = {"context_support": 0.5}
        status = {"suites": [decided | {"status": "selected" if drawn else "not_selected"}]}
        summary.add(Evaluation(**fields, decision=status))
        if drawn:
            fields["scores"]["judge_relevance"] = 0.75 + 0.005 * (number % 11)
            spent = {"model": "m", "prompt_version": "1", "input_tokens": 1, "output_tokens": 1, "cost_usd": 0}
            status = {"suites": [decided | {"status": "judged"}]}
            judged = {"stage": "judged", "judge": spent | {"cached": False}}
            summary.add(Evaluation(**fields, **judged, decision=status))
    summary.spent, summary.at_most = 1_500_000, 0
    assert summary.line() == "400 scored; 40 selected: 40 judged by m; $1.5000 spent"
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(summary.table())
    rows = [re.split(r"\s{2,}", each.strip()) for each in console.export_text().splitlines()]
    found = {row[0]: row[1:] for row in rows}
    assert found["context_support"][0] == "400"
    assert found["judge_relevance"][:2] == ["40", "0.773"]
    assert re.fullmatch(r"0\.773 \(0\.\d{3} to 0\.\d{3}\)", found["judge_relevance"][-1])
