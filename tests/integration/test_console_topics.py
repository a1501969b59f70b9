"""The console on a real Kafka: killed while it reads, its pages have the numbers of the commands."""

import json
import os
import signal
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
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.from_topics import content_of_topics
from ragweir.streams.console.pages.routes import page_routes
from ragweir.streams.console.store.answer_query import AnswerQuery
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.runtime.kafka.client_messages import record_of
from ragweir.streams.services.evaluate.agent import EvaluateAgent
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import Settings

EVENTS = 240
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


def command(kafka: SharedBroker, settings: Settings, *words: str) -> bytes:
    """What a command prints."""
    shared = ["--bootstrap-servers", kafka.bootstrap, "--prefix", settings.topics.prefix]
    done = ragweir(*shared, *words, RAGWEIR_SLO=json.dumps(SLOS))
    assert done.returncode == 0, told(done)
    return done.stdout


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.heavy)])
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
        for kill in range(kills):
            send(kafka, topic, lines[50 + kill * 60 : 110 + kill * 60])
            os.kill(worker, signal.SIGKILL)
            before, worker = worker, eventually(lambda old=worker: other(service.pid(0), old), "it starts again")
            assert before != worker
        send(kafka, topic, lines[50 + kills * 60 :])
        total = len(lines) - EVENTS
        eventually(
            lambda: content.store.search(AnswerQuery(judged=True)).total == total, "all judged answers are there"
        )
        assert content.store.search(AnswerQuery()).total == content.store.state().answers == EVENTS
        file = tmp_path / "rehearsed.json"
        command(kafka, settings, "slo", "rehearse", "live", "--json", str(file))
        compared_with_rehearsal(content.store, json.loads(file.read_bytes()))
        browser = logged_in(console_of(page_routes(content)))
        for line in (lines[0], lines[-3]):
            story = command(kafka, settings, "explain", line["event_id"], "--text", "--json")
            compared_with_explain(content, browser, json.loads(story))
        assert browser.get("/").status_code == browser.get("/answers?sort=context_support").status_code == 200
    assert service.sample("ragweir_console_store_bytes") > 0


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
