"""Headers of records on a real broker: those that no client reads cost no event, and redrive gives the others back."""

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from commands import evaluating, ragweir
from conftest import SharedBroker, create_topic, produce, read_to_end
from poison import event
from services import eventually

from ragweir.schemas.topics import max_record_bytes

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
HOSTILE = """
import asyncio, sys
from aiokafka import AIOKafkaProducer

class Name(str):
    def encode(self, *_):
        return b"\\xff\\xfe"

async def main(bootstrap, topic, values):
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            headers = [("traceparent", b"x"), (Name("bad"), b"1"), ("later", b"2")]
            await producer.send_and_wait(topic, value.encode(), headers=headers, partition=0)

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
"""
"""A producer whose header has a name that is not UTF-8; aiokafka's compiled part would reject it."""


@pytest.mark.heavy
def test_headers_live(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """A name that is not UTF-8 is flagged, and what is rejected comes back with its headers and is evaluated then."""
    ours = {"max.message.bytes": str(max_record_bytes())}
    for name in ("interactions", "redrive", "evaluations", "dead-letter"):
        create_topic(kafka.bootstrap, prefix + name, 1, ours)
    topic = f"{prefix}interactions"
    headers = (
        ("traceparent", PARENT),
        ("a", b"\xff"),
        ("ce_id", b"theirs"),
        ("ragweir-message", b"forged"),
        ("n", None),
    )
    foreign = orjson.dumps({"event_id": "e1", "query": "Who?", "answer": "Ada."})
    produce(kafka.bootstrap, topic, [foreign], key=b"k", headers=headers)
    values = [event(event_id="hostile").decode(), "not JSON"]
    hostile = [sys.executable, "-c", HOSTILE, kafka.bootstrap, topic, *values]
    subprocess.run(hostile, check=True, timeout=120, env=os.environ | {"AIOKAFKA_NO_EXTENSIONS": "1"})
    produce(kafka.bootstrap, topic, [event(event_id="after")])
    with evaluating(kafka.bootstrap, prefix, tmp_path) as service:
        eventually(lambda: len(read_to_end(kafka.bootstrap, f"{prefix}evaluations")) == 2, "the events are evaluated")
        eventually(lambda: len(read_to_end(kafka.bootstrap, f"{prefix}dead-letter")) == 2, "the others are rejected")
        file = tmp_path / "map.toml"
        file.write_text('event_id = "event_id"\nquery = "query"\nresponse = "answer"\n')
        shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "dead-letter")
        assert ragweir(*shared, "redrive", "--map", file).returncode == 0
        eventually(lambda: len(read_to_end(kafka.bootstrap, f"{prefix}evaluations")) == 3, "it is evaluated at last")
        assert len(service.logged("started")) == 1, "no header ended the process"
    found = {each["event_id"]: each for each in map(_value, read_to_end(kafka.bootstrap, f"{prefix}evaluations"))}
    assert {name: each["flags"] for name, each in found.items()} == {"hostile": ["headers_cut"], "after": [], "e1": []}
    assert found["e1"]["trace_id"] == PARENT[3:35].decode()
    first, second = read_to_end(kafka.bootstrap, f"{prefix}dead-letter")
    (again,) = read_to_end(kafka.bootstrap, f"{prefix}redrive")
    theirs = [(f"original-{name}" if name.startswith(("ce_", "ragweir-")) else name, value) for name, value in headers]
    for message in (first, again):
        assert (message.headers() or [])[-len(theirs) :] == theirs
    assert dict(second.headers() or [])["ragweir-error-class"] == b"not_json"
    assert "later" not in dict(second.headers() or [])
    shown = ragweir(*shared, "show").stdout.decode()
    assert "original-ragweir-message=forged" in shown


def _value(message: object) -> dict[str, object]:
    found: dict[str, object] = orjson.loads(message.value())  # type: ignore[attr-defined]
    return found
