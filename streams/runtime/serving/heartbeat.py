"""The heartbeat: a pipe by which a worker reports its port, the iterations of its loop and a permanent failure.

A loop that blocks in C code blocks the worker's HTTP server as well; the supervisor detects it by the silent pipe.
"""

from __future__ import annotations

import os
from contextlib import suppress

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ragweir.streams.runtime.machine import machine

HEARTBEAT = "RAGWEIR_HEARTBEAT"
"""The environment variable with the file descriptor of a worker's end of the pipe."""
_INTERVAL_SECONDS = 1.0
_MAX_BYTES = 64 * 1024
"""The size of one read, and of the longest unfinished line."""
_MAX_CHARACTERS = 600
"""The length of the longest failure reason. Escaped, it is below the size of an atomic write to a pipe."""


class Announcement(BaseModel):
    """The line that a worker writes when its telemetry server has started."""

    model_config = ConfigDict(frozen=True)

    service: str
    slot: int
    port: int


class Failure(BaseModel):
    """The line that a worker writes before it ends with an error that a restart does not remove."""

    model_config = ConfigDict(frozen=True)

    failure: str


_LINE: TypeAdapter[Announcement | Failure] = TypeAdapter(Announcement | Failure)


class Heartbeat:
    """The worker's end.

    Args:
        descriptor: the pipe's file descriptor; None without a supervisor.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor: int | None = None
        self._next_s = 0.0
        if descriptor is not None:
            with suppress(OSError):  # The variable may be that of another process.
                os.set_blocking(descriptor, False)
                os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no other form
                self._descriptor = descriptor

    @classmethod
    def inherited(cls) -> Heartbeat:
        """Return the heartbeat that this process was started with."""
        text = os.environ.get(HEARTBEAT, "")
        return cls(int(text) if text.isdecimal() else None)

    def announce(self, service: str, slot: int, port: int) -> None:
        """Report the port of the worker's telemetry."""
        self._write(orjson.dumps(Announcement(service=service, slot=slot, port=port).model_dump()) + b"\n")

    def fail(self, reason: str) -> None:
        """Report the error that ends the worker, which a restart does not remove."""
        # A path in the reason may have bytes that are no text.
        text = reason[:_MAX_CHARACTERS].encode(errors="replace").decode()
        self._write(orjson.dumps(Failure(failure=text).model_dump()) + b"\n")

    def __call__(self) -> None:
        """Report an iteration of the loop, at most once a second."""
        now = machine.monotonic()
        if now >= self._next_s:
            self._next_s = now + _INTERVAL_SECONDS
            self._write(b"\n")

    def _write(self, data: bytes) -> None:
        if self._descriptor is None:
            return
        # The pipe is full after hours without a read, and closed without a supervisor, which `stop_flag` detects.
        with suppress(OSError):
            os.write(self._descriptor, data)


class Listener:
    """The supervisor's end of one worker's pipe.

    >>> listener = Listener()
    >>> worker = Heartbeat(os.dup(listener.descriptor))
    >>> listener.close_worker_end()
    >>> listener.receive(), listener.announced
    (False, None)
    >>> worker.announce("evaluate", 2, 9466)
    >>> listener.receive(), listener.announced
    (True, Announcement(service='evaluate', slot=2, port=9466))
    >>> worker.fail("there is no topic rag.evaluations")
    >>> listener.receive(), listener.failure
    (True, 'there is no topic rag.evaluations')
    >>> listener.close()
    """

    def __init__(self) -> None:
        self._source, self.descriptor = os.pipe()
        os.set_blocking(self._source, False)
        self._line = b""
        self.announced: Announcement | None = None
        self.failure = ""
        """The reported failure; empty without one."""

    def close_worker_end(self) -> None:
        """Close this process' copy of the worker's end, after the worker has started."""
        os.close(self.descriptor)

    def receive(self) -> bool:
        """Read the pipe; return whether the worker has written since the last call."""
        try:
            data = os.read(self._source, _MAX_BYTES)
        except BlockingIOError:
            return False
        *lines, rest = (self._line + data).split(b"\n")
        self._line = rest[-_MAX_BYTES:]
        for line in filter(None, lines):
            with suppress(ValidationError):
                match _LINE.validate_json(line):
                    case Announcement() as announced:
                        self.announced = announced
                    case Failure(failure=reason):
                        self.failure = reason
        return data != b""

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._source)
