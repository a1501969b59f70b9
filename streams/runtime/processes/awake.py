"""Time limits that count only the time in which this process runs, so that none passes while the machine is starved."""

from __future__ import annotations

from collections.abc import Callable

STEP_SECONDS = 0.02
"""The longest wait that is counted at once. A process with a CPU quota runs at least once in 0.1 s."""


def done_in_time(wait: Callable[[float], bool], limit_s: float) -> bool:
    """Wait until something is done; return False if it is not done within a time limit.

    Each wait counts with the time that was asked for, even if it returns much later because the process was suspended,
    stopped, or had no CPU: the threads that do the work were not able to run then, either.

    Args:
        wait: waits for at most so many seconds, and returns whether it is done.
        limit_s: the time limit in seconds.

    >>> waits = iter([False, False, True])
    >>> done_in_time(lambda _: next(waits), 1.0)
    True
    >>> done_in_time(lambda _: False, 1.0)
    False
    """
    return any(wait(STEP_SECONDS) for _ in range(max(1, round(limit_s / STEP_SECONDS))))
