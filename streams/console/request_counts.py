"""Counts of what browsers ask of the console, which the projection's thread gives to the telemetry."""

from __future__ import annotations

from collections import Counter, deque
from threading import Lock

from typing_extensions import override

from ragweir.streams.runtime.kafka.record_fetcher import RecordFetcher
from ragweir.streams.runtime.records import Count, Measurements, Record
from ragweir.streams.settings import Settings

_MOST_TIMES = 10_000
"""Durations that are kept until they are drained, the latest ones; those of files are never drained."""


class RequestCounts:
    """Counts by any number of threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[Count] = Counter()
        self._times: deque[tuple[Count, float]] = deque(maxlen=_MOST_TIMES)

    def count(self, name: str, *labels: str) -> None:
        """Add one to a counter of `ragweir.streams.services.console.instruments`."""
        with self._lock:
            self._counts[name, *labels] += 1

    def on_answer(self, status: int, seconds: float) -> None:
        """Count the answer to a request.

        Args:
            status: its status.
            seconds: time from the request until the answer began.
        """
        with self._lock:
            self._counts["ragweir_console_requests_total", f"{status // 100}xx"] += 1
            self._times.append((("ragweir_console_request_seconds",), seconds))

    def drain(self) -> Measurements:
        """Return what was counted since the last call."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            times = list(self._times)
            self._times.clear()
        return Measurements(counts, observations=times)


class CountedFetcher(RecordFetcher):
    """Fetches records for the pages, and counts how that ended.

    Args:
        settings: all settings.
        counts: takes the results.
    """

    def __init__(self, settings: Settings, counts: RequestCounts) -> None:
        super().__init__(settings)
        self._results = counts

    @override
    def fetch(self, topic: str, partition: int, offset: int) -> Record | None:
        result = "failed"
        try:
            found = super().fetch(topic, partition, offset)
            result = "gone" if found is None else "found"
        finally:
            self._results.count("ragweir_console_fetches_total", result)
        return found
