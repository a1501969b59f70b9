"""The clocks and the randomness of the machine: the product reads no others, so that a simulation replaces them.

`machine` is the one of this process. Its methods may be kept, as in default arguments: they ask its `clocks` and its
`randomness` at each call.
"""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime


class Clocks:
    """The clocks of the operating system. A simulation has a subclass."""

    def time(self) -> float:
        """Return epoch seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def time_ns(self) -> int:
        """Return epoch nanoseconds."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Return nanoseconds that never go back."""
        return time.monotonic_ns()

    def boottime(self) -> float:
        """Return monotonic seconds, which include the time of a suspended machine where the system has that clock."""
        boot = getattr(time, "CLOCK_BOOTTIME", None)
        return time.monotonic() if boot is None else time.clock_gettime(boot)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class Machine:
    """The clocks and the randomness that a process gets from its machine, beside its inputs.

    >>> fixed = Machine()
    >>> fixed.randomness = random.Random(7)
    >>> round(fixed.random(), 3), len(fixed.bytes(5))
    (0.324, 5)
    """

    def __init__(self) -> None:
        self.clocks = Clocks()
        self.randomness: random.Random = random.SystemRandom()

    def time(self) -> float:
        """Return epoch seconds."""
        return self.clocks.time()

    def now(self) -> datetime:
        """Return the time as a UTC date."""
        return datetime.fromtimestamp(self.clocks.time(), UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return self.clocks.monotonic()

    def time_ns(self) -> int:
        """Return epoch nanoseconds."""
        return self.clocks.time_ns()

    def monotonic_ns(self) -> int:
        """Return nanoseconds that never go back."""
        return self.clocks.monotonic_ns()

    def boottime(self) -> float:
        """Return monotonic seconds, which include the time of a suspended machine where the system has that clock."""
        return self.clocks.boottime()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self.clocks.sleep(seconds)

    def random(self) -> float:
        """Return a random number from 0 to below 1."""
        return self.randomness.random()

    def bytes(self, count: int) -> bytes:
        """Return random bytes, by default of the quality that keys need."""
        return self.randomness.randbytes(count)

    def token_hex(self, count: int) -> str:
        """Return random bytes as a text of hexadecimal digits, two for each byte."""
        return self.bytes(count).hex()


machine = Machine()
