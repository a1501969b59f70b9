"""Workers whose events can do harm, for the tests of records on which processes die."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from conftest import SharedBroker, committed, create_topic, produce, read_to_end
from faults import Traffic, environment, gone
from services import Service, Services

from ragweir.schemas.dead_letter import DeadLetter
from ragweir.streams.runtime.recovery.offset_metadata import OffsetMetadata

Start = Callable[..., Service]

CAUSES = {
    "segv": "it ends the process with SIGSEGV",
    "abort": "it ends the process with SIGABRT",
    "spin": "it needs more CPU time than one record may take",
    "hoard": "it needs more memory than one record may take",
    "sleep": "it takes longer than 10 s",
    "exit": "it ends the process with exit status 7",
}
"""The harms, with the message of the dead letter that each comes to."""

# A worker whose events can do harm by what they ask: the harm is done where a record is read, in the worker as in the
# canary, which runs the same script. Limits are smaller, so that a test does not wait for them.
HOSTILE = """
import ctypes, os, re, signal, sys, time
from ragweir.streams.runtime.processes import supervisor
from ragweir.streams.services.aggregate import agent as aggregate
from ragweir.streams.services.evaluate import agent as evaluate
from ragweir.streams.commands import main, services
from ragweir.streams.runtime.loop import kafka_runtime, transactions
from ragweir.streams.runtime.protection import canary, canary_client

canary.CPU_SECONDS = 1
canary_client.TRIAL_SECONDS = 10.0
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

class Dying(kafka_runtime.Transactions):
    def write(self, emissions):
        windows = any(b"progress" not in (emission.key or b"") for emission in emissions)
        if windows and os.environ.get("DIES"):  # With a batch handled, and its transaction not begun.
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(emissions)

    def commit(self, *groups):
        if os.path.exists(os.environ.get("HANGS", "")):  # The broker, whose process id is in the file, stands still.
            self._watchdog._limit_s, transactions.CALL_TIMEOUT_SECONDS = 0.5, 60.0
            with open(os.environ["HANGS"]) as file:
                os.kill(int(file.read()), signal.SIGSTOP)
        super().commit(*groups)

kafka_runtime.Transactions = Dying
main()
"""


def starting(services: Services) -> Start:
    """Gives a function that starts services whose records can do harm."""

    def start(
        traffic: Traffic, *arguments: str, service: str = "evaluate", variables: Mapping[str, str] | None = None
    ) -> Service:
        own = environment(traffic, batch__max_events=100) | dict(variables or {})
        return services.start(service, *arguments, before=("-c", HOSTILE), variables=own)

    return start


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
    own = committed(traffic.admin, f"{traffic.prefix}{service}").get((f"{traffic.prefix}{topic}", 0))
    return OffsetMetadata.parse(own.metadata if own else None)


def healthy(traffic: Traffic) -> None:
    """Wait until everything is settled: all is evaluated, once and in order, and nothing is a dead letter."""
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


def evaluations_to_sum(kafka: SharedBroker, prefix: str, start: Start, harms: dict[int, str]) -> Traffic:
    """Evaluations for aggregate, of which some do harm there."""
    traffic = Traffic(kafka.bootstrap, prefix, partitions=1)
    create_topic(kafka.bootstrap, f"{prefix}windows")
    publish(traffic, {}, 20)
    worker = start(traffic, "--slot", "0")
    traffic.settled()
    assert worker.stop() == 0
    produce(kafka.bootstrap, f"{prefix}evaluations", [f"harm:{harm}".encode() for harm in harms.values()], partition=0)
    return traffic
