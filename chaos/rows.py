"""Routing rows, and the decisions about each event that follow from them.

The rules are the documented ones, with no code of the product; only lead times are seconds (see `chaos.quick_rows`).
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from math import ceil, inf
from typing import Any, NamedTuple

from chaos.findings import Found
from chaos.tally import Source

LEAD_S = 10
"""The least time from a row's timestamp to its effective time, in seconds: 45 minutes in the product."""
APPLICATIONS = 3
SHARE = 0.04
FLOOR_SHARE = 0.25
KEY = "chaos"
"""The settings `routing.share`, `routing.floor_share` and `routing.key` of a run with rows."""
_DRAWS = 2**64
SECOND_MS = 1_000
_DELETED_MS = 10_000
"""The longest time from before a topic is deleted until every broker says so, as each check before a commit asks."""
_TOLERANCE_MS = 1_000
"""The difference of the clocks by which the broker and the services stamp records."""


class Row(NamedTuple):
    """The numbers of a row."""

    effective_ms: float
    bin: int
    at_bin: float
    floor: float

    @property
    def revision(self) -> str:
        """The row's name in decisions."""
        return text_of(self.effective_ms)

    @property
    def digest(self) -> str:
        """The digest of the row's numbers in decisions."""
        return blake2b(struct.pack(">idd", self.bin, self.at_bin, self.floor), digest_size=8).hexdigest()

    def decision(self, event_id: str, risk: float | None) -> tuple[float, bool, list[str]]:
        """Return an event's probability, whether it is selected, and the reasons.

        >>> Row(0, 80, 0.5, 0.02).decision("e1", 0.9), Row(0, 80, 0.5, 0.0).decision("e1", None)
        ((1.0, True, ['share']), (0.0, False, []))
        """
        number = -2 if risk is None else min(round(risk * 1_000_000) // 10_000, 99)
        at = self.floor + (1 - self.floor) * self.at_bin
        probability = self.floor if number < self.bin or risk is None else at if number == self.bin else 1.0
        draw = int.from_bytes(blake2b(event_id.encode(), digest_size=64, key=KEY.encode()).digest()[:8], "big")
        drawn, selected = draw < ceil(self.floor * _DRAWS), draw < ceil(probability * _DRAWS)
        if probability == 1.0 and number > self.bin:
            return 1.0, True, ["share", "floor"] if drawn else ["share"]
        return probability, selected, ["floor"] if drawn else ["share"] if selected else []


class Decided(NamedTuple):
    """What an evaluation says of its event's selection."""

    event_id: str
    application: str
    event_ms: float
    written_ms: int
    """Timestamp of the evaluation."""
    risk: float | None
    row: str
    digest: str | None
    probability: float
    selected: bool
    because: list[str]
    ahead: bool
    """True with the flag `routing_ahead`."""


@dataclass(slots=True)
class _Topic:
    """One topic `control`, of those that were created one after the other."""

    begun_ms: float
    """The time after which there was this one, in epoch milliseconds."""
    rows: defaultdict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    keys: set[bytes] = field(default_factory=set)


@dataclass(slots=True)
class RowChecker:
    """Collects the rows of the topic `control` and the decisions, and compares them when all are read.

    Args:
        begun_ms: the time at which the first service was started, in epoch milliseconds.
    """

    begun_ms: float
    without_effect: int = 0
    """Number of records of `control` that are late or no rows."""
    ahead: int = 0
    """Number of decisions before all rows were known."""
    selected: set[Source] = field(default_factory=set)
    """The events that evaluate has selected."""
    used: set[tuple[str, str]] = field(default_factory=set)
    """Applications with the revisions by which events were selected."""
    _topics: list[_Topic] = field(default_factory=lambda: [_Topic(0.0)])
    """The topics that there were one after the other."""
    _overwritten: list[bytes] = field(default_factory=list)
    _decided: dict[Source, Decided] = field(default_factory=dict)

    def control(self, key: bytes, value: bytes | None, written_ms: int) -> None:
        """Add a record of `control`."""
        try:
            application, effective = json.loads(key)
            found = json.loads(value or b"")
            row = Row(_ms(effective), found["bin"], found["at_bin"], found["floor"])
        except (ValueError, TypeError):
            self.without_effect += 1
            return
        if row.effective_ms < written_ms + LEAD_S * SECOND_MS:
            self.without_effect += 1
            return
        topic = self._topics[-1]
        if key in topic.keys:
            self._overwritten.append(key)
        topic.keys.add(key)
        insort(topic.rows[application], row)

    def recreated(self, deleted_ms: float) -> None:
        """Begin another topic without rows; that of before was deleted after this time."""
        self._topics.append(_Topic(deleted_ms))

    def evaluation(self, source: Source, evaluation: Mapping[str, Any], written_ms: int) -> None:
        """Add the decision of a scored evaluation."""
        (suite,) = evaluation["decision"]["suites"]
        if suite["status"] == "selected":
            self.selected.add(source)
        self._decided[source] = Decided(
            evaluation["event_id"],
            str(evaluation["application"]),
            _ms(evaluation["event_time"]),
            written_ms,
            evaluation["scores"].get("unsupported_risk"),
            suite["row"],
            suite.get("row_digest"),
            suite["probability"],
            suite["status"] == "selected",
            list(suite["because"]),
            "routing_ahead" in evaluation["flags"],
        )

    def facts(self) -> dict[str, int]:
        """Return numbers of rows and of decisions."""
        return {"used": len(self.used), "without_effect": self.without_effect, "events_ahead": self.ahead}

    def compare(self, found: Found, rows: Found) -> None:
        """Add the defects of decisions, and of the rows."""
        rows.expected = rows.found = sum(len(topic.keys) for topic in self._topics)
        for key in self._overwritten:
            rows.add("duplicated", key.decode())
        found.expected = len(self._decided)
        for (log, offset), decided in self._decided.items():
            found.found += 1
            self.ahead += decided.ahead
            self.used.add((decided.application, decided.row))
            if wrong := self._wrong(decided):
                found.add("wrong", f"{log}/{offset} {wrong}")

    def _wrong(self, decided: Decided) -> str:
        """Return what is wrong with a decision; nothing if it follows from the event, the settings and the rows.

        These are the rows of the topic that there was, and within seconds of its deletion those of either one.
        """
        ends = [*(topic.begun_ms for topic in self._topics[1:]), inf]
        wrong = [
            self._wrong_by(topic, decided)
            for topic, end_ms in zip(self._topics, ends, strict=True)
            if topic.begun_ms <= decided.written_ms + _TOLERANCE_MS and decided.written_ms <= end_ms + _DELETED_MS
        ]
        return "" if "" in wrong else wrong[-1]

    def _wrong_by(self, topic: _Topic, decided: Decided) -> str:
        rows = topic.rows.get(decided.application, [])
        held = rows[: bisect_right(rows, decided.event_ms, key=lambda row: row.effective_ms)]
        known_ms = decided.written_ms + LEAD_S * SECOND_MS + _TOLERANCE_MS
        if decided.ahead and decided.event_ms < self.begun_ms + LEAD_S * SECOND_MS:
            return "is flagged as ahead, and all rows were known"
        if not decided.ahead and decided.event_ms > known_ms:
            return "lacks the flag for an event ahead of the rows"
        # Ahead of the rows, an event has the last of those that were known.
        possible = {row.revision: row for row in (held if decided.ahead else held[-1:])}
        if not held or (decided.ahead and decided.row == "shipped"):
            return "" if decided.row == "shipped" else f"has the row {decided.row}, not the shipped one"
        if decided.row not in possible:
            return f"of {text_of(decided.event_ms)} has the row {decided.row}, not {held[-1].revision}"
        if decided.digest != possible[decided.row].digest:
            return f"has the row {decided.row} with other numbers"
        expected = possible[decided.row].decision(decided.event_id, decided.risk)
        got = decided.probability, decided.selected, decided.because
        return "" if got == expected else f"is decided as {got}, not {expected}"


def _ms(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1_000


def text_of(epoch_ms: float) -> str:
    """Return a time as rows have it."""
    return datetime.fromtimestamp(epoch_ms / 1_000, UTC).isoformat().replace("+00:00", "Z")
