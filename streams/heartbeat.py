"""The heartbeat: a pipe through which a worker reports its port, its loop's turns and a permanent failure.

A loop that is caught in C code keeps the worker's own HTTP server from answering, but cannot keep the supervisor from
seeing that nothing comes through the pipe.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

HEARTBEAT = "RAGWEIR_HEARTBEAT"
"""The environment variable that names a worker's end of the pipe, as a file descriptor."""
_EVERY_SECONDS = 1.0
_MOST_BYTES = 64 * 1024
"""The bytes that are read at once, and kept of a line without an end."""
_MOST_CHARACTERS = 600
"""The characters that are sent of a failure's reason. A line of so many, escaped, is written to a pipe as a whole."""


class Announcement(BaseModel):
    """The line that a worker writes once it serves its telemetry."""

    model_config = ConfigDict(frozen=True)

    service: str
    slot: int
    port: int


class Failure(BaseModel):
    """The line that a worker writes before it ends for a reason that a restart does not remove."""

    model_config = ConfigDict(frozen=True)

    failure: str


_LINE: TypeAdapter[Announcement | Failure] = TypeAdapter(Announcement | Failure)


class Heartbeat:
    """The worker's end.

    Args:
        descriptor: of the pipe; None where nobody listens.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor: int | None = None
        self._next_s = 0.0
        if descriptor is not None:
            with suppress(OSError):  # The variable came down from a process whose pipe this one does not have.
                os.set_blocking(descriptor, False)
                os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no other form
                self._descriptor = descriptor

    @classmethod
    def inherited(cls) -> Heartbeat:
        """The one that this process was started with."""
        text = os.environ.get(HEARTBEAT, "")
        return cls(int(text) if text.isdecimal() else None)

    def announce(self, service: str, slot: int, port: int) -> None:
        """Tell where the worker serves its telemetry."""
        self._write(orjson.dumps(Announcement(service=service, slot=slot, port=port).model_dump()) + b"\n")

    def fail(self, reason: str) -> None:
        """Report why the worker ends and why a restart would not help."""
        # A path in the reason may hold bytes that are no text.
        text = reason[:_MOST_CHARACTERS].encode(errors="replace").decode()
        self._write(orjson.dumps(Failure(failure=text).model_dump()) + b"\n")

    def __call__(self) -> None:
        """Tell that the loop came round; at most once a second."""
        now = time.monotonic()
        if now >= self._next_s:
            self._next_s = now + _EVERY_SECONDS
            self._write(b"\n")

    def _write(self, data: bytes) -> None:
        if self._descriptor is None:
            return
        # A full pipe was not read for hours; one that is closed has lost its supervisor, which `stop_flag` notices.
        with suppress(OSError):
            os.write(self._descriptor, data)


class Listener:
    """The supervisor's end of one worker's pipe.

    >>> listener = Listener()
    >>> worker = Heartbeat(os.dup(listener.descriptor))
    >>> listener.started()
    >>> listener.heard(), listener.announced
    (False, None)
    >>> worker.announce("evaluate", 2, 9466)
    >>> listener.heard(), listener.announced
    (True, Announcement(service='evaluate', slot=2, port=9466))
    >>> worker.fail("there is no topic rag.evaluations")
    >>> listener.heard(), listener.failure
    (True, 'there is no topic rag.evaluations')
    >>> listener.close()
    """

    def __init__(self) -> None:
        self._source, self.descriptor = os.pipe()
        os.set_blocking(self._source, False)
        self._line = b""
        self.announced: Announcement | None = None
        self.failure = ""
        """The reason that the worker gave for ending; empty without one."""

    def started(self) -> None:
        """The worker has its end; ours of it is closed."""
        os.close(self.descriptor)

    def heard(self) -> bool:
        """Return whether something came since last asked."""
        try:
            data = os.read(self._source, _MOST_BYTES)
        except BlockingIOError:
            return False
        *lines, rest = (self._line + data).split(b"\n")
        self._line = rest[-_MOST_BYTES:]
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
