"""The windows that the aggregate agent holds for one partition, and the memory that they may take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from sys import getsizeof
from zlib import compressobj, decompressobj

import orjson

from ragweir.metrics.aggregation.cardinality import Admission, AdmissionLimits, Labels
from ragweir.metrics.aggregation.summary import Summary, scheme
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.metrics.catalogue import everything

_PER_PART = 350
"""Bytes that a part takes apart from its record and the text of its labels. Measured: 200, as most
label sets are those of other windows too."""
_DECODED = 7
"""The most bytes that contents take per byte of their record. Measured: 2.3 to 6.3."""
_NEW = 2_500
"""Bytes that are counted for a part until its first record is written."""
_UNCOMPRESSED = 16 * 1024 * 1024
"""Bytes of records that a restore collects before it compresses them."""


@cache
def _dictionary() -> bytes:
    """Return a record with all metrics, to which records are compressed: a part takes half of what it takes alone.

    It is a function of the catalogue, so that the sizes of parts, which decide about label sets, are the same anywhere.
    """
    metrics = {each.name: Summary.of([0.0, 1.0], scheme(each)) for each in everything() if each.unit != "category"}
    return orjson.dumps(WindowAggregate(metrics=metrics).fields(), option=orjson.OPT_NON_STR_KEYS)


def _compressed(record: bytes) -> bytes:
    compressor = compressobj(zdict=_dictionary())
    return compressor.compress(record) + compressor.flush()


@dataclass(frozen=True, slots=True)
class WindowPart:
    """One part of a window, as it was emitted last. A window that is not held continues in a new part."""

    number: int
    """The offset at which the part was opened; -1 - offset if its window was not held then, so that it is not restored
    either."""
    record: bytes = b""
    """Its record, compressed if the contents are not kept."""
    size: int = 0
    """Bytes of memory without the contents."""
    revision: int = 0
    contents: WindowAggregate | None = None

    @classmethod
    def of(
        cls, number: int, labels: Labels, record: bytes, revision: int = 0, contents: WindowAggregate | None = None
    ) -> WindowPart:
        """Return a part of a record: decoded with contents, compressed without."""
        record = record if contents is not None else _compressed(record)
        return cls(number, record, _PER_PART + sum(map(getsizeof, labels)) + len(record), revision, contents)

    def json(self) -> bytes:
        """Return its record as it was written."""
        return self.record if self.contents is not None else decompressobj(zdict=_dictionary()).decompress(self.record)

    @property
    def contents_size(self) -> int:
        """Bytes of memory that the contents take."""
        return 0 if self.contents is None else _DECODED * len(self.record)

    def stored(self) -> WindowPart:
        """Return it with its compressed record only."""
        if self.contents is None:
            return self
        record = _compressed(self.record)
        return WindowPart(self.number, record, self.size - len(self.record) + len(record))


Windows = Mapping[datetime, Mapping[Labels, WindowPart]]
"""Windows by their start, in any order."""


@dataclass(frozen=True, slots=True)
class HeldWindows:
    """The windows of one partition that are in memory. It is replaced, never changed.

    The memory is a number of bytes for one partition. Three quarters are for windows as they are stored, compressed;
    one quarter is for decoded contents.

    1. Decoded contents beyond their quarter are released, those of the oldest windows first.
    2. Windows admit further label sets while all together take less than three quarters of their share. Beyond that,
       each has its equal part of the last quarter, so that some label sets stay apart in every window.
    3. If windows still exceed their share, because the events of known label sets fill more bins or because the share
       becomes smaller, the oldest are no longer held. Their events open new parts, so no event is lost.

    The second rule depends only on the held records and the number of bytes, so a restored worker with as many
    partitions decides the same. The third does not: a restored worker may hold windows that its predecessor had
    released, and continue their parts. Sums stay exact in either case, since readers merge parts.
    """

    windows: Windows = field(default_factory=dict)
    decoded: frozenset[datetime] = frozenset()
    """The starts of the windows whose contents are kept."""
    sizes: Mapping[datetime, int] = field(default_factory=dict)
    """Bytes of each stored window; an upper bound for a decoded one."""

    @property
    def size(self) -> int:
        """Bytes of memory without decoded contents."""
        return sum(self.sizes.values())

    def replaced(self, windows: Windows, decoded: Iterable[datetime] = ()) -> HeldWindows:
        """Return other windows; only those that differ are measured."""
        sizes = {
            start: self.sizes[start] if self.windows.get(start) is parts else sum(part.size for part in parts.values())
            for start, parts in windows.items()
        }
        return HeldWindows(windows, frozenset(decoded), sizes)

    def release_contents(self, starts: Collection[datetime]) -> HeldWindows:
        """Return the same windows without the contents of some of them."""
        stored = {start: {labels: part.stored() for labels, part in self.windows[start].items()} for start in starts}
        return self.replaced({**self.windows, **stored}, self.decoded.difference(starts)) if starts else self

    def within(self, max_bytes: int) -> HeldWindows:
        """Return the newest windows that fit in the memory of a partition."""
        left, excess = max_bytes - _share(max_bytes), []
        for start in sorted(self.decoded, reverse=True):
            left -= sum(part.contents_size for part in self.windows[start].values())
            if left < 0:
                excess.append(start)
        held = self.release_contents(excess)
        if held.size <= _share(max_bytes):
            return held
        # The sizes of decoded windows are upper bounds.
        stored = held.release_contents(held.decoded)
        excess_bytes = stored.size - _share(max_bytes)
        windows = dict(held.windows)
        for start in sorted(windows)[:-1]:
            if excess_bytes <= 0:
                break
            excess_bytes -= stored.sizes[start]
            del windows[start]
        return held.replaced(windows, held.decoded & windows.keys())


class RestoredWindows:
    """Collects held windows from their changelog, within the memory of their partition."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = HeldWindows()
        self._written: dict[tuple[datetime, Labels], tuple[int, bytes]] = {}
        """Part numbers and records that are not compressed yet: most are soon replaced by a later revision."""
        self._written_bytes = 0

    def add(self, start: datetime, labels: Labels, number: int, record: bytes) -> None:
        """Add a part, or replace it."""
        self._written[start, labels] = number, record
        self._written_bytes += len(record)
        if self._written_bytes > _UNCOMPRESSED:
            self.held()

    def remove(self, start: datetime, labels: Labels, number: int) -> None:
        """Remove a part, if it is still there."""
        held = self.held().windows
        part = held.get(start, {}).get(labels)
        if part is not None and part.number == number:
            left = {each: part for each, part in held[start].items() if each != labels}
            others = {each: parts for each, parts in held.items() if each != start}
            self._held = self._held.replaced({**others, start: left} if left else others)

    def held(self) -> HeldWindows:
        """Return the windows that have been collected."""
        windows = {start: dict(parts) for start, parts in self._held.windows.items()}
        for (start, labels), (number, record) in self._written.items():
            windows.setdefault(start, {})[labels] = WindowPart.of(number, labels, record)
        self._written, self._written_bytes = {}, 0
        self._held = HeldWindows().replaced(windows).within(self._max_bytes)
        return self._held


class LabelSetAdmission:
    """Decides about further label sets of windows, by their number and by memory.

    `most_windows` is the number of windows that a partition holds at a time.
    """

    def __init__(self, held: HeldWindows, limits: AdmissionLimits, max_bytes: int, most_windows: int) -> None:
        self._held, self._limits = held, limits
        self._share, self._most_windows = _share(max_bytes), most_windows
        self._new: Counter[datetime] = Counter()
        """Bytes of the admitted label sets, by window."""
        self.is_full = False
        """True once memory had no room for a label set."""

    def admit(self, labels: Labels, start: datetime) -> bool:
        """Return whether the window that starts then may keep a label set apart; if so, count it as held."""
        if not self._has_room(start):
            self.is_full = True
        elif self._admission.admits(labels, int(start.timestamp())):
            self._new[start] += _NEW
            return True
        return False

    @cached_property
    def _admission(self) -> Admission:
        admission, windows = Admission(self._limits), self._held.windows
        for start in sorted(windows):
            admission.hold([labels for labels in windows[start] if labels not in admission], int(start.timestamp()))
        return admission

    @cached_property
    def _stored(self) -> HeldWindows:
        return self._held.release_contents(self._held.decoded)

    def _has_room(self, start: datetime) -> bool:
        # The sizes of decoded windows are upper bounds, and the answer must not depend on which are decoded.
        return self._fits(self._held, start) or self._fits(self._stored, start)

    def _fits(self, held: HeldWindows, start: datetime) -> bool:
        own = held.sizes.get(start, 0) + self._new[start]
        return held.size + self._new.total() < self._share * 3 // 4 or own * self._most_windows < self._share // 4


def _share(max_bytes: int) -> int:
    """Return the bytes for windows as they are stored."""
    return max_bytes * 3 // 4
