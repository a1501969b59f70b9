"""Evaluate on Faust up to its client of Kafka, in a process of its own: Faust changes the one that imports it."""

import importlib.util
import subprocess

import orjson
import pytest

from ragweir.streams.runtime.processes.child_python import python_command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("faust") is None, reason="needs pip install 'ragweir[faust]'"),
]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SCRIPT = f"""
import asyncio
import orjson
from faust.types.tuples import Message
from ragweir.streams.runtime.serving.telemetry import Telemetry
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.services.faust.runtime import EvaluateApp
from ragweir.streams.settings import Settings

class Producer:
    def __init__(self):
        self.sent = []

    async def send_and_wait(self, topic, key, value, partition, timestamp, headers):
        self.sent.append((topic, orjson.loads(value)))

async def main():
    app = EvaluateApp(Settings(), 0)
    app.producer, app._telemetry = Producer(), telemetry_of("evaluate", 0)
    parent = b"00-{TRACE}-00f067aa0ba902b7-01"
    for offset, headers in enumerate((None, {{"traceparent": parent}}, [("traceparent", parent)])):
        value = orjson.dumps({{"event_id": str(offset), "query": "Who?", "response": "Ada."}})
        await app._settle(Message("rag.interactions", 0, offset, 5.0, 0, headers, b"k", value, None))
    await app._leader_assignor.on_start()
    read = sorted(topic for channel in app.topics for topic in channel.topics)
    written = [(topic, found["event_id"], found["trace_id"]) for topic, found in app.producer.sent]
    print(orjson.dumps({{"written": written, "read": read}}).decode())

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def told() -> dict[str, list[object]]:
    done = subprocess.run(python_command("-c", SCRIPT), capture_output=True, check=True, timeout=120)
    found: dict[str, list[object]] = orjson.loads(done.stdout.splitlines()[-1])
    return found


def test_headers_are_read_as_pairs_and_as_a_mapping(told: dict[str, list[object]]) -> None:
    """Faust's clients give either of them."""
    assert told["written"] == [["rag.evaluations", str(each), trace] for each, trace in enumerate((None, TRACE, TRACE))]


def test_the_leader_of_the_group_reads_no_topic_of_its_own(told: dict[str, list[object]]) -> None:
    """It would need rights that evaluate has not."""
    assert told["read"] == []
