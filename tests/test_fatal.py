"""Records on which a process dies, on a real Kafka: each is buried alone, and nothing healthy ever is."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from conftest import produce, read_to_end
from faults import Service, Traffic, end_all, environment, eventually

from schemas.dead_letter import DeadLetter
from streams.local.kafka import LocalKafka
from streams.runtimes.attempts import OffsetMetadata

Start = Callable[..., Service]

# A worker whose events can do harm by what they ask: the harm is done where an event is read, in the worker as in the
# canary, which runs the same script. The canary's limits are smaller, so that a test does not wait for them.
HOSTILE = """
import ctypes, os, signal, sys, time
from streams.agents import evaluate
from streams.cli import main
from streams.runtimes import canary, guard

canary.CPU_S = 1
guard.TRIAL_S = 5.0
read = evaluate.EvaluateAgent._read

def spin():
    while True:
        pass

def hoard():
    held = []
    while len(held) < 20:  # 2 GB: more than the canary may have, and a worker outlives it.
        held.append(bytearray(100_000_000))
    os._exit(9)

HARM = {
    b"segv": lambda: ctypes.string_at(0),
    b"abort": os.abort,
    b"spin": spin,
    b"hoard": hoard,
    b"sleep": lambda: time.sleep(3600),
    b"exit": lambda: sys.exit(7),
    b"nap": lambda: time.sleep(0.05),
    b"kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
}

def hostile(self, record):
    for word, harm in HARM.items():
        if b"harm:" + word in (record.value or b""):
            harm()
    return read(self, record)

evaluate.EvaluateAgent._read = hostile
main()
"""
CAUSES = {
    "segv": "it ends the process with SIGSEGV",
    "abort": "it ends the process with SIGABRT",
    "spin": "it needs more CPU time than one record may take",
    "hoard": "it needs more memory than one record may take",
    "sleep": "it takes longer than 5 s",
    "exit": "it ends the process with exit status 7",
}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start workers whose events can do harm; all have ended when the test has."""
    services: list[Service] = []

    def start(traffic: Traffic, *arguments: str, **settings: Any) -> Service:
        log = tmp_path / f"{len(services)}.log"
        words = ["-c", HOSTILE, "evaluate", *arguments]
        services.append(Service(words, log, environment(traffic, **settings)))
        return services[-1]

    yield start
    end_all(services)


def event(number: int, harm: str = "") -> bytes:
    query = f"harm:{harm}" if harm else "Is it?"
    return json.dumps({"event_id": f"0/{number}", "query": query, "response": "It is."}).encode()


def publish(traffic: Traffic, harms: dict[int, str], number: int = 51) -> None:
    produce(traffic.bootstrap, traffic.topic, [event(n, harms.get(n, "")) for n in range(number)], partition=0)
    traffic.published[0] = number


def letters(traffic: Traffic) -> list[DeadLetter]:
    found = read_to_end(traffic.bootstrap, f"{traffic.prefix}dead-letter")
    return [DeadLetter.from_headers(message.headers()) for message in found]


def metadata(traffic: Traffic) -> OffsetMetadata:
    """What the group's committed offset of the first partition says."""
    group = f"{traffic.prefix}evaluate"
    asked = traffic.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
    own = [at for at in asked.topic_partitions if (at.topic, at.partition) == (traffic.topic, 0)]
    return OffsetMetadata.stored(own[0].metadata if own else None)


@pytest.mark.parametrize("harm", CAUSES)
def test_one_record_that_ends_processes_is_buried_and_its_neighbours_are_evaluated(
    kafka: LocalKafka, prefix: str, start: Start, harm: str
) -> None:
    """Of 51 records in one batch the harmful one becomes a dead letter, with its bytes and the cause; 50 are evaluated.

    In order and exactly once; and the worker that comes after does not read it again.
    """
    traffic = Traffic(kafka.bootstrap, prefix, partitions=1)
    publish(traffic, {20: harm})
    worker = start(traffic, "--slot", "0", batch__max_events=100)
    if harm in ("spin", "sleep"):  # A supervisor would end it after a minute.
        eventually(lambda: metadata(traffic).attempts == 1, "the attempt is noted")
        worker.send(signal.SIGKILL)
    assert worker.ended() != 0
    assert metadata(traffic).model_dump() == {"attempts": 1, "until": 51, "fatal": (), "warm_from": 0}
    worker = start(traffic, "--slot", "0", batch__max_events=100)
    traffic.settled()
    assert worker.process.poll() is None
    places = [place for _, (_, place) in traffic.evaluations()]
    assert places == [offset for offset in range(51) if offset != 20]
    (letter,) = letters(traffic)
    assert (letter.error_class, letter.source_offset, letter.length) == ("fatal", 20, None)
    assert letter.message == CAUSES[harm]
    (message,) = read_to_end(traffic.bootstrap, f"{prefix}dead-letter")
    assert message.value() == event(20, harm)
    assert metadata(traffic).model_dump() == {"attempts": 0, "until": 0, "fatal": (20,), "warm_from": 0}
    assert worker.stop() == 0
    third = start(traffic, "--slot", "0")
    produce(traffic.bootstrap, traffic.topic, [event(51)], partition=0)
    traffic.published[0] = 52
    traffic.settled()
    assert third.process.poll() is None, "what stands before its start is read again, but not that record"
    assert third.stop() == 0
