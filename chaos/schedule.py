"""The fault schedule: which faults are injected when, drawn from a seed. Time is the share of records sent."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeVar

T = TypeVar("T")
When = Literal["open", "before commit", "after commit", "any"]
_WHEN: tuple[When, ...] = ("open", "before commit", "after commit", "open", "any")
SERVICES = ("evaluate", "aggregate", "evaluate", "judge", "aggregate", "evaluate", "export")
"""The services that faults are aimed at, in turn: those with more workers are listed more often."""
_FIRST, _LAST = 0.03, 0.97
"""The shares of records between which all faults begin."""


KINDS: Mapping[str, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        "kills": (("kill",), "SIGKILLs of workers"),
        "zombies": (("zombie",), "workers stopped for longer than their session timeout"),
        "broker_kills": (("broker kill",), "SIGKILLs of a broker"),
        "rolling_restarts": (("rolling restart",), "services restarted slot by slot"),
        "joins_and_leaves": (("leave", "join"), "evaluate workers that leave, and that join"),
        "delays": (("delay",), "periods in which the network is slow"),
        "partitions": (("partition",), "periods in which the network passes nothing"),
        "resets": (("reset",), "times at which every connection is reset"),
        "judge_outages": (("judge outage",), "periods in which the simulated judge fails"),
        "leader_kills": (("leader kill",), "SIGKILLs of the leader of a partition of the interactions"),
        "group_coordinator_kills": (("group coordinator kill",), "SIGKILLs of the coordinator of a service's group"),
        "transaction_coordinator_kills": (
            ("transaction coordinator kill",),
            "SIGKILLs of the coordinator of a worker's transactions",
        ),
        "broker_freezes": (("broker freeze",), "periods in which a broker is stopped by SIGSTOP"),
        "broker_partitions": (("broker partition",), "periods in which clients do not reach a broker"),
        "rolling_brokers": (("rolling brokers",), "restarts of all brokers, one after the other"),
        "full_disks": (("full disk",), "times at which a broker runs out of disk (skipped if nothing can be mounted)"),
        "recreations": (("topic recreated",), "times at which the topic of interactions is deleted and recreated"),
        "control_recreations": (
            ("control recreated",),
            "times at which the topic control is deleted and created again without its rows (with rows only)",
        ),
        "growths": (("topic grown",), "partitions added to the topic of interactions"),
        "feedback_growths": (("feedback grown",), "partitions added to the topics of feedback (with feedback only)"),
        "store_losses": (("store lost",), "times at which match is killed and its store deleted (with feedback only)"),
        "evaluate_outages": (("evaluate outage",), "periods in which evaluate has no worker"),
        "clock_shifts": (
            ("clock ahead", "clock behind"),
            "periods in which a worker of each service has a clock that is four days ahead, and behind",
        ),
        "source_deletions": (
            ("source deleted",),
            "times at which one of two sources of traces is deleted once it was read, and created again later",
        ),
        "offset_resets": (("offset reset",), "times at which evaluate is stopped and its offsets are set back"),
        "outages": (("outage",), "periods in which a service has no worker"),
        "twins": (("twin",), "periods in which two processes have the same slot"),
        "starvations": (("starvation",), "periods in which the workers of a service get a tenth of the CPU time"),
    }
)
"""By option of the command line: the faults that are scheduled, once each per unit, and a description."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One scheduled fault."""

    at: float
    """Share of records that are sent before it is injected."""
    kind: str
    service: str
    draw: float
    """A random number in [0, 1) that decides what else there is to choose, such as the slot."""
    when: When

    def choose(self, among: Sequence[T]) -> T:
        """Return the element that the draw decides for.

        >>> Fault(0.5, "kill", "judge", 0.7, "any").choose(["first", "second"])
        'second'
        """
        return among[int(self.draw * len(among))]


def schedule(seed: int, numbers: Mapping[str, int], services: Sequence[str] = SERVICES) -> list[Fault]:
    """Return all faults, in order.

    Args:
        seed: the seed of the draws.
        numbers: the number of units of each of `KINDS`; those not named have none.
        services: the services that faults are aimed at, in turn.

    >>> [(fault.kind, fault.service) for fault in schedule(1, {"kills": 2, "resets": 1})]
    [('reset', 'evaluate'), ('kill', 'evaluate'), ('kill', 'aggregate')]
    """
    rng = random.Random(f"plan {seed}")  # noqa: S311 (the same faults for the same seed)
    faults: list[Fault] = []
    for name, (kinds, _) in KINDS.items():
        for fault in kinds * numbers.get(name, 0):
            drawn = len(faults)
            at, service = rng.uniform(_FIRST, _LAST), services[drawn % len(services)]
            faults.append(Fault(at, fault, service, rng.random(), _WHEN[drawn % len(_WHEN)]))
    return sorted(faults, key=lambda fault: fault.at)
