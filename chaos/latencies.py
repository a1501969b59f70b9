"""Latencies by the time at which they began, and their quantiles."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

QUANTILES = {"p50": 0.5, "p99": 0.99, "most": 1.0}


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the value that this share of the values does not exceed; None without values.

    >>> quantile([3.0, 1.0, 2.0], 0.5), quantile([3.0, 1.0, 2.0], 0.99), quantile([], 0.5)
    (2.0, 3.0, None)
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else None


def quantiles(values: Sequence[float]) -> dict[str, float | None]:
    """Return all of `QUANTILES`."""
    return {name: quantile(values, share) for name, share in QUANTILES.items()}


@dataclass(slots=True)
class Latencies:
    """Latencies of events, in seconds, counted from when each was due to be sent.

    A sender that is late does not hide the delay that it causes.
    """

    due: array[float] = field(default_factory=lambda: array("d"))
    seconds: array[float] = field(default_factory=lambda: array("d"))

    def add(self, due: float, ended: float) -> None:
        """Add an event that was due and ended at these times, in epoch seconds."""
        self.due.append(due)
        self.seconds.append(ended - due)

    def over_time(self, began: float, part_s: float, share: float) -> list[tuple[float, float]]:
        """Return a quantile of each part of the time: minutes since the beginning, and seconds."""
        parts: defaultdict[int, list[float]] = defaultdict(list)
        for due, seconds in zip(self.due, self.seconds, strict=True):
            parts[int((due - began) / part_s)].append(seconds)
        return [((part + 0.5) * part_s / 60, quantile(those, share) or 0.0) for part, those in sorted(parts.items())]
