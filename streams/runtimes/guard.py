"""The guard: tries suspected records in a child process, and condemns those that end it twice by themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

import structlog

from ragweir.errors import Interrupted, RestartRequired
from ragweir.streams.heartbeat import HEARTBEAT
from ragweir.streams.records import Record
from ragweir.streams.runtimes.canary import OUT_OF_MEMORY, SURVIVED, frame
from ragweir.streams.supervisor import SUPERVISOR

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

TRIAL_S = 55.0
"""The seconds that the child may take for one record; less than those after which a worker counts as stalled."""
_START_S = 300.0
"""The time in seconds that the child may take to start."""
_TURN_S = 0.25
_END_S = 5.0
"""The time in seconds after which a child that no longer answers is killed."""
_BATCH_S = 30.0
"""After this time no further record of a batch is tried: the group waits for its members' next poll."""
_MOST_STARTS = 5
"""The number of children in a row that may end for reasons of their own before the worker gives up."""

_OUTSIDE = frozenset(
    {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP} if os.name == "posix" else set()
)
"""Exit statuses that the kernel, people and their tools bring about, and no record: the child's own limits end it in
other ways, and so do its faults."""
_CAUSES = {
    OUT_OF_MEMORY: "it needs more memory than one record may take",
    **({-signal.SIGXCPU: "it needs more CPU time than one record may take"} if os.name == "posix" else {}),
}

Fate = tuple[str, int, int]
"""A topic, a partition and an offset."""


class Guard:
    """Tries records in a child.

    Args:
        command: the child's command line; it runs `ragweir.streams.runtimes.canary`.
        alive: called again and again while something is waited for.
        stopped: says whether to stop.
    """

    def __init__(self, command: Sequence[str], alive: Callable[[], object], stopped: Callable[[], bool]) -> None:
        self._command = list(command)
        self._alive, self._stopped = alive, stopped
        self._child: _Child | None = None
        self._fates: dict[Fate, str] = {}
        """The results of trials until they are committed: empty, or the way in which the record ends a process."""

    def tried(self, records: Sequence[Record]) -> int:
        """Try records in order; gives how many are known now: all, or fewer when told to stop or after a while.

        Raises:
            RestartRequired: if the child does not start, or is ended from outside again and again.
        """
        until = time.monotonic() + _BATCH_S
        for number, record in enumerate(records):
            self._alive()
            fate = record.topic, record.partition, record.offset
            if fate in self._fates:
                continue
            if number and time.monotonic() > until:
                return number
            try:
                self._fates[fate] = self._tried(record)
            except Interrupted:
                return number
        return len(records)

    def cause(self, record: Record) -> str:
        """Say how a record ends a process; empty where it is not known to do so."""
        return self._fates.get((record.topic, record.partition, record.offset), "")

    def settled(self) -> None:
        """Forget what the trials came to: it is committed."""
        self._fates.clear()

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.overdue = True
            self._ended(self._child)

    def _tried(self, record: Record) -> str:
        if not self._trial(record):
            return ""
        cause = self._trial(record)  # Once more, alone in a child of its own.
        if cause:
            place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
            log.error("a record ends the process that evaluates it, and becomes a dead letter", **place, reason=cause)
        return cause

    def _trial(self, record: Record) -> str:
        """Let a child handle a record; gives how it died of it, or nothing."""
        for _ in range(_MOST_STARTS):
            child = self._child
            if child is None:
                child = self._child = _Child(self._command, self._alive, self._stopped)
                if not child.answers(None, _START_S):
                    log.warning("the process that tries records does not start", status=self._ended(child))
                    continue
            if child.answers(record, TRIAL_S):
                return ""
            overdue, status = child.overdue, self._ended(child)
            if overdue:
                return f"it takes longer than {TRIAL_S:.0f} s"
            if status not in _OUTSIDE:
                return _CAUSES.get(status, _named(status))
            log.warning("the process that tries records was ended from outside; trying again", status=status)
        raise RestartRequired("the process that tries records does not start, or is ended from outside again and again")

    def _ended(self, child: _Child) -> int:
        self._child = None
        return child.end()


class _Child:
    """One process, and the thread that talks with it: pipes have no timeouts."""

    def __init__(self, command: Sequence[str], alive: Callable[[], object], stopped: Callable[[], bool]) -> None:
        self._alive, self._stopped = alive, stopped
        own = {name: text for name, text in os.environ.items() if name not in (HEARTBEAT, SUPERVISOR)}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=own)
        self._talk = ThreadPoolExecutor(1, "guard")
        self.overdue = False

    def answers(self, record: Record | None, limit_s: float) -> bool:
        """Hand a record over, or nothing, and wait for the answer; False where the child ends or takes too long.

        Raises:
            Interrupted: if told to stop meanwhile.
        """
        answer = self._talk.submit(self._exchange, record)
        waited_s, before = 0.0, time.monotonic()
        while not wait([answer], _TURN_S).done:
            self._alive()
            if self._stopped():
                raise Interrupted
            now = time.monotonic()
            # A machine that stood still for a while is no fault of the record.
            waited_s += min(now - before, 2 * _TURN_S)
            before = now
            if waited_s > limit_s:
                self.overdue = True
                return False
        return answer.result()

    def _exchange(self, record: Record | None) -> bool:
        sink, source = self._process.stdin, self._process.stdout
        if sink is None or source is None:
            return False
        try:
            if record is not None:
                sink.write(frame(record))
                sink.flush()
            return source.read(len(SURVIVED)) != b""
        except OSError:
            return False

    def end(self) -> int:
        """End the process, unless it ends by itself at once; gives its exit status."""
        try:
            return self._process.wait(0 if self.overdue else _END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._talk.shutdown()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError):  # What was still to be written to a process that is gone.
                    if pipe is not None:
                        pipe.close()


def _named(status: int) -> str:
    """An exit status in words.

    >>> _named(3)
    'it ends the process with exit status 3'
    """
    if status >= 0:
        return f"it ends the process with exit status {status}"
    with suppress(ValueError):
        return f"it ends the process with {signal.Signals(-status).name}"
    return f"it ends the process with signal {-status}"
