"""The worker's side of the canary: hands it suspected records and returns those that end it twice."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

import structlog

from ragweir.errors import Interrupted, RestartRequired
from ragweir.streams.runtime.awake import done_in_time
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.processes.limits import OUTSIDE, cause_of
from ragweir.streams.runtime.processes.supervisor import SUPERVISOR
from ragweir.streams.runtime.protection.canary import SURVIVED, WAITING
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.serving.heartbeat import HEARTBEAT

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

TRIAL_SECONDS = 55.0
"""Time limit of one record; below the time after which a worker counts as stalled."""
_START_SECONDS = 300.0
_POLL_SECONDS = 0.25
_END_SECONDS = 5.0
"""Time after which a canary that does not end by itself is killed."""
_BATCH_SECONDS = 30.0
"""Time after which no further record of a batch is tried, as the worker must poll its consumer."""
_MAX_STARTS = 5
"""The number of canaries in a row that may end without the fault of a record."""


class _NotTried(Exception):
    """The canary cannot read a record yet."""


class CanaryClient:
    """Tries records in a canary process, which it starts when the first record is suspected.

    Args:
        command: the canary's command line.
        stopped: returns true once the worker is to stop; each call is a heartbeat.
    """

    def __init__(self, command: Sequence[str], stopped: Callable[[], bool]) -> None:
        self._command, self._stopped = list(command), stopped
        self._canary: _Canary | None = None
        self._causes: dict[tuple[str, int, int], str] = {}
        """The results of trials until they are committed, by topic, partition and offset: empty if survived."""

    def try_records(self, records: Sequence[Record]) -> int:
        """Try records in order; return how many have a result.

        These are fewer than all after a stop or a time limit, or if one cannot be read yet.

        Raises:
            RestartRequired: if the canary does not start, or is ended from outside again and again.
        """
        until = machine.monotonic() + _BATCH_SECONDS
        for number, record in enumerate(records):
            key = record.topic, record.partition, record.offset
            if key in self._causes:
                continue
            if self._stopped() or (number and machine.monotonic() > until):
                return number
            try:
                # A second trial, alone in a new process, decides.
                self._causes[key] = cause = self._trial(record) and self._trial(record)
            except Interrupted:
                return number
            except _NotTried:
                machine.sleep(_POLL_SECONDS)
                return number
            if cause:
                fields = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
                log.error(
                    "a record ends the process that evaluates it; writing it to dead-letter", **fields, reason=cause
                )
        return len(records)

    def cause(self, record: Record) -> str:
        """Return how a record ends a process; empty if it does not, or was not tried."""
        return self._causes.get((record.topic, record.partition, record.offset), "")

    def on_commit(self) -> None:
        """Forget the results of trials: the records are committed."""
        self._causes.clear()

    def close(self) -> None:
        """End the canary."""
        if self._canary is not None:
            self._canary.overdue = True
            self._end(self._canary)

    def _trial(self, record: Record) -> str:
        """Have a canary handle a record; return how the record ended it, or an empty text."""
        for _ in range(_MAX_STARTS):
            canary = self._canary
            if canary is None:
                canary = self._canary = _Canary(self._command, self._stopped)
                if not canary.answers(None, _START_SECONDS):
                    log.warning("the process that tries records does not start", status=self._end(canary))
                    continue
            if answer := canary.answers(record, TRIAL_SECONDS):
                if answer == WAITING:
                    raise _NotTried
                return ""
            overdue, status = canary.overdue, self._end(canary)
            if overdue:
                return f"it takes longer than {TRIAL_SECONDS:.0f} s"
            if status not in OUTSIDE:
                return cause_of(status, "one record")
            log.warning("the process that tries records was ended from outside; trying again", status=status)
        raise RestartRequired("the process that tries records does not start, or is ended from outside again and again")

    def _end(self, canary: _Canary) -> int:
        self._canary = None
        return canary.end()


class _Canary:
    """One process, and the thread that exchanges bytes with it, since pipes have no timeouts."""

    def __init__(self, command: Sequence[str], stopped: Callable[[], bool]) -> None:
        self._stopped = stopped
        own = {name: text for name, text in os.environ.items() if name not in (HEARTBEAT, SUPERVISOR)}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=own)
        self._thread = ThreadPoolExecutor(1, "canary")
        self.overdue = False

    def answers(self, record: Record | None, limit_s: float) -> bytes:
        """Send a record, or nothing at the start, and wait for the answer; empty if the process ends or is overdue.

        Raises:
            Interrupted: if the worker is to stop meanwhile.
        """
        answer = self._thread.submit(self._exchange, record)
        # A suspended or starved machine is no fault of the record.
        self.overdue = not done_in_time(lambda seconds: self._has(answer, seconds), limit_s)
        return b"" if self.overdue else answer.result()

    def _has(self, answer: Future[bytes], seconds: float) -> bool:
        if wait([answer], seconds).done:
            return True
        if self._stopped():
            raise Interrupted
        return False

    def _exchange(self, record: Record | None) -> bytes:
        sink, source = self._process.stdin, self._process.stdout
        if sink is None or source is None:
            return b""
        try:
            if record is not None:
                pickle.dump(record, sink)
                sink.flush()
            return source.read(len(SURVIVED))
        except OSError:
            return b""

    def end(self) -> int:
        """End the process, without a delay if it is overdue; return its exit status."""
        try:
            return self._process.wait(0 if self.overdue else _END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._thread.shutdown()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError):  # Bytes may be buffered for a process that has ended.
                    if pipe is not None:
                        pipe.close()
