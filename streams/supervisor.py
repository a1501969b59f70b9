"""The supervisor: keeps one process per slot of each service running, and ends them all in time when told to stop.

A worker whose loop stands still is killed and restarted. A worker that reports that a restart would not help stays
down, while the others go on; /readyz, /metrics and the log name it. Prometheus finds the workers by /targets.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType
from typing import IO, Any

import structlog
from typing_extensions import override

from ragweir.errors import DO_NOT_RESTART
from ragweir.streams.heartbeat import HEARTBEAT, Announcement, Listener
from ragweir.streams.serving.discovery import discovery
from ragweir.streams.serving.health import STALLED_SECONDS, Health
from ragweir.streams.serving.telemetry import SUPERVISOR as NAME
from ragweir.streams.serving.telemetry import Telemetry

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

UP_PORT = 400
"""Added to the base of the telemetry ports for the supervisor of `up`."""
OWN_PORT = 90
"""Added to a service's first telemetry port for the supervisor of that service alone."""
STOP_SECONDS = 9.0
"""How long workers have to finish their batch before they are killed; they need well under it."""
_FIRST_DELAY_SECONDS = 0.1
_LAST_DELAY_SECONDS = 30.0
_SETTLED_SECONDS = 30.0
"""A worker that lived this long is taken as well again: its next restart is at once."""
_POLL_SECONDS = 0.05
_REMIND_SECONDS = 300.0
"""The time in seconds after which the log names a worker again that stays down."""
_DOWN = "worker cannot run and stays down; correct the cause, then start again"
_UNREPORTED = f"it ended with status {DO_NOT_RESTART}, after which a restart does not help; its log says why"
START_SECONDS = 300.0
"""The time in seconds that a worker may take to its first heartbeat, on the slowest machine."""
_LONGEST_TURN_SECONDS = 1.0
"""The most that counts of the time between two looks at a worker: it is not at fault where the machine stood still."""
SUPERVISOR = "RAGWEIR_SUPERVISOR"
"""Tells a worker the process that it must not outlive; asking for its parent may come too late."""


def stop_flag() -> Callable[[], bool]:
    """Whether this process was told to stop, by SIGTERM, SIGINT or, for a worker, the end of its supervisor."""
    told = False
    supervisor = os.environ.get(SUPERVISOR)

    def tell(_: int, __: FrameType | None) -> None:
        nonlocal told
        told = True

    signal.signal(signal.SIGTERM, tell)
    signal.signal(signal.SIGINT, tell)
    # A worker whose supervisor was killed must not work on unsupervised. What else starts a service may end before it.
    return lambda: told or supervisor not in (None, str(os.getppid()))


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
    delay: float = _FIRST_DELAY_SECONDS
    listener: Listener | None = None
    beats: bool = False
    """True once a heartbeat has come from the process."""
    silent_s: float = 0.0
    """The time in seconds since the last heartbeat."""
    announced: Announcement | None = None
    """The port of the worker, or of its predecessor: Prometheus has to miss a worker that is down."""
    failure: str = ""
    """The reason why the worker is not restarted; empty while it runs or is to be restarted."""
    remind_at: float = 0.0
    """The time at which the log names the failure again."""

    @property
    def about(self) -> dict[str, Any]:
        """The worker's name as fields of a log line."""
        return {"service": self.command.service, "slot": self.command.slot}

    @property
    def trouble(self) -> str:
        """The reason why the process does not run; empty while it runs."""
        if self.process is not None:
            return ""
        if self.failure:
            return f"{self.command} is down and is not restarted: {self.failure}"
        return f"{self.command} is down and is to be started"


class Supervisor:
    """Runs each command as a process; restarts what ends, later each time, unless a restart would not help.

    Args:
        commands: the workers' command lines.
        log: where their standard error goes, in place of ours.
        listen: the address and port where /targets, /metrics, /healthz and /readyz are served; nowhere without it.
        stalled_s: how long a worker's loop may stand still, in seconds, before the worker is ended.
        start_s: how long a worker may take to its first heartbeat.
    """

    def __init__(
        self,
        commands: Iterable[Command],
        log: IO[bytes] | None = None,
        *,
        listen: tuple[str, int] | None = None,
        stalled_s: float = STALLED_SECONDS,
        start_s: float = START_SECONDS,
    ) -> None:
        self._log = log
        self._workers = [_Worker(command) for command in commands]
        self._listen = listen
        self._stalled_s, self._start_s = stalled_s, start_s
        self._health = Health()
        self._telemetry = Telemetry(NAME, 0)
        self._own: list[Announcement] = []

    def run(self, stopped: Callable[[], bool]) -> int:
        """Supervise until told to stop, or until no worker is left that a restart would help.

        Returns:
            The exit status: 1 if a worker ended for a reason that a restart does not remove, else 0.

        Raises:
            OSError: if the port of /targets is taken.
        """
        with ExitStack() as stack:
            if self._listen is not None:
                host, port = self._listen
                registry = self._telemetry.registry
                bound = stack.enter_context(discovery(host, port, self._announced, registry, self._health))
                self._own = [Announcement(service=NAME, slot=0, port=bound)]
                log.info("supervising", workers=len(self._workers), targets=f"http://{host}:{bound}/targets")
            return self._supervise(stopped)

    def _announced(self) -> list[Announcement]:
        return self._own + [worker.announced for worker in self._workers if worker.announced is not None]

    def _supervise(self, stopped: Callable[[], bool]) -> int:
        before = time.monotonic()
        while not stopped() and not all(worker.failure for worker in self._workers):
            self._health.alive()
            now = time.monotonic()
            for worker in self._workers:
                if worker.failure:
                    self._remind(worker, now)
                elif worker.process is None:
                    if now >= worker.next_start:
                        self._start(worker, now)
                elif (code := worker.process.poll()) is not None:
                    self._ended(worker, code, now)
                else:
                    self._listen_to(worker, worker.process, min(now - before, _LONGEST_TURN_SECONDS))
            self._show()
            before = now
            time.sleep(_POLL_SECONDS)
        self._stop()
        return int(any(worker.failure for worker in self._workers))

    def _show(self) -> None:
        """Bring /metrics and /readyz up to date."""
        for worker in self._workers:
            up, slot = worker.process is not None, str(worker.command.slot)
            self._telemetry.set("ragweir_service_up", up, worker.command.service, slot)
        self._health.not_ready = "; ".join(worker.trouble for worker in self._workers if worker.trouble)

    def _listen_to(self, worker: _Worker, process: subprocess.Popen[bytes], passed_s: float) -> None:
        """Notice a heartbeat, or how long there was none."""
        if worker.listener is None:
            return
        if worker.listener.heard():
            worker.announced = worker.listener.announced or worker.announced
            worker.beats, worker.silent_s = True, 0.0
            return
        worker.silent_s += passed_s
        if worker.silent_s > (self._stalled_s if worker.beats else self._start_s):
            silent_s = round(worker.silent_s)
            log.error("worker's loop stands still; it is killed", **worker.about, pid=process.pid, for_s=silent_s)
            process.kill()
            worker.silent_s = 0.0

    def _start(self, worker: _Worker, now: float) -> None:
        # A session of its own: an interrupt from the keyboard reaches the supervisor, which stops workers in order.
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
            listener.started()
        worker.started, worker.beats, worker.silent_s = now, False, 0.0

    def _ended(self, worker: _Worker, code: int, now: float) -> None:
        worker.process, reason = None, ""
        if worker.listener is not None:
            worker.listener.heard()
            reason = worker.listener.failure
            worker.announced = worker.listener.announced or worker.announced
            worker.listener.close()
            worker.listener = None
        if code == DO_NOT_RESTART:
            worker.failure = reason or _UNREPORTED
            self._remind(worker, now)
            return
        if now - worker.started > _SETTLED_SECONDS:
            worker.delay = _FIRST_DELAY_SECONDS
        worker.next_start = now + worker.delay
        delay = round(worker.delay, 1)
        log.warning("worker ended", **worker.about, status=code, restart_in_s=delay)
        worker.delay = min(worker.delay * 2, _LAST_DELAY_SECONDS)

    def _remind(self, worker: _Worker, now: float) -> None:
        """Log that a worker stays down, every few minutes."""
        if now >= worker.remind_at:
            worker.remind_at = now + _REMIND_SECONDS
            log.error(_DOWN, **worker.about, why=worker.failure)

    def _stop(self) -> None:
        running = [worker.process for worker in self._workers if worker.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.error("worker did not stop in time and is killed", pid=process.pid)
                process.kill()
                process.wait()
        for worker in self._workers:
            if worker.listener is not None:
                worker.listener.close()
                worker.listener = None


def own_command(*arguments: str) -> list[str]:
    """The command line that runs ragweir again in another process."""
    # -P: a folder called metrics where the user stands must not stand in for ours.
    return [sys.executable, "-P", "-m", "ragweir.streams.cli", *arguments]


def same_command(*more: str) -> list[str]:
    """The command line that runs what this process runs in another one, with further arguments."""
    return [sys.executable, *sys.orig_argv[1:], *more]
