"""`ragweir slo rehearse`: alerts fire on the past as Prometheus would have fired them, and what was behind is named."""

import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
import yaml
from commands import program, ragweir
from conftest import SharedBroker, create_topic, produce
from pages import Tags

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.analysis.slo.alert_rules import alert_labels, rules, written
from ragweir.streams.analysis.slo.burns import FAST, SLOW
from ragweir.streams.analysis.slo.counting import SloCounter
from ragweir.streams.analysis.slo.history_tests import history_tests
from ragweir.streams.analysis.slo.rehearsal import AlertRehearsal, Rehearsal, rehearse
from ragweir.streams.analysis.slo.timeline import page
from ragweir.streams.commands import app
from ragweir.streams.playground.local.prometheus import Programs
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.aggregate.agent import AggregateAgent, AggregateConfig
from ragweir.streams.settings import Slo, WindowSettings

START = datetime(2026, 11, 20, tzinfo=UTC)
FAITHFUL = Slo(name="faithful", metric="judge_faithfulness", at_least=0.5, objective=0.95)
RELEVANT = Slo(name="relevant", metric="context_support", at_least=0.5, objective=0.95)
CANDIDATE = "relevant: context_support >= 0.5 for 95%"
TOTALS = Aggregator(Catalogue(everything()))
TENANTS = ("acme", "globex")
SCRAPE_S, SLACK_M = 15, 2
HOURS = 16

Line = dict[str, Any]


def promtool(tools: Programs, folder: Path, file: str) -> subprocess.CompletedProcess[str]:
    return program(tools.promtool, "test", "rules", file, folder=folder)


def line(number: int, minute: float, *, bad: bool, **fields: Any) -> Line:
    """An evaluation so many minutes after the start."""
    return {
        "event_id": f"e{number}",
        "event_time": START + timedelta(minutes=minute),
        "application": "bot",
        "tenant": TENANTS[number % len(TENANTS)],
        "scores": {"context_support": 0.25 if bad else 0.75},
        "catalogue_version": "1",
        **fields,
    }


def lines(shares: Sequence[tuple[int, float]], seed: int = 1, rate: int = 20, tenant: str | None = None) -> list[Line]:
    """Stretches of so many minutes with a share of bad events, of one tenant only if it is named; below 0 no events."""
    chance = random.Random(seed)
    found: list[Line] = []
    minute = 0
    for length, share in shares:
        for number in range(length * rate if share >= 0 else 0):
            own = tenant in (None, TENANTS[len(found) % len(TENANTS)])
            bad = chance.random() < (share if own else 0.01)
            found.append(line(len(found), minute + number / rate + chance.random() / rate / 2, bad=bad))
        minute += length
    return found


def random_stretches(seed: int) -> list[tuple[int, float]]:
    """Drops of several depths, blips that must not fire and gaps without traffic, in quiet times."""
    chance = random.Random(seed)
    parts: list[tuple[int, float]] = [
        (chance.randint(50, 100), chance.uniform(0.65, 0.95)),  # pages
        (chance.randint(100, 150), chance.uniform(0.2, 0.25)),  # for a ticket only
        (chance.randint(1, 3), 1.0),
        (2, 0.9),
        (chance.randint(10, 40), -1.0),
        (chance.randint(40, 60), chance.uniform(0.65, 0.95)),
        (chance.randint(45, 90), -1.0),
    ]
    chance.shuffle(parts)
    found: list[tuple[int, float]] = [(60, 0.01)]
    for part in parts:
        found += [part, (chance.randint(20, 90), 0.01)]
    return found


def counted(rows: Iterable[Line], slos: Sequence[Slo] = (RELEVANT,), by: Sequence[str] = ("tenant",)) -> SloCounter:
    counting = SloCounter(slos, by, WindowSettings(max_series=10), TOTALS)
    for row in rows:
        counting.add(Evaluation.model_validate(row))
    return counting


def rehearsed(rows: Iterable[Line], **about: Any) -> Rehearsal:
    return rehearse(counted(rows, **about), "history")


def write(file: Path, rows: Iterable[Line]) -> Path:
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return file


def run(*arguments: str | Path, shared: Sequence[str | Path] = ()) -> None:
    """The command within this process; raises what it rejects."""
    app([*map(str, shared), "slo", "rehearse", *map(str, arguments)], standalone_mode=False)


def judged(rows: Iterable[Line], seed: int = 1) -> Iterator[Line]:
    """The evaluations of events of which a judge sees some: most of the bad ones, and a tenth of the others."""
    chance = random.Random(seed)
    for row in rows:
        bad = row["scores"]["context_support"] < 0.5
        probability = 1.0 if chance.random() < (0.4 if bad else 0.05) else 0.1
        decision = {"suite": "rubric", "probability": probability, "status": "not_selected"}
        if chance.random() < probability:
            yield {**row, "decision": {"suites": [{**decision, "status": "selected"}]}}
            status, score = ("failed", None) if chance.random() < 0.02 else ("judged", 0.0 if bad else 1.0)
            own = {"stage": "judged", "scores": {"judge_faithfulness": score}}
            yield {**row, **own, "decision": {"suites": [{**decision, "status": status}]}}
        else:
            yield {**row, "decision": {"suites": [decision]}}


def scraped(rows: Sequence[Line], slo: Slo = RELEVANT) -> dict[str, Any]:
    """The counters as Prometheus would have scraped them, had the events been counted as they happened."""
    agent = AggregateAgent(AggregateConfig(TOTALS, slos=(slo,)))
    agent.on_assigned(Assignment(("rag.evaluations", 0), None, 0))
    totals: dict[tuple[str, ...], list[int]] = {}
    by_place: dict[int, list[bytes]] = {}
    for row in rows:
        seconds = (row["event_time"] - START).total_seconds()
        by_place.setdefault(int(seconds // SCRAPE_S) + 1, []).append(orjson.dumps(row))
    last, offset = max(by_place), 0
    for place in range(1, last + 1):
        values = by_place.get(place, [])
        outcome = agent.handle([Record("t", 0, offset + n, None, value, None) for n, value in enumerate(values)])
        offset += len(values)
        for key, count in outcome.counts.items():
            if key[0].startswith("ragweir_slo_"):
                totals.setdefault(key, [0] * (last + 1))[place] += count
    series = []
    for (name, slo_name, kind), steps in totals.items():
        values_text = " ".join(map(str, accumulate(steps)))
        series.append({"series": f'{name}{{slo="{slo_name}", outcome="{kind}"}}', "values": values_text})
    return {"interval": f"{SCRAPE_S}s", "input_series": series}


def looks(alert: AlertRehearsal, minutes: int) -> Iterator[tuple[int, bool]]:
    """Each minute with what is said of it, but for those next to a change."""
    edges = [(edge - START) // timedelta(minutes=1) for each in alert.firings for edge in (each.start, each.end)]
    for minute in range(1, minutes):
        if all(abs(minute - edge) >= SLACK_M for edge in edges):
            time = START + timedelta(minutes=minute)
            yield minute, any(firing.start <= time < firing.end for firing in alert.firings)


def agrees(tools: Programs, folder: Path, rows: Sequence[Line], found: Rehearsal, factor: float = 1.0) -> bool:
    """Whether promtool fires the rules, with thresholds that are a factor higher, in the same minutes."""
    slo = found.slos[0].slo
    estimated = slo.metric in TOTALS.suites
    own = rules([slo], judged=TOTALS.suites)
    for rule in own["groups"][0]["rules"]:
        rule.pop("annotations", None)
        rule["expr"] = re.sub(r"> (0\.\d+)", lambda match: f"> {float(match[1]) * factor:.9g}", rule["expr"])
    minutes = (found.end - START) // timedelta(minutes=1)
    asked = [
        {
            "alertname": alert.burn.alert,
            "eval_time": f"{minute}m",
            "exp_alerts": [{"exp_labels": alert_labels(slo, alert.burn, judged=estimated)}] if fires else [],
        }
        for alert in found.slos[0].alerts
        for minute, fires in looks(alert, minutes)
    ]
    assert len(asked) > 2 * minutes - 2 * 4 * sum(len(alert.firings) for alert in found.slos[0].alerts) - 3
    tests = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [{**scraped(rows, slo), "alert_rule_test": asked}],
    }
    (folder / "rules.yml").write_text(written(own))
    (folder / "tests.yml").write_text(written(tests))
    done = promtool(tools, folder, "tests.yml")
    assert "FAILED" in done.stdout + done.stderr or done.returncode == 0, done.stderr
    return done.returncode == 0


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_alerts_fire_when_prometheus_fires_them(tools: Programs, tmp_path: Path, seed: int) -> None:
    """Of random histories: in every minute but those next to a change promtool says the same, of page and ticket."""
    rows = lines(random_stretches(seed), seed)
    found = rehearsed(rows)
    pages, tickets = found.slos[0].alerts
    assert pages.firings
    assert tickets.firings
    assert agrees(tools, tmp_path, rows, found)


@pytest.mark.heavy
def test_alerts_on_judged_metrics_fire_when_prometheus_fires_them(tools: Programs, tmp_path: Path) -> None:
    """By the weights of the events: also where a wrong certainty would fire at another time."""
    rows = list(judged(lines(random_stretches(1), 1)))
    found = rehearsed(rows, slos=(FAITHFUL,))
    pages, tickets = found.slos[0].alerts
    assert pages.firings
    assert tickets.firings
    assert agrees(tools, tmp_path, rows, found)
    assert not agrees(tools, tmp_path, rows, found, 1.3)
    # The judge sees bad ones more often than others, which the weights undo.
    bad = [row["scores"]["context_support"] < 0.5 for row in rows if row.get("stage") != "judged"]
    own = found.slos[0]
    assert own.share == pytest.approx(sum(bad) / len(bad), rel=0.1)
    assert own.bad / own.events > 1.5 * own.share


@pytest.mark.heavy
@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_other_thresholds_fire_at_other_times(tools: Programs, tmp_path: Path, factor: float) -> None:
    """The test above notices a threshold that is 30 % off."""
    rows = lines(random_stretches(1), 1)
    assert not agrees(tools, tmp_path, rows, rehearsed(rows), factor)


def test_a_blip_and_a_few_bad_events_stay_quiet() -> None:
    """Three bad minutes of an hour do not fire, nor do ten bad events that are all there is."""
    blip = rehearsed(lines([(90, 0.01), (3, 1.0), (90, 0.01)])).slos[0].alerts[0]
    few = rehearsed(lines([(10, 1.0)], rate=1)).slos[0].alerts[0]
    assert (blip.firings, few.firings) == ((), ())
    assert 0.1 < blip.closest < 0.5
    assert few.closest == pytest.approx(10 / 11)
    assert len(rehearsed(lines([(11, 1.0)], rate=1)).slos[0].alerts[0].firings) == 1


def test_a_firing_that_the_history_ends_with_goes_on() -> None:
    """It lasts until the last minute and says that it is not over."""
    found = rehearsed(lines([(60, 0.01), (60, 0.9)]))
    (firing,) = found.slos[0].alerts[0].firings
    assert (firing.ongoing, firing.end) == (True, found.end)
    (over,) = rehearsed(lines([(60, 0.01), (60, 0.9), (60, 0.01)])).slos[0].alerts[0].firings
    assert (over.ongoing, over.start) == (False, firing.start)
    assert timedelta(0) < over.end - (START + timedelta(minutes=120)) <= timedelta(minutes=FAST.short_m)


def test_the_planted_tenant_is_found() -> None:
    """Where one tenant's answers get worse, it is named, with about as many bad events too many as were planted."""
    rows = lines([(60, 0.01), (90, 0.95), (30, 0.01)], tenant="globex")
    (firing,) = rehearsed(rows, by=("application", "tenant")).slos[0].alerts[0].firings
    (found,) = firing.concentrated
    assert (found.dimension, found.value) == ("tenant", "globex")
    assert found.excess == pytest.approx(found.bad, rel=0.1)


def test_no_value_is_named_where_all_are_as_bad() -> None:
    """A drop of all tenants alike is not put down to one of them."""
    for seed in range(20):
        (firing,) = rehearsed(lines([(60, 0.01), (60, 0.8)], seed)).slos[0].alerts[0].firings
        assert firing.concentrated == ()


@pytest.mark.parametrize(
    "repeats",
    [
        lambda number: {"question_id": f"q{number // 4}"},
        lambda number: {"text": {"query": f"Where is {number // 4}?", "response": "", "contexts": []}},
        lambda number: {"event_id": f"e{number // 4}"},
    ],
    ids=["question ids", "texts", "an event evaluated again"],
)
def test_examples_are_of_five_different_questions(repeats: Callable[[int], Line]) -> None:
    """Of a question that was asked four times the worst event is shown, whatever the order of events."""
    scored = [{"scores": {"context_support": number / 1_000}} for number in range(40)]
    rows = [line(n, 1 + n / 100, bad=True, **each, **repeats(n)) for n, each in enumerate(scored)]
    for order in (rows, rows[::-1], random.Random(1).sample(rows, len(rows))):
        firing = rehearsed(order).slos[0].alerts[0].firings[0]
        assert [each.score for each in firing.examples] == [0.0, 0.004, 0.008, 0.012, 0.016]


def test_the_worst_events_are_examples() -> None:
    """Those with the worst scores that the alert saw, whether small ones or large ones are bad."""
    rows = lines([(60, 0.01), (60, 0.9)])
    for number, row in enumerate(rows):
        score = row["scores"]["context_support"]
        row["scores"] = {"context_support": score - number / 1e6, "total_latency_ms": 1_000 / score + number}
    slow = Slo(name="slow", metric="total_latency_ms", at_most=3_000, objective=0.95)
    found = rehearsed(rows, slos=(RELEVANT, slow))
    bad = [row["event_id"] for row in rows if row["scores"]["context_support"] < 0.4]
    for slo in found.slos:
        (firing,) = slo.alerts[0].firings
        assert [each.event_id for each in firing.examples] == bad[-1:-6:-1]


def test_values_beyond_the_limit_count_together() -> None:
    """Of a dimension with more values than `windows.max_series` the rest is one value, and no event is lost."""
    rows = lines([(60, 0.01), (60, 0.9)])
    for number, row in enumerate(rows):
        row["tenant"] = f"t{number}"
    ((_, values, counts),) = counted(rows).counts_by_value(0)
    assert values == [*(f"t{number}" for number in range(10)), "__overflow__"]
    assert counts.events.sum() == len(rows)


def test_the_order_of_events_does_not_matter() -> None:
    """Partitions are read in any order."""
    rows = lines(random_stretches(4), 4, rate=5)
    shuffled = random.Random(1).sample(rows, len(rows))
    assert rehearsed(shuffled) == rehearsed(rows)


def test_wrong_clocks_cost_nothing() -> None:
    """Events of other centuries neither hide a drop nor take memory for the time in between."""
    rows = lines([(60, 0.01), (90, 0.9), (60, 0.01)])
    strays = [
        {**line(90_000 + year, 0, bad=True), "event_time": datetime(year, 1, 1, tzinfo=UTC)} for year in (2, 9998)
    ]
    with_strays, without = rehearsed([*strays, *rows]).slos[0], rehearsed(rows).slos[0]
    assert [alert.firings for alert in with_strays.alerts] == [alert.firings for alert in without.alerts]
    assert len(with_strays.timeline) <= 480


def test_events_count_as_the_live_service_counts_them() -> None:
    """Scored and judged, with nulls, of other dimensions and again: the totals are those of the aggregate agent."""
    slos = (
        RELEVANT,
        Slo(name="faithful", metric="judge_faithfulness", at_least=0.5, objective=0.9),
        Slo(name="own", metric="total_latency_ms", at_most=3_000, objective=0.9, dimensions={"labels.region": "eu"}),
    )
    chance = random.Random(1)
    rows = []
    for number in range(400):
        scores = {
            "context_support": chance.choice([None, 0.25, 0.5, 0.75]),
            "judge_faithfulness": chance.choice([None, 0.0, 1.0]),
            "total_latency_ms": chance.choice([None, 2_999, 3_000, 3_001]),
        }
        stage = chance.choice(["scored", "judged"])
        labels = {"region": chance.choice(["eu", "us"])}
        rows.append(line(number // 2, number / 10, bad=False, scores=scores, stage=stage, labels=labels))
    agent = AggregateAgent(AggregateConfig(TOTALS, slos=slos))
    agent.on_assigned(Assignment(("rag.evaluations", 0), None, 0))
    outcome = agent.handle([Record("t", 0, place, None, orjson.dumps(row), None) for place, row in enumerate(rows)])
    live = {name[1:]: count for name, count in outcome.counts.items() if name[0] == "ragweir_slo_events_total"}
    found = rehearsed(rows, slos=slos)
    own = {
        (each.slo.name, outcome): count
        for each in found.slos
        for outcome, count in (("good", each.events - each.bad), ("bad", each.bad))
    }
    assert own == live
    assert all(own.values())


@pytest.mark.heavy
def test_what_is_written_passes_in_promtool(tools: Programs, tmp_path: Path) -> None:
    """The rules, their proofs, and tests of the history itself, which fail where the rules would fire otherwise."""
    rows = lines([(400, 0.01), (60, 0.9), (100, -1.0), (60, 0.02), (90, 0.7), (60, 0.01)])
    events = write(tmp_path / "e.jsonl", judged(rows))
    slos = ("--slo", CANDIDATE, "--slo", "sometimes: context_support >= 0.7 for 99.9% where tenant=acme")
    slos += ("--slo", "faithful: judge_faithfulness >= 0.5 for 95%")
    run(events, *slos, "--write", tmp_path / "made" / "rules")
    folder = tmp_path / "made" / "rules"
    for file in ("slo_tests.yml", "slo_history.yml"):
        ran = promtool(tools, folder, file)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    tests = yaml.safe_load((folder / "slo_history.yml").read_text())["tests"]
    named = Counter(" ".join(test["name"].split()[:3]) for test in tests)
    assert (named["relevant, page: firing"], named["relevant, page: quiet"]) == (2, 3)
    assert (named["faithful, page: firing"], named["faithful, page: quiet"]) == (2, 3)
    text = (folder / "slo.yml").read_text()
    for changed in (text.replace("> 0.3 ", "> 0.95 "), text.replace("> 0.3 ", "> 0.001 ")):
        assert changed != text
        (folder / "slo.yml").write_text(changed)
        ran = promtool(tools, folder, "slo_history.yml")
        assert "relevant, page" in ran.stdout + ran.stderr


def test_tests_of_a_long_history_are_bounded() -> None:
    """However often an alert fired, a bounded number of its firings is written."""
    rows = lines([(90, 0.01), (40, 0.95), (30, 0.0)] * 30, rate=3)
    counting = counted(rows)
    found = rehearse(counting, "history")
    assert len(found.slos[0].alerts[0].firings) > 20
    tests = history_tests(counting, found, "slo.yml")["tests"]
    assert Counter(test["name"].split()[2] for test in tests if "page" in test["name"]) == {"firing": 10, "quiet": 10}


def test_times_narrow_the_history(tmp_path: Path) -> None:
    """Only events from `--from` to before `--to` count, given as times or as durations before now."""
    rows = [line(number, 10 * number, bad=False) for number in range(12)]
    now = line(12, 0, bad=False, event_time=datetime.now(UTC) - timedelta(hours=1))
    events = write(tmp_path / "e.jsonl", [*rows, now])
    for span, counted in (
        (("--from", "2026-11-20T00:30:00Z", "--to", "2026-11-20T01:30:00Z"), 6),
        (("--to", "2026-11-20T00:30:00+00:00"), 3),
        (("--from", "2h"), 1),
    ):
        run(events, "--slo", CANDIDATE, *span, "--json", tmp_path / "r.json")
        data = orjson.loads((tmp_path / "r.json").read_bytes())
        assert (data["evaluations"], data["outside"]) == (counted, 13 - counted)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["e.jsonl", "--slo", "relevant"], 2, "one looks like"),
        (["e.jsonl", "--slo", "relevant: context_support > 0.5 for 95%"], 2, "one looks like"),
        (["e.jsonl", "--slo", "relevant: context_support >= 0.5 for 100%"], 2, "under 100 %"),
        (["e.jsonl", "--slo", "Not Good: context_support >= 0.5 for 9%"], 2, "one looks like"),
        (["e.jsonl", "--slo", f"{CANDIDATE} where acme"], 2, "tenant=acme"),
        (["e.jsonl", "--slo", f"{CANDIDATE} where who=acme"], 2, "a dimension is one of"),
        (["e.jsonl", "--slo", CANDIDATE, "--slo", CANDIDATE], 2, "the same name"),
        (["e.jsonl", "--slo", "a: misspelt >= 0.5 for 95%"], 2, "'misspelt'"),
        (["e.jsonl", "--slo", "a: answer_class >= 0.5 for 95%"], 2, "'answer_class'"),
        (["e.jsonl"], 2, "there is no SLO in the settings"),
        (["e.jsonl", "--slo", CANDIDATE, "--by", "who"], 2, "--by who"),
        (["e.jsonl", "--slo", CANDIDATE, "--from", "yesterday"], 2, "--from 'yesterday'"),
        (["e.jsonl", "--slo", CANDIDATE, "--from", "1h", "--to", "2h"], 2, "is not before"),
        (["no/such", "--slo", CANDIDATE], 2, "neither a file"),
        (["e.jsonl", "--slo", CANDIDATE, "--from", "1h"], 1, "no evaluations to rehearse on; 60 are of other times"),
        (["none.jsonl", "--slo", CANDIDATE], 1, "no evaluations to rehearse on; 2 records are none"),
        (["e.jsonl", "--slo", "a: cost_usd <= 1 for 95%"], 1, "no value of cost_usd"),
        (["e.jsonl", "--slo", CANDIDATE, "--write", "e.jsonl"], 1, "cannot be made"),
    ],
)
def test_what_cannot_be_rehearsed_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], status: int, said: str
) -> None:
    """With exit status 2 for wrong usage and 1 for what is not there."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "e.jsonl", lines([(60, 0.01)], rate=1))
    (tmp_path / "none.jsonl").write_text('{"event_id": 1}\n\nnothing\n')
    with pytest.raises((typer.BadParameter, ConfigurationError, PermanentError)) as raised:
        run(*arguments)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, PermanentError) is (status == 1)


@pytest.mark.heavy
def test_the_live_topic_is_rehearsed_as_a_file_is(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Over partitions, with the SLOs of the settings: the same as from a file, and the drop is told."""
    rows = lines([(60, 0.01), (90, 0.9), (30, 0.01)], rate=5, tenant="acme")
    topic = create_topic(kafka.bootstrap, f"{prefix}evaluations", 2)
    for partition in range(2):
        produce(kafka.bootstrap, topic, map(orjson.dumps, rows[partition::2]), partition=partition)
    (tmp_path / "s.toml").write_text(
        '[[slo]]\nname = "relevant"\nmetric = "context_support"\nat_least = 0.5\nobjective = 0.95\n'
    )
    shared = ("--config", tmp_path / "s.toml", "--bootstrap-servers", kafka.bootstrap, "--prefix", prefix)
    done = ragweir(*shared, "slo", "rehearse", "--by", "tenant", "--json", tmp_path / "live.json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"On tenant acme" in done.stdout
    events = write(tmp_path / "e.jsonl", rows)
    run(events, "--by", "tenant", "--json", tmp_path / "file.json", shared=shared)
    live, file = (orjson.loads((tmp_path / f"{name}.json").read_bytes()) for name in ("live", "file"))
    assert live["slos"] == file["slos"]
    assert len(live["slos"][0]["alerts"][0]["firings"]) == 1
    with pytest.raises(PermanentError, match="v9 is no file here, and there is no topic"):
        run("v9", shared=shared)


HOSTILE = [
    "<script>alert(1)</script>",
    "'\"><img src=x onerror=alert(1)>",
    "</title></style></svg>",
    "\x1b[2J\x00\u202e",
]


def test_alerts_of_the_settings_have_links_to_the_console(tmp_path: Path) -> None:
    """Those of candidates have none, as the console does not know them; each leads to the time of its firing."""
    events = write(tmp_path / "e.jsonl", lines([(400, 0.01), (60, 0.95), (60, 0.01)], rate=10))
    (tmp_path / "own.toml").write_text(
        '[console]\npublic_url = "https://ragweir.example.org"\n'
        '[[slo]]\nname = "relevant"\nmetric = "context_support"\nat_least = 0.5\nobjective = 0.95\n'
    )
    own = ("--config", tmp_path / "own.toml", "slo", "rehearse", events)
    done = ragweir(*own, "--write", tmp_path / "rules").stdout.decode()
    fired = re.findall(r"(?:page|ticket) for relevant: ([\d-]+) ([\d:]+)", done)
    path = r"https://ragweir\.example\.org/cause\?slo=relevant&from=([\d-]+)T([\d:]+):\d\dZ"
    assert fired
    assert re.findall(f"In the console: {path}&to=", done) == fired
    assert "console_url" in (tmp_path / "rules" / "slo.yml").read_text()
    assert "In the console" not in ragweir(*own, "--slo", "other: context_support >= 0.5 for 95%").stdout.decode()


def test_hostile_labels_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As ids, tenants, and values that SLOs are about: the picture has no other elements, the terminal no control."""

    def history(names: Sequence[str]) -> list[Line]:
        rows = lines([(60, 0.01), (60, 0.95)], rate=10, tenant="acme")
        own = dict(zip(TENANTS, names, strict=False))
        return [{**row, "tenant": own[row["tenant"]], "event_id": f"{names[3]}{row['event_id']}"} for row in rows]

    def tags(names: Sequence[str]) -> Tags:
        parser = Tags()
        slo = RELEVANT.model_copy(update={"dimensions": {"application": "bot", "labels.x": names[0]}})
        rows = [{**row, "labels": {"x": names[0]}} for row in history(names)]
        parser.feed(page(rehearse(counted(rows, slos=(slo,)), names[1])))
        return parser

    hostile, harmless = tags(HOSTILE), tags(["a", "b", "c", "d"])
    assert "svg" in harmless.names
    assert hostile.names == harmless.names
    assert not hostile.names & {"script", "img", "iframe", "link", "object", "image", "use", "a"}
    assert hostile.attributes == harmless.attributes
    assert any(HOSTILE[0] in text for text in hostile.texts)
    events = write(tmp_path / "e.jsonl", history(HOSTILE))
    run(events, "--slo", CANDIDATE, "--by", "tenant", "--picture", tmp_path / "p.html")
    told = capsys.readouterr().out
    assert "\x1b" not in told
    assert "On tenant <script>alert(1)</script>" in told
    drawn = (tmp_path / "p.html").read_text()
    assert 'class="page during"' in drawn
    assert r"\x1b[2J\x00\u202e" in drawn
    assert [each for each in drawn if not each.isprintable() and each != "\n"] == []
    assert "http" not in drawn.replace("http-equiv", "")


def test_rates_are_those_of_the_rules() -> None:
    """Page and ticket are the alerts that `ragweir slo rules` writes, with its thresholds."""
    alerts = rehearsed(lines([(10, 0.0)])).slos[0].alerts
    assert [(alert.burn, alert.threshold) for alert in alerts] == [(FAST, 0.3), (SLOW, 0.1)]
    assert all(alert.closest_at is None and not alert.firings for alert in alerts)
