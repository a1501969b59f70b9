"""Merging of windows: takes the records of the windows topic, and gives the merged windows once they are closed.

A window is closed when every partition that is not idle has a watermark of at least its end plus the grace period or,
if all partitions are idle, when the clock has passed that time. Records are decoded only when their window closes, so
that earlier revisions only cost parsing their keys. A closed base window is merged into the larger sizes.

A record that arrives after its window has closed revises all of its windows that are still open or shown (the last
closed window of each size is). For this the records of these windows are kept, compressed, and the difference to the
previous record is merged. So memory holds the records of the base windows since the start of the oldest window that is
shown, and one aggregate per label set of each window that is open or shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from zlib import compress, decompress

from ragweir.metrics.aggregation.cardinality import Admission, AdmissionLimits, Labels, admit_sets, merge_sets
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate, WindowDecoder
from ragweir.schemas.window import OVERFLOW, Fate, Progress, duration_s
from ragweir.schemas.window_key import ProgressKey, parse_window_key
from ragweir.schemas.window_record import parse_window

AHEAD_S = 300
"""Maximum time from a record's timestamp to the start of its window; a later start comes from a wrong clock."""
MAX_HELD_BYTES = 256 * 1024 * 1024
"""Maximum size of the records in memory, in bytes; beyond it the oldest are dropped. A window whose records were
dropped before it closed is never shown; one whose records were dropped afterwards is not revised any more, and further
records of it are late."""
REVISE_EVERY_S = 10.0
"""Minimum interval of revisions of closed windows: a judge's answers revise several windows with every commit."""
REVISE_MOST = 1_000
"""Maximum number of records that revise closed windows in one call, without those of the last base window: each takes
2 ms. The newest windows have precedence."""


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """A closed window, merged over partitions and parts, by label set. The next call may revise the aggregates.

    `revised` is true if the window was returned before, with fewer events or judgements.
    """

    size: str
    start_s: int
    end_s: int
    sets: Mapping[Labels, WindowAggregate]
    revised: bool = False


@dataclass(slots=True)
class _Base:
    """The latest records of one base window's parts, by their keys."""

    fresh: dict[bytes, bytes] = field(default_factory=dict)
    """Records that are not merged yet."""
    merged: dict[bytes, bytes] = field(default_factory=dict)
    """Records that are merged, compressed."""
    folded: frozenset[Labels] = frozenset()
    """Label sets that were merged into overflow, where they stay: otherwise some of their events would be missing."""
    weight: int = 0
    """Size of the keys and values in bytes."""

    def put(self, key: bytes, value: bytes) -> None:
        """Add a record in place of a fresh one with its key."""
        self.drop(key)
        self.fresh[key] = value
        self.weight += len(key) + len(value)

    def drop(self, key: bytes) -> None:
        """Drop a fresh record, if there is one."""
        value = self.fresh.pop(key, None)
        self.weight -= 0 if value is None else len(key) + len(value)

    def keep(self, key: bytes, value: bytes) -> None:
        """Keep a record that was merged."""
        packed = compress(value, 1)
        earlier = self.merged.get(key)
        self.weight += len(packed) + (len(key) if earlier is None else -len(earlier))
        self.merged[key] = packed


class WindowMerger:
    """Merges the windows of all partitions.

    Args:
        sizes: sizes of windows; records have the first, and the others are multiples of it.
        dimensions: dimensions of label sets; records are merged over their other dimensions.
        decoder: decoder of records.
        grace_s: grace period after the end of a window.
        limits: limits on label sets.
        max_bytes: maximum size of the records in memory.
    """

    def __init__(
        self,
        sizes: Sequence[str],
        dimensions: Sequence[str],
        decoder: WindowDecoder,
        grace_s: float,
        limits: AdmissionLimits,
        max_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self._base_s = duration_s(sizes[0])
        self._base = sizes[0]
        self._seconds = {size: duration_s(size) for size in sizes}
        self._dimensions = tuple(dimensions)
        self._overflow: Labels = (OVERFLOW,) * len(self._dimensions)
        self._decoder = decoder
        self._grace_s = grace_s
        self._most = limits.most
        self._admission = Admission(limits)
        self._max_bytes = max_bytes
        self._progress: dict[int, Progress] = {}
        self._bases: dict[int, _Base] = {}
        self._running: dict[str, dict[int, dict[Labels, WindowAggregate]]] = {size: {} for size in sizes}
        """The aggregates of the windows that are shown or open."""
        self._shown: dict[str, float] = dict.fromkeys(sizes, -inf)
        """The start of the last closed window of each size, empty or not."""
        self._incomplete_until = -inf
        """Windows that start before this time have lost records that were never merged."""
        self._final_until = -inf
        """Base windows that end by this time have lost records that were merged, and cannot be revised."""
        self._revised_s = -inf
        self.held_bytes = 0
        self.fates: Counter[Fate] = Counter()
        """Number of records by fate; the reader may clear it."""
        self.folded: Counter[str] = Counter()
        """Number of label sets that went into overflow, by size; the reader may clear it."""

    # Records.

    def take(self, key: bytes | None, value: bytes | None, written_s: float) -> None:
        """Take one record. A newer one with the same key replaces the older, a tombstone removes it.

        Args:
            key: see `ragweir.schemas.window_key`; any other is unreadable.
            value: a `Progress` or a `Window`.
            written_s: the record's timestamp, epoch seconds.
        """
        try:
            parsed = parse_window_key(key)
            if isinstance(parsed, ProgressKey):
                self._take_progress(parsed.partition, value)
            else:
                self._take_window(round(parsed.start.timestamp()), key or b"", value, written_s)
        except (ValueError, OverflowError):
            self.fates["unreadable"] += 1

    def _take_progress(self, partition: int, value: bytes | None) -> None:
        if value is None:
            self._progress.pop(partition, None)
        else:
            self._progress[partition] = Progress.model_validate_json(value)

    def _take_window(self, start_s: int, key: bytes, value: bytes | None, written_s: float) -> None:
        if start_s + self._base_s <= self._final_until or not any(self._places(start_s)):
            self.fates["late"] += 1
            return
        if start_s > written_s + AHEAD_S:
            self.fates["ahead"] += 1
            return
        base = self._bases.setdefault(start_s, _Base())
        self.held_bytes -= base.weight
        if value is not None:
            base.put(key, value)
        else:
            base.drop(key)
        self.held_bytes += base.weight
        # A merged record cannot be subtracted because of its minimum and maximum.
        self.fates["held" if value is not None else "late" if key in base.merged else "removed"] += 1
        if not base.weight:
            del self._bases[start_s]
        while self.held_bytes > self._max_bytes:
            self._evict(min(self._bases))

    def _places(self, start_s: int) -> Iterator[tuple[str, int]]:
        """Yield the windows of a base window, by size and start, without those older than the shown ones."""
        for size, seconds in self._seconds.items():
            place = start_s - start_s % seconds
            if place >= self._shown[size]:
                yield size, place

    def _evict(self, start_s: int) -> None:
        """Drop the records of a base window."""
        base = self._release(start_s)
        end_s = start_s + self._base_s
        if base.merged:
            self._final_until = max(self._final_until, end_s)
            self.fates["late"] += len(base.fresh)
        else:
            self._incomplete_until = max(self._incomplete_until, end_s)
            self.fates["evicted"] += len(base.fresh)

    def _release(self, start_s: int) -> _Base:
        base = self._bases.pop(start_s)
        self.held_bytes -= base.weight
        return base

    # Closing.

    def advance(self, now_s: float) -> dict[str, ClosedWindow]:
        """Close windows, and revise the shown ones. All partitions must have been read to their ends at least once.

        Args:
            now_s: the clock, epoch seconds, for the case that all partitions are idle, and between revisions.

        Returns:
            by size, the last window that closed now and is not empty, or the shown one if it was revised; a size with
            neither is absent.
        """
        horizon = self.closed_until(now_s)
        due = self._due(horizon, now_s)
        last = {size: self._last(size, due, horizon) for size in self._seconds}
        touched = {place for start in due for place in self._merge(start, last)}
        closed = {size: self._close(size, start, touched) for size, start in last.items()}
        for start in [each for each in self._bases if not any(self._places(each))]:
            base = self._release(start)
            self.fates["late"] += len(base.fresh) if base.merged else 0
        return {size: window for size, window in closed.items() if window is not None}

    def closed_until(self, now_s: float) -> float:
        """Return the time by which windows must end to be closed, epoch seconds; -inf if no window can be closed.

        Args:
            now_s: the clock, epoch seconds, for the case that all partitions are idle.
        """
        watermarks = (
            -inf if progress.watermark is None else progress.watermark.timestamp()
            for progress in self._progress.values()
            if not progress.idle
        )
        return min(watermarks, default=now_s) - self._grace_s

    def _due(self, horizon: float, now_s: float) -> list[int]:
        """Return the base windows to merge now, ascending: those that close, and at intervals those with revisions."""
        shown = self._shown[self._base]
        fresh = sorted(start for start, base in self._bases.items() if base.fresh)
        due = [start for start in fresh if shown < start <= horizon - self._base_s]
        if due or not 0 <= now_s - self._revised_s < REVISE_EVERY_S:
            room = REVISE_MOST
            for start in reversed([start for start in fresh if start <= shown]):
                if room <= 0:
                    break
                room -= len(self._bases[start].fresh)
                due.append(start)
        if due:
            self._revised_s = now_s
        return sorted(due)

    def _last(self, size: str, due: Iterable[int], horizon: float) -> float:
        """Return the start of the last window of a size that is closed by the horizon."""
        seconds = self._seconds[size]
        starts = {start - start % seconds for start in due} | self._running[size].keys()
        return max(self._shown[size], max((start for start in starts if start + seconds <= horizon), default=-inf))

    def _merge(self, start_s: int, last: Mapping[str, float]) -> list[tuple[str, int]]:
        """Merge the fresh records of a base window into the windows that will be shown or stay open; return these.

        Records of older windows alone are not decoded.
        """
        places = [(size, place) for size, place in self._places(start_s) if place >= last[size]]
        base = self._bases[start_s]
        self.held_bytes -= base.weight
        grown = self._grown(base) if places else {}
        self.held_bytes += base.weight
        sets, folded = admit_sets(grown, self._admission, start_s)
        base.folded |= folded
        self.folded[self._base] += len(folded)
        if not sets:
            return []
        for size, place in places:
            self.folded[size] += merge_sets(self._running[size].setdefault(place, {}), sets, self._most)
        return places

    def _grown(self, base: _Base) -> dict[Labels, WindowAggregate]:
        """Return the growth of a base window's fresh records over those that were merged, by label set."""
        sets: dict[Labels, WindowAggregate] = {}
        for key, value in list(base.fresh.items()):
            base.drop(key)
            try:
                labels, contents = self._decoded(value)
                if key in base.merged:
                    contents = contents.since(self._decoded(decompress(base.merged[key]))[1])
            except ValueError:
                self.fates["unreadable"] += 1
                continue
            base.keep(key, value)
            sets.setdefault(self._overflow if labels in base.folded else labels, WindowAggregate()).merge(contents)
        return sets

    def _decoded(self, value: bytes) -> tuple[Labels, WindowAggregate]:
        """Decode a record.

        Raises:
            ValueError: if it is not a window of the base size.
        """
        window = parse_window(value)
        if window.window != self._base:
            raise ValueError(f"a window of {window.window}")
        return tuple([window.dimensions.get(name, "") for name in self._dimensions]), self._decoder.decode(window)

    def _close(self, size: str, start_s: float, touched: Collection[tuple[str, float]]) -> ClosedWindow | None:
        """Show a window if it is not empty, and not shown yet or revised."""
        revised = start_s == self._shown[size]
        self._shown[size] = start_s
        running = self._running[size] = {each: own for each, own in self._running[size].items() if each >= start_s}
        if start_s not in running or start_s < self._incomplete_until or (revised and (size, start_s) not in touched):
            return None
        start = int(start_s)
        return ClosedWindow(size, start, start + self._seconds[size], running[start], revised)
