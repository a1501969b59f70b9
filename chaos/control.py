"""The topic of routing rows in a run: the rows that it begins with, and those without effect."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType

from confluent_kafka import Producer

from chaos.rows import APPLICATIONS, FLOOR_SHARE, KEY, LEAD_S, SECOND_MS, SHARE, text_of
from chaos.topics import recreate
from ragweir.streams.runtime.processes.child_python import python_command

ROUTING: Mapping[str, object] = MappingProxyType(
    {"routing__share": SHARE, "routing__floor_share": FLOOR_SHARE, "routing__key": KEY, "routing__rules": []}
)
"""Settings by which the rows of the topic `control` select events."""
RISK = "grounding"
"""The group of `unsupported_risk`, by which rows select."""
QUICK_ROWS = tuple(python_command("-m", "chaos.quick_rows"))
"""The command that runs a slot with short lead times, before a mutant's name and the command line of the service."""
PLANNERS = ("planner", "planner")
"""The services that faults are aimed at besides those of every run: as many planners, which fence one another."""
SHORT_TRANSACTIONS: Mapping[str, int] = MappingProxyType({"transaction.timeout.ms": 3_000})
ABORTS: Mapping[str, str] = MappingProxyType({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"})
"""Properties of clients and of the broker that end a planner's transaction within the difference of the lead times, as
their defaults do in the product."""
_LATE_S = 5.0
"""Time between two lots of rows without effect, in seconds."""
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Control:
    """The topic `control`, to which rows are written besides those of the planners."""

    bootstrap: str
    topic: str
    seed: int
    create: Callable[[], object]
    """Creates the topic, or raises while the deleted one still exists."""

    def recreate(self, other_rows: Callable[[], AbstractContextManager[None]]) -> None:
        """Delete the topic and create it again without the rows that it had, in the context that is given."""
        with other_rows():
            recreate(self.bootstrap, self.topic, self.create)

    def send_history(self, begin_ms: float) -> None:
        """Write rows of the hours before a run, each an hour before it took effect.

        The last application has a row for the last hours only, and the shipped row before.
        """
        rng = random.Random(f"rows {self.seed}")  # noqa: S311 (the same rows for the same seed)
        hours = [(name, hour) for name in range(APPLICATIONS - 1) for hour in range(9)] + [(APPLICATIONS - 1, 1)]
        rng.shuffle(hours)
        times = [(name, int(begin_ms) - hour * _HOUR_MS - rng.randrange(_HOUR_MS)) for name, hour in hours]
        self._send([(name, at, at - _HOUR_MS) for name, at in times], rng)

    def send_late(self, over: threading.Event) -> None:
        """Write rows that take effect too soon, or did long ago, and records that are no rows, until a run is over.

        The clocks of their writers are so far behind that the rows seem early enough.
        """
        rng = random.Random(f"late {self.seed}")  # noqa: S311
        offsets = (-2 * _HOUR_MS, -5 * SECOND_MS, 1, (LEAD_S - 2) * SECOND_MS)
        while not over.wait(_LATE_S):
            now_ms = int(time.time() * SECOND_MS)
            times = [(name, now_ms + offset + name) for name in range(APPLICATIONS) for offset in offsets]
            self._send([(name, at, at - _HOUR_MS) for name, at in times], rng, b"no row")

    def _send(self, rows: Iterable[tuple[int, int, int]], rng: random.Random, *more: bytes) -> None:
        """Write rows, by the application's number, the effective time and the timestamp, and other values."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for name, effective_ms, written_ms in rows:
            application, effective = f"app-{name}", text_of(effective_ms)
            row = {
                "application": application,
                "effective_at": effective,
                "share": SHARE,
                "floor_share": FLOOR_SHARE,
                "bin": rng.choice((35, 94, 94, 94, 99)),
                "at_bin": rng.random() * 0.4,
                "floor": rng.random() * SHARE * FLOOR_SHARE,
            }
            key = json.dumps([application, effective], separators=(",", ":")).encode()
            producer.produce(self.topic, json.dumps(row).encode(), key, timestamp=written_ms)
        for value in more:
            producer.produce(self.topic, value, b"x")
        producer.flush(30)
