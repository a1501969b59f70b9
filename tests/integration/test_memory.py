"""A worker's memory is bounded by its settings, not by how much there is to read."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from conftest import SharedBroker, create_topic

from bench.interactions import interactions

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


@pytest.mark.heavy
@pytest.mark.parametrize(
    "events",
    [pytest.param(8_000, id="8k"), pytest.param(100_000, id="100k", marks=pytest.mark.long)],
)
def test_a_worker_stays_under_200_mb_however_long_the_backlog(kafka: SharedBroker, prefix: str, events: int) -> None:
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
    command = [sys.executable, "-m", "ragweir.streams.commands", "--prefix", prefix, "evaluate", "--slot", "0"]
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


_HOLDING = """
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from bench.aggregation import evaluations
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.streams.runtime.agent import Assignment, StoredChangelog
from ragweir.streams.services.aggregate.agent import AggregateAgent, AggregateConfig
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import WindowSettings

def peak(of="VmHWM"):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(of))

max_bytes, partitions, sets, minutes, each = map(int, sys.argv[1:])
events = [orjson.loads(value) for value in evaluations(sets * each)]
agent = AggregateAgent(AggregateConfig(Aggregator(Catalogue(everything())), WindowSettings(max_bytes=max_bytes)))
for partition in range(partitions):
    agent.on_assigned(Assignment(("evaluations", partition), None, 0))
start, before, overflow = datetime(2026, 11, 21, tzinfo=UTC), peak(), 0
for minute in range(minutes):
    for partition in range(partitions):
        for first in range(0, len(events), 1_000):
            batch = []
            for number in range(first, min(first + 1_000, len(events))):
                at = start + timedelta(minutes=minute, seconds=60 * number / len(events))
                fields = {**events[number], "event_time": at, "application": f"app-{number % sets}", "model": "m"}
                stamp = int(at.timestamp() * 1000)
                offset = minute * len(events) + number
                batch.append(Record("evaluations", partition, offset, None, orjson.dumps(fields), stamp))
            overflow += agent.handle(batch).counts["ragweir_window_overflow_total",]
            agent.tick(0.0, (), 1)
            agent.on_commit()
print(peak() - before, peak(), overflow)
"""
"""A worker without Kafka, given label sets every minute on some partitions. It prints by how much its memory grew, and
its peak."""


def _hold(max_mb: int, partitions: int, sets: int, minutes: int, each: int) -> tuple[int, int, int]:
    """The growth of a worker's memory and its peak in bytes, and the number of events in overflow."""
    command = [sys.executable, "-c", _HOLDING, *map(str, (max_mb << 20, partitions, sets, minutes, each))]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True, check=True)
    taken, peak, overflow = map(int, ended.stdout.split()[-3:])
    print(f"{taken >> 20} MiB of {max_mb}, peak {peak >> 20} MiB, {overflow:,} events overflow")
    return taken, peak, overflow


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("max_mb", "minutes", "each"),
    [
        pytest.param(32, 20, 1, id="32 MB"),
        pytest.param(512, 130, 4, id="512 MB, the default", marks=pytest.mark.long),
    ],
)
def test_windows_of_many_label_sets_stay_within_their_memory(max_mb: int, minutes: int, each: int) -> None:
    """210 label sets a minute on 6 partitions take what `windows.max_bytes` says; a batch may take 64 MB beside it."""
    taken, _, overflow = _hold(max_mb, 6, 210, minutes, each)
    assert taken < (max_mb + 64) << 20
    assert overflow


@pytest.mark.heavy
@pytest.mark.parametrize(
    "minutes", [pytest.param(20, id="20 minutes"), pytest.param(1_440, id="a day", marks=pytest.mark.long)]
)
def test_a_day_of_200_label_sets_takes_300_mb(minutes: int) -> None:
    """The windows of 200 label sets on one partition take a worker's peak to less than 300 MB, and none overflows."""
    _, peak, overflow = _hold(512, 1, 200, minutes, 1)
    assert peak < 300 << 20
    assert not overflow
