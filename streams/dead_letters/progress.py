"""How far a redrive has come in a partition of dead letters, small enough to travel with a committed offset."""

from __future__ import annotations

import zlib
from base64 import b85decode, b85encode
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

Fate = Literal["sent", "refused", "other_class", "fatal", "no_event", "other"]
"""What becomes of a letter: sent, left for later (still refused, of another class, or fatal and not forced), or nothing
ever (it holds no whole event, or is no dead letter of evaluate)."""
_LEFT: tuple[Fate, ...] = ("refused", "other_class", "fatal")


@dataclass(frozen=True, slots=True)
class RedriveProgress:
    """How far the letters of one partition have come: before `next_offset` all are settled but those left.

    >>> standing = RedriveProgress(20, frozenset({3, 4, 17}))
    >>> RedriveProgress.stored(20, standing.metadata()) == standing, RedriveProgress(20).metadata()
    (True, '')
    """

    next_offset: int = 0
    left: frozenset[int] = frozenset()

    def waits(self, offset: int) -> bool:
        """Whether the letter at this offset is not settled."""
        return offset >= self.next_offset or offset in self.left

    @property
    def start(self) -> int:
        """Where the first letter that is not settled may be."""
        return min(self.left, default=self.next_offset)

    def after(self, looked_at: Mapping[int, Fate]) -> RedriveProgress:
        """How it stands once letters have met their fates."""
        left = {offset for offset, fate in looked_at.items() if fate in _LEFT}
        return RedriveProgress(max(self.next_offset, max(looked_at) + 1), self.left - looked_at.keys() | left)

    def since(self, start: int) -> RedriveProgress:
        """Without what retention has deleted before this offset."""
        return RedriveProgress(self.next_offset, frozenset(offset for offset in self.left if offset >= start))

    def metadata(self) -> str:
        """The letters left as text, each by its distance from the one before."""
        if not self.left:
            return ""
        offsets = sorted(self.left)
        steps = [offsets[0], *(after - before for before, after in pairwise(offsets))]
        return b85encode(zlib.compress(",".join(map(str, steps)).encode(), 9)).decode()

    @classmethod
    def stored(cls, offset: int, metadata: str | None) -> RedriveProgress:
        """From a committed offset, negative where there is none, and its metadata.

        Raises:
            ValueError: if the metadata is not ours.
        """
        if offset < 0:
            return cls()
        if not metadata:
            return cls(offset)
        try:
            steps = zlib.decompress(b85decode(metadata)).decode().split(",")
        except zlib.error:
            raise ValueError("the metadata is not ours") from None
        return cls(offset, frozenset(accumulate(map(int, steps))))
