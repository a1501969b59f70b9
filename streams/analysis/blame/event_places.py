"""The places at which events were read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from typing_extensions import override

from ragweir.streams.analysis.blame.rows_line import Column


class EventPlaces(Sequence[str]):
    """The places at which events were read, as `TOPIC/PARTITION/OFFSET/INDEX`, made when they are asked for."""

    def __init__(self, sources: Sequence[tuple[str, int]], source: Column, offset: Column, index: Column) -> None:
        self._sources, self._source, self._offset, self._index = sources, source, offset, index

    @override
    def __len__(self) -> int:
        return len(self._source)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    @override
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        topic, partition = self._sources[self._source[place]]
        return f"{topic}/{partition}/{self._offset[place]}/{self._index[place]}"
