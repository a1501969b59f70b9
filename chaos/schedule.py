"""The plan: which faults happen when, drawn from a seed. Time is the share of the traffic that has been sent."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from typing import Literal

Kind = Literal[
    "kill",
    "zombie",
    "broker kill",
    "rolling restart",
    "join",
    "leave",
    "delay",
    "partition",
    "reset",
    "judge outage",
    "leader kill",
    "group coordinator kill",
    "transaction coordinator kill",
    "broker freeze",
    "broker partition",
    "rolling brokers",
    "full disk",
    "topic recreated",
    "topic grown",
    "clock shift",
    "offset reset",
    "twin",
]
BROKER_FAULTS: frozenset[Kind] = frozenset(
    {
        "broker kill",
        "leader kill",
        "group coordinator kill",
        "transaction coordinator kill",
        "broker freeze",
        "broker partition",
        "rolling brokers",
        "full disk",
    }
)
When = Literal["open", "before commit", "after commit", "any"]
_WHEN: tuple[When, ...] = ("open", "before commit", "after commit", "open", "any")
_SERVICES = ("evaluate", "aggregate", "evaluate", "judge", "aggregate", "evaluate", "export")
"""Whose workers are hurt, as often as they stand here: in turn, so that few faults too meet all of them."""
_FIRST, _LAST = 0.03, 0.97
"""Between these shares of the traffic: every fault falls into it."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """How many faults of each kind."""

    kills: int = 0
    zombies: int = 0
    broker_kills: int = 0
    rolling_restarts: int = 0
    joins_and_leaves: int = 0
    delays: int = 0
    partitions: int = 0
    resets: int = 0
    judge_outages: int = 0
    leader_kills: int = 0
    group_coordinator_kills: int = 0
    transaction_coordinator_kills: int = 0
    broker_freezes: int = 0
    broker_partitions: int = 0
    rolling_brokers: int = 0
    full_disks: int = 0
    recreations: int = 0
    growths: int = 0
    clock_shifts: int = 0
    offset_resets: int = 0
    twins: int = 0


_KINDS: dict[str, tuple[Kind, ...]] = {
    "kills": ("kill",),
    "zombies": ("zombie",),
    "broker_kills": ("broker kill",),
    "rolling_restarts": ("rolling restart",),
    "joins_and_leaves": ("leave", "join"),
    "delays": ("delay",),
    "partitions": ("partition",),
    "resets": ("reset",),
    "judge_outages": ("judge outage",),
    "leader_kills": ("leader kill",),
    "group_coordinator_kills": ("group coordinator kill",),
    "transaction_coordinator_kills": ("transaction coordinator kill",),
    "broker_freezes": ("broker freeze",),
    "broker_partitions": ("broker partition",),
    "rolling_brokers": ("rolling brokers",),
    "full_disks": ("full disk",),
    "recreations": ("topic recreated",),
    "growths": ("topic grown",),
    "clock_shifts": ("clock shift",),
    "offset_resets": ("offset reset",),
    "twins": ("twin",),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault."""

    at: float
    kind: Kind
    service: str
    lot: float
    """What else there is to choose, such as the slot, is chosen by it; in [0, 1)."""
    when: When


def schedule(seed: int, numbers: Numbers) -> list[Fault]:
    """All faults, in order.

    >>> [(fault.kind, fault.service) for fault in schedule(1, Numbers(kills=2, resets=1))]
    [('reset', 'evaluate'), ('kill', 'evaluate'), ('kill', 'aggregate')]
    """
    chance = random.Random(f"plan {seed}")  # noqa: S311 (the same plan for the same seed)
    faults: list[Fault] = []
    drawn = 0
    for each in fields(numbers):
        for _ in range(getattr(numbers, each.name)):
            for kind in _KINDS[each.name]:
                at, service = chance.uniform(_FIRST, _LAST), _SERVICES[drawn % len(_SERVICES)]
                faults.append(Fault(at, kind, service, chance.random(), _WHEN[drawn % len(_WHEN)]))
                drawn += 1
    return sorted(faults, key=lambda fault: fault.at)
