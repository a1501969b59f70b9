"""Evaluations and windows in Avro, read by a plain Avro consumer: each once, through kills and an outage."""

import json
import os
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pytest
from avro_answers import FIRST, MAP, avro
from commands import ragweir
from confluent_kafka import Message
from conftest import SharedBroker, create_topic, produce, read_to_end
from services import Services, end_all, eventually

from tools.schema_registry import Registry

PARTITIONS = 2
OUTAGE_S = 60.0


class AvroConsumer:
    """Reads records by the schema that each one names, as any Avro consumer does."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._schemas: dict[int, Any] = {}

    def read(self, message: Message) -> dict[str, Any]:
        value = message.value() or b""
        assert value[:1] == b"\0"
        number = int.from_bytes(value[1:5], "big")
        if number not in self._schemas:
            with urllib.request.urlopen(f"{self._registry.url}/schemas/ids/{number}", timeout=10) as answer:
                self._schemas[number] = fastavro.parse_schema(json.loads(json.load(answer)["schema"]))
        data = BytesIO(value[5:])
        record = fastavro.schemaless_reader(data, self._schemas[number], None)
        assert not data.read()
        assert isinstance(record, dict)
        return record


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with Registry(tmp_path) as started:
        yield started


def test_an_avro_consumer_reads_each_evaluation_and_window_once(  # noqa: PLR0915 - one story
    kafka: SharedBroker, prefix: str, tmp_path: Path, services: Services, registry: Registry
) -> None:
    """The registry is away for a minute, in which both workers are killed."""
    (tmp_path / "map.toml").write_text(MAP)
    topic = create_topic(kafka.bootstrap, f"{prefix}answers", PARTITIONS)
    settings = {
        "RAGWEIR_KAFKA__CLIENT": '{"transaction.timeout.ms": 4000}',
        "RAGWEIR_TOPICS__PARTITIONS": str(PARTITIONS),
        "RAGWEIR_TOPICS__REPLICATION_FACTOR": "1",
        "RAGWEIR_INPUT__TOPIC": topic,
        "RAGWEIR_INPUT__FORMAT": "avro",
        "RAGWEIR_INPUT__MAP": str(tmp_path / "map.toml"),
        "RAGWEIR_OUTPUT__FORMAT": "avro",
        "RAGWEIR_REGISTRY__URL": registry.url,
        "RAGWEIR_BATCH__MAX_EVENTS": "20",
        "RAGWEIR_TELEMETRY__PORT": "0",
    }
    shared = ["--bootstrap-servers", kafka.bootstrap, "--prefix", prefix]
    answers = registry.register("answers-value", json.dumps(FIRST))

    def create() -> str:
        done = ragweir(*shared, "topics", "create", **settings)
        assert done.returncode == 0, done.stderr
        return "".join(line for line in done.stdout.decode().splitlines() if "is registered" in line)

    def read(name: str) -> list[Message]:
        return read_to_end(kafka.bootstrap, prefix + name)

    def publish(first: int, end: int) -> None:
        for partition in range(PARTITIONS):
            values = [avro(FIRST, answers, number) for number in range(first + partition, end, PARTITIONS)]
            produce(kafka.bootstrap, topic, values, partition=partition)

    registered = create()
    assert f"{prefix}evaluations.avro-value: schema" in registered
    assert create() == registered, "what is registered keeps its id"
    with ExitStack() as stack:
        for name in ("evaluate", "aggregate"):
            services.start(*shared, name, "--workers", "1", variables=settings)
        stack.callback(end_all, services)
        publish(0, 400)
        eventually(lambda: len(read("evaluations.avro")) == 400, "the first events are evaluated")
        registry.pause()
        publish(400, 800)
        eventually(lambda: len(read("evaluations.avro")) == 800, "known schemas need no registry")
        publish(800, 1_200)
        began = time.monotonic()
        for service in services:
            os.kill(service.pid(0), signal.SIGKILL)
        for service in services:
            eventually(lambda service=service: service.logged("waiting for the registry"), "a new worker waits")
        time.sleep(max(0.0, OUTAGE_S - (time.monotonic() - began)))
        registry.resume()
        eventually(lambda: len(read("evaluations.avro")) >= 1_200, "they go on")
        os.kill(services[0].pid(0), signal.SIGKILL)
        publish(1_200, 1_300)
        eventually(lambda: len(read("evaluations.avro")) >= 1_300, "the last events")
        eventually(lambda: sum(latest_events(read("windows"))) == 1_300, "all events are in windows")
    consumer = AvroConsumer(registry)
    ours = [orjson.loads(each.value() or b"") for each in read("evaluations")]
    theirs = read("evaluations.avro")
    assert Counter(each["event_id"] for each in ours) == Counter(f"e{number}" for number in range(1_300))
    for mine, message in zip(sorted(ours, key=key), sorted(map(consumer.read, theirs), key=key), strict=True):
        assert message["event_id"] == mine["event_id"]
        assert message["scores"] == mine["scores"]
        assert message["reasons"] == mine["reasons"]
        assert message["event_time"].isoformat().replace("+00:00", "Z")[:19] == mine["event_time"][:19]
        assert message["source"] == {"index": 0, **mine["source"]}
    headers = dict(theirs[0].headers() or [])
    assert headers["content-type"] == b"application/avro"
    assert headers["ce_type"] == b"ragweir.evaluation.scored.v1"
    windows = {each.key(): each.value() for each in read("windows") if b"progress" not in (each.key() or b"")}
    in_avro = {each.key(): consumer.read(each) for each in read("windows.avro")}
    assert in_avro.keys() == windows.keys()
    for name, value in windows.items():
        window = orjson.loads(value or b"")
        assert in_avro[name]["events"] == window["events"]
        assert in_avro[name]["revision"] == window["revision"]
        assert in_avro[name]["metrics"][
            "latency_ms" if "latency_ms" in window["metrics"] else next(iter(window["metrics"]))
        ]
        assert {metric: each["count"] for metric, each in in_avro[name]["metrics"].items()} == {
            metric: each["count"] for metric, each in window["metrics"].items()
        }


def key(record: dict[str, Any]) -> str:
    return str(record["event_id"])


def latest_events(messages: list[Message]) -> list[int]:
    """The numbers of events of the latest record of each part."""
    latest = {each.key(): orjson.loads(each.value() or b"{}") for each in messages}
    return [each["events"] for each in latest.values() if "events" in each]


def test_schemas_that_are_not_registered_are_told(
    kafka: SharedBroker, prefix: str, services: Services, registry: Registry
) -> None:
    for name in ("interactions", "redrive", "evaluations", "evaluations.protobuf", "dead-letter"):
        create_topic(kafka.bootstrap, prefix + name, 1)
    shared = ["--bootstrap-servers", kafka.bootstrap, "--prefix", prefix]
    own = {"RAGWEIR_OUTPUT__FORMAT": "protobuf", "RAGWEIR_REGISTRY__URL": registry.url, "RAGWEIR_TELEMETRY__PORT": "0"}
    created = ragweir(
        *shared,
        "topics",
        "create",
        **own
        | {
            "RAGWEIR_REGISTRY__URL": "http://127.0.0.1:9",
            "RAGWEIR_TOPICS__PARTITIONS": "1",
            "RAGWEIR_TOPICS__REPLICATION_FACTOR": "1",
        },
    )
    assert created.returncode != 0
    assert b"the registry does not answer" in created.stderr
    service = services.start(*shared, "evaluate", variables=own)
    assert service.ended() != 0
    assert "run `ragweir topics create`" in service.log.read_text()
