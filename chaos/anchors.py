"""Anchors in a run: answers that people labelled, which the judge judges once in each run of them that is due."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from chaos.findings import Found

_BAD, _GOOD = 100, 50
"""The fewest anchors of each kind."""
Run = tuple[str, int]
"""The day and the number of a run."""


def write_anchors(file: Path) -> None:
    """Write the file `judge.anchor_file`."""
    lines = [
        {
            "event_id": f"anchor {number}",
            "query": f"Is {number} even?",
            "response": "It is.",
            "contexts": [{"text": f"{number} is a number."}],
            "bad": number < _BAD,
        }
        for number in range(_BAD + _GOOD)
    ]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


@dataclass(slots=True)
class AnchorTally:
    """Counts the results of anchors. Each anchor of a run has one, or waits for the budget of another day."""

    results: Counter[tuple[Run, str]] = field(default_factory=Counter)
    deferred: set[tuple[Run, str]] = field(default_factory=set)

    def read(self, message: Message) -> None:
        """Take a record of `judge.anchors`."""
        self.results[_key(json.loads(message.value() or b""))] += 1

    def defer(self, anchor: Mapping[str, Any]) -> None:
        """Take the anchor of a request that waits for the budget of another day."""
        self.deferred.add(_key(anchor))

    @property
    def is_complete(self) -> bool:
        """True if a run has begun, and all anchors of each run have a result or wait."""
        known = {*tuple(self.results), *tuple(self.deferred)}
        return bool(known) and len(known) == len({run for run, _ in known}) * (_BAD + _GOOD)

    def compare(self, found: Found) -> None:
        """Add the defects."""
        known = {*self.results, *self.deferred}
        runs = {run for run, _ in known} or {("no day", 0)}
        found.expected, found.found = len(runs) * (_BAD + _GOOD), self.results.total()
        for run in sorted(runs):
            for number in range(_BAD + _GOOD):
                key = run, f"anchor {number}"
                if self.results[key] > 1:
                    found.add("duplicated", str(key))
                elif key not in known:
                    found.add("lost", str(key))


def _key(anchor: Mapping[str, Any]) -> tuple[Run, str]:
    return (anchor["day"], anchor["run"]), anchor["anchor"]
