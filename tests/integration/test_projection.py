"""Projections: the order of their lifecycle, the ends that a process comes to, and the example as a third of them."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from commands import ROOT, environment, program, ragweir
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from conftest import SharedBroker, create_topic, produce, read_to_end
from poison import event
from services import Service, eventually
from typing_extensions import override

from ragweir.errors import PermanentError, RestartRequired
from ragweir.streams.runtime.loop.projection_runtime import ProjectionRuntime
from ragweir.streams.runtime.processes.supervisor import OWN_PORT, UP_PORT
from ragweir.streams.runtime.projection import Projection
from ragweir.streams.runtime.records import Measurements, Record, TopicPartition
from ragweir.streams.runtime.serving.health import Health
from ragweir.streams.services import console
from ragweir.streams.services.export.service import PROJECTIONS, ProjectionService
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.services.planner import service as planner
from ragweir.streams.services.slot import run_projection
from ragweir.streams.settings import Settings

_PATIENCE_S = 30.0
_HOUR_S = 3_600


class Recording(Projection):
    """Writes down which of its methods were called, in order."""

    def __init__(self, *failures: str) -> None:
        self.calls: list[str] = []
        self.records: list[Record] = []
        self.offsets: dict[str, Mapping[int, int]] = {}
        self.ids: dict[str, str] = {}
        self._failures = failures

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self._failures:
            raise OSError(f"{name} fails")

    @property
    @override
    def topics(self) -> tuple[str, ...]:
        return ("windows", "evaluations")

    @property
    @override
    def since_s(self) -> float:
        return _HOUR_S

    @override
    def open(self) -> None:
        self._call("open")

    @override
    def resume(self, topic: str, topic_id: str) -> Mapping[int, int]:
        self.ids[topic] = topic_id
        return self.offsets.get(topic, {})

    @override
    def take(self, record: Record) -> None:
        self.records.append(record)
        self._call("take")

    @override
    def flush(self, now_s: float, *, caught_up: bool) -> None:
        assert abs(now_s - time.time()) < _PATIENCE_S
        self._call("flush" if caught_up else "flush behind")

    @override
    def drain_metrics(self) -> Measurements:
        self._call("drain")
        return Measurements({("ragweir_windows_shown_total", "1m"): 1}, {("ragweir_open_window_bytes",): 42})

    @override
    def close(self) -> None:
        self._call("close")


class Run:
    """The runtime in this process, over two topics, until a condition holds."""

    def __init__(self, kafka: SharedBroker, prefix: str, projection: Projection, partitions: int = 2) -> None:
        self.telemetry, self.health = telemetry_of("export", 0), Health()
        settings = Settings.model_validate({"kafka": {"bootstrap_servers": kafka.bootstrap}})
        topics = {f"{prefix}{name}": partitions for name in projection.topics}
        self._deadline = time.monotonic() + _PATIENCE_S
        self._until: Callable[[], object] = lambda: False
        self._runtime = ProjectionRuntime(settings, projection, topics, self.telemetry, self.health, self._stopped)

    def _stopped(self) -> bool:
        assert time.monotonic() < self._deadline, "it never came to this"
        return bool(self._until())

    def until(self, condition: Callable[[], object]) -> None:
        self._until = condition
        self._runtime.run()


@pytest.fixture
def topics(kafka: SharedBroker, prefix: str) -> tuple[str, str]:
    """The two topics that `Recording` reads, with two partitions each."""
    return create_topic(kafka.bootstrap, f"{prefix}windows", 2), create_topic(
        kafka.bootstrap, f"{prefix}evaluations", 2
    )


def test_the_lifecycle(kafka: SharedBroker, prefix: str, topics: tuple[str, str]) -> None:
    """It is caught up once every partition of every topic was read to its end; then each batch is flushed, also empty.

    Records written before `since_s` are not read, and each partition's records arrive in their order.
    """
    windows, evaluations = topics
    old = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    old.produce(windows, b"old", partition=0, timestamp=round((time.time() - 2 * _HOUR_S) * 1_000))
    assert old.flush(30) == 0
    for partition in range(2):
        produce(kafka.bootstrap, windows, [b"%d" % number for number in range(1_500)], partition=partition)
    produce(kafka.bootstrap, evaluations, [b"0"], partition=1)
    projection = Recording()
    run = Run(kafka, prefix, projection)
    health: list[str] = []

    def enough() -> bool:
        health.append(run.health.not_ready.split(" ")[0])
        return projection.calls.count("flush") >= 4

    run.until(enough)
    calls = projection.calls
    assert calls[0] == "open"
    assert calls[-1] == "close"
    assert {"open", "close"}.isdisjoint(calls[1:-1])
    assert calls.count("take") == 3_001
    first = calls.index("flush")
    assert calls[:first].count("take") == 3_001, "all that there was is taken before the first flush"
    assert calls[:first].count("drain") >= 3, "metrics are drained after each batch from the start"
    assert "flush behind" in calls[:first], "what was taken so far can be stored"
    assert calls[first:-1] == ["flush", "drain"] * 4, "empty batches are flushed and drained"
    assert list(dict.fromkeys(health)) == ["starting", "reading", ""], "it is ready once it flushes"
    assert run.health.not_ready == "stopped"
    found: dict[TopicPartition, list[bytes | None]] = {}
    for record in projection.records:
        found.setdefault((record.topic, record.partition), []).append(record.value)
    numbers: list[bytes | None] = [b"%d" % number for number in range(1_500)]
    assert found == {(windows, 0): numbers, (windows, 1): numbers, (evaluations, 1): [b"0"]}
    sample = run.telemetry.registry.get_sample_value
    assert sample("ragweir_windows_shown_total", {"window": "1m"}) == calls.count("drain")
    assert sample("ragweir_open_window_bytes") == 42
    assert sample("ragweir_broker_up") == 1


def test_it_resumes_where_the_projection_was(kafka: SharedBroker, prefix: str, topics: tuple[str, str]) -> None:
    """A partition is read from the offset that the projection gives; one past the end is read as without it."""
    windows, evaluations = topics
    for topic in topics:
        for partition in range(2):
            produce(kafka.bootstrap, topic, [b"0", b"1", b"2"], partition=partition)
    projection = Recording()
    projection.offsets = {windows: {0: 2, 1: 3}, evaluations: {1: 1_000}}
    Run(kafka, prefix, projection).until(lambda: "flush" in projection.calls)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    described = admin.describe_topics(TopicCollection([*topics]))
    assert projection.ids == {topic: str(future.result(30).topic_id) for topic, future in described.items()}
    found = sorted((record.topic, record.partition, record.offset) for record in projection.records)
    assert found == [(evaluations, each, offset) for each in range(2) for offset in range(3)] + [(windows, 0, 2)]


def test_a_grown_topic_needs_a_new_process(kafka: SharedBroker, prefix: str, topics: tuple[str, str]) -> None:
    """A partition that was added to any topic ends the process, which closes its projection."""
    _, evaluations = topics
    projection = Recording()
    run = Run(kafka, prefix, projection)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    admin.create_partitions([NewPartitions(evaluations, 3)])[evaluations].result(30)
    with pytest.raises(RestartRequired, match=f"{evaluations} has more partitions than before"):
        run.until(lambda: False)
    assert projection.calls[-1] == "close"


@pytest.mark.parametrize("method", ["open", "take", "flush", "drain"])
def test_an_error_of_a_projection_ends_the_process(
    kafka: SharedBroker, prefix: str, topics: tuple[str, str], method: str
) -> None:
    """Whichever method raises, the error is the process's own, and the projection is closed."""
    produce(kafka.bootstrap, topics[0], [b"0"])
    projection = Recording(method)
    with pytest.raises(OSError, match=f"{method} fails"):
        Run(kafka, prefix, projection).until(lambda: False)
    assert projection.calls[-2:] == [method, "close"]


def test_an_error_of_a_projection_is_not_taken_for_the_ports(
    kafka: SharedBroker, prefix: str, topics: tuple[str, str]
) -> None:
    """Only a port that cannot be opened is reported as one; a sink's own error keeps its message.

    By then all topics were read.
    """
    for topic in topics:
        produce(kafka.bootstrap, topic, [b"0"])
    projection = Recording("flush")
    settings = Settings.model_validate(
        {"kafka": {"bootstrap_servers": kafka.bootstrap}, "topics": {"prefix": prefix}, "telemetry": {"port": 0}}
    )
    service = ProjectionService("export", "Records calls.", lambda _: projection, 600)
    with pytest.raises(OSError, match="flush fails"):
        run_projection(service, settings, 0, lambda: False)
    assert {record.topic for record in projection.records} == set(topics)


def test_a_missing_topic_is_named(kafka: SharedBroker, prefix: str) -> None:
    """A projection of two topics reports the one that is missing."""
    create_topic(kafka.bootstrap, f"{prefix}windows")
    settings = Settings.model_validate(
        {"kafka": {"bootstrap_servers": kafka.bootstrap}, "topics": {"prefix": prefix}, "telemetry": {"port": 0}}
    )
    service = ProjectionService("export", "Records calls.", lambda _: Recording(), 600)
    with pytest.raises(PermanentError, match=f"there is no topic {prefix}evaluations, or "):
        run_projection(service, settings, 0, lambda: False)


def test_every_service_has_ports_of_its_own() -> None:
    """The slots of no service reach the ports of another one or of a supervisor, with the planner and the example."""
    assert SERVICES.keys().isdisjoint(PROJECTIONS)
    assert all(name == projection.name for name, projection in PROJECTIONS.items())
    example = re.findall(r"port=(\d+)", (ROOT / "examples/window_lines.patch").read_text(encoding="utf-8"))
    others = (UP_PORT, planner.PORT, console.PORT, *map(int, example))
    offsets = sorted([*others, *(service.port for service in (*SERVICES.values(), *PROJECTIONS.values()))])
    assert all(one + OWN_PORT < other for one, other in pairwise(offsets)), offsets


# The example, added to a copy of the product.


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product to which the example was added as its docstring says."""
    copy = tmp_path_factory.mktemp("extended")
    for folder in ("schemas", "metrics", "streams", "ragweir", "examples"):
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(copy / "examples" / "window_lines.py", copy / "streams" / "services" / "export")
    # A copy within another repository is none of its own: git would apply nothing to it and be content.
    subprocess.run(["git", "init", "--quiet"], cwd=copy, check=True)
    subprocess.run(["git", "apply", "examples/window_lines.patch"], cwd=copy, check=True)
    return copy


def sources(root: Path) -> dict[str, bytes]:
    """The product's files."""
    return {
        str(file.relative_to(root)): file.read_bytes()
        for folder in ("schemas", "metrics", "streams")
        for file in (root / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    } | {f"ragweir/{file.name}": file.read_bytes() for file in (root / "ragweir").iterdir() if file.is_file()}


def test_a_projection_touches_four_files(extended: Path) -> None:
    """The example is its module, a line of the table, a group of settings and an instrument; nothing else differs."""
    before, after = sources(ROOT), sources(extended)
    assert {name for name in before | after if before.get(name) != after.get(name)} == {
        "streams/services/export/window_lines.py",
        "streams/services/export/service.py",
        "streams/settings/__init__.py",
        "streams/services/instruments.py",
    }


@contextmanager
def running(extended: Path, kafka: SharedBroker, prefix: str, file: Path, *command: str) -> Iterator[Service]:
    """A command of the copy, whose projection writes to this file, for the length of a block."""
    log = file.with_name(f"{command[0]}.log")
    # -P: nothing of the working folder stands in for the copy.
    shared = ["-P", "-m", "ragweir.streams.commands", "--bootstrap-servers", kafka.bootstrap, "--prefix", prefix]
    variables = environment(PYTHONPATH=str(extended), RAGWEIR_WINDOW_LINES__FILE=str(file))
    service = Service([*shared, *command], log, variables)
    try:
        yield service
    finally:
        assert service.stop() == 0


@pytest.mark.heavy
def test_the_example_on_kafka(extended: Path, kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """`ragweir up` runs the example: the last line of each key is the newest committed window of that key.

    Its own command writes the same again, reports what it wrote, and counts a record that is no window.
    """
    settings = {"RAGWEIR_TOPICS__PARTITIONS": "2", "RAGWEIR_TOPICS__REPLICATION_FACTOR": "1"}
    created = ragweir("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "topics", "create", **settings)
    assert created.returncode == 0, created.stderr
    file = tmp_path / "windows.jsonl"
    published = 0

    def publish(*events: bytes) -> None:
        nonlocal published
        produce(kafka.bootstrap, f"{prefix}interactions", events)
        published += len(events)

    def windows() -> dict[str, object]:
        """The newest committed window of each key, if they hold every event that was published."""
        found: dict[str, object] = {}
        events = {}
        for message in read_to_end(kafka.bootstrap, f"{prefix}windows"):
            key, value = json.loads(message.key()), json.loads(message.value())
            if key[0] != "progress":
                found[json.dumps(key)] = value
                events[json.dumps(key)] = value["events"]
        return found if sum(events.values()) == published else {}

    def lines() -> list[dict[str, object]]:
        whole, _, _ = file.read_bytes().rpartition(b"\n") if file.exists() else (b"", b"", b"")
        return [json.loads(line) for line in whole.splitlines()]

    def same() -> bool:
        return {json.dumps(line["key"]): line["window"] for line in lines()} == windows() != {}

    with running(extended, kafka, prefix, file, "up"):
        publish(event(event_id="1"), event(event_id="2"), event(event_id="3", ended_at="2026-11-21T10:01:00Z"))
        eventually(same, "the file holds the windows")
        publish(event(event_id="4"), event(event_id="5", application="other"))
        eventually(same, "the file holds the revised window and the new one")
    kept = windows()
    assert len(kept) >= 3
    file.unlink()
    with running(extended, kafka, prefix, file, "window-lines", "--slot", "0") as service:
        eventually(same, "a new process writes the windows again")
        assert len(lines()) == len(kept), "one line for each key, however often it was revised"

        def counted(outcome: str) -> float:
            return service.sample(f'ragweir_window_lines_total{{outcome="{outcome}"}}')

        eventually(lambda: counted("written") == len(kept), "the lines are counted")
        assert service.asked("/readyz") == (200, "ok\n")
        assert counted("unreadable") == 0
        produce(kafka.bootstrap, f"{prefix}windows", [b"no JSON"], key=b"no JSON")
        eventually(lambda: counted("unreadable") == 1, "the record that is no window is counted")
        lags = [f'ragweir_lag{{partition="{each}",topic="{prefix}windows"}} 0.0' for each in range(2)]
        eventually(lambda: set(lags) <= set(service.asked("/metrics")[1].splitlines()), "it does not lag")
    assert len(lines()) == len(kept)


def test_the_example_is_found_by_its_line(extended: Path) -> None:
    """The help lists its command; `ragweir up` and `ragweir doctor` count on its port where a file is named."""
    script = (
        "from ragweir.streams.analysis.checks.ports import ports\nfrom ragweir.streams.settings import load\n"
        "print(*(port.service for port in ports(load())))"
    )

    def listed(**variables: str) -> list[str]:
        own = environment(PYTHONPATH=str(extended), RAGWEIR_TELEMETRY__PORT="9464", **variables)
        done = subprocess.run([sys.executable, "-P", "-c", script], env=own, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert "window-lines" not in listed()
    assert "window-lines" in listed(RAGWEIR_WINDOW_LINES__FILE="windows.jsonl")
    command = [sys.executable, "-P", "-m", "ragweir.streams.commands", "--help"]
    helped = program(*command, env=environment(PYTHONPATH=str(extended)))
    assert "Append the records of windows to a file." in helped.stdout
