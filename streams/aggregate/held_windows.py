"""The windows that the aggregate agent holds for one partition, and the memory that they may take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from sys import getsizeof
from zlib import compress

from ragweir.metrics.aggregation.cardinality import Admission, AdmissionLimits, Labels
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate

_PER_PART = 700
"""Bytes that a part takes beside its record and its labels' text: objects, entries of dicts, and what the allocator
leaves unused. Measured: 620."""
_DECODED = 7
"""Bytes that contents take per byte of the record that they are written as, at most. Measured: 2.3 to 6.3."""
_NEW = 2_500
"""Bytes that a part is taken to have until its first record is written."""
_UNCOMPRESSED = 16 * 1024 * 1024
"""Bytes of records that a restore reads before it compresses them."""


@dataclass(frozen=True, slots=True)
class WindowPart:
    """One part of a window, as it was emitted last. A window that is not held is continued in a new part."""

    number: int
    """The offset at which the part was opened; -1 - offset where its window was not held then, so that a restored
    worker does not hold it either."""
    record: bytes = b""
    """As it was emitted; compressed where the contents are not kept."""
    size: int = 0
    """Bytes of memory, without the contents."""
    revision: int = 0
    contents: WindowAggregate | None = None

    @classmethod
    def of(
        cls, number: int, labels: Labels, record: bytes, revision: int = 0, contents: WindowAggregate | None = None
    ) -> WindowPart:
        """Return a part of this record: decoded with its contents, compressed without."""
        record = record if contents is not None else compress(record, 1)
        return cls(number, record, _PER_PART + sum(map(getsizeof, labels)) + len(record), revision, contents)

    @property
    def contents_size(self) -> int:
        """Bytes of memory that the contents take."""
        return 0 if self.contents is None else _DECODED * len(self.record)

    def stored(self) -> WindowPart:
        """Return it with its record only, compressed: of windows that are not in use there may be thousands."""
        if self.contents is None:
            return self
        record = compress(self.record, 1)
        return WindowPart(self.number, record, self.size - len(self.record) + len(record))


Windows = Mapping[datetime, Mapping[Labels, WindowPart]]
"""Windows by their start, in any order."""


@dataclass(frozen=True, slots=True)
class HeldWindows:
    """The windows of one partition that are in memory. It is replaced, never changed.

    The memory is a number of bytes for one partition. Three quarters are for windows as they are stored, compressed;
    one quarter is for decoded contents.

    1. Decoded contents beyond their quarter are given back, those of the oldest windows first.
    2. Windows take further label sets in while all together take less than three quarters of their share. Beyond that,
       each has room for its equal part of the last quarter, so that some label sets stay apart in every window.
    3. Where windows exceed their share all the same, because the events of known label sets fill more bins or because
       the share becomes smaller, the oldest are no longer held. Their events open new parts, so no event is lost.

    The second rule is a function of the records that are held, decoded or not, and of the number of bytes, so a
    restored worker that has as many partitions decides the same. The third is not: a restored worker may hold windows
    that its predecessor had released, and so continue parts or fold label sets that the predecessor would not have.
    Sums stay exact in either case, since readers merge parts.
    """

    windows: Windows = field(default_factory=dict)
    decoded: frozenset[datetime] = frozenset()
    """The starts of those whose contents are kept."""
    sizes: Mapping[datetime, int] = field(default_factory=dict)
    """Bytes of each as it is stored; of a decoded one an upper bound."""

    @property
    def size(self) -> int:
        """Bytes of memory, without decoded contents."""
        return sum(self.sizes.values())

    def replaced(self, windows: Windows, decoded: Iterable[datetime] = ()) -> HeldWindows:
        """Return other windows, most of which are the same: only those that differ are measured."""
        sizes = {
            start: self.sizes[start] if self.windows.get(start) is parts else sum(part.size for part in parts.values())
            for start, parts in windows.items()
        }
        return HeldWindows(windows, frozenset(decoded), sizes)

    def given_back(self, starts: Collection[datetime]) -> HeldWindows:
        """Return the same with the contents of these windows given back."""
        stored = {start: {labels: part.stored() for labels, part in self.windows[start].items()} for start in starts}
        return self.replaced({**self.windows, **stored}, self.decoded.difference(starts)) if starts else self

    def within(self, max_bytes: int) -> HeldWindows:
        """Return as many of them as fit in the memory of a partition."""
        left, excess = max_bytes - _share(max_bytes), []
        for start in sorted(self.decoded, reverse=True):
            left -= sum(part.contents_size for part in self.windows[start].values())
            if left < 0:
                excess.append(start)
        held = self.given_back(excess)
        if held.size <= _share(max_bytes):
            return held
        # The sizes of decoded windows are upper bounds.
        stored = held.given_back(held.decoded)
        excess_bytes = stored.size - _share(max_bytes)
        windows = dict(held.windows)
        for start in sorted(windows)[:-1]:
            if excess_bytes <= 0:
                break
            excess_bytes -= stored.sizes[start]
            del windows[start]
        return held.replaced(windows, held.decoded & windows.keys())


class RestoredWindows:
    """Collects held windows from their changelog, never many uncompressed and never more than there is room for.

    Args:
        max_bytes: the memory of their partition.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = HeldWindows()
        self._written: dict[tuple[datetime, Labels], tuple[int, bytes]] = {}
        """Part numbers and records that are not compressed yet: most are soon replaced by their next revision."""
        self._waiting = 0

    def add(self, start: datetime, labels: Labels, number: int, record: bytes) -> None:
        """Add a part, in the place of the one that was there."""
        self._written[start, labels] = number, record
        self._waiting += len(record)
        if self._waiting > _UNCOMPRESSED:
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
        """Return the windows as they are now."""
        windows = {start: dict(parts) for start, parts in self._held.windows.items()}
        for (start, labels), (number, record) in self._written.items():
            windows.setdefault(start, {})[labels] = WindowPart.of(number, labels, record)
        self._written, self._waiting = {}, 0
        self._held = HeldWindows().replaced(windows).within(self._max_bytes)
        return self._held


class LabelSetAdmission:
    """Decides about further label sets of windows, by the number that windows have and by the memory that they take.

    Args:
        held: the windows, which are not changed.
        limits: of the number of label sets.
        max_bytes: the memory of their partition.
        most_windows: the number of windows that a partition holds at the same time.
    """

    def __init__(self, held: HeldWindows, limits: AdmissionLimits, max_bytes: int, most_windows: int) -> None:
        self._held, self._limits = held, limits
        self._share, self._most_windows = _share(max_bytes), most_windows
        self._new: Counter[datetime] = Counter()
        """Bytes of the label sets that were admitted, by window."""
        self.is_full = False
        """True once the memory has had no room for a label set."""

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
        return self._held.given_back(self._held.decoded)

    def _has_room(self, start: datetime) -> bool:
        # The sizes of decoded windows are upper bounds, and the answer must not depend on which are decoded.
        return self._fits(self._held, start) or self._fits(self._stored, start)

    def _fits(self, held: HeldWindows, start: datetime) -> bool:
        own = held.sizes.get(start, 0) + self._new[start]
        return held.size + self._new.total() < self._share * 3 // 4 or own * self._most_windows < self._share // 4


def _share(max_bytes: int) -> int:
    """Return the bytes for windows as they are stored."""
    return max_bytes * 3 // 4
