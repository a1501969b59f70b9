"""The console on a real Kafka: killed while it reads, its pages have the numbers of the commands."""

import json
import os
import re
import signal
from html import escape
from pathlib import Path
from typing import Any

import orjson
import pytest
from browsers import console_of, logged_in
from commands import ragweir, told
from confluent_kafka import Producer
from conftest import SharedBroker, produce, read_to_end
from services import Services, eventually, quick
from starlette.testclient import TestClient

from bench.interactions import interactions
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.from_topics import content_of_topics
from ragweir.streams.console.pages.routes import page_routes
from ragweir.streams.console.review_desk import ReviewDesk
from ragweir.streams.console.review_queues import topic_queue
from ragweir.streams.console.store.answer_query import AnswerQuery
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.runtime.kafka.client_messages import record_of
from ragweir.streams.services.evaluate.agent import EvaluateAgent
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import Settings

EVENTS, LABELS = 240, 20
SLOS = [
    {"name": "supported", "metric": "context_support", "at_least": 0.99, "objective": 0.5},
    {"name": "faithful", "metric": "judge_faithfulness", "at_least": 0.5, "objective": 0.5},
]


def judged(line: dict[str, Any], number: int) -> dict[str, Any]:
    suite = {"suite": "rubric", "status": "judged", "probability": 0.5 if number % 3 else 1.0, "because": []}
    own = {"scores": line["scores"] | {"judge_faithfulness": number % 4 / 3}, "decision": {"suites": [suite]}}
    return line | {"stage": "judged"} | own


def send(kafka: SharedBroker, topic: str, lines: list[dict[str, Any]]) -> None:
    """Append evaluations by their key, as evaluate does."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})
    for line in lines:
        producer.produce(topic, orjson.dumps(line), line["event_id"].encode())
    assert not producer.flush(30)


def evaluations(kafka: SharedBroker, settings: Settings) -> list[dict[str, Any]]:
    """Evaluations of interactions that are in Kafka, and judged ones of every fifth event after them."""
    produce(kafka.bootstrap, settings.input_topic, interactions(EVENTS))
    agent = EvaluateAgent(evaluate_config(settings, settings.input_topic))
    outcome = agent.handle([record_of(each) for each in read_to_end(kafka.bootstrap, settings.input_topic)])
    lines = [orjson.loads(each.value) for each in outcome.emissions if each.topic == "evaluations" and each.value]
    return [*lines, *(judged(line, number) for number, line in enumerate(lines[::5]))]


def command(kafka: SharedBroker, settings: Settings, *words: str, **variables: str) -> bytes:
    """What a command prints."""
    shared = ["--bootstrap-servers", kafka.bootstrap, "--prefix", settings.topics.prefix]
    done = ragweir(*shared, *words, RAGWEIR_SLO=json.dumps(SLOS), **variables)
    assert done.returncode == 0, told(done)
    return done.stdout


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.heavy)])
def test_killed_the_pages_have_the_numbers_of_the_commands(
    kafka: SharedBroker, prefix: str, tmp_path: Path, services: Services, kills: int
) -> None:
    folder = tmp_path / "console"
    settings = Settings.model_validate(
        {
            "kafka": {"bootstrap_servers": kafka.bootstrap},
            "topics": {"prefix": prefix},
            "console": {"folder": folder},
            "slo": SLOS,
        }
    )
    created = {"RAGWEIR_TOPICS__PARTITIONS": "2", "RAGWEIR_TOPICS__REPLICATION_FACTOR": "1"}
    made = ragweir("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "topics", "create", **created)
    assert made.returncode == 0, told(made)
    lines, topic = evaluations(kafka, settings), settings.output_topic("evaluations")
    more = quick(kafka.bootstrap, prefix, console__folder=str(folder), console__port=0, slo=json.dumps(SLOS))
    service = services.start("console", variables=more)
    worker = service.pid(0)
    with content_of_topics(settings) as content:
        send(kafka, topic, lines[:50])
        eventually(lambda: content.store.state().answers >= 50, "the first answers are in the store")
        desk = drawn(kafka, settings, content) if kills > 1 else None
        part = (len(lines) - 50) // (kills + 1)
        for kill in range(kills):
            send(kafka, topic, lines[50 + kill * part : 50 + (kill + 1) * part])
            reject(kafka, settings, kill)
            if desk is not None and kill == kills // 2:
                label(desk, LABELS // 2)
            os.kill(worker, signal.SIGKILL)
            before, worker = worker, eventually(lambda old=worker: other(service.pid(0), old), "it starts again")
            assert before != worker
        send(kafka, topic, lines[50 + kills * part :])
        if desk is not None:
            label(desk, LABELS - LABELS // 2)
        total = len(lines) - EVENTS
        eventually(
            lambda: content.store.search(AnswerQuery(judged=True)).total == total, "all judged answers are there"
        )
        assert content.store.search(AnswerQuery()).total == content.store.state().answers == EVENTS
        file = tmp_path / "rehearsed.json"
        command(kafka, settings, "slo", "rehearse", "live", "--json", str(file))
        compared_with_rehearsal(content.store, json.loads(file.read_bytes()))
        eventually(lambda: content.store.state().letters == 3 * kills, "all dead letters are there")
        browser = logged_in(console_of(page_routes(content), folder=str(folder)))
        compared_with_the_topic(browser, lines)
        if desk is not None:
            eventually(lambda: len(content.store.people_labels().labels) == LABELS, "all labels are there")
            compared_with_report(kafka, settings, content, browser)
            listed = command(kafka, settings, "dead-letter", "list").decode()
            compared_with_listing(listed, browser.get("/dead-letters").text)
            compared_with_comparison(compared(kafka, settings, lines), browser.get("/compare/live").text)
        for line in (lines[0], lines[-3]):
            story = command(kafka, settings, "explain", line["event_id"], "--text", "--json")
            compared_with_explain(content, browser, json.loads(story))
        (supported,) = (each for each in json.loads(file.read_bytes())["slos"] if each["slo"]["name"] == "supported")
        said = f"{supported['bad']:,} of {supported['events']:,} answers are bad: context_support below 0.99"
        causes = "/cause?slo=supported&from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z"
        eventually(lambda: said in browser.get(causes).text, "the page of causes counts as the rehearsal does")
        assert browser.get("/").status_code == browser.get("/answers?sort=context_support").status_code == 200
    assert service.sample("ragweir_console_store_bytes") > 0


def drawn(kafka: SharedBroker, settings: Settings, content: ConsoleContent) -> ReviewDesk:
    """The desk at which people label the answers of a draw."""
    command(kafka, settings, "labels", "draw", "--count", str(LABELS), RAGWEIR_LABELS__RANGE="9999d")
    return ReviewDesk(settings, lambda: topic_queue(settings, content.texts), content.seen.has)


def label(desk: ReviewDesk, number: int) -> None:
    """Label some of them, each third one as bad."""
    for place in range(number):
        shown = desk.show("Ada")
        assert shown is not None
        desk.answer("Ada", shown.mark, "y" if place % 3 else "n")


def reject(kafka: SharedBroker, settings: Settings, kill: int) -> None:
    """Write three dead letters of two reasons."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(3):
        details = DeadLetter(
            error_class="not_json" if number else "too_large",
            message=f"not JSON at {number}" if number else "has 2,000,000 bytes",
            source_topic=settings.input_topic,
            source_partition=number % 2,
            source_offset=kill,
        )
        headers = [*details.headers(), ("ce_source", b"ragweir/evaluate")]
        producer.produce(settings.output_topic("dead-letter"), b"{", b"k", headers=headers)
    assert not producer.flush(30)


def compared(kafka: SharedBroker, settings: Settings, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """A comparison of the topic with evaluations that are worse, which is written where the console looks."""
    folder = settings.console.folder / "compare"
    folder.mkdir()
    (folder / "other.jsonl").write_bytes(b"\n".join(orjson.dumps(worse(line)) for line in lines))
    words = ("live", str(folder / "other.jsonl"), "--json", str(folder / "live.json"))
    command(kafka, settings, "compare", *words)
    found: dict[str, Any] = json.loads((folder / "live.json").read_bytes())
    return found


def worse(line: dict[str, Any]) -> dict[str, Any]:
    scores = line["scores"]
    return line | {"scores": scores | {"context_support": (scores["context_support"] or 0) / 2}}


def compared_with_the_topic(browser: TestClient, lines: list[dict[str, Any]]) -> None:
    """The download has each event once, as its newest evaluation has it."""
    newest = {line["event_id"]: line["scores"] for line in lines}
    answers = [orjson.loads(line) for line in browser.get("/answers.jsonl").text.splitlines()]
    assert len(answers) == len(newest)
    known = {
        each["event_id"]: {name: value for name, value in each["scores"].items() if value is not None}
        for each in answers
    }
    for event_id, scores in newest.items():
        assert known[event_id] == {name: value for name, value in scores.items() if value is not None}


def compared_with_report(kafka: SharedBroker, settings: Settings, content: ConsoleContent, browser: TestClient) -> None:
    printed = orjson.loads(command(kafka, settings, "labels", "report", "--json"))
    shown = orjson.loads(orjson.dumps(content.agreement().data(), option=orjson.OPT_UTC_Z))
    assert printed == shown
    html = browser.get("/agreement").text
    assert printed["questions"]
    for table in printed["questions"]:
        assert table["labels"] == LABELS
        for name in ("tpr", "tnr", "precision", "kappa", "people_rate"):
            if (number := table[name])["value"] is None:
                assert number["reason"] in html
            else:
                limits = f"{number['low']:.2f} to {number['high']:.2f}"
                assert f'>{number["value"]:.2f}</td><td class="figure">{limits}</td>' in html, name


def compared_with_listing(printed: str, html: str) -> None:
    reasons = re.findall(r"^([\d,]+) (\w+) of evaluate: (.+)$", printed, re.MULTILINE)
    sources = re.findall(r"; read in (.+)$", printed, re.MULTILINE)
    assert len(reasons) == len(sources) == 2
    shown = re.findall(r"<h2>([\d,]+) (\w+)</h2>\n<p[^>]*>(.*)</p>\n.*read in <bdi>(.*)</bdi> ([\d,]+)</p>", html)
    assert [each[:3] for each in shown] == [tuple(map(escape, each)) for each in reasons]
    assert [f"{topic} {number}" for *_, topic, number in shown] == sources
    assert f"{sum(int(each[0]) for each in reasons)} dead letters</h1>" in html


def compared_with_comparison(data: dict[str, Any], html: str) -> None:
    moved = 0
    for metric in data["metrics"]:
        found = metric["whole"]["difference"]
        if found["rose"] or found["fell"]:
            moved += 1
            limits = f"{found['mean']:+.3g} ({found['low']:+.3g} to {found['high']:+.3g})"
            assert re.search(rf">{metric['metric']}</th>[^@]*?{re.escape(limits)}", html), metric["metric"]
    assert moved
    assert f"{data['pairs']:,} events on both sides" in html


def other(pid: int, old: int) -> int:
    return pid if pid != old else 0


def compared_with_rehearsal(store: AnswerStore, rehearsed: dict[str, Any]) -> None:
    state = store.state()
    assert state.first is not None
    assert state.last is not None
    counts = store.applications(state.first, state.last.replace(year=2030))
    for slo in rehearsed["slos"]:
        name = slo["slo"]["name"]
        sums = [each.slos[name] for each in counts if name in each.slos]
        assert (sum(each.events for each in sums), sum(each.bad for each in sums)) == (slo["events"], slo["bad"])
        assert store.search(AnswerQuery(slo=name)).total == slo["bad"] > 0


def compared_with_explain(content: ConsoleContent, browser: TestClient, story: dict[str, Any]) -> None:
    stored = content.store.found(story["event_id"])
    assert stored is not None
    assert "{}/{}/{}".format(content.settings.output_topic("evaluations"), *stored.at) == story["found_at"]
    found = content.reader.evaluation(stored.at, stored.event_id)
    assert found is not None
    assert found.scores == story["evaluation"]["scores"]
    original = content.reader.original(found)
    assert original.interaction is not None
    assert original.interaction.response == story["text"]["response"]
    page = browser.get(f"/answers/{stored.event_id}")
    assert page.status_code == 200
    assert story["text"]["response"].split(". ")[0] in page.text
    assert content.reader.evaluation((0, 10**9), stored.event_id) is None
    assert found.source is not None
    gone = found.model_copy(update={"source": found.source.model_copy(update={"offset": 10**9})})
    assert content.reader.original(gone).interaction is None
