"""`python -m chaos.shifted_clock AHEAD judge --slot 0`: one slot of a service whose clock is ahead, or behind.

AHEAD is a number of seconds, below 0 for a clock that is behind, or the name of a file that holds one, which may change
while the slot runs. Timestamps of records are set by the broker, or by the client library, which reads the machine's
clock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from typing_extensions import override

from ragweir.streams.runtime.machine import Clocks, machine


class Shifted(Clocks):
    """Clocks whose wall clock is ahead by what a function returns, in seconds."""

    def __init__(self, ahead_s: Callable[[], float]) -> None:
        self._ahead_s = ahead_s

    @override
    def time(self) -> float:
        return super().time() + self._ahead_s()

    @override
    def time_ns(self) -> int:
        return super().time_ns() + round(self._ahead_s() * 1e9)


if __name__ == "__main__":
    given = sys.argv.pop(1)
    machine.clocks = Shifted(
        (lambda: float(given)) if given.removeprefix("-").isdecimal() else lambda: float(Path(given).read_text() or "0")
    )
    from ragweir.streams.commands import main

    main()
