"""Time limits that count only the time in which this process runs, so that none passes while the machine is starved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

_T = TypeVar("_T")
_STEPS = 16
"""The number of waits of a coroutine's time limit, of which each counts as such a share of it."""
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


async def result_in_time(work: Coroutine[Any, Any, _T], limit_s: float) -> _T:
    """Return the result of a coroutine; cancel it if it has none within a time limit, as `done_in_time` counts it.

    Args:
        work: the coroutine.
        limit_s: the time limit in seconds.

    Raises:
        TimeoutError: if it is cancelled.

    >>> asyncio.run(result_in_time(asyncio.sleep(0, "done"), 1.0))
    'done'
    >>> asyncio.run(result_in_time(asyncio.sleep(9), 0.01))
    Traceback (most recent call last):
    TimeoutError
    """
    task = asyncio.ensure_future(work)
    try:
        for _ in range(_STEPS):
            done, _pending = await asyncio.wait({task}, timeout=limit_s / _STEPS)
            if done:
                return task.result()
        raise TimeoutError
    finally:
        if task.cancel():
            with suppress(asyncio.CancelledError, Exception):
                await task
