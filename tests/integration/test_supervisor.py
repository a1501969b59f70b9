"""The supervisor: it kills workers whose loops stand still, keeps one that cannot run from stopping the others, and
shows all of them to Prometheus."""

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog
from commands import ragweir
from conftest import SharedBroker
from faults import Traffic, environment
from services import Services, ask, eventually, variables

from ragweir.streams.playground.local.prometheus import local_prometheus
from ragweir.streams.runtime.processes import supervisor
from ragweir.streams.runtime.processes.supervisor import Command, Supervisor
from ragweir.streams.runtime.serving.discovery import discovery
from ragweir.streams.runtime.serving.health import Health
from ragweir.streams.runtime.serving.heartbeat import HEARTBEAT, Announcement, Heartbeat, Listener
from ragweir.streams.services.instruments import telemetry_of

# A worker that takes its time to start, announces itself, beats for a while, and then stands still or goes on.
WORKER = """
import sys, time
from ragweir.streams.runtime.processes import supervisor
from ragweir.streams.runtime.serving.heartbeat import Heartbeat
slow, beats, forever = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "on"
time.sleep(slow)
heartbeat = Heartbeat.inherited()
heartbeat.announce("evaluate", 3, 9467)
while beats or forever:
    heartbeat()
    beats -= beats > 0
    time.sleep(0.2)
time.sleep(3600)
"""


def worker(slow: float, beats: int, then: str) -> list[str]:
    return [sys.executable, "-c", WORKER, str(slow), str(beats), then]


def supervise(command: list[str], until: Callable[[list[Any]], bool], **limits: float) -> list[Any]:
    """What a supervisor logs until something has happened."""
    end = time.monotonic() + 60
    with structlog.testing.capture_logs() as logs:
        Supervisor([Command("evaluate", 3, command)], **limits).run(lambda: until(logs) or time.monotonic() > end)
    return logs


def test_a_worker_that_stands_still_is_ended_and_started_anew() -> None:
    """Its heartbeats end; after the limit it is killed, and the next one comes as after any end."""
    logs = supervise(worker(0, 3, "still"), lambda logs: len(logs) >= 4, stalled_s=1.0)
    assert [line["event"] for line in logs] == ["worker is stalled; killing it", "worker ended"] * 2
    assert [line["status"] for line in logs if "status" in line] == [-9, -9]


@pytest.mark.heavy
def test_a_worker_that_beats_or_starts_slowly_is_left_alone() -> None:
    """A start that takes longer than a loop may stand still is none that hangs; a start without end is."""
    turns = iter(range(160))
    # Heartbeats are a second apart: the limit leaves them room on a slow machine.
    assert supervise(worker(3.5, 0, "on"), lambda _: next(turns, None) is None, stalled_s=3.0) == []
    logs = supervise(worker(3600, 0, "on"), lambda logs: len(logs) >= 2, start_s=1.0)
    assert logs[0]["event"] == "worker is stalled; killing it"


def test_a_starved_supervisor_takes_no_worker_for_stalled() -> None:
    """Its checks come late, as on a machine without CPU time: two in a row see no heartbeat of a second each."""
    starved = Supervisor([Command("evaluate", 3, worker(0, 0, "on"))], stalled_s=0.6)
    turns, end = iter(range(8)), time.monotonic() + 60

    def stopped() -> bool:
        if not starved._workers[0].is_alive:
            return time.monotonic() > end
        time.sleep(0.4)
        return next(turns, None) is None

    with structlog.testing.capture_logs() as logs:
        starved.run(stopped)
    assert next(turns, None) is None
    assert logs == []


# A worker that reports a permanent failure, or ends with its status without a word, and one that works.
FAILS = """
import sys
from ragweir.errors import PermanentError
from ragweir.streams.commands.worker_exit import as_worker
from ragweir.streams.runtime.processes import supervisor
from ragweir.streams.runtime.serving.heartbeat import Heartbeat
def work():
    if sys.argv[1]:
        raise PermanentError(sys.argv[1])
    sys.exit(2)
as_worker(work, Heartbeat.inherited())
"""


def failing(service: str, reason: str) -> Command:
    return Command(service, 0, [sys.executable, "-c", FAILS, reason])


def test_one_worker_that_cannot_run_leaves_the_others_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started once; /readyz, /metrics and the log, again and again, name it; the end has status 1."""
    monkeypatch.setattr(supervisor, "_REMIND_SECONDS", 0.5)
    commands = [failing("aggregate", "mend me"), failing("export", ""), Command("evaluate", 0, worker(0, 0, "on"))]
    down: list[Any] = []
    shown: dict[str, tuple[int, str]] = {}
    end = time.monotonic() + 60

    def stopped() -> bool:
        down[:] = [line for line in logs if "stays down" in line["event"]]
        if len(down) < 5 and time.monotonic() < end:
            return False
        (base,) = {line["targets"].removesuffix("/targets") for line in logs if line["event"] == "supervising"}
        shown.update({path: ask(base, path) for path in ("/readyz", "/metrics", "/healthz")})
        return True

    with structlog.testing.capture_logs() as logs:
        assert Supervisor(commands, listen=("127.0.0.1", 0)).run(stopped) == 1
    assert {(line["service"], line["slot"], line["reason"]) for line in down} == {
        ("aggregate", 0, "mend me"),
        ("export", 0, "it ended with status 2, after which a restart does not help; its log has the reason"),
    }
    assert {line["log_level"] for line in down} == {"error"}
    (running,) = [line for line in logs if line["event"] == "running"]
    assert (running["workers"], running["metrics"]) == (1, "evaluate-0 http://127.0.0.1:9467/metrics")
    assert not [line for line in logs if "restart_in_s" in line]
    status, text = shown["/readyz"]
    assert (status, text.split("; ")[0]) == (503, "aggregate-0 is down and is not restarted: mend me")
    assert "export-0 is down" in text
    assert "evaluate" not in text
    assert shown["/healthz"] == (200, "ok\n")
    for name, up in {"aggregate": 0, "export": 0, "evaluate": 1}.items():
        assert f'ragweir_service_up{{service="{name}",slot="0"}} {up}.0' in shown["/metrics"][1]
    assert "ragweir_broker_up" not in shown["/metrics"][1], "the supervisor knows no broker"


def test_a_supervisor_without_a_worker_that_can_run_ends() -> None:
    """Nothing is left to supervise; the reason of one that ends right after its report is read too."""
    quick = ["sh", "-c", """echo '{"failure": "me too"}' > /dev/fd/$RAGWEIR_HEARTBEAT; exit 2"""]
    with structlog.testing.capture_logs() as logs:
        assert Supervisor([failing("aggregate", "mend me"), Command("evaluate", 1, quick)]).run(lambda: False) == 1
    assert {(line["service"], line["slot"], line["reason"]) for line in logs} == {
        ("aggregate", 0, "mend me"),
        ("evaluate", 1, "me too"),
    }


def test_a_supervisor_whose_workers_run_is_ready() -> None:
    """503 until the first worker has started, then 200; the status of a stop without failures is 0."""
    shown: list[tuple[int, str]] = []

    def stopped() -> bool:
        (base,) = {line["targets"].removesuffix("/targets") for line in logs}
        shown.append(ask(base, "/readyz"))
        return len(shown) == 3

    with structlog.testing.capture_logs() as logs:
        watched = Supervisor([Command("evaluate", 0, worker(0, 0, "on"))], listen=("127.0.0.1", 0))
        assert watched.run(stopped) == 0
    assert shown == [(503, "starting\n"), (200, "ok\n"), (200, "ok\n")]


def test_a_reason_of_any_length_fits_one_line() -> None:
    """A long reason is cut; it never blocks a worker's end nor comes without its end of line."""
    listener = Listener()
    told = Heartbeat(listener.descriptor)
    for character, sent in (("\x00", "\x00"), ("\U0001f600", "\U0001f600"), ("\udcff", "?")):
        told.fail(character * 100_000)
        assert listener.receive()
        assert listener.failure == sent * 600
    listener.close()


@pytest.mark.heavy
def test_up_goes_on_without_the_service_that_cannot_run(kafka: SharedBroker, prefix: str, services: Services) -> None:
    """Where aggregate has no topic to write to, evaluate still evaluates, and the end says that one could not run."""
    traffic = Traffic(kafka.bootstrap, prefix, partitions=1)
    up = services.start("up", variables=environment(traffic))
    eventually(lambda: up.logged("stays down", service="aggregate"), "aggregate cannot run")
    traffic.publish(10)
    traffic.must_be_settled_exactly_once()
    base = up.logged("supervising")[0]["targets"].removesuffix("/targets")
    status, text = ask(base, "/readyz")
    assert status == 503
    assert f"aggregate-0 is down and is not restarted: there is no topic {prefix}windows" in text
    assert up.stop() == 1


def test_a_heartbeat_without_a_listener_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where nobody supervises, nor where the variable names what is no pipe of ours, nor when nobody reads."""
    for text in ("", "no number", "9999"):
        monkeypatch.setenv(HEARTBEAT, text)
        heartbeat = Heartbeat.inherited()
        heartbeat.announce("evaluate", 0, 9464)
        heartbeat()
    listener = Listener()
    unread = Heartbeat(listener.descriptor)
    for _ in range(2_000):
        unread.announce("evaluate", 0, 9464)
    assert listener.receive()
    listener.close()
    unread.announce("evaluate", 0, 9464)


@contextmanager
def served(host: str) -> Iterator[int]:
    workers = [
        Announcement(service="evaluate", slot=0, port=9464),
        Announcement(service="evaluate", slot=1, port=9465),
    ]
    with discovery(host, 0, lambda: workers, telemetry_of("supervisor", 0).registry, Health()) as port:
        yield port


def got(url: str, host: str | None = None) -> Any:
    asked = urllib.request.Request(url, headers={"Host": host} if host else {})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        return json.load(answer)


def test_targets_are_those_that_whoever_asks_can_reach() -> None:
    """One address is named as it is; for all of them stands the one by which the supervisor was reached."""
    with served("127.0.0.1") as port:
        assert [each["targets"] for each in got(f"http://127.0.0.1:{port}/targets", "evil.example")] == [
            ["127.0.0.1:9464"],
            ["127.0.0.1:9465"],
        ]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
            assert answer.read() == b"ok\n"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/nothing", timeout=10)
    with served("0.0.0.0") as port:
        url = f"http://127.0.0.1:{port}/targets"
        for host, named in (("node-1:9864", "node-1"), ("[::1]:1", "[::1]"), ("a b", "localhost"), ("", "localhost")):
            assert got(url, host or None)[0]["targets"] == [f"{named if host else '127.0.0.1'}:9464"]


@pytest.mark.heavy
@pytest.mark.usefixtures("tools")
def test_prometheus_finds_all_workers_of_up(kafka: SharedBroker, prefix: str, services: Services) -> None:
    """`up --evaluate-workers 2`, and a Prometheus that knows no more than the supervisor's address."""
    shared = ["--bootstrap-servers", kafka.bootstrap, "--prefix", prefix]
    assert ragweir(*shared, "topics", "create").returncode == 0
    up = services.start(*shared, "up", "--evaluate-workers", "2", variables=variables(telemetry__port=0))
    url = eventually(lambda: up.logged("supervising"), "it supervises")[0]["targets"]
    eventually(lambda: len(got(url)) == 5, "all workers have announced themselves")
    with local_prometheus({}, discovered={"ragweir": url}) as prometheus:

        def scraped() -> set[tuple[str, str]]:
            query = 'ragweir_build_info{job="ragweir"} * on (instance) group_left () (up{job="ragweir"} == 1)'
            found = prometheus.get("/api/v1/query", query=query)["data"]["result"]
            return {(each["metric"]["service"], each["metric"]["slot"]) for each in found}

        every = {("supervisor", "0"), ("evaluate", "0"), ("evaluate", "1"), ("aggregate", "0"), ("export", "0")}
        eventually(lambda: scraped() == every, "all workers are scraped, by their own labels")
    assert up.stop() == 0


def test_a_port_that_is_taken_is_told_in_a_sentence(kafka: SharedBroker, prefix: str) -> None:
    """The supervisor's port is another one than those of its workers."""
    shared = ["--bootstrap-servers", kafka.bootstrap, "--prefix", prefix]
    with served("127.0.0.1") as port:
        done = ragweir(*shared, "evaluate", RAGWEIR_TELEMETRY__PORT=str(port - 90))
    assert done.returncode == 1
    assert f"the supervisor's port {port} cannot be opened" in done.stderr.decode()
