"""Counts and durations of the calls to the judge's endpoint, for telemetry."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from threading import Lock

from ragweir.streams.runtime.records import Count, Measurements

_KEPT_LATENCIES = 10_000
_CALL_SECONDS: Count = ("ragweir_judge_call_seconds",)


class CallStats:
    """Counts and durations of calls: one thread adds to them, another drains them.

    >>> stats = CallStats()
    >>> stats.add("ragweir_judge_calls_total", "ok")
    >>> dict(stats.drain({}).counts), dict(stats.drain({}).counts)
    ({('ragweir_judge_calls_total', 'ok'): 1}, {})
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[Count] = Counter()
        self._latencies: deque[float] = deque(maxlen=_KEPT_LATENCIES)

    def add(self, name: str, *labels: str, number: int = 1) -> None:
        """Add to a counter of the telemetry table."""
        if number:
            with self._lock:
                self._counts[name, *labels] += number

    def add_duration(self, seconds: float) -> None:
        """Add the duration of a call."""
        self._latencies.append(seconds)

    def drain(self, levels: Mapping[Count, float]) -> Measurements:
        """Return the counts and durations since the last call, with these gauges; of very many durations the newest."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        seconds = [self._latencies.popleft() for _ in range(len(self._latencies))]
        return Measurements(counts, levels, [(_CALL_SECONDS, each) for each in seconds])
