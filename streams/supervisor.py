"""The supervisor: keeps one process per slot of each service running, and ends them all in time when told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import IO

import structlog

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

REFUSED = 2
"""The exit status of a worker that a restart would not help."""
STOP_S = 9.0
"""How long workers have to finish their batch before they are killed; they need well under it."""
_FIRST_DELAY_S = 0.1
_LAST_DELAY_S = 30.0
_SETTLED_S = 30.0
"""A worker that lived this long is taken as well again: its next restart is at once."""
_POLL_S = 0.05
_TOLD_WORDS = 3
"""Of a command line that are logged: service, --slot and its number."""
_SUPERVISOR = "RAGWEIR_SUPERVISOR"
"""Tells a worker the process that it must not outlive; asking for its parent may come too late."""


def stop_flag() -> Callable[[], bool]:
    """Whether this process was told to stop, by SIGTERM, SIGINT or, for a worker, the end of its supervisor."""
    told = False
    supervisor = os.environ.get(_SUPERVISOR)

    def tell(_: int, __: FrameType | None) -> None:
        nonlocal told
        told = True

    signal.signal(signal.SIGTERM, tell)
    signal.signal(signal.SIGINT, tell)
    # A worker whose supervisor was killed must not work on unsupervised. What else starts a service may end before it.
    return lambda: told or supervisor not in (None, str(os.getppid()))


@dataclass(slots=True)
class _Worker:
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    next_start: float = 0.0
    delay: float = _FIRST_DELAY_S


class Supervisor:
    """Runs each command as a process; restarts what ends, later each time.

    Args:
        commands: the workers' command lines.
        log: where their standard error goes, in place of ours.
    """

    def __init__(self, commands: Iterable[Sequence[str]], log: IO[bytes] | None = None) -> None:
        self._log = log
        self._workers = [_Worker(list(command)) for command in commands]

    def run(self, stopped: Callable[[], bool]) -> int:
        """Supervise until told to stop (gives 0), or until a worker says that a restart would not help (gives 1)."""
        status = 0
        while not stopped() and not status:
            now = time.monotonic()
            for worker in self._workers:
                if worker.process is None:
                    if now >= worker.next_start:
                        self._start(worker, now)
                elif (code := worker.process.poll()) is not None:
                    if code == REFUSED:
                        status = 1
                    self._ended(worker, code, now)
            time.sleep(_POLL_S)
        self._stop()
        return status

    def _start(self, worker: _Worker, now: float) -> None:
        # A session of its own: an interrupt from the keyboard reaches the supervisor, which stops workers in order.
        environment = {**os.environ, _SUPERVISOR: str(os.getpid())}
        worker.process = subprocess.Popen(worker.command, env=environment, stderr=self._log, start_new_session=True)
        worker.started = now

    def _ended(self, worker: _Worker, code: int, now: float) -> None:
        worker.process = None
        if now - worker.started > _SETTLED_S:
            worker.delay = _FIRST_DELAY_S
        worker.next_start = now + worker.delay
        delay = round(worker.delay, 1)
        log.warning("worker ended", command=worker.command[-_TOLD_WORDS:], status=code, restart_in_s=delay)
        worker.delay = min(worker.delay * 2, _LAST_DELAY_S)

    def _stop(self) -> None:
        running = [worker.process for worker in self._workers if worker.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + STOP_S
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.error("worker did not stop in time and is killed", pid=process.pid)
                process.kill()
                process.wait()


def own_command(*arguments: str) -> list[str]:
    """The command line that runs ragweir again in another process."""
    # -P: a folder called metrics where the user stands must not stand in for ours.
    return [sys.executable, "-P", "-m", "streams.cli", *arguments]
