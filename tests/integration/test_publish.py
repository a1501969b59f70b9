"""Publishing from an application to a real Kafka: what arrives, forks, lost and late brokers, the end of a process."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from commands import environment
from confluent_kafka import Message
from conftest import SharedBroker, create_topic, read_to_end

from ragweir.schemas.codec.json import decode
from ragweir.streams.publish.publisher import Publisher

QUICK = {"linger.ms": 0}


def application(program: str, *arguments: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program of an application in a fresh interpreter to its end."""
    line = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(
        line, capture_output=True, text=True, check=False, env=environment(), timeout=timeout_s, cwd="/"
    )


def succeeded(done: subprocess.CompletedProcess[str]) -> Any:
    """What a program printed as JSON in its last line, after it ended well and quietly."""
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else None


def events(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The published events."""
    return [json.loads(message.value() or b"") for message in messages]


def test_an_event_arrives_with_key_headers_and_time(kafka: SharedBroker, prefix: str) -> None:
    """A recorded and a whole event arrive as evaluate reads them: keyed by id, with CloudEvents headers."""
    topic = create_topic(kafka.bootstrap, f"{prefix}interactions", partitions=8)
    with Publisher(bootstrap_servers=kafka.bootstrap, topic=topic, application="bot", client=QUICK) as publisher:
        with publisher.publish(query="Who?", labels={"region": "eu"}) as recorded, recorded.llm("m"):
            recorded.response = "Ada."
        publisher.publish({"event_id": "own", "query": "When?", "response": "1843.", "ended_at": 1_764_000_000_000})
        assert publisher.flush(20)
        assert publisher.stats.published == 2
    messages = read_to_end(kafka.bootstrap, topic)
    arrived = {decode(message.value()).event_id: message for message in messages}
    assert arrived.keys() == {recorded.event_id, "own"}
    assert all(message.key() == event_id.encode() for event_id, message in arrived.items())
    headers = dict(arrived["own"].headers() or ())
    assert headers["ce_id"] == b"own"
    assert headers["ce_type"] == b"ragweir.interaction.v1"
    assert headers["ce_time"] == b"2025-11-24T16:00:00+00:00"
    event = decode(arrived[recorded.event_id].value())
    assert (event.application, event.labels, event.response) == ("bot", {"region": "eu"}, "Ada.")
    assert not event.flags


def test_a_fork_neither_doubles_nor_loses_events(kafka: SharedBroker, prefix: str) -> None:
    """Parent and child publish before, across and after a fork; each event arrives once, and both processes end."""
    topic = create_topic(kafka.bootstrap, f"{prefix}interactions")
    program = """
        import json, os, sys, time
        import ragweir
        publisher = ragweir.Publisher(bootstrap_servers=sys.argv[1], topic=sys.argv[2], client={"linger.ms": 500},
                                      exit_timeout_s=20.0)
        for number in range(100):
            publisher.publish({"event_id": f"before-{number}", "query": "", "response": ""})
        time.sleep(float(sys.argv[3]))
        with publisher.publish(query="", event_id="across", response="") as event:
            child = os.fork()
            if not child:
                assert publisher.stats.waiting == publisher.stats.published == 0
        who = "parent" if child else "child"
        for number in range(100):
            publisher.publish({"event_id": f"{who}-{number}", "query": "", "response": ""})
        if child:
            assert os.waitpid(child, 0)[1] == 0
    """
    expected = {f"{who}-{number}" for who in ("before", "parent", "child") for number in range(100)} | {"across"}
    for pause_s in ("0", "1.5"):  # in the middle of imports, and with a connected producer
        succeeded(application(program, kafka.bootstrap, topic, pause_s))
        ids = [event["event_id"] for event in events(read_to_end(kafka.bootstrap, topic))]
        assert sorted(ids[-len(expected) :]) == sorted(expected)
        assert len(ids) % len(expected) == 0
