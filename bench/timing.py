"""CPU time of code on a machine that is shared: the minimum of many short rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import process_time

_ROUNDS = 40
_ENOUGH_S = 4.0


def microseconds(work: Callable[[], object], events: int) -> float:
    """Return the CPU time per event of the fastest round; slow work gets fewer rounds, but at least three.

    CPU time excludes the waiting for a core, and the fastest round most of the effect of other processes on the caches.
    """
    return side_by_side({"": work}, events)[""]


def side_by_side(
    works: Mapping[str, Callable[[], object]], events: int, enough_s: float = _ENOUGH_S
) -> dict[str, float]:
    """Return the same of several works, whose rounds take turns, so that a busy machine disturbs them alike.

    After `enough_s` seconds in sum no further round begins, but the first three.
    """
    rounds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(_ROUNDS):
        if number >= 3 and sum(map(sum, rounds.values())) > enough_s:
            break
        for name, work in works.items():
            began = process_time()
            work()
            rounds[name].append(process_time() - began)
    return {name: min(each) / events * 1e6 for name, each in rounds.items()}
