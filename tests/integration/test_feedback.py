"""Feedback on a real Kafka: each one is joined to its answer once, whenever either comes and whatever is killed."""

import random
import signal
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import ragweir
from conftest import SharedBroker, create_topic, produce, read_to_end
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from services import Services, eventually, quick

from ragweir.schemas.feedback import JoinedFeedback, UnmatchedFeedback
from ragweir.schemas.window import Window
from ragweir.streams.analysis.checks.context import CheckContext, CheckWarning
from ragweir.streams.analysis.checks.user_feedback import feedback, summary
from ragweir.streams.clients.publish import Publisher
from ragweir.streams.runtime.kafka.reader import topics
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.services.shared.raters import hashed_rater
from ragweir.streams.settings import FeedbackSettings, LabelSettings, Settings, load

START = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=5)
ANSWERS = 400
ROUNDS = 4
KEY = "secret"


@pytest.fixture
def settings(kafka: SharedBroker, prefix: str, tmp_path: Path) -> Settings:
    overrides = {
        "kafka": {"bootstrap_servers": kafka.bootstrap},
        "topics": {"prefix": prefix, "partitions": 2},
        "feedback": {"folder": str(tmp_path / "store")},
        "labels": {"key": KEY},
    }
    effective = load(None, overrides)
    create_topics(effective)
    return effective


def variables(settings: Settings) -> dict[str, str]:
    folder = str(settings.feedback.folder)
    own = {"feedback__folder": folder, "labels__key": KEY}
    return quick(settings.kafka.bootstrap_servers, settings.topics.prefix, **own)


def newest(settings: Settings, name: str) -> dict[bytes | None, bytes]:
    """The newest committed value of each key of a topic."""
    found = read_to_end(settings.kafka.bootstrap_servers, settings.topics.prefix + name)
    return {message.key(): message.value() or b"" for message in found}


def evaluate(settings: Settings, numbers: Iterable[int]) -> None:
    """Write evaluations as evaluate writes them."""
    for number in numbers:
        value = orjson.dumps(
            {
                "event_id": f"e{number}",
                "event_time": START + timedelta(minutes=number % 180),
                "catalogue_version": "3",
                "application": ("bot", "other")[number % 2],
                "trace_id": f"{number:032x}",
                "scores": {"unsupported_risk": 0.5},
            }
        )
        topic = f"{settings.topics.prefix}evaluations"
        produce(settings.kafka.bootstrap_servers, topic, [value], key=b"e%d" % number, partition=number % 2)


class Given:
    """Feedback that was published, and what is to become of it."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._chance = settings, random.Random(7)
        self.hostile = 0
        self.joined: dict[tuple[str, str, str | None], tuple[int, Any]] = {}
        self._time = 0

    def publish(self, number: int) -> None:
        """Publish feedback on any answer, evaluated or not: given, changed, taken back and repeated."""
        lines = [self._feedback() for _ in range(number)]
        lines += self._chance.sample(lines, number // 10)
        lines += [b"no JSON", b'{"event_id":"e1","trace_id":"1","name":"thumbs","value":1}', b"{}"]
        self.hostile += 3
        self._chance.shuffle(lines)
        for partition in (0, 1):
            own = lines[partition::2]
            produce(
                self._settings.kafka.bootstrap_servers,
                f"{self._settings.topics.prefix}feedback",
                own,
                partition=partition,
            )

    def _feedback(self) -> bytes:
        chance = self._chance
        number, giver, name = chance.randrange(ANSWERS), chance.choice(["Ada", "Ben", None]), chance.choice("ab")
        value = chance.choice([1, 0.5, True, "up", "down", None])
        self._time += 1
        time = chance.randrange(1_000_000) * 1_000 + self._time  # No two are equal.
        key = f"e{number}", name, None if giver is None else hashed_rater(giver, KEY)
        if key not in self.joined or self.joined[key][0] < time:
            self.joined[key] = time, value
        target = chance.choice([{"event_id": f"e{number}"}, {"trace_id": f"{number:032x}"}])
        at = START + timedelta(microseconds=time)
        return orjson.dumps({**target, "name": name, "value": value, "giver": giver, "time": at, "comment": "SECRET"})


def keyed(settings: Settings, more_than: int) -> None:
    """Wait until feedback of so many events is keyed."""
    eventually(lambda: len(newest(settings, "feedback.keyed")) > more_than, "more feedback is keyed")


def check(settings: Settings, given: Given) -> None:
    """Wait until all feedback is joined, and compare the topics with what was published."""
    expected = {key: value for key, (_, value) in given.joined.items()}

    def joined() -> dict[tuple[str, str, str | None], Any]:
        found = [JoinedFeedback.model_validate_json(value) for value in newest(settings, "feedback.joined").values()]
        return {(each.event_id, each.name, each.giver): each.value for each in found}

    eventually(lambda: joined() == expected, "all feedback is joined")
    waiting = newest(settings, "feedback.waiting")
    assert {key for key, value in waiting.items() if value} == set()
    unmatched = [
        UnmatchedFeedback.model_validate_json(each) for each in newest(settings, "feedback.unmatched").values()
    ]
    assert len(unmatched) == given.hostile
    counted: Counter[tuple[str, str]] = Counter()
    for window in map(Window.model_validate_json, newest(settings, "feedback.windows").values()):
        for name, values in window.categories.items():
            counted.update({(name, text): number for text, number in values.items()})
    held = [(name, "true" if value is True else str(value)) for (_, name, _), value in expected.items() if value]
    assert counted == Counter(held)
    for name in ("feedback.waiting", "feedback.keyed", "feedback.joined", "feedback.unmatched"):
        records = read_to_end(settings.kafka.bootstrap_servers, settings.topics.prefix + name)
        assert not [each for each in records if b"SECRET" in (each.value() or b"") or b"Ada" in (each.value() or b"")]


def test_feedback_is_joined_exactly_once_through_kills(settings: Settings, services: Services, tmp_path: Path) -> None:
    """Both services are killed while they work, and the store is lost: the result is that of an undisturbed run."""
    own, given = variables(settings), Given(settings)
    evaluate(settings, range(100))
    match = services.start("match", "--slot", "0", variables=own)
    tally = services.start("tally", "--slot", "0", variables=own)
    for turn in range(ROUNDS):
        given.publish(100)
        if turn < ROUNDS - 1:
            evaluate(settings, range(100 + 100 * turn, 200 + 100 * turn))
        keyed(settings, more_than=10 * turn)
        match.process.send_signal(signal.SIGKILL)
        match.ended()
        if turn == 2:
            (store,) = (tmp_path / "store").glob("*.sqlite")
            store.unlink()
        match = services.start("match", "--slot", "0", variables=own)
        if turn % 2:
            tally.process.send_signal(signal.SIGKILL)
            tally.ended()
            tally = services.start("tally", "--slot", "0", variables=own)

    check(settings, given)
    assert (match.stop(), tally.stop()) == (0, 0)


def test_feedback_of_a_file_and_of_an_application_is_joined(
    settings: Settings, services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no feedback is reported by line; `ragweir feedback` joins the rest, and what an application sends."""
    evaluate(settings, range(3))
    file = tmp_path / "feedback.jsonl"
    lines: list[dict[str, Any]] = [{"event_id": f"e{number}", "name": "thumbs", "value": "up"} for number in range(3)]
    lines.insert(1, {"event_id": "e1", "trace_id": "1", "name": "thumbs", "value": "up"})
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    shared = ("--bootstrap-servers", settings.kafka.bootstrap_servers, "--prefix", settings.topics.prefix)
    sent = ragweir(*shared, "feedback", "publish", file)
    assert sent.returncode == 1
    assert b"line 2: the feedback names an event and a trace" in sent.stderr
    assert b"3 published to" in sent.stderr
    monkeypatch.setenv("RAGWEIR_TOPICS__PREFIX", settings.topics.prefix)
    with Publisher(bootstrap_servers=settings.kafka.bootstrap_servers) as publisher:
        publisher.feedback("edited", 0.5, trace_id=f"{2:032X}", giver="Ada")
        assert publisher.flush(30)
    service = services.start("feedback", variables=variables(settings))
    eventually(lambda: len(newest(settings, "feedback.joined")) == 4, "all is joined")
    (edited,) = [value for key, value in newest(settings, "feedback.joined").items() if b"edited" in (key or b"")]
    joined = JoinedFeedback.model_validate_json(edited)
    assert (joined.event_id, joined.value, joined.giver) == ("e2", 0.5, hashed_rater("Ada", KEY))
    assert service.stop() == 0
    context = CheckContext(settings.model_copy(update={"feedback": FeedbackSettings(enabled=True)}), topics(settings))
    assert feedback(context).startswith("about 4 records of feedback in the last day, about 0 of")
    with pytest.raises(CheckWarning, match=r"labels\.key is the default"):
        feedback(CheckContext(context.settings.model_copy(update={"labels": LabelSettings()}), context.topics))
    with pytest.raises(CheckWarning, match=r"about 11 of feedback\.unmatched: "):
        summary(100, 11)


@pytest.mark.heavy
def test_feedback_of_traces_and_logs_is_joined_by_trace_and_span(settings: Settings, services: Services) -> None:
    """A log record of a person becomes feedback on the answer of its trace; one that names no answer is unmatched."""
    source = f"{settings.topics.prefix}otlp_logs"
    create_topic(settings.kafka.bootstrap_servers, source, 1)
    evaluate(settings, range(3))
    data = LogsData()
    for number, label in ((2, "up"), (2, "down"), (1, "down"), (ANSWERS, "up")):
        record = (
            data.resource_logs.add()
            .scope_logs.add()
            .log_records.add(
                trace_id=number.to_bytes(16, "big"),
                span_id=b"\1" * 8,
                event_name="gen_ai.evaluation.result",
                time_unix_nano=int(START.timestamp() * 1e9) + len(data.resource_logs),
            )
        )
        texts = {"name": "thumbs", "score.label": label, "evaluator.type": "human", "explanation": "SECRET"}
        for name, text in texts.items():
            record.attributes.add(key=f"gen_ai.evaluation.{name}").value.string_value = text
    produce(settings.kafka.bootstrap_servers, source, [data.SerializeToString()], partition=0)
    own = variables(settings)
    traces = {"RAGWEIR_INPUT__FORMAT": "otlp", "RAGWEIR_INPUT__TOPIC": source, "RAGWEIR_FEEDBACK__ENABLED": "true"}
    running = [services.start("key", "--slot", "0", variables=own | traces), services.start("feedback", variables=own)]

    def joined() -> dict[str, Any]:
        found = [JoinedFeedback.model_validate_json(value) for value in newest(settings, "feedback.joined").values()]
        return {each.event_id: each.value for each in found}

    eventually(lambda: joined() == {"e1": "down", "e2": "down"}, "feedback of traces is joined")
    (waiting,) = filter(None, newest(settings, "feedback.waiting").values())
    assert orjson.loads(waiting)["trace_id"] == f"{ANSWERS:032x}"
    kept = read_to_end(settings.kafka.bootstrap_servers, f"{settings.topics.prefix}feedback")
    assert [orjson.loads(each.value() or b"")["span_id"] for each in kept] == ["01" * 8] * 4
    assert b"SECRET" not in b"".join(each.value() or b"" for each in kept)
    assert [each.stop() for each in running] == [0, 0]
