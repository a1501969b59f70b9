"""The chaos harness: the product comes through unharmed, and every broken runtime is caught by its name.

`make chaos` and `make chaos-long` are the runs of minutes and of hours.
"""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import pytest

from chaos.broker import QUICK, Cluster, cluster
from chaos.events import Mix
from chaos.fault_injector import FaultInjector
from chaos.mutants import FEEDBACK_MUTANTS, MUTANTS, ROW_MUTANTS, TRACE_MUTANTS
from chaos.options import Options, Traces, over_traces
from chaos.report import as_json
from chaos.run import run
from chaos.scenarios import NAIVE, SCENARIOS, play
from chaos.schedule import KINDS
from chaos.shifted_clock import Shifted
from chaos.target import Lengths
from chaos.trace_events import TraceMix
from ragweir.errors import LocalServerError
from ragweir.streams.runtime.machine import machine

# Once it is imported, by whichever test, it is a module of its own making that find_spec cannot tell anything about.
_FAUST = "faust" in sys.modules or find_spec("faust") is not None
AT_ONCE = 4
"""Most of what they do is to wait: for a process to start, a session to end."""
Plays = dict[tuple[str, str], Future[dict[str, int]]]


@pytest.fixture(scope="module")
def hurt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        with cluster(tmp_path_factory.mktemp("chaos") / "kafka", QUICK) as hurt:
            yield hurt
    except LocalServerError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.mark.heavy
def test_the_product_comes_through_every_kind_of_fault_unharmed(hurt: Cluster, tmp_path: Path) -> None:
    """Nothing lost, doubled, reordered or wrong, in any output, and telemetry shows no more than was committed.

    But for kills of the broker, which `make chaos` has: once, its coordinator answered an older offset after one.
    """
    options = Options(
        events=1_500,
        rate=300,
        seed=4,
        numbers={
            "kills": 4,
            "zombies": 1,
            "joins_and_leaves": 1,
            "delays": 1,
            "partitions": 1,
            "resets": 1,
            "judge_outages": 1,
        },
        mix=Mix(judged=0, risks=True),
        lengths=Lengths(zombie=4, broker=0.1, network=0.5, outage=1, delay=0.05),
        workers={"evaluate": 2, "aggregate": 1, "judge": 1, "export": 1},
        rows=True,
        budget_usd=0.2,  # What is reserved when a judge is killed counts as spent: .05 may leave nothing to judge with.
        quick=True,
        patience_s=40,
    )
    result = run(options, tmp_path, brokers=hurt)
    told = as_json(result)
    print(told)
    assert result.findings.defects() == {}
    assert result.healthy
    assert all(found.found > 0 for found in result.findings.outputs.values()), "there was something to compare"
    assert told["faults_done"]["kill"] == 4
    assert told["kills_in_an_open_transaction"] > 0
    assert told["rows"]["used"] > 10
    assert told["rows"]["without_effect"]


@pytest.mark.long
@pytest.mark.parametrize("mutant", ROW_MUTANTS)
def test_a_broken_selection_is_caught(hurt: Cluster, tmp_path: Path, mutant: str) -> None:
    options = Options(
        events=8_000,
        rate=300,
        seed=4,
        numbers={"control_recreations": int(mutant == "kept-rows")},
        mix=Mix(judged=0, risks=True),
        workers={"evaluate": 2, "aggregate": 1, "judge": 1, "export": 1},
        rows=True,
        budget_usd=0.1,
        quick=True,
        mutant=mutant,
        prefix=f"{mutant}.",
    )
    found = run(options, tmp_path, brokers=hurt).findings.defects()
    print(found)
    assert found.keys() & {"decisions wrong", "rows duplicated", "bill, of a day's budget wrong"}


def on_feedback(events: int, mutant: str = "") -> Options:
    """A run with feedback and anchors, in which match and tally are killed."""
    return Options(
        events=events,
        rate=200,
        seed=1,
        numbers={"kills": 6, "feedback_growths": 1, "store_losses": 1, "evaluate_outages": 1, "resets": 1},
        mix=Mix(judged=0),
        lengths=Lengths(outage=2),
        workers={"evaluate": 1, "judge": 1},
        feedback=True,
        budget_usd=1.0,
        quick=True,
        patience_s=60,
        mutant=mutant,
        prefix=f"{mutant or 'feedback'}.",
    )


@pytest.mark.heavy
def test_feedback_and_anchors_come_through_every_kind_of_fault_unharmed(hurt: Cluster, tmp_path: Path) -> None:
    """Each piece is joined once, waits, or is unmatched: before, with and after its answer, on unknown ids in floods,
    while evaluate is stopped, its topics grow and the store of answers is lost. Each anchor is judged once.
    """
    result = run(on_feedback(3_000), tmp_path, brokers=hurt)
    told = as_json(result)
    print(told)
    assert result.findings.defects() == {}
    assert result.healthy
    assert {"match", "tally"} <= told["kills_by_service"].keys()
    assert told["faults_done"].keys() >= {"feedback grown", "store lost", "evaluate outage"}
    assert min(told["feedback"][name] for name in ("keyed", "waiting", "unmatched_invalid")) > 0


@pytest.mark.long
@pytest.mark.parametrize("mutant", FEEDBACK_MUTANTS)
def test_broken_feedback_is_caught(hurt: Cluster, tmp_path: Path, mutant: str) -> None:
    found = run(on_feedback(1_500, mutant), tmp_path, brokers=hurt).findings.defects()
    print(found)
    assert found.keys() & {"feedback lost", "feedback windows wrong"}


@pytest.mark.long
def test_the_product_comes_through_faults_of_one_of_three_brokers_unharmed(tmp_path: Path) -> None:
    """With three copies of everything, a topic that is made again and grows, and a slot that runs twice.

    The judge's budget is spent before the end: neither the endpoint's own bill nor the ledger is above it.
    """
    once = "leader_kills group_coordinator_kills transaction_coordinator_kills broker_freezes broker_partitions"
    once += " rolling_brokers full_disks recreations growths twins"
    options = Options(
        events=6_000,
        rate=200,
        seed=15,
        numbers={"kills": 4} | dict.fromkeys(once.split(), 1),
        mix=Mix(judged=0.05),
        lengths=Lengths(zombie=4, broker=0.1, frozen=4, network=1, outage=1, delay=0.05, twin=5),
        workers={"evaluate": 2, "aggregate": 1, "judge": 1, "export": 1},
        brokers=3,
        budget_usd=0.2,
        quick=True,
    )
    result = run(options, tmp_path)
    told = as_json(result)
    print(told)
    assert result.findings.defects() == {}
    assert result.healthy
    assert 0 < told["bill_microdollars"] <= told["ledger_microdollars"] <= told["budget_microdollars"]
    assert told["judged_statuses"]["judged"]
    assert told["judged_statuses"]["deferred"], "the budget is spent"
    done = told["faults_done"]
    assert {kind for kind in told["stalls_s"] if not done.get(kind)} <= {"full disk"}, "nothing could be mounted"


@pytest.mark.heavy
def test_traces_come_through_every_kind_of_fault_unharmed(hurt: Cluster, tmp_path: Path) -> None:
    """Interactions equal a batch reference over the log of spans, byte for byte; by the generator, none is lost or
    doubled, and none is torn whose spans came in time, be it ten minutes before key began to read.
    """
    options = over_traces(
        5_000,
        300,
        Traces(backlog=0.4, settle_s=2, patience_s=6),
        numbers={"kills": 4, "zombies": 1, "resets": 1, "partitions": 1, "outages": 1},
        lengths=Lengths(zombie=4, broker=0.1, network=0.5, outage=2, delay=0.05),
        quick=True,
        patience_s=60,
    )
    result = run(options, tmp_path, brokers=hurt)
    told = as_json(result)
    print(told)
    assert result.findings.defects() == {}
    assert result.healthy
    assert told["faults_done"]["kill"] == 4
    assert told["traces_in_time"] > 0.7 * told["traces"], "there was something to tear"
    assert told["late_traces_without_all_spans"] > 0, "what came too late was seen to be missing"


@pytest.mark.long
@pytest.mark.parametrize("mutant", TRACE_MUTANTS)
def test_a_broken_join_is_caught(hurt: Cluster, tmp_path: Path, mutant: str) -> None:
    options = over_traces(
        4_000,
        300,
        Traces(TraceMix(late=0.2), backlog=0.4, settle_s=2, patience_s=8),
        numbers={"kills": 4, "rolling_restarts": 1},
        lengths=Lengths(broker=0.1, network=0.5, outage=2, delay=0.05),
        quick=True,
        patience_s=60,
        mutant=mutant,
        prefix=f"{mutant}.",
    )
    result = run(options, tmp_path, brokers=hurt)
    print(as_json(result))
    assert result.findings.defects() or result.fatal_exits


def test_a_shifted_clock_shifts_the_wall_clock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before, began = time.time(), machine.monotonic()
    monkeypatch.setattr(machine, "clocks", Shifted(lambda: 345_600))
    for now in (machine.time(), machine.time_ns() / 1e9, machine.now().timestamp()):
        assert 345_600 <= now - before < 345_660
    assert machine.monotonic() - began < 60


@pytest.fixture(scope="module")
def plays(request: pytest.FixtureRequest, hurt: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plays]:
    """Every selected scenario with its mutant, and with the healthy product, side by side."""
    selected = {item.callspec.params["name"] for item in request.session.items if "plays" in item.fixturenames}
    folder = tmp_path_factory.mktemp("plays")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # The longest first.
        yield {
            (name, mutant): pool.submit(play, hurt, f"{name}-{mutant or 'healthy'}.", folder, scenario, mutant)
            for name, scenario in SCENARIOS.items()
            for mutant in (name, "")
            if name in selected and (mutant != NAIVE or _FAUST)
        }


def test_every_kind_of_fault_has_an_option_and_is_injected() -> None:
    assert FaultInjector(Mock())._kinds.keys() == {kind for kinds, _ in KINDS.values() for kind in kinds}


def test_every_mutant_has_its_scenario() -> None:
    assert SCENARIOS.keys() == {*MUTANTS, NAIVE}


LONG = (NAIVE, "restore-to-stable-end", "commit-revoked")
NAMES = [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in SCENARIOS]


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
def test_a_broken_runtime_is_caught(plays: Plays, name: str) -> None:
    """By the fault that its scenario is made for."""
    if (name, name) not in plays:
        pytest.skip("faust-streaming is not installed (the extra [faust])")
    assert SCENARIOS[name].defect in plays[name, name].result()


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
def test_the_product_stands_what_catches_the_mutant(plays: Plays, name: str) -> None:
    """So that it is the mutant which is caught, and not the scenario."""
    assert plays[name, ""].result() == {}
