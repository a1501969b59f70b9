"""A gate that calls of one event loop pass in the order of their arrival."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class FifoGate:
    """Lets the first call pass when its wait is over; the others queue behind it."""

    def __init__(self) -> None:
        self._first = asyncio.Lock()
        self._change = asyncio.Event()

    async def enter(self, wait_s: Callable[[], float], take: Callable[[], T]) -> T:
        """Wait for the calls before, then until `wait_s` returns 0, and return the result of `take`.

        Args:
            wait_s: returns the seconds to wait at least; infinite until `notify` is called.
            take: called before any other call can enter.
        """
        async with self._first:
            while (wait := wait_s()) > 0:
                self._change.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if math.isinf(wait) else wait):
                        await self._change.wait()
            return take()

    def notify(self) -> None:
        """Let the first call check its wait again, since it may be over sooner."""
        self._change.set()
