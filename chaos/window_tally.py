"""The windows that aggregate wrote, and their comparison with those of the oracle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from confluent_kafka import Message

from chaos.findings import Found
from chaos.oracle import METRICS, Sums, Window


@dataclass(slots=True)
class WindowTally:
    """Keeps the newest record of each window."""

    events: int = 0
    """Events in windows at present."""
    _windows: dict[bytes, tuple[Window, Sums]] = field(default_factory=dict)

    def read(self, message: Message) -> None:
        """Take a record of `windows`."""
        key, value = message.key() or b"", message.value()
        start, *rest = json.loads(key)
        if start == "progress":
            return
        before = self._windows.pop(key, None)
        self.events -= before[1]["events"] if before else 0
        if value is None:
            return
        record = json.loads(value)
        window = round(datetime.fromisoformat(start).timestamp() * 1_000), str(rest[0]["application"])
        sums = Sums(events=record["events"])
        for metric in METRICS:
            summary = record["metrics"].get(metric, {"sum": 0, "count": 0})
            # Without a value of each event the sum is wrong.
            sums[metric] = round(float(summary["sum"])) if summary["count"] == record["events"] else -1
        self._windows[key] = window, sums
        self.events += record["events"]

    def compare(self, expected: Mapping[Window, Sums], evaluated: int, found: Found) -> None:
        """Add the defects: other numbers than expected, or than events that were evaluated."""
        totals: dict[Window, Sums] = {}
        for window, sums in self._windows.values():
            totals.setdefault(window, Sums()).update(sums)
        found.expected, found.found = evaluated, self.events
        if self.events != evaluated:
            defect: Literal["lost", "duplicated"] = "lost" if self.events < evaluated else "duplicated"
            found.add(defect, f"{self.events} events in all windows, {evaluated} evaluated")
        for window in sorted(expected.keys() | totals.keys()):
            wanted, got = expected.get(window, Sums()), totals.get(window, Sums())
            if wanted != got:
                found.add("wrong", f"{window}: {dict(got)}, not {dict(wanted)}")
