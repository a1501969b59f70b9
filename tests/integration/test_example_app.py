"""The example application: ten lines bring it on board, and evaluate reads what it publishes."""

import difflib
import sys
from pathlib import Path

import pytest
from commands import environment, evaluating, program, settled
from conftest import SharedBroker, create_topic, read_to_end, values

import ragweir
from examples.app import after, before, facts
from ragweir.schemas.codec.json import decode
from ragweir.schemas.topics import TOPICS
from ragweir.streams.clients.publish.publisher import Publisher
from ragweir.streams.runtime.machine import machine


def run(version: str, **settings: str) -> str:
    """Return the output of the application."""
    done = program(sys.executable, "-m", f"examples.app.{version}", env=environment(**settings))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_ten_lines_bring_the_application_on_board() -> None:
    """The diff of the two versions adds at most ten lines, those that it changes included."""
    texts = [Path(version.__file__ or "").read_text(encoding="utf-8").splitlines() for version in (before, after)]
    diff = difflib.unified_diff(*(text[1:] for text in texts), n=0)
    added = [line for line in diff if line.startswith("+") and not line.startswith("+++") and line != "+"]
    assert 1 <= len(added) <= 10


@pytest.mark.heavy
def test_evaluate_scores_what_the_application_publishes(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Both versions print the same; of the second each answer is evaluated, and none is rejected or repaired."""
    for name in TOPICS:
        create_topic(kafka.bootstrap, f"{prefix}{name}")
    settings = {"RAGWEIR_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap, "RAGWEIR_TOPICS__PREFIX": prefix}
    assert run("after", **settings) == run("before")
    topic = f"{prefix}interactions"
    published = read_to_end(kafka.bootstrap, topic)
    assert [decode(message.value()).query for message in published] == list(facts.QUESTIONS)
    with evaluating(kafka.bootstrap, prefix, tmp_path):
        settled(kafka.bootstrap, f"{prefix}evaluate", {(topic, 0): len(published)})
    assert not read_to_end(kafka.bootstrap, f"{prefix}dead-letter")
    evaluations = values(kafka.bootstrap, f"{prefix}evaluations")
    assert [each["event_id"] for each in evaluations] == [decode(message.value()).event_id for message in published]
    for each in evaluations:
        assert not each.get("flags")
        assert each["application"] == "facts"
        # It sleeps for no less; the rest is for a loaded machine.
        assert facts.MODEL_SECONDS * 1_000 <= each["scores"]["llm_latency_ms"] < 20_000
        assert each["scores"]["retrieval_latency_ms"] <= each["scores"]["total_latency_ms"]


def test_durations_are_those_of_the_calls(kafka: SharedBroker, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that only the calls advance, each duration that arrives is exact."""
    now = [1_764_000_000 * 10**9]

    def advance(milliseconds: int) -> None:
        now[0] += milliseconds * 10**6

    monkeypatch.setattr(machine.clocks, "time_ns", lambda: now[0])
    monkeypatch.setattr(machine.clocks, "monotonic_ns", lambda: now[0])
    monkeypatch.setattr(after, "search", lambda question: (advance(40), facts.search(question))[1])
    monkeypatch.setattr(after, "simulated_model", lambda *_: (advance(300), "Ada.")[1])
    topic = create_topic(kafka.bootstrap, f"{prefix}interactions")
    with Publisher(bootstrap_servers=kafka.bootstrap, topic=topic) as publisher:
        monkeypatch.setattr(ragweir, "publish", publisher, raising=False)
        after.answer("Who?")
        assert publisher.flush(30)
    (message,) = read_to_end(kafka.bootstrap, topic)
    event = decode(message.value())
    assert event.started_at
    assert event.ended_at
    assert (event.ended_at - event.started_at).total_seconds() == 0.34
    durations = {
        span.kind: (span.ended_at - span.started_at).total_seconds()
        for span in event.spans or ()
        if span.ended_at and span.started_at
    }
    assert durations == {"retrieval": 0.04, "llm": 0.3}
