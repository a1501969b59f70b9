"""Closing: records of the windows topic in, as they arrive; merged windows out, once each is closed.

A window is closed when every partition that is not idle has a watermark of at least its end plus the grace, or, with
all partitions idle, when the clock says so. Records are held as they came and decoded only when their window closes,
so that the many revisions before the last cost no more than a look at the key. What has closed is merged into the
larger sizes at once and dropped: held are the records of open base windows, and one accumulator per label set of each
open larger window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal

import orjson

from metrics.contents import Contents, Reading
from metrics.label_sets import Labels, capped, fold
from schemas.times import parse_rfc3339
from schemas.window import Progress, Window, duration_s

AHEAD_S = 300
"""A window that begins this long after its record was written comes from a wrong clock: it would be held for years."""
MAX_HELD_BYTES = 256 * 1024 * 1024
"""What records of open windows may take. Beyond it the oldest are dropped, and no window that misses them is shown."""

Fate = Literal["held", "removed", "late", "ahead", "evicted", "unreadable"]
"""What became of a window's record. One that was held may later be evicted, or turn out to be unreadable."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed window, merged over partitions and parts: its contents per label set."""

    size: str
    start_s: int
    end_s: int
    sets: Mapping[Labels, Contents]


@dataclass(slots=True)
class _Held:
    """The latest records of one base window's parts, by their keys."""

    records: dict[bytes, bytes] = field(default_factory=dict)
    weight: int = 0

    def put(self, key: bytes, value: bytes | None) -> None:
        replaced = self.records.pop(key, None)
        self.weight -= 0 if replaced is None else len(key) + len(replaced)
        if value is not None:
            self.records[key] = value
            self.weight += len(key) + len(value)


class Closing:
    """Merges the windows of all partitions.

    Args:
        sizes: the first is the one that records have, the others are multiples of it.
        dimensions: what label sets are made of; records are merged over any other dimension that they have.
        reading: of records; those that it cannot read are unreadable.
        grace_s: how long after its end a window waits.
        most: label sets per window; the rest counts as overflow.
        max_bytes: what held records may take.
    """

    def __init__(
        self,
        sizes: Sequence[str],
        dimensions: Sequence[str],
        reading: Reading,
        grace_s: float,
        most: int,
        max_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self._base = sizes[0]
        self._seconds = {size: duration_s(size) for size in sizes}
        self._dimensions = tuple(dimensions)
        self._reading = reading
        self._grace_s = grace_s
        self._most = most
        self._max_bytes = max_bytes
        self._progress: dict[int, Progress] = {}
        self._open: dict[int, _Held] = {}
        self._running: dict[str, dict[int, dict[Labels, Contents]]] = {size: {} for size in sizes}
        self._closed_until: dict[str, float] = dict.fromkeys(sizes, -inf)
        self._incomplete_until = -inf
        self.held_bytes = 0
        self.fates: Counter[Fate] = Counter()
        """How many records met each fate; whoever reads it may clear it."""
        self.folded: Counter[str] = Counter()
        """How many label sets went into overflow, per size; whoever reads it may clear it."""

    # Records.

    def take(self, key: bytes | None, value: bytes | None, written_s: float) -> None:
        """Take one record in. A newer one of the same key replaces the older, a tombstone removes it.

        Args:
            key: `["progress", partition]` or `[start, dimensions, partition, part]`; anything else is unreadable.
            value: a `Progress` or a `Window`.
            written_s: the record's own timestamp, epoch seconds.
        """
        try:
            match orjson.loads(key or b""):
                case ["progress", int(partition)]:
                    self._take_progress(partition, value)
                case [str(start), dict(), _, _] if key is not None:
                    self._take_window(round(parse_rfc3339(start).timestamp()), key, value, written_s)
                case _:
                    self.fates["unreadable"] += 1
        except (ValueError, OverflowError):
            self.fates["unreadable"] += 1

    def _take_progress(self, partition: int, value: bytes | None) -> None:
        if value is None:
            self._progress.pop(partition, None)
        else:
            self._progress[partition] = Progress.model_validate_json(value)

    def _take_window(self, start_s: int, key: bytes, value: bytes | None, written_s: float) -> None:
        if start_s + self._seconds[self._base] <= self._closed_until[self._base]:
            self.fates["late"] += 1
            return
        if start_s > written_s + AHEAD_S:
            self.fates["ahead"] += 1
            return
        held = self._open.setdefault(start_s, _Held())
        self.held_bytes -= held.weight
        held.put(key, value)
        self.held_bytes += held.weight
        if not held.records:
            del self._open[start_s]
        self.fates["removed" if value is None else "held"] += 1
        while self.held_bytes > self._max_bytes:
            self._evict(min(self._open))

    def _evict(self, start_s: int) -> None:
        self.fates["evicted"] += len(self._release(start_s))
        self._incomplete_until = max(self._incomplete_until, start_s + self._seconds[self._base])

    def _release(self, start_s: int) -> dict[bytes, bytes]:
        held = self._open.pop(start_s)
        self.held_bytes -= held.weight
        return held.records

    # Closing.

    def advance(self, now_s: float) -> dict[str, Closed]:
        """Close what can be closed. Call it only when all partitions have been read to their ends at least once.

        Args:
            now_s: the clock, epoch seconds; it counts only when all partitions are idle.

        Returns:
            per size the last window that closed now and has contents; sizes of which none did are absent.
        """
        horizon = self._horizon(now_s)
        ready = sorted(start for start in self._open if start + self._seconds[self._base] <= horizon)
        last = {size: self._last(size, ready, horizon) for size in self._seconds}
        for start in ready:
            self._merge(start, last)
        return {
            size: closed for size, start in last.items() if start is not None and (closed := self._close(size, start))
        }

    def _horizon(self, now_s: float) -> float:
        """Windows that end by then are closed."""
        watermarks = (
            -inf if progress.watermark is None else progress.watermark.timestamp()
            for progress in self._progress.values()
            if not progress.idle
        )
        return min(watermarks, default=now_s) - self._grace_s

    def _last(self, size: str, ready: Sequence[int], horizon: float) -> int | None:
        """The start of the last window of a size that closes by the horizon."""
        seconds = self._seconds[size]
        starts = {start - start % seconds for start in ready} | self._running[size].keys()
        closing = [start for start in starts if self._closed_until[size] < start + seconds <= horizon]
        return max(closing, default=None)

    def _merge(self, start: int, last: Mapping[str, int | None]) -> None:
        """Merge a base window into those that will be shown; what only older ones need is not even decoded."""
        records = self._release(start)
        places: list[tuple[str, int]] = []
        late = False
        for size, seconds in self._seconds.items():
            place, shown = start - start % seconds, last[size]
            if place + seconds <= self._closed_until[size]:
                late = True  # For this size only: the partitions were idle when it closed.
            elif shown is None or place >= shown:
                places.append((size, place))
        self.fates["late"] += late * len(records)
        if places:
            sets, folded = capped(self._decoded(records), self._most)
            self.folded[self._base] += folded
            for size, place in places:
                self.folded[size] += fold(self._running[size].setdefault(place, {}), sets, self._most)

    def _decoded(self, records: Mapping[bytes, bytes]) -> dict[Labels, Contents]:
        sets: dict[Labels, Contents] = {}
        for value in records.values():
            try:
                window = Window.model_validate_json(value)
                contents = self._reading.contents(window)
            except ValueError:
                self.fates["unreadable"] += 1
                continue
            if window.window != self._base:  # Written under other settings.
                self.fates["unreadable"] += 1
                continue
            labels = tuple([window.dimensions.get(name, "") for name in self._dimensions])
            sets.setdefault(labels, Contents()).merge(contents)
        return sets

    def _close(self, size: str, start: int) -> Closed | None:
        running = self._running[size]
        sets = running.get(start)
        self._running[size] = {each: sets for each, sets in running.items() if each > start}
        end = start + self._seconds[size]
        self._closed_until[size] = end
        return Closed(size, start, end, sets) if sets and start >= self._incomplete_until else None
