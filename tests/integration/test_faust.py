"""Evaluate on Faust: the same bytes as on the other runtimes, at least once, and plain about it."""

import importlib.util
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import ROOT, environment, evaluating, ragweir, settled, told
from confluent_kafka import Message
from conftest import SharedBroker, create_topic, produce, read_to_end, transaction
from faults import Traffic
from poison import event
from services import Service, end_all, eventually

from ragweir.errors import ConfigurationError
from ragweir.schemas.dead_letter import HEAD_BYTES, DeadLetter
from ragweir.schemas.topics import MAX_EVENT_BYTES, max_record_bytes
from ragweir.streams.analysis.explain import partition_of
from ragweir.streams.files.events import read_events
from ragweir.streams.runtime.loop.drive import drive
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.settings import KafkaSettings, Settings

pytestmark = pytest.mark.skipif(importlib.util.find_spec("faust") is None, reason="needs pip install 'ragweir[faust]'")

MAP = ROOT / "deploy" / "maps" / "mtrag.toml"
PLAIN = {"RAGWEIR_KAFKA__CLIENT": "{}"}
LARGE = {"max.message.bytes": str(max_record_bytes())}
UNFINISHED = """
import asyncio, structlog
from ragweir.streams.faust_app import app

settle = app._settle

async def unfinished(message):
    if (message.partition, message.offset) == (1, {offset}):
        structlog.get_logger().warning("at the event")
        {do}
    await settle(message)

app._settle = unfinished
"""
"""An application that does not finish one of its events."""

NATIVE = (
    *((b"k", event(event_id=f"event-{number}", tenant="acme")) for number in range(20)),
    (None, event(event_id="without a key")),
    (b"k", event(event_id="event-3", tenant="acme")),  # A duplicate.
    (b"k", event(event_id="橋", query="橋はいつ再建されましたか?")),
    (b"k", event(event_id="large", query="x" * (MAX_EVENT_BYTES - 1_000))),
)
POISON = (
    (b"k", None),
    (None, b"not json"),
    (b"\xff", b"\xff\xfe"),
    (b"k", b"{}"),
    (b"k", event(query="x" * MAX_EVENT_BYTES)),
    (b"k", event(query="x" * (MAX_EVENT_BYTES * 3))),
)
FOREIGN = tuple(
    orjson.dumps(
        {
            "task_id": f"task-{number}",
            "model": "example-model",
            "question": "When was the bridge in Mostar rebuilt?",
            "contexts": [{"document_id": "d1", "text": "The old bridge was rebuilt on 23 July 2004."}],
            "response": "It was rebuilt in 2004 [1].",
            "targets": [{"speaker": "agent", "text": "In 2004."}],
            "answerability": ["ANSWERABLE"],
        }
    )
    for number in range(10)
)
PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
UNMAPPED = orjson.dumps({"task_id": "x", "question": "q", "contexts": "no list"})


def by_file(name: str, lines: Sequence[bytes], folder: Path, **read: Any) -> list[bytes]:
    """What the files runtime makes of these lines: evaluations without `source`."""
    file = folder / name
    file.write_bytes(b"\n".join(lines))
    agent = SERVICES["evaluate"].agent(Settings(input=read), 1)
    events = read_events(file, MAX_EVENT_BYTES)
    outcomes = [outcome for _, outcome in drive(agent, events, read.get("topic", name))]
    return [each.value or b"" for outcome in outcomes for each in outcome.emissions if each.topic == "evaluations"]


def without(evaluations: Sequence[bytes], *names: str) -> list[bytes]:
    """Evaluations as bytes but for these fields, in the order of their ids."""
    read = [orjson.loads(each) for each in evaluations]
    kept = [{name: value for name, value in each.items() if name not in names} for each in read]
    return [orjson.dumps(each) for each in sorted(kept, key=lambda each: str(each["event_id"]))]


def written(messages: Sequence[Message]) -> list[Any]:
    """All that there is to a record but its offset and time; the partition where its key decides it."""
    found = [
        (each.topic(), each.key() and each.partition(), each.key(), each.value(), each.headers()) for each in messages
    ]
    return sorted(found, key=repr)


def place(message: Message) -> tuple[Any, ...]:
    """Where a record stands."""
    return message.topic(), message.partition(), message.offset()


def abort(bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
    """Write in a transaction that is aborted."""
    producer = transaction(bootstrap, f"{topic}-aborted")
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(30)
    producer.abort_transaction(30)


def ends_of(bootstrap: str, *topics: str) -> dict[tuple[str, int], int]:
    """The offset behind the last record of each partition."""
    ends = {}
    for topic in topics:
        for message in read_to_end(bootstrap, topic):
            ends[topic, message.partition()] = message.offset() + 1
    return ends


@contextmanager
def worker(
    bootstrap: str, prefix: str, log: Path, module: str = "ragweir.streams.faust_app", **more: str
) -> Iterator[Service]:
    """`faust -A ragweir.streams.faust_app worker` for the length of a block."""
    ours = {"RAGWEIR_KAFKA__BOOTSTRAP_SERVERS": bootstrap, "RAGWEIR_TOPICS__PREFIX": prefix}
    log.touch()
    service = Service(["-m", "faust", "-A", module, "worker"], log, environment(**ours, **more))
    try:
        yield service
    finally:
        end_all([service])


@pytest.mark.heavy
def test_every_runtime_gives_the_same_bytes(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Whatever is read, Faust writes what the kafka runtime writes, byte for byte, headers, keys and partitions too.

    The evaluations are those of the files runtime but for `source`.
    """
    foreign, redrive = f"{prefix}foreign", f"{prefix}redrive"
    create_topic(kafka.bootstrap, foreign, 2)
    create_topic(kafka.bootstrap, redrive, 1, {"max.message.bytes": "4000000"})
    outputs = [create_topic(kafka.bootstrap, f"{prefix}{name}", 4, LARGE) for name in ("evaluations", "dead-letter")]
    abort(kafka.bootstrap, foreign, FOREIGN)
    produce(kafka.bootstrap, foreign, [*FOREIGN, UNMAPPED])
    for number, (key, value) in enumerate((*NATIVE, *POISON)):
        headers = (("tracestate", b"a=1"), ("ragweir-message", b"forged"), ("a", b"\xff")) if number % 2 else ()
        produce(kafka.bootstrap, redrive, [value], key=key, partition=0, headers=headers)
    for headers in ((("traceparent", PARENT),), (("h", b""),) * 65):
        value = event(event_id=f"headers-{len(headers)}")
        produce(kafka.bootstrap, redrive, [value], key=b"k", partition=0, headers=headers)
        produce(kafka.bootstrap, redrive, [b"not json"], key=b"k", partition=0, headers=headers)
    ends = ends_of(kafka.bootstrap, foreign, redrive)

    def through(runtime: str, group: str, **settings: str) -> list[Message]:
        seen = {place(message) for topic in outputs for message in read_to_end(kafka.bootstrap, topic)}
        flags = ("--runtime", runtime, "--input-topic", foreign, "--map", MAP)
        with evaluating(kafka.bootstrap, prefix, tmp_path, *flags, **settings) as service:
            settled(kafka.bootstrap, group, ends)
        assert len(service.logged("started")) == 1, "it lived through everything"
        (tmp_path / f"{prefix}log").unlink()
        now = [message for topic in outputs for message in read_to_end(kafka.bootstrap, topic)]
        return [message for message in now if place(message) not in seen]

    on_kafka = through("kafka", f"{prefix}evaluate")
    on_faust = through("faust", f"{prefix}evaluate-faust", **PLAIN)
    assert len(on_kafka) == len(NATIVE) - 1 + len(FOREIGN) + len(POISON) + 1 + 4
    assert written(on_faust) == written(on_kafka)
    for message in on_faust:
        assert message.key() is None or message.partition() == partition_of(message.key(), 4)
    evaluated = [message.value() for message in on_faust if message.topic() == outputs[0]]
    values = [value for _, value in NATIVE]
    values += [event(event_id="headers-1", trace_id=PARENT[3:35].decode(), span_id=PARENT[36:52].decode())]
    cut = [each for each in evaluated if orjson.loads(each)["flags"] == ["headers_cut"]]
    assert [orjson.loads(each)["event_id"] for each in cut] == ["headers-65"]
    evaluated = [each for each in evaluated if each not in cut]
    files = by_file("redrive.jsonl", values, tmp_path)
    files += by_file("foreign.jsonl", FOREIGN, tmp_path, topic=foreign, map=MAP)
    assert without(evaluated, "source", "event_time") == without(files, "source", "event_time")


def must_be_whole(traffic: Traffic, what: str) -> None:
    """Every event was evaluated and all poison is a dead letter, once or more; prints how often more."""
    wanted = {(partition, offset) for partition, end in traffic.published.items() for offset in range(end)}
    poison = {place for place in wanted if traffic._poison(place[1])}
    for name, found, expected in (
        ("evaluations", traffic.evaluations(), wanted - poison),
        ("dead letters", traffic.dead_letters(), poison),
    ):
        times = Counter(where for _, where in found)
        assert times.keys() == expected, f"{name} are lost, or of what was never published"
        print(f"{what}: {len(expected)} {name}, of which {len(found) - len(expected)} were written again")


@pytest.mark.heavy
def test_killed_workers_lose_nothing(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """With each of two workers killed in the middle, all is evaluated and all poison dead letters, once or more."""
    traffic, group = Traffic(kafka.bootstrap, prefix), f"{prefix}evaluate-faust"
    traffic.publish(150)
    with evaluating(kafka.bootstrap, prefix, tmp_path, "--runtime", "faust", workers=2, **PLAIN) as service:
        for slot in (0, 1):
            pid, before = service.pid(slot), len(traffic.evaluations())
            eventually(lambda before=before: len(traffic.evaluations()) > before + 50, "it is at work")
            os.kill(pid, signal.SIGKILL)
            eventually(lambda slot=slot, pid=pid: service.pid(slot) != pid, "a new one has started")
            traffic.publish(50)
        settled(kafka.bootstrap, group, ends_of(kafka.bootstrap, traffic.topic))
    must_be_whole(traffic, "two SIGKILLs")
    assert len(service.logged("worker ended")) == 2, "no worker ended by itself"


@pytest.mark.heavy
def test_what_is_not_finished_is_read_again(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Neither an event whose evaluation raises nor one that a stop finds in flight is committed, nor what follows it.

    The stop is clean and in time all the same.
    """
    traffic, group = Traffic(kafka.bootstrap, prefix, partitions=2), f"{prefix}evaluate-faust"
    traffic.publish(100)
    (tmp_path / "raises.py").write_text(UNFINISHED.format(offset=20, do="raise RuntimeError"))
    (tmp_path / "hangs.py").write_text(UNFINISHED.format(offset=60, do="await asyncio.sleep(3600)"))
    path = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    with worker(kafka.bootstrap, prefix, tmp_path / "raises.log", "raises", **path) as service:
        assert service.ended() == 1
        assert service.logged("an event could not be finished", reason="RuntimeError")
    with worker(kafka.bootstrap, prefix, tmp_path / "hangs.log", "hangs", **path) as service:
        eventually(lambda: service.logged("at the event"), "it is at the event")
        assert service.stop() == 0
    with worker(kafka.bootstrap, prefix, tmp_path / "log") as service:
        settled(kafka.bootstrap, group, ends_of(kafka.bootstrap, traffic.topic))
        assert service.stop() == 0
    must_be_whole(traffic, "one raised, one stopped")


@pytest.mark.heavy
def test_a_worker_tells_how_it_is_and_makes_dead_letters_of_what_is_rejected(
    kafka: SharedBroker, prefix: str, tmp_path: Path
) -> None:
    """`faust -A` names its guarantee, shows telemetry, and what the broker rejects for its size is a dead letter."""
    for name in ("interactions", "redrive", "dead-letter"):
        create_topic(kafka.bootstrap, f"{prefix}{name}", 1, LARGE)
    create_topic(kafka.bootstrap, f"{prefix}evaluations", 1, {"max.message.bytes": "30000"})
    large = event(event_id="large", query=random.Random(7).randbytes(90_000).hex())
    produce(kafka.bootstrap, f"{prefix}interactions", [event(event_id="before"), large, event(event_id="after")])
    with worker(kafka.bootstrap, prefix, tmp_path / "log", RAGWEIR_OUTPUT__INCLUDE_TEXT="true") as service:
        eventually(lambda: service.sample("ragweir_events_in_total") == 3, "all are counted")
        eventually(lambda: service.asked("/readyz")[0] == 200, "it is ready")
        eventually(lambda: "ragweir_lag{" in service.asked("/metrics")[1], "the lag is shown")
        assert service.asked("/healthz")[0] == 200
        assert service.sample('ragweir_evaluations_total{stage="scored"}') == 2
        assert service.sample('ragweir_dead_letters_total{error_class="refused"}') == 1
        assert service.logged("started")[0]["guarantee"].startswith("at least once")
    (letter,) = read_to_end(kafka.bootstrap, f"{prefix}dead-letter")
    assert DeadLetter.from_headers(letter.headers()).error_class == "refused"
    assert letter.value() == large[:HEAD_BYTES]
    evaluated = [message.key() for message in read_to_end(kafka.bootstrap, f"{prefix}evaluations")]
    assert evaluated == [b"before", b"after"]


@pytest.mark.heavy
def test_exactly_once_is_rejected_with_its_reason(prefix: str, tmp_path: Path) -> None:
    """Asked for exactly_once, neither command starts, and one sentence says why."""
    asked = {"PROCESSING_GUARANTEE": "exactly_once"}
    line = told(ragweir("evaluate", "--runtime", "faust", **asked))
    assert "exactly_once is rejected" in line
    assert "1,924 of 85,623" in line
    with worker("127.0.0.1:1", prefix, tmp_path / "log", **asked) as service:
        assert service.ended() == 1
    assert service.log.read_text() == f"{line}\n"


@pytest.mark.heavy
def test_missing_topics_end_it_with_a_sentence(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Without its topics it says which and how to make them, and is not started again and again."""
    with worker(kafka.bootstrap, prefix, tmp_path / "log") as service:
        assert service.ended() == 2
    assert len(service.logged(f"there is no topic {prefix}interactions")) == 1
    assert "Traceback" not in service.log.read_text()


def test_without_the_extra_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    """Where Faust is not installed, the command that installs it is told."""
    (tmp_path / "faust.py").write_text('raise ModuleNotFoundError("No module named \'faust\'", name="faust")')
    line = told(ragweir("evaluate", "--runtime", "faust", PYTHONPATH=f"{tmp_path}:{ROOT}"))
    assert "pip install 'ragweir[faust]'" in line


SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"}


@pytest.mark.parametrize(
    ("kafka_settings", "told_of"),
    [
        ({"client": {"linger.ms": 5, "fetch.min.bytes": 1}}, "fetch.min.bytes, linger.ms"),
        ({"oauth": "module:function"}, "kafka.oauth"),
        ({"client": SASL | {"sasl.mechanism": "GSSAPI"}}, "GSSAPI"),
        ({"client": {"security.protocol": "ssl", "ssl.ca.location": "nowhere.pem"}}, "ssl"),
        ({"client": {"security.protocol": "bogus"}}, "bogus"),
    ],
)
def test_what_has_no_counterpart_is_rejected_by_name(kafka_settings: dict[str, Any], told_of: str) -> None:
    """A property that Faust cannot be given is never passed over in silence."""
    from ragweir.streams.services.faust.connection import connection_options  # noqa: PLC0415 - of the extra [faust]

    with pytest.raises(ConfigurationError, match=told_of):
        connection_options(KafkaSettings(**kafka_settings))


def test_sign_in_is_said_in_fausts_words() -> None:
    """User, password, mechanism and TLS reach Faust; so do the brokers and the timeouts."""
    from ragweir.streams.services.faust.connection import connection_options  # noqa: PLC0415 - of the extra [faust]

    client = SASL | {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512", "session.timeout.ms": 7_000}
    options = connection_options(KafkaSettings(bootstrap_servers="a:1, b:2", client=client))
    assert options["broker"] == ["kafka://a:1", "kafka://b:2"]
    assert options["broker_session_timeout"] == 7
    given = options["broker_credentials"]
    assert (given.username, given.password, given.mechanism.value) == ("a", "b", "SCRAM-SHA-512")
    assert given.protocol.value == "SASL_SSL"
    assert given.ssl_context.check_hostname
