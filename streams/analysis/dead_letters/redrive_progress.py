"""Progress of redrives in a partition of dead letters, encoded in a committed offset and its metadata."""

from __future__ import annotations

import zlib
from base64 import b85decode, b85encode
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

RedriveResult = Literal["sent", "rejected", "other_class", "fatal", "no_event", "other"]
"""Result for one letter: sent; postponed (still rejected, of another class, or fatal and not forced); or never sent (it
holds no whole event, or is no dead letter of evaluate)."""
_POSTPONED: tuple[RedriveResult, ...] = ("rejected", "other_class", "fatal")


@dataclass(frozen=True, slots=True)
class RedriveProgress:
    """Progress in one partition: letters before `next_offset` are done, except the postponed ones.

    >>> progress = RedriveProgress(20, frozenset({3, 4, 17}))
    >>> RedriveProgress.committed(20, progress.metadata()) == progress, RedriveProgress(20).metadata()
    (True, '')
    """

    next_offset: int = 0
    postponed: frozenset[int] = frozenset()

    def is_pending(self, offset: int) -> bool:
        """Return whether the letter at this offset is not done."""
        return offset >= self.next_offset or offset in self.postponed

    @property
    def start(self) -> int:
        """The lowest offset that may be pending."""
        return min(self.postponed, default=self.next_offset)

    def after(self, results: Mapping[int, RedriveResult]) -> RedriveProgress:
        """Return the progress after these results by offset."""
        postponed = {offset for offset, result in results.items() if result in _POSTPONED}
        return RedriveProgress(max(self.next_offset, max(results) + 1), self.postponed - results.keys() | postponed)

    def since(self, start: int) -> RedriveProgress:
        """Return the progress without postponed letters before this offset, which retention has deleted."""
        return RedriveProgress(self.next_offset, frozenset(offset for offset in self.postponed if offset >= start))

    def metadata(self) -> str:
        """Return the postponed offsets as text, delta-encoded and compressed."""
        if not self.postponed:
            return ""
        offsets = sorted(self.postponed)
        deltas = [offsets[0], *(after - before for before, after in pairwise(offsets))]
        return b85encode(zlib.compress(",".join(map(str, deltas)).encode(), 9)).decode()

    @classmethod
    def committed(cls, offset: int, metadata: str | None) -> RedriveProgress:
        """Return the progress of a committed offset, negative if there is none, and its metadata.

        Raises:
            ValueError: if the metadata has another format.
        """
        if offset < 0:
            return cls()
        if not metadata:
            return cls(offset)
        try:
            deltas = zlib.decompress(b85decode(metadata)).decode().split(",")
        except zlib.error:
            raise ValueError("not the metadata of a redrive") from None
        return cls(offset, frozenset(accumulate(map(int, deltas))))
