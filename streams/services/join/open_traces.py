"""The open traces of one partition of `spans`: what has come of each, and which one is to be closed next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Literal, NamedTuple

from ragweir.streams.settings import AssembleSettings
from ragweir.streams.traces.wire import SpanHead

TRACE_BYTES = 2_048
"""Memory of an open trace besides its values, in bytes."""
SPAN_BYTES = 256
"""Memory of a span of an open trace besides the value that it is in, in bytes."""

_SPARE = 100
"""The number of closed traces that may wait to be removed, besides one per open trace."""

Cause = Literal["complete", "patience", "deadline", "limit"]
"""The reason why a trace is closed."""


class TraceTimes(NamedTuple):
    """The settings of times, in milliseconds."""

    settle: int
    patience: int
    deadline: int
    remember: int

    @classmethod
    def of(cls, settings: AssembleSettings) -> TraceTimes:
        """Return the times of the settings."""
        seconds = settings.settle_s, settings.patience_s, settings.deadline_s, settings.remember_s
        return cls(*(round(1000 * each) for each in seconds))


@dataclass(slots=True, eq=False)
class OpenTrace:
    """The records of one trace that have come so far."""

    trace_id: bytes
    first_offset: int
    first_ms: int
    """The least time of its records."""
    last_ms: int
    """The greatest time of its records."""
    opened_ms: int
    """The clock at its first record."""
    bytes_before: int
    """The size of the records of the partition before its first one."""
    values: dict[bytes, None] = field(default_factory=dict)
    """Its record values in order, each once: producers repeat batches."""
    size: int = 0
    spans: int = 0
    has_root: bool = False
    """True if it has a span without a parent, or with one of another process."""
    is_over: bool = False
    """True if it has exceeded a limit of one trace."""
    is_closed: bool = False
    queued_ms: int = -1
    """The time under which it is queued, at or before its due time."""
    _seen: set[int] = field(default_factory=set)
    _missing: set[int] = field(default_factory=set)

    def add(self, value: bytes, heads: Iterable[SpanHead], time_ms: int) -> None:
        """Add a record."""
        self.first_ms, self.last_ms = min(self.first_ms, time_ms), max(self.last_ms, time_ms)
        if value in self.values:
            return
        self.values[value] = None
        self.size += len(value)
        for head in heads:
            self.spans += 1
            span = int(head.span_id, 16)
            self._seen.add(span)
            self._missing.discard(span)
            if head.parent_id is None or head.remote_parent:
                self.has_root = True
            elif (parent := int(head.parent_id, 16)) not in self._seen:
                self._missing.add(parent)

    def release(self) -> None:
        """Forget the content."""
        self.values, self._seen, self._missing = {}, set(), set()

    @property
    def memory(self) -> int:
        """The memory that it takes, in bytes: short spans take more than their values do."""
        return TRACE_BYTES + self.size + SPAN_BYTES * self.spans

    @property
    def lacks_parents(self) -> bool:
        """True if a span names a parent of its own process that has not come."""
        return bool(self._missing)

    def due_ms(self, times: TraceTimes) -> int:
        """Return the time at which it is to be closed."""
        return min(self._quiet_ms(times), self.first_ms + times.deadline)

    def cause(self, times: TraceTimes) -> Cause:
        """Return the reason why it is closed at its due time."""
        if self.first_ms + times.deadline < self._quiet_ms(times):
            return "deadline"
        return "complete" if self._is_complete else "patience"

    @property
    def _is_complete(self) -> bool:
        return self.has_root and not self._missing

    def _quiet_ms(self, times: TraceTimes) -> int:
        return self.last_ms + (times.settle if self._is_complete else times.patience)


class OpenTraces:
    """All open traces of one partition.

    A trace is closed between two records, by its times, or because it or the partition has exceeded a limit. All of
    this depends on the records alone.
    """

    def __init__(self, settings: AssembleSettings) -> None:
        self._settings, self._times = settings, TraceTimes.of(settings)
        self._traces: dict[bytes, OpenTrace] = {}
        self._queue: list[tuple[int, int, OpenTrace]] = []
        """A heap of times, first offsets and traces. A trace is queued again once its time has come and it is due
        later."""
        self._order: deque[OpenTrace] = deque()
        """The traces in the order of their first offsets, with closed ones behind the first."""
        self._over: list[OpenTrace] = []
        self.held_bytes = 0
        """The memory that all open traces take, in bytes."""
        self.read_bytes = 0
        """The size of all records that were read since the restore."""

    def __len__(self) -> int:
        return len(self._traces)

    def __iter__(self) -> Iterator[OpenTrace]:
        return iter(self._traces.values())

    @property
    def oldest(self) -> OpenTrace | None:
        """The trace with the least first offset."""
        return self._order[0] if self._order else None

    @property
    def bytes_behind(self) -> int:
        """The size of the records from the first one of the oldest trace on."""
        return self.read_bytes - self._order[0].bytes_before if self._order else 0

    def add(
        self, trace_id: bytes, offset: int, time_ms: int, clock_ms: int, value: bytes, heads: Iterable[SpanHead]
    ) -> None:
        """Add a record to its trace, which it opens if need be."""
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = OpenTrace(trace_id, offset, time_ms, time_ms, clock_ms, self.read_bytes)
            self._traces[trace_id] = trace
            self._order.append(trace)
            self.held_bytes += trace.memory
        before = trace.memory
        trace.add(value, heads, time_ms)
        self.held_bytes += trace.memory - before
        limits = self._settings
        if not trace.is_over and (trace.spans > limits.max_spans or trace.size > limits.max_trace_bytes):
            trace.is_over = True
            self._over.append(trace)
        due_ms = trace.due_ms(self._times)
        if trace.queued_ms < 0 or due_ms < trace.queued_ms:
            self._enqueue(trace, due_ms)

    def next_closing(self, clock_ms: int) -> tuple[OpenTrace, Cause] | None:
        """Return the trace to close next, and why; None if there is none by the clock.

        First are those over a limit, in the order of their first offsets, then those that are due, in the order of due
        times and first offsets.
        """
        limits = self._settings
        if self._over:
            return min(self._over, key=lambda each: each.first_offset), "limit"
        if self._order and (self.held_bytes > limits.max_held_bytes or self.bytes_behind > limits.max_behind_bytes):
            return self._order[0], "limit"
        while self._queue and self._queue[0][0] <= clock_ms:
            queued_ms, _, trace = self._queue[0]
            due_ms = trace.due_ms(self._times)
            if not trace.is_closed and queued_ms == trace.queued_ms == due_ms:
                return trace, trace.cause(self._times)
            heappop(self._queue)
            if not trace.is_closed and queued_ms == trace.queued_ms:
                self._enqueue(trace, due_ms)
        return None

    def close(self, trace: OpenTrace) -> None:
        """Remove a trace."""
        trace.is_closed = True
        del self._traces[trace.trace_id]
        self.held_bytes -= trace.memory
        trace.release()
        if trace.is_over:
            self._over.remove(trace)
        while self._order and self._order[0].is_closed:
            self._order.popleft()
        # Closed traces would stay until their times, or until an older trace is closed.
        most = 2 * len(self._traces) + _SPARE
        if len(self._order) > most:
            self._order = deque(each for each in self._order if not each.is_closed)
        if len(self._queue) > most:
            self._queue = [each for each in self._queue if not each[2].is_closed and each[0] == each[2].queued_ms]
            heapify(self._queue)

    def _enqueue(self, trace: OpenTrace, due_ms: int) -> None:
        trace.queued_ms = due_ms
        heappush(self._queue, (due_ms, trace.first_offset, trace))
