"""Draws and labels on a real Kafka: a draw goes on where the last one ended, and a label is there once it is added."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from commands import ragweir, told
from conftest import SharedBroker, produce, read_to_end

from ragweir.schemas.label import Label
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.kafka_texts import texts_in_kafka
from ragweir.streams.analysis.labels.on_topics import LabelTopic, TopicLabels, read_topics
from ragweir.streams.commands.progress import Bars
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.settings import Settings, load

START = datetime.now(UTC) - timedelta(hours=5)


@pytest.fixture
def settings(kafka: SharedBroker, prefix: str) -> Settings:
    overrides = {"kafka": {"bootstrap_servers": kafka.bootstrap}, "topics": {"prefix": prefix, "partitions": 2}}
    effective = load(None, overrides)
    create_topics(effective)
    return effective


def evaluated(settings: Settings, numbers: range) -> None:
    """Interactions, and evaluations of them as evaluate writes them; every fifth is bad by its risk."""
    topic = f"{settings.topics.prefix}interactions"
    events = [
        {"event_id": f"e{number}", "query": f"What is {number}?", "response": f"It is {number}.", "contexts": []}
        for number in numbers
    ]
    produce(settings.kafka.bootstrap_servers, topic, [orjson.dumps(event) for event in events], partition=0)
    produce(
        settings.kafka.bootstrap_servers,
        f"{settings.topics.prefix}evaluations",
        [
            orjson.dumps(
                {
                    "event_id": f"e{number}",
                    "event_time": START + timedelta(seconds=number),
                    "catalogue_version": "3",
                    "scores": {"unsupported_risk": 0.1 if number % 5 else 0.9},
                    "source": {"topic": topic, "partition": 0, "offset": number},
                }
            )
            for number in numbers
        ],
    )


def command(settings: Settings, *arguments: object) -> list[object]:
    return ["--bootstrap-servers", settings.kafka.bootstrap_servers, "--prefix", settings.topics.prefix, *arguments]


def topics_now(settings: Settings) -> TopicLabels:
    with Bars() as bars:
        return read_topics(settings, bars.shown)


def test_answers_are_drawn_rated_and_reported_on_topics(settings: Settings, tmp_path: Path) -> None:
    evaluated(settings, range(100))
    first = ragweir(*command(settings, "labels", "draw", "--count", 20, "--out", tmp_path / "queue.jsonl"))
    assert first.returncode == 0, first.stderr
    assert b"drew 20 of 100 events by unsupported_risk: 10 of 20 bad ones, 10 of 80 good ones" in first.stderr
    found = topics_now(settings)
    (draw,) = found.draws.values()
    queue = found.queue(draw.id)
    lines = (tmp_path / "queue.jsonl").read_bytes().splitlines()
    assert {each.event_id for each in queue} == {orjson.loads(line)["event_id"] for line in lines[1:]}

    with Bars() as bars:
        texts = texts_in_kafka(settings, queue, bars.shown)
    assert texts == {
        each.event_id: EventTexts(f"What is {each.event_id[1:]}?", f"It is {each.event_id[1:]}.", ()) for each in queue
    }

    topic = LabelTopic(settings, found)
    for answer in queue:
        own = {"event_id": answer.event_id, "question": answer.question, "draw": answer.draw, "judged": answer.judged}
        topic.add(
            Label(value=not answer.judged.bad, rater="a", kind="expert", blind=True, time=datetime.now(UTC), **own)
        )
        keys = [each.key() for each in read_to_end(settings.kafka.bootstrap_servers, f"{settings.topics.prefix}labels")]
        assert orjson.dumps([answer.event_id, "supported", "a"]) in keys
    reported = ragweir(*command(settings, "labels", "report", "--json"))
    (table,) = orjson.loads(reported.stdout)["questions"]
    assert (table["labels"], table["tpr"]["value"], table["people_rate"]["value"]) == (20, 1.0, 0.2)

    again = ragweir(*command(settings, "labels", "draw"))
    assert "there is no evaluation of an event since" in told(again)
    evaluated(settings, range(100, 150))
    later = ragweir(*command(settings, "labels", "draw", "--count", 4))
    assert b"drew 4 of 50 events" in later.stderr
    starts = sorted(each.start for each in topics_now(settings).draws.values())
    assert starts == [START, START + timedelta(seconds=100)]


def test_without_labels_agreement_is_unknown(settings: Settings) -> None:
    done = ragweir(*command(settings, "labels", "report"))
    assert (done.returncode, b"agreement with people unknown" in done.stdout) == (0, True)


def test_missing_topics_are_one_sentence(kafka: SharedBroker, prefix: str) -> None:
    done = ragweir("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "labels", "report")
    assert "ragweir topics create" in told(done)
