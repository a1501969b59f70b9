"""CPU time of code on a machine that is shared: the minimum of many short rounds."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

_ROUNDS = 40
_ENOUGH_S = 4.0


def microseconds(work: Callable[[], object], events: int) -> float:
    """Return the CPU time per event of the fastest round; slow work gets fewer rounds, but at least three.

    CPU time excludes the waiting for a core, and the fastest round most of the effect of other processes on the caches.
    """
    rounds: list[float] = []
    while len(rounds) < _ROUNDS and (sum(rounds) < _ENOUGH_S or len(rounds) < 3):
        began = process_time()
        work()
        rounds.append(process_time() - began)
    return min(rounds) / events * 1e6
