"""The traces that gave interactions, which are remembered for a while: their later spans must not give them again."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct

_HEAD = Struct("<QHH")
"""The time of emission in milliseconds, and the numbers of root ids and parent ids."""
_ID_BYTES = 8
_MAX_IDS = 1_000
"""The most root ids, and the most parent ids, that are kept of one trace; the oldest are left out."""
_HEX_DIGITS = 2 * _ID_BYTES


def span_key(span_id: str) -> bytes:
    """Return the eight bytes by which a span id is remembered."""
    try:
        key = bytes.fromhex(span_id) if len(span_id) == _HEX_DIGITS else b""
    except ValueError:
        key = b""
    return key if len(key) == _ID_BYTES else blake2b(span_id.encode("utf-8", "replace"), digest_size=_ID_BYTES).digest()


@dataclass(frozen=True, slots=True)
class EmittedTrace:
    """One trace that gave interactions.

    >>> emission = EmittedTrace(7, (span_key("00000000000000ff"),), (span_key("0000000000000001"),))
    >>> EmittedTrace.unpacked(emission.packed) == emission
    True
    """

    time_ms: int
    """The time of its last emission, in epoch milliseconds."""
    roots: tuple[bytes, ...] = ()
    """The roots of its interactions."""
    parents: tuple[bytes, ...] = ()
    """The parents that never came of the topmost spans above its roots."""

    def extended(self, time_ms: int, roots: Iterable[bytes], parents: Iterable[bytes]) -> EmittedTrace:
        """Return the emission with further interactions."""
        return EmittedTrace(
            max(time_ms, self.time_ms),
            tuple(dict.fromkeys((*self.roots, *roots)))[-_MAX_IDS:],
            tuple(dict.fromkeys((*self.parents, *parents)))[-_MAX_IDS:],
        )

    @property
    def packed(self) -> bytes:
        """Return the emission in binary."""
        return b"".join((_HEAD.pack(self.time_ms, len(self.roots), len(self.parents)), *self.roots, *self.parents))

    @classmethod
    def unpacked(cls, data: bytes) -> EmittedTrace:
        """Return the emission that `packed` gives."""
        time_ms, roots, parents = _HEAD.unpack_from(data)
        ids = [data[at : at + _ID_BYTES] for at in range(_HEAD.size, _HEAD.size + _ID_BYTES * (roots + parents), 8)]
        return cls(time_ms, tuple(ids[:roots]), tuple(ids[roots:]))


def packed_end(data: bytes, at: int) -> int:
    """Return the end of a packed emission that begins at an index."""
    _, roots, parents = _HEAD.unpack_from(data, at)
    return at + _HEAD.size + _ID_BYTES * (int(roots) + int(parents))


class EmittedTraces:
    """The remembered traces of one partition, in the order of their emissions, each packed in binary.

    Emissions are numbered from 0. A trace that is emitted again is remembered by its last emission.
    """

    def __init__(self, remember_ms: int, max_remembered: int) -> None:
        self._remember_ms, self._max_remembered = remember_ms, max_remembered
        self._packed: dict[bytes, bytes] = {}
        self._order: deque[bytes] = deque()
        self._repeated: Counter[bytes] = Counter()
        """The number of emissions in the order that are followed by another one of the same trace."""
        self.first = 0
        """The number of the first emission that is remembered."""

    def __len__(self) -> int:
        return len(self._packed)

    @property
    def count(self) -> int:
        """The number of emissions so far."""
        return self.first + len(self._order)

    def get(self, trace_id: bytes, first_ms: int) -> EmittedTrace | None:
        """Return the emission of a trace, if spans with this first time come soon enough after it."""
        packed = self._packed.get(trace_id)
        if packed is None:
            return None
        emission = EmittedTrace.unpacked(packed)
        return emission if first_ms < emission.time_ms + self._remember_ms else None

    def add(self, trace_id: bytes, packed: bytes) -> None:
        """Add the next emission."""
        if trace_id in self._packed:
            self._repeated[trace_id] += 1
        self._packed[trace_id] = packed
        self._order.append(trace_id)

    def forget(self, floor_ms: int) -> int:
        """Forget the traces that are old enough, and the oldest ones beyond the maximum; return the number of those.

        Args:
            floor_ms: a time that no record which may still be read is before.
        """
        forgotten = 0
        while self._order:
            trace_id = self._order[0]
            is_expired = _HEAD.unpack_from(self._packed[trace_id])[0] + self._remember_ms <= floor_ms
            is_surplus = len(self._order) > self._max_remembered
            if not (is_expired or is_surplus or trace_id in self._repeated):
                break
            forgotten += self._drop() and not is_expired
        return forgotten

    def forget_before(self, first: int) -> None:
        """Forget the emissions before a number."""
        while self._order and self.first < first:
            self._drop()
        self.first = max(self.first, first)

    def _drop(self) -> bool:
        """Drop the first emission; return whether its trace is forgotten."""
        trace_id = self._order.popleft()
        self.first += 1
        if trace_id in self._repeated:
            self._repeated[trace_id] -= 1
            if not self._repeated[trace_id]:
                del self._repeated[trace_id]
            return False
        del self._packed[trace_id]
        return True
