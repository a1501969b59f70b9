"""The demo: its samples show the whole contract, and one command runs the whole system and leaves nothing."""

import io
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

import pytest
from commands import ROOT
from conftest import SharedBroker, values
from poison import PARTS

from ragweir.errors import DemoError
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.driver import Judged
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.scores import performance
from ragweir.schemas.codec.json import encode, encode_json, interaction
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.interaction import Interaction, RecordPart
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.analysis.blame.blame_question import BlameQuestion, causes_of
from ragweir.streams.commands import demo as command
from ragweir.streams.commands.screens.demo import COLUMNS, RISK, Results, screen, show_columns, summarise
from ragweir.streams.playground.demo import services as service
from ragweir.streams.playground.demo.drill_causes import are_named
from ragweir.streams.playground.demo.glossary import ALERT, JUDGE
from ragweir.streams.playground.demo.rater import ANSWERS
from ragweir.streams.playground.demo.sample_traffic import Pending, Result
from ragweir.streams.playground.demo.samples import BAD_DOCUMENT, QUESTIONS, UNREADABLE, drill, interactions, samples
from ragweir.streams.playground.demo.services import demo_settings, environment, services
from ragweir.streams.runtime.processes.supervisor import own_command
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.text.terminal import Terminal
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.services.judge import job
from ragweir.streams.services.judge.results import chosen, judged, unjudged, waiting
from ragweir.streams.settings import BatchSettings, load

PHASES = ["steady", "injected", "FIRES", "recovery", "RESOLVED"]
NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
JUDGE_URL = "http://127.0.0.1:1/v1"
SETTINGS = demo_settings("127.0.0.1:1", JUDGE_URL, key="a key of the tests")
CATALOGUE = Catalogue(everything())


def evaluate(values: list[bytes | None], catalogue: Catalogue = CATALOGUE) -> Iterator[Result]:
    """What the evaluate agent makes of these values; for what it asks to be judged, the request comes behind."""
    names = {name for name, metric in catalogue.metrics.items() if metric.cost == "llm"}
    router = Router(SETTINGS.routing, catalogue, tuple(suites())) if names else None
    agent = EvaluateAgent(EvaluateConfig(catalogue, router=router))
    for offset, value in enumerate(values):
        outcome = agent.handle([Record("samples", 0, offset, None, value, 0)])
        assert not [count for count in outcome.counts if count[0] == "ragweir_metric_errors_total"]
        for emission in outcome.emissions:
            if emission.topic == "dead-letter":
                yield DeadLetter.from_headers(emission.headers)
            elif emission.topic == "evaluations":
                yield Evaluation.model_validate_json(emission.value or b"")
            else:
                yield JudgeRequest.model_validate_json(emission.value or b"")


def evaluations(count: int = len(samples()), catalogue: Catalogue = CATALOGUE) -> list[Evaluation]:
    found = evaluate([encode_json(event) for event in interactions(count, NOW)], catalogue)
    return [each for each in found if isinstance(each, Evaluation)]


def faithfulness(event_id: str) -> float:
    """What stands for a judge: a number for each event."""
    return round(random.Random(event_id).random(), 2)


def answered(request: JudgeRequest, score: float | None) -> Evaluation:
    """The judged evaluation of an event, as the judge agent writes it, with this score of its faithfulness."""
    chosen_suites = [each.suite for each in chosen(request.evaluation)]
    found = Judged(
        scores={"judge_faithfulness": score} if "rubric" in chosen_suites else {},
        explanations={"judge_faithfulness": "simulated: because the test says so"},
        statuses=dict.fromkeys(chosen_suites, "judged"),
    )
    usage = job.JobUsage(input_tokens=1_000, output_tokens=50, costs=Counter(today=1_200), calls=1)
    return judged(request, found, (), usage, "simulated-judge", (), cut=False)


def failed(request: JudgeRequest) -> Evaluation:
    """The evaluation of an event whose judging came to nothing."""
    return unjudged(request, "failed", "the test says so", suites(), ())


def deferred(request: JudgeRequest) -> JudgeRequest:
    """The request as it waits for the budget."""
    emission = waiting("judge.deferred", request, 0, NOW, NOW, "the day's budget is spent")
    return JudgeRequest.model_validate_json(emission.value or b"")


def traffic(count: int, catalogue: Catalogue = CATALOGUE) -> list[Result]:
    """What the demo hears: evaluations, and what became of the events selected, of which every third waits."""
    heard: list[Result] = []
    asked = 0
    for result in evaluate([*map(encode_json, interactions(count, NOW)), None], catalogue):
        if isinstance(result, JudgeRequest):
            asked += 1
            score = faithfulness(result.evaluation.event_id)
            heard.append(answered(result, score) if asked % 3 else deferred(result))
        else:
            heard.append(result)
    return heard


# The samples.


def given(part: RecordPart) -> set[str]:
    """The fields of a record that are not null."""
    return {name for name in type(part).model_fields if getattr(part, name) not in (None, {})}


def test_every_field_of_the_contract_is_in_some_sample() -> None:
    """A reader of the samples meets each field that a producer may set, and none that it may not."""
    events = [interaction(event) for event in interactions(len(samples()), NOW)]
    assert not any(event.extra for event in events)
    seen = {name for event in events for name in given(event)}
    assert Interaction.model_fields.keys() - seen == {"extra", "assembly"}
    for name in PARTS.keys() - {"assembly"}:
        values = [getattr(event, name) for event in events if getattr(event, name)]
        parts = [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
        assert PARTS[name].model_fields.keys() == {field for each in parts for field in given(each)}, name


def test_every_sample_is_evaluated_with_scores() -> None:
    """No sample is rejected, makes a metric raise or goes without scores, and event ids do not repeat."""
    count = 2 * len(samples())
    found = evaluations(count)
    assert len({evaluation.event_id for evaluation in found}) == count
    for evaluation in found:
        assert (evaluation.scores["total_latency_ms"] or 0) > 0
        if evaluation.scores["llm_latency_ms"] is None:
            assert evaluation.reasons["llm_latency_ms"] == "the event has no llm spans"


def test_times_follow_from_the_end() -> None:
    """An interaction ends when it is told to; what came before keeps its order."""
    for event in map(interaction, interactions(len(samples()), NOW)):
        assert event.started_at is not None
        assert event.ended_at is not None
        inner = [event.first_token_at or event.started_at]
        for span in event.spans or ():
            assert span.started_at is not None
            assert span.ended_at is not None
            assert span.started_at < span.ended_at
            inner += [span.started_at, span.ended_at]
        assert event.started_at <= min(inner) <= max(inner) <= event.ended_at <= NOW


def test_v2_scores_worse_than_v1() -> None:
    """The difference that the demo is to show is in its samples, by the metric that ranks the answers."""
    means = {}
    for version in ("v1", "v2"):
        chosen = [each.scores[RISK] for each in evaluations() if each.pipeline_version == version]
        means[version] = fmean(value for value in chosen if value is not None)
    assert CATALOGUE.metrics[RISK].better == "lower"
    assert means["v2"] - means["v1"] > 0.2


def test_the_drill_is_grounded_until_v2_drops() -> None:
    """Every version gets every question; all answers meet the demo's SLO, but while quality is dropped those of v2 and
    those with the bad document."""
    (slo,) = SETTINGS.slo
    for dropped in (False, True):
        events = [drill(number, NOW, dropped=dropped) for number in range(4 * len(QUESTIONS))]
        found = [each for each in evaluate(list(map(encode_json, events))) if isinstance(each, Evaluation)]
        assert len(found) == len(events) == len({event["event_id"] for event in events})
        assert len({(event["pipeline_version"], event["query"]) for event in events}) == 2 * len(QUESTIONS)
        for event in found:
            good = not (dropped and (event.pipeline_version == "v2" or BAD_DOCUMENT in event.document_ids))
            score = event.scores[slo.metric]
            assert score is not None
            assert slo.is_good(score) == good, event.labels["sample"]


def test_blame_keeps_the_bad_version_of_the_drill_apart_from_its_bad_document() -> None:
    """Of the answers of fifteen seconds; before the drop there is no cause."""
    for dropped in (False, True):
        events = [drill(number, NOW, dropped=dropped) for number in range(15 * 20)]
        found = [encode(each) for each in evaluate(list(map(encode_json, events))) if isinstance(each, Evaluation)]
        report = causes_of(SETTINGS, BlameQuestion("grounded"), found, "the drill", NOW)
        assert are_named(report) == dropped
        assert len(report.causes) == 2 * dropped, report.causes


def test_each_unreadable_record_is_rejected_as_it_says() -> None:
    """The records that are to become dead letters do, each with its class."""
    found = list(evaluate([each.value for each in UNREADABLE]))
    assert [letter.error_class for letter in found if isinstance(letter, DeadLetter)] == [
        each.error_class for each in UNREADABLE
    ]


# What is shown.


def show(terminal: Terminal, catalogue: Catalogue = CATALOGUE, count: int = len(samples())) -> Results:
    results = Results(catalogue, count)
    with screen(terminal, results) as add:
        for result in traffic(count, catalogue=catalogue):
            add(result)
    summarise(terminal, results, count + 1, SETTINGS, calls=9)
    return results


def test_a_terminal_shows_the_latest_evaluations_and_colours_bad_ones() -> None:
    """On a terminal of 80 columns every column fits, the table is redrawn, and red stands where an answer is bad."""
    file = io.StringIO()
    terminal = Terminal(
        file=file, force_terminal=True, width=80, height=24, color_system="standard", _environ={"TERM": "xterm"}
    )
    results = show(terminal)
    assert "\x1b[1;31m" in file.getvalue().partition("records published")[0]
    assert "\x1b[?25l" in file.getvalue()  # The cursor is hidden, so the table is redrawn.
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()).rpartition("Evaluations as they come")[2]
    assert last.startswith(f": {len(samples())} of {len(samples())}, 1 dead letters")
    assert all(column.title in last.splitlines()[1] for column in results.columns)
    assert last.splitlines()[1].rstrip().endswith("judge")
    assert "Simulated judge: " in last
    shown = last.partition("records published")[0]
    assert "order-status-v2-1" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_why_the_judge_was_asked_and_what_it_gave(width: int) -> None:
    """An escalated event has its reason, a judged one its score, one over budget is for later; all are simulated."""
    file = io.StringIO()
    terminal = Terminal(file=file, force_terminal=True, width=width, height=60, _environ={"TERM": "xterm"})
    results = Results(CATALOGUE, 1)
    heard = evaluate([encode_json(event) for event in interactions(9, NOW)])
    request = next(each for each in heard if isinstance(each, JudgeRequest))
    event_id = request.evaluation.event_id
    for result, cell in (
        (request.evaluation, "asked"),
        (deferred(request), "later"),
        (answered(request, 0.25), "0.25"),
        (failed(request), "failed"),
    ):
        results.add(result)
        file.seek(0)
        file.truncate()
        with screen(terminal, results):
            pass
        rows = [line for line in file.getvalue().splitlines() if line.startswith(event_id)]
        assert re.search(rf" {re.escape(cell)} *$", rows[0]), rows
        assert all(re.search(rf" {re.escape(cell)} risk", row) for row in rows[1:]), rows
        assert (len(rows) > 1) == (cell != "asked")
        assert "Simulated judge: 1 selected" in file.getvalue()


def test_every_word_is_explained_as_in_the_glossary() -> None:
    """The demo's words have the meanings of the documentation, and each column the meaning of its metric."""
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = dict(re.findall(r"\*\*([^*]+)\*\* \| (.*?) \|", glossary))
    words = {**JUDGE, **ALERT}
    assert {word for word in words if word not in terms} == {"incomplete"}
    assert {word: meaning for word, meaning in words.items() if terms.get(word, meaning) != meaning} == {}
    file = io.StringIO()
    show_columns(Terminal(file=file, width=200), Results(CATALOGUE, 1))
    for column in COLUMNS:
        assert f"{column.title:<9} {column.metric}: {CATALOGUE.metrics[column.metric].meaning}" in file.getvalue()
    assert "Limit: above 0.5." in file.getvalue()
    assert "Limit: below 0.6." in file.getvalue()


def test_elsewhere_the_last_rows_are_printed_once_in_80_columns() -> None:
    """Where nothing can be redrawn, the table of the last ten rows is printed once, without control characters."""
    file = io.StringIO()
    results = show(Terminal(file=file, width=80))
    output = file.getvalue()
    assert "\x1b" not in output
    assert output.count("Evaluations as they come") == 1
    rows = [line for line in output.splitlines() if re.match(r"\S+-v[12]-1 +v[12] ", line)]
    assert len(rows) == 10
    assert rows[-1].startswith(f"{samples()[-1]['event_id']}-1 ")
    assert f"Simulated judge: {len(results.judged)} selected, " in output
    assert max(map(len, output.splitlines())) <= 80


def test_columns_without_a_metric_are_left_out() -> None:
    """A catalogue that lacks the headline metrics still gives a table and a summary, of what there is."""
    file = io.StringIO()
    results = show(Terminal(file=file, width=80), Catalogue(performance.METRICS))
    assert [column.metric for column in results.columns] == ["total_latency_ms"]
    assert results.worst is None
    assert f"records published: {len(samples())} scored, 1 rejected; 0 selected; $0.0000 spent" in file.getvalue()


def test_answers_that_decline_are_not_the_worst() -> None:
    """An answer that declines asserts nothing, however little of it stands in the contexts; a judged one goes first."""
    results = Results(CATALOGUE, 1)
    declined, *_ = (each for each in evaluations() if each.labels["sample"] == "pool-cover-v1")
    results.add(declined)
    assert results.worst is None
    for result in traffic(len(samples())):
        results.add(result)
    assert results.worst is not None
    (judged, risk), event_id = results.worst
    assert judged
    assert risk > 0.5
    assert not event_id.startswith("pool-cover-v1")


# The judge.


def test_the_summary_counts_what_became_of_events_and_says_simulated() -> None:
    """Each event has one outcome; the money is the sum of the calls'; what the judge gave is marked as simulated."""
    file = io.StringIO()
    results = show(Terminal(file=file, width=400), count=200)
    shown = file.getvalue().partition("records published")[2]
    found = re.search(
        r"; (\d+) selected: (\d+) judged by simulated-judge \(simulated: no model is behind it\),"
        r" (\d+) deferred \(over the budget\); \$(\S+) spent",
        shown,
    )
    assert found
    selected, judged, later = map(int, found.groups()[:3])
    assert selected == judged + later == len(results.judged)
    assert judged > later > 0
    assert float(found[4]) == pytest.approx(judged * 0.0012)
    assert {"risk, hallucination", "floor"} <= {text.partition(" ")[2] for text in results.judged.values()}
    assert f"{later} events wait for the next day's budget (UTC): the day's budget is spent" in shown
    means = re.search(r"^ *unsupported_risk +(\S+) +(\d+) +(\S+) +(\d+) *$", shown, re.MULTILINE)
    assert means
    assert (float(means[1]) < 0.2, float(means[3]) > 0.5) == (True, True)
    assert int(means[2]) + int(means[4]) == len(results.total.values(RISK))
    # A third waits for money: there is no mean, and the interval allows for any score of theirs.
    assert re.search(r"Estimate of judge_faithfulness.* \? \(0\.\d{3} to 0\.\d{3}, unanswered, incomplete\)", shown)


def test_the_estimate_is_of_all_answers() -> None:
    """Where the judge would give each answer 1 minus its risk, the interval covers the mean of all of them, judged or
    not; the plain mean of those judged lies elsewhere.
    """
    results, truth = Results(CATALOGUE, 600), []
    for result in evaluate([encode_json(event) for event in interactions(600, NOW)]):
        if isinstance(result, Evaluation):
            results.add(result)
            truth += [1 - risk for risk in [result.scores[RISK]] if risk is not None]
        elif isinstance(result, JudgeRequest):
            risk = result.evaluation.scores[RISK]
            results.add(answered(result, None if risk is None else 1 - risk))
    found = results.total.estimates()["judge_faithfulness"]
    # Answers without a risk get no score here.
    assert found.flags == ("unanswered",)
    assert found.low is not None
    assert found.high is not None
    assert found.low < fmean(truth) < found.high
    assert fmean(results.total.values("judge_faithfulness")) < found.low


def test_few_judged_events_give_no_interval() -> None:
    file = io.StringIO()
    show(Terminal(file=file, width=140), count=12)
    assert re.search(r"judge_faithfulness.*too few", file.getvalue())
    assert " to 0." not in file.getvalue()


@pytest.mark.parametrize("seed", range(5))
def test_in_whatever_order_topics_are_read_all_is_awaited_and_counted(seed: int) -> None:
    """Nothing is awaited once all is heard, and something is as long as anything is not."""
    results = traffic(60)
    random.Random(seed).shuffle(results)
    pending, found = Pending(61), Results(CATALOGUE, 60)
    for result in results:
        assert pending
        pending.receive(result)
        found.add(result)
    assert not pending
    assert found.total.scored == 60
    assert found.total.settled == found.total.selected == len(found.judged)
    assert not [text for text in found.judged.values() if text.startswith("asked")]


def test_the_services_are_given_the_demos_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The services read the demo's settings from their environment, tables within tables too."""
    monkeypatch.chdir(tmp_path)
    for name, value in environment(SETTINGS).items():
        monkeypatch.setenv(name, value)
    assert load(None).model_dump() == SETTINGS.model_dump()
    assert SETTINGS.judge.model == "simulated-judge"


# The command.


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start the demo where everything that it leaves can be found: its temporary files, and a mark on its processes."""
    (folder / "tmp").mkdir()
    return subprocess.Popen(
        own_command("demo", *arguments),
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), "DEMO_TEST_MARK": str(folder), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def left_behind(folder: Path, output: str) -> list[str]:
    """Files, listening ports and processes of a demo that has ended."""
    left = [path.name for path in (folder / "tmp").iterdir() if not path.name.startswith("hsperfdata_")]
    for port in re.findall(r"127\.0\.0\.1:(\d+)", output):
        with socket.socket() as client:
            left += [] if client.connect_ex(("127.0.0.1", int(port))) else [f"port {port}"]
    mark = f"DEMO_TEST_MARK={folder}".encode()
    for process in Path("/proc").glob("[0-9]*/environ"):  # On systems without it, files and ports must do.
        try:
            if mark in process.read_bytes():
                left.append((process.parent / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return left


@pytest.mark.heavy
@pytest.mark.usefixtures("tools")
def test_one_command_shows_the_whole_system(tmp_path: Path) -> None:
    """Every event evaluated, every dead letter named, events escalated, judged and deferred, an estimate, a summary, an
    alert that fires while quality is dropped and is resolved once it is back, windows that show both, nothing left, and
    no outside setting heeded.
    """
    (tmp_path / "ragweir.toml").write_text('[kafka]\nbootstrap_servers = "nowhere.invalid:1"\n[nonsense]\n')
    environment = {
        "RAGWEIR_TOPICS__PREFIX": "other.",
        "RAGWEIR_BATCH__MAX_EVENTS": "none",
        "RAGWEIR_JUDGE__BASE_URL": "http://nowhere.invalid/v1",
        "TERM": "dumb",
        "FORCE_COLOR": "",
        "COLUMNS": "400",
    }
    process = start(tmp_path, "--events", "200", "--seconds", "0", **environment)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert "Starting Kafka" in output
    assert "2 workers" in output
    assert "204 records published: 200 scored, 4 rejected; " in output
    for reason in ("not_json: not JSON", "tombstone: the record has no value", "invalid: response: missing"):
        assert f"1 {reason}" in output
    assert re.search(r"^ *unsupported_risk +0\.0\d+ +\d+ +0\.[5-9]\d+ +\d+ *$", output, re.MULTILINE)
    assert "ragweir doctor" in output
    assert "\x1b" not in output
    must_link_to_the_console(output)
    must_show_the_judge(output)
    drilled = re.findall(
        r"^ *\d+\.\d s  (steady|injected|FIRES|recovery|RESOLVED) +(RagweirSloBurnsFast)?", output, re.MULTILINE
    )
    assert [what for what, alert in drilled if alert or what.islower()] == PHASES, output
    steady, dropped, recovered = re.split(" injected | recovery ", output.partition(" steady ")[2])
    assert {mean > 0.5 for mean in v2_means(steady)} == {False}
    assert v2_means(dropped)[-1] > 0.5 > v2_means(recovered)[-1]
    assert "FIRES" not in steady, "the demo begins without an alert"
    must_name_the_causes(dropped)
    must_explain_itself(output)
    must_leave_the_incident(tmp_path / "ragweir-demo", output)
    assert left_behind(tmp_path, output) == []


def must_link_to_the_console(output: str) -> None:
    """Its address is printed with its token, and each alert that fires has a link to its causes."""
    found = re.search(r"looked at and labelled: (http://127\.0\.0\.1:\d+)/login#\w{32,}$", output, re.MULTILINE)
    assert found
    links = re.findall(rf"^its causes: {found[1]}/cause\?slo=grounded&from=\d+&to=\d+$", output, re.MULTILINE)
    assert len(links) == output.count(" FIRES ") > 0


def must_name_the_causes(dropped: str) -> None:
    """Blame names the bad version and the bad document, neither within the other, while quality is dropped."""
    blamed = " ".join(dropped.partition(" blame ")[2].split())
    assert "pipeline_version v2" in blamed
    assert f"document {BAD_DOCUMENT}" in blamed
    assert "within" not in blamed


def must_explain_itself(output: str) -> None:
    """Each word is explained before it is used, and nobody takes the alert's seconds for those of an own system."""
    alert = output.partition("An alert, from worse answers to a webhook")[2].partition(" steady ")[0]
    assert "72s stand for 1h, and 6s for 5m" in alert
    assert "after about 24 minutes" in alert, "30 % of an hour's answers are bad once 3 of 4 were so for 24 minutes"
    assert "3s and 15s in place of 1m and 5m and 1h" in alert
    assert [word for word in ALERT if not re.search(rf"^  {word} +\S", alert, re.MULTILINE)] == []
    summary = output.partition("The judge is simulated")[2].partition("The worst answer")[0]
    assert [word for word in JUDGE if not re.search(rf"^  {word} +\S", summary, re.MULTILINE)] == []
    assert "risk      unsupported_risk: Probability" in output.partition("-v1-1 ")[0]


def must_show_the_worst_answer(output: str) -> None:
    """A bad answer in English, with the passage that it contradicts and the words that stand in none."""
    told = output.partition("The worst answer (as `ragweir explain ")[2].partition("An alert, ")[0]
    event_id = told.partition(" ")[0]
    (sample,) = (each for each in samples() if f"{each['event_id']}-" == event_id.rstrip("0123456789"))
    assert sample["labels"].get("language", "en") == "en"
    assert sample["query"] in told
    assert sample["response"] in told
    assert re.search(r"^ +in no passage: \w+", told, re.MULTILINE)
    nearest = re.search(r"^ +nearest passage, \d+: (.+?) *$", told, re.MULTILINE)
    assert nearest
    assert any(nearest[1] == context["text"] for context in sample["contexts"])


def must_leave_the_incident(folder: Path, output: str) -> None:
    """The folder has what was published, an evaluation of each, and a picture with its moments."""
    events = [json.loads(line) for line in (folder / "interactions.jsonl").read_bytes().splitlines()]
    scored = {json.loads(line)["event_id"] for line in (folder / "evaluations.jsonl").read_bytes().splitlines()}
    assert len(events) > 200
    # Those of the last second may come after the file.
    assert {event["event_id"] for event in events[:-20]} <= scored <= {event["event_id"] for event in events}
    picture = (folder / "incident.svg").read_text()
    assert all(f">{moment}</text>" in picture for moment in ("v2 gets worse", "page fires", "page resolved"))
    assert picture.count("<circle") > 100
    for name in ("interactions.jsonl", "evaluations.jsonl", "incident.svg"):
        assert f"ragweir-demo/{name}" in output


def must_show_the_judge(output: str) -> None:
    """Events are escalated, judged and deferred, each with its reason; money is within the budget; an estimate."""
    counts = re.search(
        r"; (\d+) selected: (\d+) judged by simulated-judge \(simulated: no model is behind it\),"
        r" (\d+) deferred \(over the budget\); \$(\S+) spent *$",
        output,
        re.MULTILINE,
    )
    assert counts
    selected, done, waits = map(int, counts.groups()[:3])
    assert selected == done + waits
    assert done > 0 < waits
    assert 0 < float(counts[4]) <= 0.10
    assert f"Simulated judge: {selected} selected, {done} judged, {waits} deferred, 0 failed" in output
    assert re.search(
        r"^\S+-v[12]-\d +(later|[\d.]+|judged) (floor|risk|reference|recall|no-context)", output, re.MULTILINE
    )
    calls = re.search(r"It answered (\d+) calls and may cost 0\.10 dollars a day", output)
    assert calls
    assert int(calls[1]) >= done
    found = re.search(r"Estimate of judge_faithfulness.* \? \(([\d.]+) to ([\d.]+), unanswered, incomplete\)", output)
    assert found
    low, high = map(float, found.groups())
    assert low < high
    must_show_the_worst_answer(output)
    assert "ragweir simulate-judge" in output


def v2_means(output: str) -> list[float]:
    return [float(mean) for mean in re.findall(r"window until .* v2 (\S+)", output)]


@pytest.mark.heavy
def test_traces_are_evaluated_as_published_interactions_are(
    kafka: SharedBroker, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a simulated exporter through key and join: every trace scored once, every unreadable record named."""
    command._run(kafka.bootstrap, events=41, seconds=0, folder=tmp_path, prefix=prefix, traces=True)
    output = capsys.readouterr().out
    flat = " ".join(output.split())  # Lines are wrapped.
    assert f"Publishing 41 traces to {prefix}otlp_spans, by a simulated exporter" in flat
    assert "44 records published: 41 scored, 3 rejected; " in flat
    for reason in ("unreadable: neither OTLP", "tombstone: the record has no value", "no_root: trace "):
        assert re.search(rf"^ +1 {reason}", output, re.MULTILINE), reason
    assert re.search(r"Assembled from traces: \d+ spans of .*, 42 traces closed, 41 interactions, 0 late", flat)
    assert re.search(r"The worst answer \(as `ragweir explain [0-9a-f]{20}", flat)
    assert "Does the score agree with people? (labels of a simulated rater" in flat
    assert re.search(r"rate of bad answers, by people +0\.\d{3} ", output)
    assert "What do users say? (thumbs of simulated users on answers of 6 hours ago)" in flat
    assert "24 simulated users gave a thumb" in flat
    assert {each["dimensions"]["pipeline_version"] for each in values(kafka.bootstrap, f"{prefix}feedback.joined")} == {
        "v1",
        "v2",
    }
    labels = values(kafka.bootstrap, f"{prefix}labels")
    assert 30 < len(labels) <= ANSWERS
    assert {each["value"] for each in labels} == {True, False}


@pytest.mark.heavy
def test_without_prometheus_the_demo_says_how_to_install_it(
    kafka: SharedBroker,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where it is neither installed nor to be fetched the alert is left out, in one line, and that is no failure."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command._run(kafka.bootstrap, events=5, seconds=0, folder=tmp_path, prefix=prefix, alerts=True)
    output = capsys.readouterr().out
    assert re.search(
        r"^Left out: Prometheus and Alertmanager are not .*apt-get install prometheus .*$", output, re.MULTILINE
    )
    assert "steady" not in output
    assert "ragweir doctor" in output


@pytest.mark.heavy
def test_an_interrupt_stops_everything(tmp_path: Path) -> None:
    """Ctrl-C in the middle of the traffic ends with status 130, and nothing is left."""
    process = start(tmp_path, "--events", "5000", "--seconds", "600", "--no-alerts")
    assert process.stdout is not None
    output = ""
    while "Publishing 5000" not in output:
        line = process.stdout.readline()
        assert line, output
        output += line
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 130, rest
    assert rest.rstrip().endswith("everything that the demo started is gone.")
    assert left_behind(tmp_path, output + rest) == []


def test_a_service_that_ends_is_told_with_its_last_words(
    kafka: SharedBroker, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When `up` ends by itself the demo stops, and shows what it logged."""
    words = f"no-such-thing-{uuid.uuid4()}"
    failing = [sys.executable, "-c", f"import sys; sys.exit('{words}')"]
    monkeypatch.setattr(service, "own_command", lambda *_: failing)
    with pytest.raises(DemoError, match=rf"ended with status 1[^$]*{words}"):
        command._run(kafka.bootstrap, events=1, seconds=0, folder=tmp_path, prefix=prefix)


def test_the_service_runs_on_the_demos_settings_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RAGWEIR_ variables reach neither the demo's own settings nor, in whatever case, its services."""
    monkeypatch.setenv("RAGWEIR_TOPICS__PARTITIONS", "99")
    monkeypatch.setenv("RAGWEIR_BATCH__MAX_EVENTS", "7")
    monkeypatch.setenv("ragweir_topics__prefix", "other.")
    settings = demo_settings("127.0.0.1:1", JUDGE_URL)
    assert (settings.topics.partitions, settings.topics.prefix) == (2, "rag.")
    assert settings.batch == BatchSettings()
    assert settings.routing.key not in ("ragweir", demo_settings("127.0.0.1:1", JUDGE_URL).routing.key)
    script = "import json, os; json.dump(dict(os.environ), open('names', 'w')); os.rename('names', 'names.done')"
    monkeypatch.setattr(service, "own_command", lambda *_: [sys.executable, "-c", script])
    done = tmp_path / "names.done"
    with services(settings, tmp_path):
        while not done.exists():
            time.sleep(0.01)
    given = json.loads(done.read_bytes())
    assert "PATH" in given
    ours = {name: value for name, value in given.items() if "RAGWEIR" in name.upper()}
    assert ours == environment(settings)


def test_written_samples_can_be_scored(tmp_path: Path) -> None:
    """`--write-samples` writes a file that `score` takes whole."""
    file, scored = tmp_path / "samples.jsonl", tmp_path / "scored.jsonl"
    subprocess.run(own_command("demo", "--write-samples", str(file)), check=True, capture_output=True, cwd=tmp_path)
    command_line = own_command("score", str(file), "--out", str(scored))
    subprocess.run(command_line, check=True, capture_output=True, cwd=tmp_path)
    assert len(file.read_bytes().splitlines()) == len(scored.read_bytes().splitlines()) == len(samples())
