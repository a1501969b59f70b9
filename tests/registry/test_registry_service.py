"""A real registry: an Avro topic of a foreign schema is evaluated exactly once, whatever happens: `make test-registry`.

The registry is Apicurio, whose schemas are in memory: it is registered anew after an outage, with the same ids.
"""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from avro_answers import FIRST, MAP, SECOND, TIME_MS, avro
from commands import evaluating, ragweir
from conftest import SharedBroker, create_topic, produce, read_to_end, values
from services import eventually

from tools.schema_registry import Registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("registry")) as started:
        yield started


def register(registry: Registry) -> tuple[int, int]:
    """Return the ids of the two versions of the schema."""
    first, second = (registry.register("answers-value", json.dumps(schema)) for schema in (FIRST, SECOND))
    return first, second


def topics(kafka: SharedBroker, prefix: str, partitions: int = 2) -> str:
    for name in ("interactions", "redrive", "evaluations", "dead-letter"):
        create_topic(kafka.bootstrap, prefix + name, partitions)
    return create_topic(kafka.bootstrap, f"{prefix}answers", partitions)


def evaluated(kafka: SharedBroker, prefix: str) -> Counter[str]:
    return Counter(each["event_id"] for each in values(kafka.bootstrap, f"{prefix}evaluations"))


def settings(registry: Registry, prefix: str, folder: Path, form: str = "avro") -> dict[str, str]:
    (folder / "map.toml").write_text(MAP)
    return {
        "RAGWEIR_INPUT__TOPIC": f"{prefix}answers",
        "RAGWEIR_INPUT__FORMAT": form,
        "RAGWEIR_INPUT__MAP": str(folder / "map.toml"),
        "RAGWEIR_REGISTRY__URL": registry.url,
    }


def test_an_avro_topic_is_evaluated_through_an_outage_and_kills(
    kafka: SharedBroker, prefix: str, tmp_path: Path, registry: Registry
) -> None:
    topic = topics(kafka, prefix)
    first, second = register(registry)
    own = settings(registry, prefix, tmp_path)
    produce(kafka.bootstrap, topic, [avro(FIRST, first, number) for number in range(50)], partition=0)
    with evaluating(kafka.bootstrap, prefix, tmp_path, workers=1, **own) as service:
        eventually(lambda: len(evaluated(kafka, prefix)) == 50, "the first schema is read")
        registry.stop()
        # A schema that is not known yet waits for the registry; the other partition goes on.
        produce(kafka.bootstrap, topic, [avro(SECOND, second, number) for number in range(50, 100)], partition=0)
        produce(kafka.bootstrap, topic, [avro(FIRST, first, number) for number in range(100, 150)], partition=1)
        eventually(lambda: len(evaluated(kafka, prefix)) == 100, "the other partition goes on")
        eventually(lambda: service.logged("waiting for the registry"), "it says what it waits for")
        worker = service.pid(0)
        assert service.asked("/healthz")[0] == 200
        time.sleep(5)
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: service.pid(0) != worker, "a new worker")
        assert len(evaluated(kafka, prefix)) == 100
        registry.start()
        assert register(registry) == (first, second)
        eventually(lambda: len(evaluated(kafka, prefix)) == 150, "the outage is over")
        # An id that is forged is a dead letter in the end; what follows on its partition is read then.
        produce(kafka.bootstrap, topic, [b"\0\0\0\x03\xe7ab", avro(FIRST, first, 150)], partition=0)
        eventually(lambda: len(evaluated(kafka, prefix)) == 151, "a forged id is given up")
    assert set(evaluated(kafka, prefix).values()) == {1}
    assert sorted(evaluated(kafka, prefix)) == sorted(f"e{number}" for number in range(151))
    (letter,) = read_to_end(kafka.bootstrap, f"{prefix}dead-letter")
    headers = dict(letter.headers() or [])
    assert headers["ragweir-error-class"] == b"unknown_schema"
    assert b"schema 999 is not in the registry" in headers.values()


def test_json_of_a_schema_is_evaluated(kafka: SharedBroker, prefix: str, tmp_path: Path, registry: Registry) -> None:
    topic = topics(kafka, prefix)
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "title": prefix}
    number = registry.register(f"{prefix}answers-value", json.dumps(schema), "JSON")
    value = {"id": "e1", "question": "Who?", "answer": "Ada.", "at": TIME_MS, "passages": []}
    produce(kafka.bootstrap, topic, [b"\0" + number.to_bytes(4, "big") + orjson.dumps(value)])
    with evaluating(kafka.bootstrap, prefix, tmp_path, **settings(registry, prefix, tmp_path, "jsonschema")):
        eventually(lambda: evaluated(kafka, prefix) == Counter(e1=1), "it is evaluated")


def test_tap_and_doctor_name_the_schemas(kafka: SharedBroker, prefix: str, tmp_path: Path, registry: Registry) -> None:
    topic = topics(kafka, prefix)
    first, _ = register(registry)
    own = settings(registry, prefix, tmp_path)
    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix)
    produce(kafka.bootstrap, topic, [avro(FIRST, first, number) for number in range(20)], partition=0)
    checked = ragweir(*shared, "doctor", **own).stdout.decode()
    assert f"schemas: the newest 20 records name schema {first} AVRO com.example.shop.Answered" in checked
    produce(kafka.bootstrap, topic, [b"\0\0\0\x03\xe7ab", avro(FIRST, first, 20)[:-3]], partition=0)

    without = {name: value for name, value in own.items() if not name.startswith("RAGWEIR_INPUT")}
    tapped = ragweir(*shared, "tap", topic, **without)
    shown = " ".join(tapped.stdout.decode().split())
    assert tapped.returncode == 0, tapped.stderr
    assert f"21 schema {first}: AVRO com.example.shop.Answered" in shown
    assert "1 schema 999: is not in the registry" in shown
    assert 'set input.format = "avro"' in shown
    assert 'query = "question"' in shown
    through_map = ragweir(*shared, "tap", topic, **own)
    assert through_map.returncode == 0, through_map.stderr
    assert b"Read through the map" in through_map.stdout

    checked = ragweir(*shared, "doctor", **own).stdout.decode()
    assert "schemas: records name a schema that cannot be used: schema 999 is not in the registry" in checked
    away = own | {"RAGWEIR_REGISTRY__URL": "http://127.0.0.1:9/apis"}
    checked = ragweir(*shared, "doctor", **away).stdout.decode()
    assert "registry: the registry does not answer" in checked
    tapped = ragweir(*shared, "tap", topic, **away)
    assert tapped.returncode != 0
    assert b"does not answer" in tapped.stderr


def test_a_dead_letter_is_redriven_through_its_schema(
    kafka: SharedBroker, prefix: str, tmp_path: Path, registry: Registry
) -> None:
    """It is rejected through a wrong map; the topic of redriven events holds JSON."""
    topic = topics(kafka, prefix)
    first, _ = register(registry)
    own = settings(registry, prefix, tmp_path)
    produce(kafka.bootstrap, topic, [avro(FIRST, first, number) for number in range(3)], partition=0)
    (tmp_path / "map.toml").write_text(MAP.replace('query = "question"', 'query = "passages"'))
    with evaluating(kafka.bootstrap, prefix, tmp_path, **own):
        eventually(lambda: len(read_to_end(kafka.bootstrap, f"{prefix}dead-letter")) == 3, "they are rejected")
    (tmp_path / "map.toml").write_text(MAP)
    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix)
    done = ragweir(*shared, "dead-letter", "redrive", **own)
    assert done.returncode == 0, done.stderr
    assert b"3 sent to" in done.stdout
    with evaluating(kafka.bootstrap, prefix, tmp_path, **own):
        eventually(lambda: len(evaluated(kafka, prefix)) == 3, "they are evaluated")
    assert evaluated(kafka, prefix) == Counter({f"e{number}": 1 for number in range(3)})


def test_a_wrong_address_is_told(kafka: SharedBroker, prefix: str, tmp_path: Path, registry: Registry) -> None:
    topic = topics(kafka, prefix)
    first, _ = register(registry)
    produce(kafka.bootstrap, topic, [avro(FIRST, first, 1)])
    own = settings(registry, prefix, tmp_path) | {"RAGWEIR_REGISTRY__URL": registry.url.partition("/apis")[0]}
    with evaluating(kafka.bootstrap, prefix, tmp_path, **own) as service:
        assert service.ended() != 0
        assert "registry.url needs the whole path of its API" in service.log.read_text()
