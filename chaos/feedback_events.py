"""Feedback in a run: before, with and long after its answer, changed, taken back, repeated, of nobody, and unusable."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import deque
from collections.abc import Callable

from chaos.events import POISON, EventSender

SHARE = 0.25
"""Pieces of feedback per event."""
KEY = "chaos"
"""The setting `labels.key` of a run with feedback."""
_AHEAD = 4_000
"""The most events by which feedback is ahead of its answer."""
_BEHIND = 20
"""The most events by which feedback is behind that counts as given with its answer."""
_FLOODS, _FLOOD = 30, 120
"""Number of floods of feedback on unknown ids, in the first part of a run, and the size of each."""
_FLOODED = 0.6
"""The part of a run with floods. What waits in the end is never given up, as no evaluations follow."""
_HOUR_MS = 3_600_000
_YEAR_MS = 365 * 24 * _HOUR_MS
_COMMENT = "x" * 200_000
_TURN_S = 0.02
_VALUES = "up", "down", 1, 0.5, True, None, None
_POISON: tuple[bytes | None, ...] = (
    b"no json",
    b"[]",
    b"{}",
    b'{"event_id":"e1","trace_id":"1","name":"thumbs","value":1}',
    b'{"event_id":"e1","name":"thumbs"}',
    b'{"event_id":"e1","name":"thumbs","value":["up"]}',
    b'{"event_id":"e1","name":"a\\u001b[2J","value":"up"}',
    b'{"event_id":"e1","name":"thumbs","value":"up","time":"yesterday"}',
    b"",
    None,
)


class FeedbackSender(EventSender):
    """Sends feedback on the events of a run, drawn from a seed.

    Args:
        bootstrap: the brokers.
        topic: the topic `feedback`.
        seed: the seed.
        partitions: the partition count of the topic.
        position: returns how many events were sent.
        events: number of events of the run.
    """

    def __init__(
        self, bootstrap: str, topic: str, seed: int, partitions: int, position: Callable[[], int], events: int
    ) -> None:
        super().__init__(bootstrap, topic)
        self._random = random.Random(f"feedback {seed}")  # noqa: S311 (the same feedback for the same seed)
        self._partitions, self._position, self._events = partitions, position, events
        self._recent: deque[bytes] = deque(maxlen=500)
        self._lock = threading.Lock()
        self._floods = 0
        self._is_over = threading.Event()

    @property
    def total(self) -> int | None:
        """The number of records, once all are on their topic; None before."""
        return self.sent if self._is_over.is_set() else None

    def run(self, over: threading.Event) -> None:
        """Send feedback while events are sent, or until the run is over."""
        while (at := self._position()) < self._events and not over.wait(_TURN_S):
            with self._lock:
                while self.sent < at * SHARE + self._floods * _FLOOD:
                    self._send(self._draw(at))
                if self._floods < _FLOODS * min(1.0, at / self._events / _FLOODED):
                    self._floods += 1
                    for _ in range(_FLOOD):
                        self._send(self._feedback({"event_id": f"unknown {self.sent}"}))
        with self._lock:
            self.flush()
        self._is_over.set()

    def grow(self, grow: Callable[[int], object]) -> None:
        """Call a function that adds a partition to the topic, with the new partition count, and send to it, too."""
        with self._lock:
            grow(self._partitions + 1)
            self.reconnect()
            self._partitions += 1

    def _send(self, value: bytes | None) -> None:
        headers: list[tuple[str, str | bytes | None]] = [(POISON, b"1")] if value in _POISON else []
        self.produce(self.topic, value, None, partition=self._random.randrange(self._partitions), headers=headers)

    def _draw(self, at: int) -> bytes | None:
        rng = self._random
        draw = rng.random()
        if draw < 0.03:
            return rng.choice(_POISON)
        if draw < 0.1 and self._recent:
            return rng.choice(self._recent)
        if draw < 0.25:
            number = at + rng.randrange(1, _AHEAD)
        elif draw < 0.5:
            number = max(0, at - rng.randrange(_BEHIND))
        else:
            number = rng.randrange(max(1, at))
        if draw > 0.98:
            return self._feedback({"trace_id": f"unknown {number}"})
        by_event = rng.random() < 0.5
        value = self._feedback({"event_id": f"e{number}"} if by_event else {"trace_id": f"{number:032X}"})
        self._recent.append(value)
        return value

    def _feedback(self, target: dict[str, str]) -> bytes:
        rng, now_ms = self._random, int(time.time() * 1_000)
        given = {
            **target,
            "name": rng.choice(("thumbs", "edited")),
            "value": rng.choice(_VALUES),
            "giver": rng.choice(("Ada", "Ben", None)),
        }
        draw = rng.random()
        if draw < 0.8:
            given["time"] = now_ms + _YEAR_MS if draw < 0.02 else now_ms - rng.randrange(2 * _HOUR_MS)
        if draw > 0.999:
            given["comment"] = _COMMENT
        return json.dumps(given).encode()
