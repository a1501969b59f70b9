"""Stalls: how long a fault keeps records without output."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class Stall:
    """The time from a fault's beginning until the next record of every partition has output."""

    kind: str
    began: float
    """Monotonic clock, in seconds."""
    targets: dict[int, int]
    """Offset of the next record of each log, until it has output."""
    seconds: float | None = None
    """None until the stall is over."""

    def update(self, reached: Mapping[int, int]) -> None:
        """End the stall if every target, or a later record, has output."""
        if self.seconds is None:
            for log in [log for log, offset in self.targets.items() if reached.get(log, -1) >= offset]:
                del self.targets[log]
            if not self.targets:
                self.seconds = time.monotonic() - self.began
