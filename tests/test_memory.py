"""A worker's memory is bounded by its settings, not by how much there is to read."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from conftest import create_topic

from ragweir.streams.local.kafka import LocalKafka

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from interactions import interactions

LIMIT_MB = 200


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found.group(1)) / 1024


def _settled(bootstrap: str, prefix: str) -> int:
    """How many interactions the group has committed, which costs less to ask than to read the evaluations."""
    topic = f"{prefix}interactions"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{prefix}evaluate", "log_level": 0})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        places = [TopicPartition(topic, partition) for partition in partitions]
        return sum(max(0, place.offset) for place in consumer.committed(places, timeout=30))
    finally:
        consumer.close()


@pytest.mark.parametrize(
    "events",
    [pytest.param(8_000, id="8k"), pytest.param(100_000, id="100k", marks=pytest.mark.long)],
)
def test_a_worker_stays_under_200_mb_however_long_the_backlog(kafka: LocalKafka, prefix: str, events: int) -> None:
    """The peak resident memory of a worker that works off a backlog of 4.5 KB events is under 200 MB."""
    for name in ("interactions", "redrive", "evaluations", "dead-letter"):
        create_topic(kafka.bootstrap, prefix + name, 4)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": "lz4", "linger.ms": 20})
    for number, value in enumerate(interactions(events)):
        producer.produce(f"{prefix}interactions", value, str(number))
        if number % 1000 == 0:
            producer.poll(0.05)
    assert producer.flush(60) == 0
    environment = {**os.environ, "RAGWEIR_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap, "RAGWEIR_TELEMETRY__PORT": "0"}
    command = [sys.executable, "-m", "ragweir.streams.cli", "--prefix", prefix, "evaluate", "--slot", "0"]
    worker = subprocess.Popen(command, env=environment)
    try:
        while (done := _settled(kafka.bootstrap, prefix)) < events:
            assert worker.poll() is None, "the worker ended"
            time.sleep(1)
        peak = _peak_mb(worker.pid)
    finally:
        worker.terminate()
        worker.wait(15)
    print(f"peak resident memory over {done} events: {peak:.0f} MB")
    assert peak < LIMIT_MB
