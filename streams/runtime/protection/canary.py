"""The canary: a process that handles suspected records one by one, within limits of memory and time.

A record that would end a worker ends this process instead, and its exit status is the reason. Outcomes are discarded.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import threading
from typing import BinaryIO

import structlog

from ragweir.schemas.topics import MAX_EVENT_BYTES
from ragweir.streams.runtime.agent import Agent
from ragweir.streams.runtime.processes.limits import HAS_LIMITS, OUT_OF_MEMORY, limit_memory, limit_time
from ragweir.streams.runtime.records import Record

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

READY, SURVIVED, WAITING = b"r", b".", b"w"
"""The bytes that it answers: one at its start, and one after each record: that it survived it, or did not try it, as it
waits for something without which it cannot be read, such as a schema."""
CPU_SECONDS = 45
"""CPU time limit of one record; below the time after which a worker counts as stalled."""
_MEMORY_PER_BYTE = 256
"""The memory limit of one record for each byte of the largest event, in addition to that of an idle canary. It is more
than any readable event needs and less than the memory of a worker."""


def memory_limit(max_event_bytes: int) -> int:
    """Return the memory limit of one record, in bytes.

    >>> memory_limit(1024 * 1024) // 1024 ** 2, memory_limit(64 * 1024 * 1024) // 1024 ** 3
    (256, 16)
    """
    return _MEMORY_PER_BYTE * max(max_event_bytes, MAX_EVENT_BYTES)


def run(agent: Agent, max_event_bytes: int) -> None:
    """Handle the pickled records from standard input until its end; end the process when its memory is used up."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    # The output of a metric that prints must not be taken for an answer.
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The worker handles Ctrl-C and ends this process.
    threading.Thread(target=_end_with_worker, daemon=True).start()
    if not HAS_LIMITS:
        log.warning("this system has no limits of memory and CPU time; records are tried within a time limit only")
    limit_memory(memory_limit(max_event_bytes))
    sink.write(READY)
    try:
        while (record := _next_record(source)) is not None:
            if agent.preparation.waiting([record]):
                sink.write(WAITING)
                continue
            limit_time(CPU_SECONDS)
            agent.handle([record])
            agent.on_abort()
            sink.write(SURVIVED)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BrokenPipeError:
        return


def _next_record(source: BinaryIO) -> Record | None:
    """Return the next record; None at the end."""
    try:
        record: Record = pickle.load(source)  # noqa: S301 - the worker writes it
    except EOFError:
        return None
    except Exception:  # A worker of another release; it restarts once its canary is ended from outside.
        signal.raise_signal(signal.SIGTERM)
        return None
    return record


def _end_with_worker() -> None:
    """End the process with its worker, also in the middle of a record."""
    if not hasattr(select, "poll"):
        return
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    os._exit(0)
