"""Closing: records of the windows topic in, as they arrive; merged windows out, once each is closed.

A window is closed when every partition that is not idle has a watermark of at least its end plus the grace, or, with
all partitions idle, when the clock says so. Records are held as they came and decoded only when their window closes,
so that the many revisions before the last cost no more than a look at the key. What has closed is merged into the
larger sizes at once.

A record that comes after its window has closed revises every window that it belongs to and that is still open or still
shown: the last closed window of each size. For that the records of these windows are kept, compressed, and what one
has more than its predecessor is merged. So held are the records of the base windows since the start of the oldest
window that is shown, and one accumulator per label set of each window that is open or shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal
from zlib import compress, decompress

from ragweir.metrics.aggregation.cardinality import Admission, AdmissionLimits, Labels, apart, fold
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate, WindowDecoder
from ragweir.schemas.window import OVERFLOW, Progress, Window, duration_s
from ragweir.schemas.window_key import ProgressKey, parse_window_key

AHEAD_S = 300
"""A window that begins this long after its record was written comes from a wrong clock: it would be held for years."""
MAX_HELD_BYTES = 256 * 1024 * 1024
"""The bytes that held records may take. Beyond it the oldest are dropped. A window whose records were dropped before it
closed is never shown; one whose records were dropped afterwards stays as it is, and what still comes for it is late."""
REVISE_EVERY_S = 10.0
"""A closed window is revised at most this often, since a judge's answers revise several windows with every commit."""
REVISE_MOST = 1_000
"""Records that revise closed windows, in one call, but for those of the last base window: each takes 2 ms. The newest
windows come first."""

Fate = Literal["held", "removed", "late", "ahead", "evicted", "unreadable"]
"""The fate of a window's record. One that was held may later be late, evicted, or turn out to be unreadable."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed window, merged over partitions and parts: its contents per label set, until the next call revises them.

    `revised` is true where the window was given before, with fewer events or judgements.
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
    """Those that are not merged yet."""
    merged: dict[bytes, bytes] = field(default_factory=dict)
    """Those that are, compressed."""
    folded: frozenset[Labels] = frozenset()
    """The label sets that were merged as overflow. They stay there, or they would be shown with a part of their events.
    """
    weight: int = 0

    def put(self, key: bytes, value: bytes) -> None:
        """Take a record in, in place of a fresh one with its key."""
        self.drop(key)
        self.fresh[key] = value
        self.weight += len(key) + len(value)

    def drop(self, key: bytes) -> None:
        """Release a fresh record, if there is one."""
        value = self.fresh.pop(key, None)
        self.weight -= 0 if value is None else len(key) + len(value)

    def keep(self, key: bytes, value: bytes) -> None:
        """Keep the record that was merged under this key."""
        packed = compress(value, 1)
        earlier = self.merged.get(key)
        self.weight += len(packed) + (len(key) if earlier is None else -len(earlier))
        self.merged[key] = packed


class WindowMerger:
    """Merges the windows of all partitions.

    Args:
        sizes: the first is the one that records have, the others are multiples of it.
        dimensions: what label sets are made of; records are merged over any other dimension that they have.
        reading: of records; those that it cannot read are unreadable.
        grace_s: how long after its end a window waits.
        limits: of the label sets that are kept apart; the rest counts as overflow.
        max_bytes: what held records may take.
    """

    def __init__(
        self,
        sizes: Sequence[str],
        dimensions: Sequence[str],
        reading: WindowDecoder,
        grace_s: float,
        limits: AdmissionLimits,
        max_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self._base_s = duration_s(sizes[0])
        self._base = sizes[0]
        self._seconds = {size: duration_s(size) for size in sizes}
        self._dimensions = tuple(dimensions)
        self._overflow: Labels = (OVERFLOW,) * len(self._dimensions)
        self._reading = reading
        self._grace_s = grace_s
        self._most = limits.most
        self._admission = Admission(limits)
        self._max_bytes = max_bytes
        self._progress: dict[int, Progress] = {}
        self._bases: dict[int, _Base] = {}
        self._running: dict[str, dict[int, dict[Labels, WindowAggregate]]] = {size: {} for size in sizes}
        """The accumulators of the windows that are shown or open."""
        self._shown: dict[str, float] = dict.fromkeys(sizes, -inf)
        """The start of the last closed window of each size, with contents or without."""
        self._incomplete_until = -inf
        """Windows that start before have lost records that were never merged."""
        self._final_until = -inf
        """Base windows that end by then have lost records that were merged, and cannot be revised."""
        self._revised_s = -inf
        self.held_bytes = 0
        self.fates: Counter[Fate] = Counter()
        """How many records met each fate; whoever reads it may clear it."""
        self.folded: Counter[str] = Counter()
        """How many label sets went into overflow, per size; whoever reads it may clear it."""

    # Records.

    def take(self, key: bytes | None, value: bytes | None, written_s: float) -> None:
        """Take one record in. A newer one of the same key replaces the older, a tombstone removes it.

        Args:
            key: see `ragweir.schemas.window_key`; any other is unreadable.
            value: a `Progress` or a `Window`.
            written_s: the record's own timestamp, epoch seconds.
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
        # What was merged stays merged: nothing could take a minimum or a maximum back.
        self.fates["held" if value is not None else "late" if key in base.merged else "removed"] += 1
        if not base.weight:
            del self._bases[start_s]
        while self.held_bytes > self._max_bytes:
            self._evict(min(self._bases))

    def _places(self, start_s: int) -> Iterator[tuple[str, int]]:
        """The windows that a base window belongs to, by size and start, without those older than what is shown."""
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

    def advance(self, now_s: float) -> dict[str, Closed]:
        """Close what can be closed, and revise what is shown.

        Call it only when all partitions have been read to their ends at least once.

        Args:
            now_s: the clock, epoch seconds; it counts when all partitions are idle, and between revisions.

        Returns:
            per size the last window that closed now and has contents, or the one that is shown where it was revised;
            sizes of which neither is so are absent.
        """
        horizon = self._horizon(now_s)
        due = self._due(horizon, now_s)
        last = {size: self._last(size, due, horizon) for size in self._seconds}
        touched = {place for start in due for place in self._merge(start, last)}
        closed = {size: self._close(size, start, touched) for size, start in last.items()}
        for start in [each for each in self._bases if not any(self._places(each))]:
            base = self._release(start)
            self.fates["late"] += len(base.fresh) if base.merged else 0
        return {size: window for size, window in closed.items() if window is not None}

    def _horizon(self, now_s: float) -> float:
        """Windows that end by then are closed."""
        watermarks = (
            -inf if progress.watermark is None else progress.watermark.timestamp()
            for progress in self._progress.values()
            if not progress.idle
        )
        return min(watermarks, default=now_s) - self._grace_s

    def _due(self, horizon: float, now_s: float) -> list[int]:
        """The base windows to merge now, ascending: those that close, and from time to time those that were revised."""
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
        """The start of the last window of a size that is closed by the horizon."""
        seconds = self._seconds[size]
        starts = {start - start % seconds for start in due} | self._running[size].keys()
        return max(self._shown[size], max((start for start in starts if start + seconds <= horizon), default=-inf))

    def _merge(self, start_s: int, last: Mapping[str, float]) -> list[tuple[str, int]]:
        """Merge the fresh records of a base window into the windows that will be shown, or stay open; gives these.

        What only older windows need is not even decoded.
        """
        places = [(size, place) for size, place in self._places(start_s) if place >= last[size]]
        base = self._bases[start_s]
        self.held_bytes -= base.weight
        grown = self._grown(base) if places else {}
        self.held_bytes += base.weight
        sets, folded = apart(grown, self._admission, start_s)
        base.folded |= folded
        self.folded[self._base] += len(folded)
        if not sets:
            return []
        for size, place in places:
            self.folded[size] += fold(self._running[size].setdefault(place, {}), sets, self._most)
        return places

    def _grown(self, base: _Base) -> dict[Labels, WindowAggregate]:
        """Return the growth of a base window's fresh records over those that were merged, per label set."""
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
        """Read a record.

        Raises:
            ValueError: if it is no window, or of another size: written under other settings.
        """
        window = Window.model_validate_json(value)
        if window.window != self._base:
            raise ValueError(f"a window of {window.window}")
        return tuple([window.dimensions.get(name, "") for name in self._dimensions]), self._reading.contents(window)

    def _close(self, size: str, start_s: float, touched: Collection[tuple[str, float]]) -> Closed | None:
        """Show a window if it has contents and is not shown yet, or was touched."""
        revised = start_s == self._shown[size]
        self._shown[size] = start_s
        running = self._running[size] = {each: own for each, own in self._running[size].items() if each >= start_s}
        if start_s not in running or start_s < self._incomplete_until or (revised and (size, start_s) not in touched):
            return None
        start = int(start_s)
        return Closed(size, start, start + self._seconds[size], running[start], revised)
