"""A time limit that passes while a process cannot run ends nothing; one that passes while it runs does."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from ragweir.streams.runtime.kafka.client import Connection
from ragweir.streams.runtime.loop.transactions import Transactions
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.serving.health import STALLED_SECONDS, Health

# A call to Kafka with a time limit of 1.5 s: it needs a line of input, and then some CPU time, before it returns.
CALLING = """
import sys, time
from ragweir.streams.runtime.processes.watchdog import Watchdog
watchdog = Watchdog(1.5)
watchdog.call_begins()
print("calling", flush=True)
sys.stdin.readline()
until = time.process_time() + 0.05
while time.process_time() < until:
    pass
watchdog.call_ended()
print("returned", flush=True)
"""
STOPS = {"suspended": [(1.8, 0.0)], "starved": [(0.2, 0.02)] * 12}
"""For each kind, how long a process is stopped and then runs, in seconds, again and again."""


@pytest.fixture
def caller() -> Iterator[subprocess.Popen[str]]:
    """A process in a call."""
    command = [sys.executable, "-P", "-c", CALLING]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "calling\n"
        yield process
        process.kill()


def stop(group: int, stops: list[tuple[float, float]]) -> None:
    for stopped_s, runs_s in stops:
        os.killpg(group, signal.SIGSTOP)
        time.sleep(stopped_s)
        os.killpg(group, signal.SIGCONT)
        time.sleep(runs_s)


@pytest.mark.slow
@pytest.mark.parametrize("kind", STOPS)
def test_a_call_that_is_late_because_the_process_did_not_run_ends_nothing(
    caller: subprocess.Popen[str], kind: str
) -> None:
    stop(caller.pid, STOPS[kind])
    assert caller.communicate("go on\n", timeout=120) == ("returned\n", None)
    assert caller.returncode == 0


@pytest.mark.slow
def test_a_call_that_does_not_return_ends_the_process(caller: subprocess.Popen[str]) -> None:
    """The process runs all the while, as beside a broker that hangs."""
    assert caller.wait(60) == 1


# A process that has a child redact a text, which takes it some CPU time; its time limit is 2 s.
REDACTION = """
import time

def make():
    def redact(text):
        until = time.process_time() + 0.05
        while text and time.process_time() < until:
            pass
        return "done"
    return redact
"""
REDACTING = """
import redaction
from ragweir.streams.services.judge.isolated_redaction import IsolatedRedactor

redactor = IsolatedRedactor(redaction.make, (), 2.0)
redactor.redacted([""])
print("ready", flush=True)
print(*redactor.redacted(["long"]))
redactor.close()
"""


@pytest.mark.slow
def test_redaction_that_is_late_because_nothing_ran_is_waited_for(tmp_path: Path) -> None:
    """The event would not be judged."""
    (tmp_path / "redaction.py").write_text(REDACTION)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-P", "-c", REDACTING]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        stop(process.pid, STOPS["starved"])
        assert process.stdout.read() == "done\n"


class Suspended:
    """A producer: the process is suspended for 70 s in its first call, which the broker then has to be asked again."""

    def __init__(self) -> None:
        self.now_s, self.calls = 0.0, 0

    def init_transactions(self, _: float) -> None:
        self.calls += 1
        if self.calls == 1:
            self.now_s += 70.0
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True))

    def poll(self, _: float) -> None:
        """Nothing was sent."""


def test_a_suspended_process_has_not_waited_for_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is made again, and no broker is reported as lost."""
    producer, connection = Suspended(), Connection(quiet=True)
    monkeypatch.setattr(machine.clocks, "monotonic", lambda: producer.now_s)
    given: tuple[Any, ...] = (lambda: None, lambda: False, lambda _: None)
    transactional = SimpleNamespace(client=producer, initialise=lambda call: call())
    Transactions(cast("Any", transactional), {}, "rag.evaluate-node-1-0", connection, *given).take_over()
    assert (producer.calls, connection.lost_reason) == (2, "")


# A process that calls the judge, with a time limit of 1 s.
ASKING = """
import asyncio, sys
from ragweir.streams.services.judge.protocol import JudgeError
from ragweir.streams.services.judge.transport import Transport
from ragweir.streams.settings import JudgeSettings

async def ask():
    transport = Transport(JudgeSettings(base_url=sys.argv[1], timeout_s=1.0, concurrency=1))
    try:
        print((await transport.post("/chat", b"{}", 100)).status)
    except JudgeError as error:
        print(error)
    await transport.aclose()

asyncio.run(ask())
"""


@pytest.mark.heavy
@pytest.mark.parametrize("answers", [True, False])
def test_an_answer_of_the_judge_that_came_while_nothing_ran_counts(answers: bool) -> None:
    """A call that has timed out is billed at its maximum."""
    asked, answer = threading.Event(), threading.Event()

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.set()
            answer.wait(60)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [sys.executable, "-P", "-c", ASKING, f"http://127.0.0.1:{server.server_port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
            assert asked.wait(60)
            os.killpg(process.pid, signal.SIGSTOP)
            if answers:
                answer.set()
            time.sleep(1.5)
            os.killpg(process.pid, signal.SIGCONT)
            assert process.stdout is not None
            assert process.stdout.read() == ("200\n" if answers else "the judge did not answer in time\n")
        answer.set()
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("iterates", [True, False])
def test_a_loop_that_has_not_run_yet_after_a_pause_is_not_stalled(iterates: bool) -> None:
    health = Health(last_alive_s=time.monotonic() - 2 * STALLED_SECONDS)
    timer = threading.Timer(0.05, health.alive)
    if iterates:
        timer.start()
    assert health.stalled is not iterates
    timer.cancel()
