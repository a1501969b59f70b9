"""A gate that lets calls of one event loop pass one by one, in the order in which they came."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class FifoGate:
    """Lets the first call pass once there is nothing to wait for; the others wait until it has passed."""

    def __init__(self) -> None:
        self._first = asyncio.Lock()
        self._change = asyncio.Event()

    async def turn(self, wait_s: Callable[[], float], take: Callable[[], T]) -> T:
        """Wait in line, then until there is nothing to wait for, and take what was waited for.

        Args:
            wait_s: how many seconds are still to wait at least, 0 for none; infinite until `changed` is called.
            take: what to do then, before anybody else asks.
        """
        async with self._first:
            while (wait := wait_s()) > 0:
                self._change.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if math.isinf(wait) else wait):
                        await self._change.wait()
            return take()

    def changed(self) -> None:
        """Let the first in line ask again, since its waiting may be over sooner."""
        self._change.set()
