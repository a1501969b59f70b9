"""Time from a worker's SIGKILL, or its first start, to its first commit of results, by phase, on a real broker."""

from __future__ import annotations

import math
import os
import signal
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from confluent_kafka import Producer
from rich.table import Table

from bench.interactions import interactions
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.runtime.processes.child_python import python_command
from ragweir.streams.runtime.processes.supervisor import _MIN_DELAY_SECONDS, Command, Supervisor
from ragweir.streams.settings import load

_EVENTS_PER_S = 10
_WAIT_S = 60.0
_POLL_S = 0.01
_KILLS = 20
_SETTLED_S = 2.0
"""Time for which a worker runs before it is killed."""
_RESULTS = "commit of results"


def _p99(seconds: Sequence[float]) -> float:
    return sorted(seconds)[math.ceil(0.99 * len(seconds)) - 1]


Start = Mapping[str, tuple[float, float]]
"""Seconds and CPU seconds of each phase of one start, in order; `all` is the last."""


@contextmanager
def _traffic(bootstrap: str, topic: str) -> Iterator[None]:
    """Publish events at a steady rate while the block runs."""
    producer, ended = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0}), threading.Event()

    def publish() -> None:
        for number, value in enumerate(interactions(1_000_000)):
            producer.produce(topic, value, str(number).encode())
            producer.poll(0)
            if ended.wait(1 / _EVENTS_PER_S):
                return

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.flush(_WAIT_S)


class _Ended(NamedTuple):
    phase: str
    at: float
    """Monotonic seconds."""
    cpu_s: float
    """CPU seconds of the process until then."""


def _trace(file: Path) -> list[_Ended]:
    """Return the whole lines of a trace."""
    lines = file.read_text(encoding="utf-8").split("\n")[:-1] if file.is_file() else []
    return [_Ended(phase, float(at), float(cpu_s)) for phase, at, cpu_s in (line.split("\t") for line in lines)]


def _start(began: float, trace: Sequence[_Ended]) -> Start:
    """Return the start that a trace shows; what follows the first commit of results is left out."""
    phases: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    before = _Ended("", began, 0.0)
    for ended in trace:
        seconds, cpu_s = phases[ended.phase]
        phases[ended.phase] = seconds + ended.at - before.at, cpu_s + ended.cpu_s - before.cpu_s
        before = ended
        if ended.phase == _RESULTS:
            break
    phases["all"] = before.at - began, before.cpu_s
    return phases


def _measured(service: str, kills: int) -> tuple[Start, list[Start]]:
    """Return the first start of a worker in its group, and its starts after SIGKILLs under a supervisor.

    Another worker has run before, since a broker makes its own topics for the first one.
    """
    with TemporaryDirectory() as folder, local_kafka() as broker:
        _run(service, broker.bootstrap, "warm.", Path(folder, "warm"), 0)
        return _run(service, broker.bootstrap, "start.", Path(folder, "start"), kills)


def _run(service: str, bootstrap: str, prefix: str, trace: Path, kills: int) -> tuple[Start, list[Start]]:
    create_topics(load(None, {"kafka": {"bootstrap_servers": bootstrap}, "topics": {"prefix": prefix}}))
    os.environ |= {
        "RAGWEIR_KAFKA__BOOTSTRAP_SERVERS": bootstrap,
        "RAGWEIR_TOPICS__PREFIX": prefix,
        "RAGWEIR_TELEMETRY__PORT": "0",
    }
    log, stopped = trace.with_suffix(".log"), threading.Event()
    line = python_command("-m", "bench.traced_worker", str(trace), service, "--slot", "0")
    with _traffic(bootstrap, f"{prefix}interactions"), log.open("wb") as output:
        supervisor = Supervisor([Command(service, 0, line)], output)
        thread = threading.Thread(target=supervisor.run, args=(stopped.is_set,))
        began = time.monotonic()
        thread.start()
        try:
            return _awaited(began, trace), [_killed(supervisor, trace) for _ in range(kills)]
        except TimeoutError as error:
            raise SystemExit(f"{error}\n{log.read_text(encoding='utf-8')[-4_000:]}") from None
        finally:
            stopped.set()
            thread.join()


def _killed(supervisor: Supervisor, trace: Path) -> Start:
    time.sleep(_SETTLED_S)
    process = supervisor._workers[0].process
    if process is None:
        raise TimeoutError("the worker does not run")
    # The worker has not run for long enough to be restarted at once, as one that is killed once in a while.
    supervisor._workers[0].delay = _MIN_DELAY_SECONDS
    trace.unlink()
    began = time.monotonic()
    process.send_signal(signal.SIGKILL)
    return _awaited(began, trace)


def _awaited(began: float, trace: Path) -> Start:
    while time.monotonic() < began + _WAIT_S:
        time.sleep(_POLL_S)
        found = _trace(trace)
        if any(each.phase == _RESULTS for each in found):
            return _start(began, found)
    raise TimeoutError(f"no commit of results within {_WAIT_S:.0f} s: {_trace(trace)}")


def table(service: str = "evaluate", kills: int = _KILLS) -> Table:
    """Return the median seconds of each phase of a first start and of the starts after SIGKILLs."""
    first, again = _measured(service, kills)
    result = Table(
        *("phase", "first start", "CPU", f"after SIGKILL, median of {kills}", "CPU", "p99"),
        title=f"Seconds of one worker of {service} from its start or SIGKILL to its first commit of results",
    )
    names = [name for name in dict.fromkeys(name for start in (first, *again) for name in start) if name != "all"]
    for name in (*names, "all"):
        once, once_cpu = first.get(name, (0.0, 0.0))
        seconds, cpu_s = zip(*(start.get(name, (0.0, 0.0)) for start in again), strict=True)
        row = once, once_cpu, statistics.median(seconds), statistics.median(cpu_s), _p99(seconds)
        result.add_row(name, *(f"{each:.3f}" for each in row))
    return result
