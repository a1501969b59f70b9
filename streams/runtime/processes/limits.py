"""Limits of memory and CPU time of a process that reads what may be hostile, and the meaning of its exit status."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

try:
    import resource
except ModuleNotFoundError:  # Windows has no such limits.
    resource = None  # type: ignore[assignment]

HAS_LIMITS = resource is not None
"""True if this system has such limits."""
OUT_OF_MEMORY = 77
"""The exit status of a process that has no memory left; it gives it itself."""
OUTSIDE = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP} if os.name == "posix" else set())
"""Exit statuses that the kernel, people and their tools cause. The limits have other statuses."""
_OUT_OF_TIME = -signal.SIGXCPU if os.name == "posix" else None


def limit_memory(more: int) -> None:
    """Limit the memory of this process to what it has now and `more` bytes."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _lower(resource.RLIMIT_DATA, _data_bytes() + more)


def limit_time(seconds: int) -> None:
    """Limit the CPU time of this process to what it has taken, and `seconds`, rounded up."""
    if resource is not None:
        _lower(resource.RLIMIT_CPU, int(time.process_time()) + 1 + seconds)


def cause_of(status: int, what: str) -> str:
    """Return how a process ended.

    >>> cause_of(OUT_OF_MEMORY, "one record")
    'it needs more memory than one record may take'
    >>> cause_of(3, "one record")
    'it ends the process with exit status 3'

    Args:
        status: the exit status.
        what: what the process was to read.
    """
    if status == OUT_OF_MEMORY:
        return f"it needs more memory than {what} may take"
    if status == _OUT_OF_TIME:
        return f"it needs more CPU time than {what} may take"
    if status >= 0:
        return f"it ends the process with exit status {status}"
    with suppress(ValueError):
        return f"it ends the process with {signal.Signals(-status).name}"
    return f"it ends the process with signal {-status}"


def _lower(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _data_bytes() -> int:
    """Return the private writable memory of this process, in bytes; 0 if the system does not report it."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    sizes = (line.split()[1] for line in status.splitlines() if line.startswith("VmData:"))
    return int(next(sizes, "0")) * 1024
