"""The bounded queue between an application's threads and the one that sends, and its counts."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

DropReason = Literal["queue_full", "invalid", "too_large", "not_delivered", "after_close"]
"""Reason why an event was not published: the queue was full; it is no interaction or feedback, or over the limit of
size; Kafka did not acknowledge it in time; or its publisher was closed before."""

REASONS: tuple[DropReason, ...] = get_args(DropReason)


class CapturedSpan(NamedTuple):
    """One span of a captured event, with times in epoch nanoseconds."""

    id: int
    parent_id: int | None
    kind: str
    name: Any
    started_ns: int
    ended_ns: int | None
    error: Any


class CapturedEvent(NamedTuple):
    """An event as it left the application's thread, with times in epoch nanoseconds."""

    fields: Any
    captured_ns: int
    started_ns: int | None = None
    ended_ns: int | None = None
    first_token_ns: int | None = None
    spans: tuple[CapturedSpan, ...] = ()
    is_feedback: bool = False
    """True for feedback on an answer, which is no interaction."""


class PublishStats(NamedTuple):
    """Counts of a publisher in this process."""

    published: int
    """Events that Kafka has acknowledged."""
    dropped: Mapping[str, int]
    """Events that were not published, by reason; see `DropReason`."""
    waiting: int
    """Events that are queued, or sent and not yet acknowledged."""
    queued_bytes: int
    """Estimated memory of the queued events that are not yet sent, in bytes."""


class Backlog:
    """Events that wait to be sent, within limits of number and memory, and the counts of those before them.

    The lock is reentrant, since a signal handler or a finaliser that runs inside of it may publish as well.
    """

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._limits = max_events, max_bytes
        self._lock = threading.RLock()
        self._settled = threading.Condition(self._lock)
        self._queue: SimpleQueue[tuple[CapturedEvent, int] | None] = SimpleQueue()
        self._queued = self._bytes = self._waiting = self._published = 0
        self._dropped: dict[str, int] = dict.fromkeys(REASONS, 0)
        self.notes: dict[str, str] = {}
        """Explanation of the newest drop of each reason."""
        self.reached = threading.Event()
        """Set unless a client is connecting for the first time."""
        self.reached.set()
        self.closed = False
        """True if no event is taken any more."""
        self.stopped = False
        """True if waiting events are given up."""

    def turns_away(self) -> bool:
        """Return whether no event can be queued, whatever its size; the event is then counted as dropped."""
        with self._lock:
            if not self.closed and self._queued < self._limits[0]:
                return False
            self._dropped["after_close" if self.closed else "queue_full"] += 1
            return True

    def offer(self, event: CapturedEvent, size: int) -> None:
        """Queue an event that takes `size` bytes; drop it if the queue is full or closed."""
        with self._lock:
            max_events, max_bytes = self._limits
            if self.closed:
                self._dropped["after_close"] += 1
            elif self._queued >= max_events or self._bytes + size > max_bytes:
                self._dropped["queue_full"] += 1
            else:
                self._queued += 1
                self._bytes += size
                self._waiting += 1
                self._queue.put((event, size))

    def drop(self, reason: DropReason, note: str = "") -> None:
        """Count an event that was not queued."""
        with self._lock:
            self._dropped[reason] += 1
            self.notes[reason] = note

    def take(self, timeout_s: float) -> CapturedEvent | None:
        """Return the next event; None after the timeout, or when the queue is closed."""
        try:
            taken = self._queue.get(timeout=timeout_s)
        except Empty:
            return None
        if taken is None:
            return None
        event, size = taken
        with self._lock:
            self._queued -= 1
            self._bytes -= size
        return event

    def settle(self, reason: DropReason | None = None, note: str = "") -> None:
        """Count an event that was taken: as published, or as dropped for a reason."""
        with self._lock:
            self._waiting -= 1
            if reason is None:
                self._published += 1
            else:
                self.drop(reason, note)
            if not self._waiting:
                self._settled.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait until no event waits; return False after the timeout."""
        with self._settled:
            return self._settled.wait_for(lambda: not self._waiting, timeout_s)

    def close(self) -> None:
        """Take no further event, and wake up the thread that sends."""
        with self._lock:
            self.closed = True
        self._queue.put(None)

    def stop(self) -> None:
        """Give up what still waits."""
        with self._lock:
            self.closed = self.stopped = True
        self._queue.put(None)

    def abandon(self, note: str) -> None:
        """Drop the queued events as not delivered."""
        while (event := self.take(0)) is not None or not self._queue.empty():
            if event is not None:
                self.settle("not_delivered", note)

    @property
    def stats(self) -> PublishStats:
        """The counts."""
        with self._lock:
            return PublishStats(
                self._published, MappingProxyType(dict(self._dropped)), self._waiting, max(0, self._bytes)
            )
