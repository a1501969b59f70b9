"""Records on which a process dies, on a real Kafka: each is buried alone, and nothing healthy ever is."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from conftest import QUICK_BROKER, create_topic, produce, read_to_end
from faults import Service, Traffic, end_all, environment, eventually, gone, set_offset

from ragweir.schemas.dead_letter import DeadLetter
from ragweir.streams.local.kafka import LocalKafka, local_kafka
from ragweir.streams.runtimes.attempts import MOST, OffsetMetadata
from ragweir.streams.supervisor import REFUSED

Start = Callable[..., Service]

# A worker whose events can do harm by what they ask: the harm is done where a record is read, in the worker as in the
# canary, which runs the same script. Limits are smaller, so that a test does not wait for them.
HOSTILE = """
import ctypes, os, re, signal, sys, time
from ragweir.streams import supervisor
from ragweir.streams.agents import aggregate, evaluate
from ragweir.streams.cli import main, services
from ragweir.streams.runtimes import canary, guard, kafka, transactions

canary.CPU_S = 1
guard.TRIAL_S = 5.0
supervisor.Supervisor.__init__.__kwdefaults__["stalled_s"] = 3.0
services.own_command = lambda *words: [sys.executable, "-c", sys.orig_argv[2], *words]

def spin():
    while True:
        pass

def hoard():
    held = []
    while len(held) < 20:  # 2 GB: more than the canary may have, and no machine's limit.
        held.append(bytearray(100_000_000))
    os._exit(9)

def kill():
    if os.path.exists(os.environ.get("HARMFUL", "")):
        os.kill(os.getpid(), signal.SIGKILL)

HARM = {
    b"segv": lambda: ctypes.string_at(0),
    b"abort": os.abort,
    b"spin": spin,
    b"regex": lambda: re.match("(a+)+$", "a" * 60 + "b"),  # Holds the interpreter: nothing else in the process runs.
    b"hoard": hoard,
    b"sleep": lambda: time.sleep(3600),
    b"exit": lambda: sys.exit(7),
    b"nap": lambda: time.sleep(0.1),
    b"kill": kill,
}

def hostile(record):
    for word, harm in HARM.items():
        if b"harm:" + word in (record.value or b""):
            harm()

def wrapped(read, at):
    def reading(*given):
        hostile(given[at])
        return read(*given)
    return reading

evaluate.EvaluateAgent.read = wrapped(evaluate.EvaluateAgent.read, 1)
aggregate._evaluation = wrapped(aggregate._evaluation, 0)

class Dying(kafka.Transactions):
    def commit(self, emissions, *given):
        windows = any(b"progress" not in (emission.key or b"") for emission in emissions)
        if windows and os.environ.get("DIES"):  # With a batch handled, and its transaction not begun.
            os.kill(os.getpid(), signal.SIGKILL)
        if os.path.exists(os.environ.get("HANGS", "")):  # A call takes longer than the watchdog lets it.
            self._watchdog._limit_s, transactions.CALL_TIMEOUT_S = 0.5, 60.0
        super().commit(emissions, *given)

kafka.Transactions = Dying
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
    """Start services whose records can do harm; all have ended when the test has."""
    services: list[Service] = []

    def start(
        traffic: Traffic, *arguments: str, service: str = "evaluate", variables: Mapping[str, str] | None = None
    ) -> Service:
        log = tmp_path / f"{len(services)}.log"
        own = environment(traffic, batch__max_events=100) | dict(variables or {})
        services.append(Service(["-c", HOSTILE, service, *arguments], log, own))
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


def metadata(traffic: Traffic, service: str = "evaluate", topic: str = "interactions") -> OffsetMetadata:
    """What a group's committed offset of the first partition says."""
    group, place = f"{traffic.prefix}{service}", (f"{traffic.prefix}{topic}", 0)
    asked = traffic.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
    own = [at for at in asked.topic_partitions if (at.topic, at.partition) == place]
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
    worker = start(traffic, "--slot", "0")
    if harm in ("spin", "sleep"):  # A supervisor would end it after a minute.
        eventually(lambda: metadata(traffic).attempts == 1, "the attempt is noted")
        worker.send(signal.SIGKILL)
    assert worker.ended() != 0
    assert metadata(traffic).model_dump() == {"attempts": 1, "until": 51, "fatal": (), "warm_from": 0}
    worker = start(traffic, "--slot", "0")
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


def healthy(traffic: Traffic) -> None:
    """Wait until everything is settled: all is evaluated, once and in order, and nothing buried."""
    traffic.settled()
    assert [place for _, (_, place) in traffic.evaluations()] == list(range(traffic.published[0]))
    assert letters(traffic) == []


def child(worker: int) -> int:
    """The process that tries records for a worker; 0 while there is none."""
    try:
        found = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
    except OSError:
        return 0
    return next((int(each) for each in found if not gone(int(each))), 0)


def works_in(process: Path) -> Path | None:
    """The folder in which a process works; None for one that is gone."""
    try:
        return (process / "cwd").readlink()
    except OSError:
        return None


def test_a_supervisor_finds_the_record_that_stops_workers(kafka: LocalKafka, prefix: str, start: Start) -> None:
    """A record whose evaluation never ends, and lets nothing else run: killed after the stall, found, buried alone."""
    traffic = Traffic(kafka.bootstrap, prefix, partitions=1)
    publish(traffic, {7: "regex", 8: "abort", 30: "segv"})
    service = start(traffic, "--workers", "1")
    traffic.settled()
    assert [place for _, (_, place) in traffic.evaluations()] == [n for n in range(51) if n not in (7, 8, 30)]
    assert {letter.source_offset: (letter.error_class, letter.message) for letter in letters(traffic)} == {
        7: ("fatal", CAUSES["spin"]),
        8: ("fatal", CAUSES["abort"]),
        30: ("fatal", CAUSES["segv"]),
    }
    assert service.logged("stands still", level="error")
    assert metadata(traffic).fatal == (7, 8, 30)
    assert service.stop() == 0


def test_kills_bury_nothing(kafka: LocalKafka, prefix: str, start: Start) -> None:
    """Workers, and the processes that try records for them, are killed again and again, and the records are healthy."""
    traffic = Traffic(kafka.bootstrap, prefix, partitions=1)
    publish(traffic, dict.fromkeys(range(51), "nap"))
    for life in range(4):
        worker = start(traffic, "--slot", "0")
        eventually(lambda life=life: metadata(traffic).attempts == life + 1, "it begins on the records")
        for moment_s in (0.2, 2.0, 4.0) if life else ():
            trying = eventually(lambda worker=worker: child(worker.process.pid), "records are tried")
            time.sleep(moment_s)
            os.kill(trying, signal.SIGKILL)
            eventually(lambda trying=trying: gone(trying), "it is gone")
        worker.send(signal.SIGKILL)
        worker.ended()
    assert worker.logged("the process that tries records")
    start(traffic, "--slot", "0")
    healthy(traffic)


def test_a_record_whose_trials_are_killed_is_waited_for(
    kafka: LocalKafka, prefix: str, start: Start, tmp_path: Path
) -> None:
    """As where the kernel kills, for want of memory: the worker leaves, and buries and passes over nothing."""
    traffic = Traffic(kafka.bootstrap, prefix, partitions=1)
    publish(traffic, {20: "kill"})
    harmful = tmp_path / "harmful"
    harmful.touch()
    for status in (-signal.SIGKILL, 1):
        worker = start(traffic, "--slot", "0", variables={"HARMFUL": str(harmful)})
        assert worker.ended() == status
    assert worker.logged("ended from outside again and again", level="error")
    assert traffic.evaluations() == []
    harmful.unlink()
    start(traffic, "--slot", "0", variables={"HARMFUL": str(harmful)})
    healthy(traffic)


def test_a_watchdog_and_a_broker_that_stands_still_bury_nothing(prefix: str, start: Start, tmp_path: Path) -> None:
    """A worker leaves as calls to Kafka do not come back, with its first records in hand, more than once."""
    with local_kafka(folder=tmp_path / "kafka", properties=QUICK_BROKER) as broker:
        java = next(
            int(each.name)
            for each in Path("/proc").glob("[0-9]*")
            if works_in(each) == tmp_path / "kafka" and b"kafka.Kafka" in (each / "cmdline").read_bytes()
        )
        traffic = Traffic(broker.bootstrap, prefix, partitions=1)
        publish(traffic, dict.fromkeys(range(51), "nap"))
        hangs = tmp_path / "hangs"
        for life in range(2):
            worker = start(traffic, "--slot", "0", variables={"HANGS": str(hangs)})
            eventually(lambda life=life: metadata(traffic).attempts == life + 1, "it begins on the records")
            hangs.touch()
            os.kill(java, signal.SIGSTOP)
            assert worker.ended() == 1
            hangs.unlink()
            os.kill(java, signal.SIGCONT)
            traffic.reconnect()
            assert worker.logged("a call to Kafka does not come back")
        start(traffic, "--slot", "0")
        healthy(traffic)


def test_a_worker_that_was_stopped_for_a_while_is_replaced_and_buries_nothing(
    kafka: LocalKafka, prefix: str, start: Start
) -> None:
    """SIGSTOP with records in hand: the supervisor ends the worker after the stall, and the next one goes on."""
    traffic = Traffic(kafka.bootstrap, prefix, partitions=1)
    publish(traffic, dict.fromkeys(range(51), "nap"))
    service = start(traffic, "--workers", "1")
    eventually(lambda: metadata(traffic).attempts == 1, "it begins on the records")
    first = service.pid(0)
    os.kill(first, signal.SIGSTOP)
    eventually(lambda: gone(first), "it is ended")
    healthy(traffic)
    assert service.logged("stands still", level="error")


def evaluations_to_sum(kafka: LocalKafka, prefix: str, start: Start, harms: dict[int, str]) -> Traffic:
    """Evaluations for aggregate, of which some do harm there."""
    traffic = Traffic(kafka.bootstrap, prefix, partitions=1)
    create_topic(kafka.bootstrap, f"{prefix}windows")
    publish(traffic, {}, 20)
    worker = start(traffic, "--slot", "0")
    traffic.settled()
    assert worker.stop() == 0
    produce(kafka.bootstrap, f"{prefix}evaluations", [f"harm:{harm}".encode() for harm in harms.values()], partition=0)
    return traffic


def test_aggregate_stops_for_good_where_its_processes_die_on_the_same_records(
    kafka: LocalKafka, prefix: str, start: Start
) -> None:
    """After so many deaths it is refused, in one sentence that names the records and what to do; which then helps."""
    traffic = evaluations_to_sum(kafka, prefix, start, {0: "abort"})
    topic, group = f"{prefix}evaluations", f"{prefix}aggregate"
    for life in range(MOST):
        assert start(traffic, "--slot", "0", service="aggregate").ended() == -signal.SIGABRT
        assert metadata(traffic, "aggregate", "evaluations").attempts == life + 1
    refused = start(traffic, "--slot", "0", service="aggregate")
    assert refused.ended() == REFUSED
    (line,) = refused.logged(level="error")
    assert f"{MOST} processes in a row have ended" in line["event"]
    assert f"{topic}/0 from offset 0 to before 2" in line["event"]
    assert f"--group {group} --topic {topic}:0 --reset-offsets --to-offset 0" in line["event"]
    assert letters(traffic) == []
    set_offset(kafka.bootstrap, group, topic, 0, 0)
    assert start(traffic, "--slot", "0", service="aggregate").ended() == -signal.SIGABRT, "it tries again"


def test_kills_never_stop_aggregate_for_good(kafka: LocalKafka, prefix: str, start: Start) -> None:
    """However often it is killed with its first records handled and not committed, the next one goes on."""
    traffic = evaluations_to_sum(kafka, prefix, start, {})
    for _ in range(MOST + 1):
        killed = start(traffic, "--slot", "0", service="aggregate", variables={"DIES": "1"})
        assert killed.ended() == -signal.SIGKILL
        assert metadata(traffic, "aggregate", "evaluations").attempts < 2
    start(traffic, "--slot", "0", service="aggregate")
    topic = f"{prefix}windows"
    eventually(
        lambda: any(b"progress" not in (each.key() or b"") for each in read_to_end(kafka.bootstrap, topic)),
        "windows are written",
    )
    assert metadata(traffic, "aggregate", "evaluations").attempts == 0


def test_metadata_of_others_says_nothing(kafka: LocalKafka, prefix: str, start: Start) -> None:
    """Offsets that an older release committed, without metadata, and those with somebody else's."""
    traffic = Traffic(kafka.bootstrap, prefix, partitions=1)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"{prefix}evaluate", "log_level": 0})
    for offset, text in enumerate(("", "somebody's", '{"attempts": "many"}', "[" * 4_000, "")):
        at = TopicPartition(traffic.topic, 0, offset, text)
        eventually(lambda at=at: consumer.commit(offsets=[at], asynchronous=False), "it is committed")
        produce(kafka.bootstrap, traffic.topic, [event(offset)], partition=0)
        traffic.published[0] = offset + 1
        worker = start(traffic, "--slot", "0")
        traffic.settled()
        assert worker.stop() == 0
        assert worker.logged(level="error") == []
    consumer.close()
    healthy(traffic)
