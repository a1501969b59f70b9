"""Draws and labels on a real Kafka: a draw goes on where the last one ended, and a label is there once it is added."""

import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from browsers import console_of, logged_in
from commands import ragweir, told
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, produce, read_to_end

from ragweir.errors import PermanentError
from ragweir.schemas.label import Label
from ragweir.streams.analysis.checks.context import CheckContext, CheckWarning
from ragweir.streams.analysis.checks.people import people, summary
from ragweir.streams.analysis.evidence.shown_texts import ShownTexts
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.kafka_texts import texts_in_kafka
from ragweir.streams.analysis.labels.on_topics import LabelTopic, TopicLabels, read_topics
from ragweir.streams.commands.progress import Bars
from ragweir.streams.console.page_state import PageState
from ragweir.streams.console.pages.review import review_routes
from ragweir.streams.console.review_desk import ReviewDesk
from ragweir.streams.console.review_queues import topic_queue
from ragweir.streams.console.store.stored_answers import StoreState
from ragweir.streams.runtime.kafka.read_back import ReadBack, Written
from ragweir.streams.runtime.kafka.reader import topics
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

    options = ("--where", "supported = no", "--worst", 2, "--out", tmp_path / "set")
    made = ragweir(*command(settings, "dataset", *options))
    assert b"12 questions written to" in made.stderr, made.stderr
    items = [orjson.loads(line) for line in (tmp_path / "set/dataset.jsonl").read_bytes().splitlines()]
    bad = {each.event_id for each in queue if each.judged.bad}
    assert {each["event_id"] for each in items[:10]} == bad
    assert not bad.intersection(each["event_id"] for each in items[10:])
    assert all(each["response"] == f"It is {each['event_id'][1:]}." for each in items)

    assert people(CheckContext(settings, topics(settings))).startswith("labelled answers: 20 to supported; the newest")
    event = queue[0].event_id
    assert b"1 label withdrawn" in ragweir(*command(settings, "labels", "withdraw", "--event", event)).stderr
    assert b"no such label" in ragweir(*command(settings, "labels", "withdraw", "--event", event)).stderr
    (tmp_path / "votes.csv").write_text(f"event_id,value,rater\n{event},no,ben\nother,yes,ben\n")
    imported = ragweir(*command(settings, "labels", "import", tmp_path / "votes.csv"))
    assert (imported.returncode, b"2 labels imported" in imported.stderr) == (0, True), imported.stderr
    assert ragweir(*command(settings, "labels", "export", "--out", tmp_path / "all.jsonl")).returncode == 0
    rows = [orjson.loads(line) for line in (tmp_path / "all.jsonl").read_bytes().splitlines()]
    assert sorted(row["event_id"] for row in rows) == sorted([*(each.event_id for each in queue), "other"])

    again = ragweir(*command(settings, "labels", "draw"))
    assert "there is no evaluation of an event since" in told(again)
    evaluated(settings, range(100, 150))
    later = ragweir(*command(settings, "labels", "draw", "--count", 4))
    assert b"drew 4 of 50 events" in later.stderr
    starts = sorted(each.start for each in topics_now(settings).draws.values())
    assert starts == [START, START + timedelta(seconds=100)]


@pytest.mark.heavy
def test_rating_that_is_killed_loses_and_doubles_no_label(settings: Settings) -> None:
    """Each label that the screen calls saved is on the topic once; the same command goes on."""
    evaluated(settings, range(60))
    assert ragweir(*command(settings, "labels", "draw", "--count", 30)).returncode == 0
    line = [sys.executable, "-m", "ragweir.streams.commands", *map(str, command(settings, "labels", "rate"))]
    saved = 0
    for number in range(3):
        with subprocess.Popen(
            [*line, "--rater", "ada"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for _ in range(6 + number):
                process.stdin.write(b"n")
                process.stdin.flush()
                while b"saved: no" not in process.stdout.readline():
                    pass
                saved += 1
            process.stdin.write(b"n")
            process.stdin.flush()
            process.send_signal(signal.SIGKILL)
    found = topics_now(settings)
    keys = [each.key() for each in read_to_end(settings.kafka.bootstrap_servers, f"{settings.topics.prefix}labels")]
    assert len(keys) == len(set(keys)) == len(found.labels)
    assert saved <= len(keys) <= saved + 3
    rest = ragweir(*command(settings, "labels", "rate", "--rater", "ada"), text=b"n" * 30)
    assert (rest.returncode, b"all 30 answered" in rest.stderr) == (0, True), rest.stderr
    assert len(topics_now(settings).labels) == 30


def test_a_label_that_the_topic_does_not_return_is_not_taken(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A label counts once it is read at its offset, with its value: here the topic has another one there."""
    topic, holds = LabelTopic(settings, topics_now(settings)), ReadBack.holds
    label = Label(event_id="e1", question="supported", value=True, rater="a", kind="expert", blind=True, time=START)
    topic.add(label)

    def other(reads: ReadBack, written: Written) -> bool:
        return holds(reads, {each: dict.fromkeys(own, b"another") for each, own in written.items()})

    monkeypatch.setattr(ReadBack, "holds", other)
    with pytest.raises(PermanentError, match="labels does not return what was written to it"):
        topic.add(label.model_copy(update={"value": False}))
    assert [each.value for each in topic.content.current()] == [True]


def test_people_label_the_newest_draw_on_a_page(settings: Settings) -> None:
    """Each label is on the topic when the next answer is shown."""
    evaluated(settings, range(20))
    assert ragweir(*command(settings, "labels", "draw", "--count", 4)).returncode == 0
    desk = ReviewDesk(settings, lambda: topic_queue(settings, ShownTexts(settings)), lambda *_: False)
    browser = logged_in(console_of(review_routes(desk, "", lambda: PageState(StoreState(0, None, None, 1.0, 0), None))))
    for number in range(3):
        assert f"{number} of 4 answered" in browser.get("/review").text
        answer = desk.show("Ada")
        assert answer is not None
        browser.post("/review", data={"do": "label", "choice": "y", "mark": answer.mark})
        assert answer.answer is not None
        stored = topics_now(settings).current()
        assert answer.answer.event_id in {label.event_id for label in stored}


def test_texts_that_kafka_no_longer_holds_are_said_to_be_gone(settings: Settings) -> None:
    evaluated(settings, range(20))
    assert ragweir(*command(settings, "labels", "draw", "--count", 6)).returncode == 0
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
    interactions = TopicPartition(f"{settings.topics.prefix}interactions", 0, 20)
    for future in admin.delete_records([interactions]).values():
        future.result(30)
    done = ragweir(*command(settings, "labels", "rate", "--rater", "ada"), text=b"y")
    assert "Kafka has none of the 6 events of the queue: it no longer holds their texts" in told(done)
    assert topics_now(settings).labels == {}


def test_without_labels_agreement_is_unknown(settings: Settings) -> None:
    checked = people(CheckContext(settings, topics(settings)))
    assert checked == "agreement with people unknown: no answer is labelled; `ragweir labels draw` begins"
    done = ragweir(*command(settings, "labels", "report"))
    assert (done.returncode, b"agreement with people unknown" in done.stdout) == (0, True)


def test_missing_topics_are_one_sentence(kafka: SharedBroker, prefix: str) -> None:
    done = ragweir("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "labels", "report")
    assert "ragweir topics create" in told(done)


def test_the_check_names_what_is_not_read(settings: Settings) -> None:
    produce(settings.kafka.bootstrap_servers, f"{settings.topics.prefix}labels", [b"{}"], key=b"[]")
    with pytest.raises(CheckWarning, match=r"1 records of labels and labels\.draws are no labels or draws"):
        people(CheckContext(settings, topics(settings)))
    other = Label(
        event_id="1", question="other", value=True, rater="a", kind="import", blind=False, time=datetime.now(UTC)
    )
    found = TopicLabels()
    found.add(other)
    with pytest.raises(CheckWarning, match="1 labelled answer is to questions"):
        summary(found, ["supported"])
