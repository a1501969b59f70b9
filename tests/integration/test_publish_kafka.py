"""Publishing from an application to a real Kafka: what arrives, forks, lost and late brokers, the end of a process."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import environment, program
from confluent_kafka import Message
from conftest import QUICK_BROKER, SharedBroker, create_topic, read_to_end
from services import eventually

from ragweir.schemas.codec.json import decode
from ragweir.streams.clients.publish.publisher import Publisher
from ragweir.streams.playground.local.kafka import local_kafka

QUICK = {"linger.ms": 0}


def application(code: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a program of an application in a fresh interpreter to its end."""
    line = (sys.executable, "-c", textwrap.dedent(code), *arguments)
    return program(*line, folder=Path("/"), env=environment(**settings))


def succeeded(done: subprocess.CompletedProcess[str]) -> Any:
    """Return the JSON of the last line that a program printed; it ended with status 0 and no error."""
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


@pytest.mark.heavy
def test_a_fork_neither_doubles_nor_loses_events(kafka: SharedBroker, prefix: str) -> None:
    """Parent and child publish before, across and after a fork; each event arrives once, and both processes end."""
    topic = create_topic(kafka.bootstrap, f"{prefix}interactions")
    code = """
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
        succeeded(application(code, kafka.bootstrap, topic, pause_s))
        ids = [event["event_id"] for event in events(read_to_end(kafka.bootstrap, topic))]
        assert sorted(ids[-len(expected) :]) == sorted(expected)
        assert len(ids) % len(expected) == 0


@pytest.mark.heavy
def test_children_of_multiprocessing_publish_to_their_end(kafka: SharedBroker, prefix: str) -> None:
    """A pool's processes inherit a publisher that was used before, and send what waits when they end."""
    topic = create_topic(kafka.bootstrap, f"{prefix}interactions")
    code = """
        import multiprocessing, sys
        import ragweir
        publisher = ragweir.Publisher(bootstrap_servers=sys.argv[1], topic=sys.argv[2], exit_timeout_s=20.0)

        def work(number):
            publisher.publish({"event_id": f"child-{number}", "query": "", "response": ""})

        publisher.publish({"event_id": "parent", "query": "", "response": ""})
        processes = [multiprocessing.get_context("fork").Process(target=work, args=(number,)) for number in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == 0
    """
    succeeded(application(code, kafka.bootstrap, topic))
    ids = sorted(event["event_id"] for event in events(read_to_end(kafka.bootstrap, topic)))
    assert ids == ["child-0", "child-1", "child-2", "child-3", "parent"]


@pytest.mark.heavy
def test_what_waits_is_sent_at_the_end_of_the_process(kafka: SharedBroker, prefix: str) -> None:
    """A program that ends right after its last event loses none, by its end or by an exception."""
    topic = create_topic(kafka.bootstrap, f"{prefix}interactions")
    code = """
        import sys
        import ragweir
        ragweir.publish.exit_timeout_s = 20.0
        for number in range(500):
            with ragweir.publish(query="Who?", event_id=sys.argv[1] + str(number)) as event:
                event.response = "Ada."
        if sys.argv[1] == "raised":
            raise SystemExit(3)
    """
    settings = {
        "RAGWEIR_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap,
        "RAGWEIR_PUBLISH__TOPIC": topic,
        "RAGWEIR_KAFKA__CLIENT__LINGER_MS": "500",
    }
    for how, status in (("ended", 0), ("raised", 3)):
        done = application(code, how, **settings)
        assert (done.returncode, done.stderr) == (status, "")
    assert len({event["event_id"] for event in events(read_to_end(kafka.bootstrap, topic))}) == 1_000


def test_without_a_broker_a_process_ends_in_bounded_time() -> None:
    """The end waits for no longer than its timeout; what is lost is counted and logged."""
    code = """
        import json, sys, time
        import ragweir
        publisher = ragweir.Publisher(bootstrap_servers="127.0.0.1:1", exit_timeout_s=1.0)
        for number in range(1000):
            publisher.publish({"query": "", "response": ""})
        while publisher.stats.queued_bytes:
            time.sleep(0.01)
        import atexit
        began = time.monotonic()
        atexit.unregister(ragweir.streams.clients.publish.publisher._close_all)
        ragweir.streams.clients.publish.publisher._close_all()
        took = time.monotonic() - began
        stats = publisher.stats
        print(json.dumps([took, stats.waiting, stats.dropped["not_delivered"]]))
    """
    done = application(code)
    took, waiting, dropped = succeeded(done)
    assert 1.0 <= took < 5.0  # with half a second for the thread; the rest is for a loaded machine
    assert (waiting, dropped) == (0, 1_000)
    assert "1000 events dropped (not_delivered, 1000 in all)" in done.stderr


@pytest.mark.heavy
def test_a_broker_may_come_late_and_leave_for_a_while() -> None:
    """Events before the broker's start and during its absence are delivered; those beyond the queues are counted."""
    with local_kafka(properties=QUICK_BROKER) as broker:
        topic = create_topic(broker.bootstrap, "interactions")
        broker.stop()
        client = {"reconnect.backoff.max.ms": 500, "queue.buffering.max.messages": 60}
        with Publisher(bootstrap_servers=broker.bootstrap, topic=topic, client=client, queue_events=40) as publisher:

            def publish(part: str, count: int) -> None:
                for number in range(count):
                    publisher.publish({"event_id": f"{part}-{number}", "query": "", "response": ""})

            publish("absent", 30)
            assert not publisher.flush(1.0)
            broker.start()
            assert publisher.flush(60)
            broker.kill()
            publish("gone", 30)
            assert not publisher.flush(1.0)
            rounds = 0

            def full() -> bool:
                nonlocal rounds
                publish(f"more-{(rounds := rounds + 1)}", 100)
                return publisher.stats.waiting == 101  # one is in the hands of the thread

            eventually(full, "both queues are full")
            stats = publisher.stats
            broker.start()
            assert publisher.flush(60)
        assert stats.published == 30
        assert stats.waiting + stats.dropped["queue_full"] == 30 + 100 * rounds
        assert publisher.stats.published == 131
        assert publisher.stats.dropped["not_delivered"] == 0
        ids = [event["event_id"] for event in events(read_to_end(broker.bootstrap, topic))]
        assert len(set(ids)) == len(ids) == 131
        assert {f"{part}-{number}" for part in ("absent", "gone") for number in range(30)} <= set(ids)


def test_a_topic_that_does_not_exist_is_logged(
    kafka: SharedBroker, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Events for it are counted as not delivered, with Kafka's reason."""
    client = {"message.timeout.ms": 3_000, "topic.metadata.propagation.max.ms": 500, "allow.auto.create.topics": False}
    with Publisher(bootstrap_servers=kafka.bootstrap, topic=f"{prefix}none", client=client) as publisher:
        publisher.publish({"query": "", "response": ""})
        assert publisher.flush(60)
        assert publisher.stats.dropped["not_delivered"] == 1
    assert any("Unknown topic or partition" in message for message in caplog.messages), caplog.messages


@pytest.mark.heavy
def test_memory_is_bounded_at_ten_times_what_can_be_sent(kafka: SharedBroker, prefix: str) -> None:
    """An application that publishes without pause keeps its memory; each event is sent or counted."""
    topic = create_topic(kafka.bootstrap, f"{prefix}interactions")
    code = """
        import json, resource, sys, time
        import ragweir
        publisher = ragweir.Publisher(bootstrap_servers=sys.argv[1], topic=sys.argv[2], queue_bytes=8 * 1024 * 1024)
        publisher.publish({"query": "", "response": ""})
        assert publisher.flush(30)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        text = "x" * 10_000
        for number in range(20_000):
            publisher.publish({"query": "", "response": str(number) + text})
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert publisher.flush(50)
        stats = publisher.stats
        print(json.dumps([after - before, stats.published, stats.dropped["queue_full"]]))
    """
    grown_kib, published, dropped = succeeded(application(code, kafka.bootstrap, topic))
    assert published + dropped == 20_001
    assert dropped > 10_000
    assert grown_kib < 64 * 1024
