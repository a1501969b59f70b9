"""Runs a user's own patterns and hook for redaction in a child process, with a time limit.

Python's `re` has no time limit and holds the interpreter's lock, so a pattern that backtracks for hours can only be
ended by killing its process. The child is started when it is first needed, and again after it was ended.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Pipe

from ragweir.streams.runtime.awake import done_in_time
from ragweir.streams.runtime.processes.child_python import python_command

Redact = Callable[[str], str]
_START_S = 30.0
"""Time limit for starting the child, in seconds: the hook's module may load a model."""
_SLACK_S = 60.0
"""Seconds for which a child goes on beyond its time limit if its parent has ended, or does not run."""


class RedactionFailed(Exception):
    """Redaction took too long, raised, or ended the child. The message is fixed words."""


class IsolatedRedactor:
    """A child process that redacts texts. One thread may use it.

    Args:
        make: returns, in the child, the function that redacts one text; it must be importable.
        arguments: those of `make`; plain data.
        timeout_s: time limit for the texts of one event.
    """

    def __init__(self, make: Callable[..., Redact], arguments: tuple[object, ...], timeout_s: float) -> None:
        self._make, self._arguments, self._timeout_s = make, arguments, timeout_s
        self._child: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._end: weakref.finalize[..., IsolatedRedactor] | None = None

    def redacted(self, texts: Sequence[str]) -> list[str]:
        """Return the texts of one event, redacted; raises RedactionFailed."""
        pipe = self._started()
        try:
            pipe.send(list(texts))
            # A suspended or starved machine is no fault of the texts.
            answer: list[str] | str | None = pipe.recv() if done_in_time(pipe.poll, self._timeout_s) else None
        except (EOFError, OSError):
            self.close()
            raise RedactionFailed("the process that redacts ended") from None
        if answer is None:
            self.close()
            raise RedactionFailed("redaction took longer than judge.redact_timeout_s")
        if isinstance(answer, str):
            raise RedactionFailed(f"redaction raised {answer}")
        return answer

    def close(self) -> None:
        """Kill the child."""
        self._child = None
        if self._end is not None:
            self._end()

    def _started(self) -> Connection:
        if self._child is None:
            # Neither a fork, which may copy a lock of librdkafka's threads, nor multiprocessing, which has no -P.
            ours, theirs = Pipe()
            command = python_command("-c", f"from {__name__} import serve; serve({theirs.fileno()})")
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
            theirs.close()
            self._child = process, ours
            self._end = weakref.finalize(self, _killed, process, ours)
            try:
                ours.send(sys.path)
                ours.send((self._make, self._arguments, self._timeout_s + _SLACK_S))
                ready = done_in_time(ours.poll, _START_S) and ours.recv()
            except (EOFError, OSError):
                ready = False
            if not ready:
                self.close()
                raise RedactionFailed("the process that redacts does not start")
        return self._child[1]


def _killed(process: subprocess.Popen[bytes], pipe: Connection) -> None:
    process.kill()
    process.wait()
    pipe.close()


def serve(descriptor: int) -> None:
    """Redact texts from a pipe until the parent ends, or an alarm if the parent ends while this process works."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Connection(descriptor)
    try:
        sys.path[:] = pipe.recv()
        make, arguments, limit_s = pipe.recv()
        redact = make(*arguments)
        pipe.send(True)  # noqa: FBT003
        while True:
            texts = pipe.recv()
            _alarm(limit_s)
            pipe.send(_answer(redact, texts))
            _alarm(0)
    except (EOFError, OSError):
        return


def _answer(redact: Redact, texts: Sequence[str]) -> list[str] | str:
    """Return the texts redacted, or the name of an exception, whose message may quote them."""
    try:
        return [redact(text) for text in texts]
    except Exception as error:
        return type(error).__name__


def _alarm(seconds: float) -> None:
    """Let SIGALRM end this process after a time; 0 cancels that. On Windows, which has no SIGALRM, do nothing."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
