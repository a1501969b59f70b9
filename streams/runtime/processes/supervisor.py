"""The supervisor: keeps one process per slot of each service running, and ends all of them when it is to stop.

A worker whose loop is stalled is killed and restarted. A worker that reports that a restart would not help stays down,
while the others go on; /readyz, /metrics and the log name it. Prometheus finds the workers by /targets.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType
from typing import IO, Any

import structlog
from typing_extensions import override

from ragweir.errors import DO_NOT_RESTART
from ragweir.metrics.catalogue import CATALOGUE_VERSION
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.processes.child_python import python_command
from ragweir.streams.runtime.serving.discovery import discovery, reachable
from ragweir.streams.runtime.serving.health import STALLED_SECONDS, Health
from ragweir.streams.runtime.serving.heartbeat import HEARTBEAT, Announcement, Listener
from ragweir.streams.runtime.serving.instruments import SUPERVISING, KnownLabels
from ragweir.streams.runtime.serving.instruments import SUPERVISOR as NAME
from ragweir.streams.runtime.serving.port_holder import PortHolder
from ragweir.streams.runtime.serving.telemetry import Telemetry

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

UP_PORT = 400
"""Offset of the port of `up`'s supervisor from `telemetry.port`."""
OWN_PORT = 90
"""Offset of the port of a single service's supervisor from the service's first port."""
STOP_SECONDS = 9.0
"""Time for which workers may finish their batch before they are killed."""
_MIN_DELAY_SECONDS = 0.1
_MAX_DELAY_SECONDS = 30.0
_STABLE_SECONDS = 30.0
"""Running time of a worker after which the restart delay is reset."""
_POLL_SECONDS = 0.05
_REMIND_SECONDS = 300.0
"""Time between two log lines about a worker that stays down."""
_DOWN = "worker cannot run and stays down; correct the cause, then start again"
_UNREPORTED = f"it ended with status {DO_NOT_RESTART}, after which a restart does not help; its log has the reason"
START_SECONDS = 300.0
"""Time limit for a worker's first heartbeat."""
SUPERVISOR = "RAGWEIR_SUPERVISOR"
"""The environment variable with the process id of a worker's supervisor, which may end before `getppid` is read."""


def stop_flag() -> Callable[[], bool]:
    """Return a function that returns true after SIGTERM, SIGINT or, in a worker, the end of its supervisor."""
    signalled = False
    supervisor = os.environ.get(SUPERVISOR)

    def on_signal(_: int, __: FrameType | None) -> None:
        nonlocal signalled
        signalled = True

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    # Only a supervisor sets the variable: a service started otherwise may outlive its parent.
    return lambda: signalled or supervisor not in (None, str(os.getppid()))


@dataclass(frozen=True, slots=True)
class Command:
    """The command line of one slot of a service.

    >>> str(Command("evaluate", 2, ["ragweir", "evaluate", "--slot", "2"]))
    'evaluate-2'
    """

    service: str
    slot: int
    line: Sequence[str]

    @override
    def __str__(self) -> str:
        return f"{self.service}-{self.slot}"


@dataclass(slots=True)
class _Worker:
    command: Command
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    next_start: float = 0.0
    delay: float = _MIN_DELAY_SECONDS
    listener: Listener | None = None
    is_alive: bool = False
    """True once the process has sent a heartbeat."""
    silent_s: float = 0.0
    """The time since the last heartbeat."""
    announced: Announcement | None = None
    """The port of the worker or of the one before it, so that Prometheus reports a worker that is down."""
    failure: str = ""
    """The reason why the worker is not restarted; empty while it runs or is to be restarted."""
    remind_at: float = 0.0
    """The time of the next log line about the failure."""

    @property
    def log_fields(self) -> dict[str, Any]:
        """The worker's name for log lines."""
        return {"service": self.command.service, "slot": self.command.slot}

    @property
    def not_running(self) -> str:
        """The reason why the process does not run; empty while it runs."""
        if self.process is not None:
            return ""
        if self.failure:
            return f"{self.command} is down and is not restarted: {self.failure}"
        return f"{self.command} is down and is to be started"


class Supervisor:
    """Runs each command as a process, and restarts it with a growing delay unless a restart would not help.

    Args:
        commands: the workers' command lines.
        log: the file for their standard error; None for that of this process.
        listen: the address and port of /targets, /metrics, /healthz and /readyz; None to serve none.
        stalled_s: time without a heartbeat after which a worker is killed.
        start_s: time limit for a worker's first heartbeat.
        catalogue_version: the version of the metrics that the workers load, for the supervisor's telemetry.
        prefix: the prefix of the workers' topics, for /identity.
    """

    def __init__(
        self,
        commands: Iterable[Command],
        log: IO[bytes] | None = None,
        *,
        listen: tuple[str, int] | None = None,
        stalled_s: float = STALLED_SECONDS,
        start_s: float = START_SECONDS,
        catalogue_version: str = CATALOGUE_VERSION,
        prefix: str = "",
    ) -> None:
        self._log = log
        self._workers = [_Worker(command) for command in commands]
        self._listen = listen
        self._stalled_s, self._start_s = stalled_s, start_s
        self._health = Health()
        self._telemetry = Telemetry(NAME, 0, SUPERVISING, KnownLabels(catalogue_version=catalogue_version))
        self._identity = PortHolder(service=NAME, slot=0, prefix=prefix, pid=os.getpid())
        self._own: list[Announcement] = []
        self._is_started = False

    def run(self, stopped: Callable[[], bool]) -> int:
        """Supervise until `stopped` returns true, or until all workers stay down.

        Returns:
            The exit status: 1 if a worker stays down, else 0.

        Raises:
            OSError: if the port is taken.
        """
        with ExitStack() as stack:
            if self._listen is not None:
                host, port = self._listen
                registry = self._telemetry.registry
                bound = stack.enter_context(
                    discovery(host, port, self._announced, registry, self._health, self._identity)
                )
                self._own = [Announcement(service=NAME, slot=0, port=bound)]
                log.info("supervising", workers=len(self._workers), targets=f"http://{host}:{bound}/targets")
            return self._supervise(stopped)

    def _announced(self) -> list[Announcement]:
        return self._own + [worker.announced for worker in self._workers if worker.announced is not None]

    def _supervise(self, stopped: Callable[[], bool]) -> int:
        before = machine.monotonic()
        while not stopped() and not all(worker.failure for worker in self._workers):
            self._health.alive()
            now = machine.monotonic()
            for worker in self._workers:
                if worker.failure:
                    self._remind(worker, now)
                elif worker.process is None:
                    if now >= worker.next_start:
                        self._start(worker, now)
                elif (code := worker.process.poll()) is not None:
                    self._on_exit(worker, code, now)
                else:
                    # No more than was waited for, so that a suspended or starved machine stalls no worker.
                    self._listen_to(worker, worker.process, min(now - before, _POLL_SECONDS))
            self._report()
            self._say_started()
            before = now
            machine.sleep(_POLL_SECONDS)
        self._stop()
        return int(any(worker.failure for worker in self._workers))

    def _report(self) -> None:
        """Update /metrics and /readyz."""
        for worker in self._workers:
            up, slot = worker.process is not None, str(worker.command.slot)
            self._telemetry.set("ragweir_service_up", up, worker.command.service, slot)
        self._health.not_ready = "; ".join(worker.not_running for worker in self._workers if worker.not_running)

    def _say_started(self) -> None:
        """Log once, as soon as each worker has a port or stays down, which run and where their metrics are."""
        if self._is_started or not self._own or not all(w.announced or w.failure for w in self._workers):
            return
        self._is_started = True
        host = reachable(self._listen[0] if self._listen else "", "")
        found = [(str(w.command), w.announced.port) for w in self._workers if w.announced and not w.failure]
        pages = ", ".join(f"{name} http://{host}:{port}/metrics" for name, port in found)
        log.info("running", workers=len(found), metrics=pages)

    def _listen_to(self, worker: _Worker, process: subprocess.Popen[bytes], passed_s: float) -> None:
        """Read heartbeats, and kill a worker that is silent for too long."""
        if worker.listener is None:
            return
        if worker.listener.receive():
            worker.announced = worker.listener.announced or worker.announced
            worker.is_alive, worker.silent_s = True, 0.0
            return
        worker.silent_s += passed_s
        if worker.silent_s > (self._stalled_s if worker.is_alive else self._start_s):
            silent_s = round(worker.silent_s)
            log.error("worker is stalled; killing it", **worker.log_fields, pid=process.pid, for_s=silent_s)
            process.kill()
            worker.silent_s = 0.0

    def _start(self, worker: _Worker, now: float) -> None:
        # Ctrl-C reaches the supervisor only, which stops the workers in order.
        listener = worker.listener = Listener()
        environment = {**os.environ, SUPERVISOR: str(os.getpid()), HEARTBEAT: str(listener.descriptor)}
        try:
            worker.process = subprocess.Popen(
                list(worker.command.line),
                env=environment,
                stderr=self._log,
                start_new_session=True,
                pass_fds=[listener.descriptor],
            )
        finally:
            listener.close_worker_end()
        worker.started, worker.is_alive, worker.silent_s = now, False, 0.0

    def _on_exit(self, worker: _Worker, code: int, now: float) -> None:
        worker.process, reason = None, ""
        if worker.listener is not None:
            worker.listener.receive()
            reason = worker.listener.failure
            worker.announced = worker.listener.announced or worker.announced
            worker.listener.close()
            worker.listener = None
        if code == DO_NOT_RESTART:
            worker.failure = reason or _UNREPORTED
            self._remind(worker, now)
            return
        if now - worker.started > _STABLE_SECONDS:
            worker.delay = _MIN_DELAY_SECONDS
        worker.next_start = now + worker.delay
        delay = round(worker.delay, 1)
        log.warning("worker ended", **worker.log_fields, status=code, restart_in_s=delay)
        worker.delay = min(worker.delay * 2, _MAX_DELAY_SECONDS)

    def _remind(self, worker: _Worker, now: float) -> None:
        """Log every few minutes that a worker stays down."""
        if now >= worker.remind_at:
            worker.remind_at = now + _REMIND_SECONDS
            log.error(_DOWN, **worker.log_fields, reason=worker.failure)

    def _stop(self) -> None:
        running = [worker.process for worker in self._workers if worker.process is not None]
        for process in running:
            process.terminate()
        deadline = machine.monotonic() + STOP_SECONDS
        for process in running:
            try:
                process.wait(max(0.0, deadline - machine.monotonic()))
            except subprocess.TimeoutExpired:
                log.error("worker did not stop in time; killing it", pid=process.pid)
                process.kill()
                process.wait()
        for worker in self._workers:
            if worker.listener is not None:
                worker.listener.close()
                worker.listener = None


def own_command(*arguments: str) -> list[str]:
    """Return the command line that runs ragweir in another process."""
    return python_command("-m", "ragweir.streams.commands", *arguments)


def same_command(*more: str) -> list[str]:
    """Return the command line of this process with further arguments."""
    return python_command(*sys.orig_argv[1:], *more)
