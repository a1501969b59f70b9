"""What code costs on a machine that does other things too: CPU time, the best of many short rounds."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

_ROUNDS = 40
_ENOUGH_S = 4.0


def microseconds(work: Callable[[], object], events: int) -> float:
    """CPU time per event in the round that was disturbed least; slow work gets fewer rounds, but at least three.

    CPU time leaves out the waiting for a core, and the best round most of what neighbours do to the caches.
    """
    rounds: list[float] = []
    while len(rounds) < _ROUNDS and (sum(rounds) < _ENOUGH_S or len(rounds) < 3):
        began = process_time()
        work()
        rounds.append(process_time() - began)
    return min(rounds) / events * 1e6
