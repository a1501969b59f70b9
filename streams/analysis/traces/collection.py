"""Collects the export requests of files or of a sample by trace, and assembles each trace as `join` does.

Unlike `join` it has all requests before it assembles the first trace, so that no time limit applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Self

from ragweir.errors import Rejected
from ragweir.schemas.codec.json import encode
from ragweir.schemas.interaction import Assembly, Interaction
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import AssembleSettings
from ragweir.streams.traces.interactions import Assembled, assemble
from ragweir.streams.traces.span import TraceLog, TraceSpan
from ragweir.streams.traces.wire import Slice, read, slices

_MEMORY_BYTES = 32 * 1024 * 1024
"""Size of the spans that are kept in memory; beyond it all are in a temporary file."""


@dataclass(frozen=True, slots=True)
class CollectedTrace:
    """All spans and log records of one trace, and its interactions."""

    trace_id: str
    spans: tuple[TraceSpan, ...]
    logs: tuple[TraceLog, ...]
    assembled: Assembled
    cut: bool = False
    """True if spans were left out because of the limits on one trace."""

    @property
    def interactions(self) -> list[Interaction]:
        """The interactions of the trace."""
        found = [made.interaction for made in self.assembled.made]
        return [_incomplete(each) for each in found] if self.cut else found

    def records(self, topic: str, first: int, timestamp_ms: int | None = None) -> list[Record]:
        """Return the interactions in ragweir's JSON, as records of partition 0 from an offset on."""
        return [
            Record(topic, 0, offset, each.event_id.encode(), encode(each), timestamp_ms)
            for offset, each in enumerate(self.interactions, first)
        ]


def _incomplete(interaction: Interaction) -> Interaction:
    """Return an interaction with the flag `incomplete`."""
    assembly = interaction.assembly or Assembly()
    flags = tuple(dict.fromkeys((*assembly.flags, "incomplete")))
    return interaction.model_copy(update={"assembly": assembly.model_copy(update={"flags": flags})})


def assemble_trace(trace_id: str, values: Sequence[bytes], limits: AssembleSettings) -> CollectedTrace:
    """Assemble a trace of its slices, in the order in which they were read.

    Args:
        trace_id: the id of the trace.
        values: the slices; further ones are left out from the limit on spans or bytes of one trace on.
        limits: the limits.
    """
    spans: list[TraceSpan] = []
    logs: list[TraceLog] = []
    size, cut = 0, False
    for value in values:
        size += len(value)
        if size > limits.max_trace_bytes or len(spans) >= limits.max_spans:
            cut = True
            break
        try:
            more, further = read(value)
        except Rejected:  # No slice of `slices`; one of the topic `spans` may be anything.
            continue
        spans += (each for each in more if each.trace_id == trace_id)
        logs += (each for each in further if each.trace_id == trace_id)
    found = assemble(spans, logs, max_interactions=limits.max_interactions)
    return CollectedTrace(trace_id, tuple(spans), tuple(logs), found, cut)


class TraceCollection:
    """Traces by id, in the order of their first spans.

    The spans are held in their wire form, and in a temporary file if they take more than 32 MiB. Memory then holds the
    places of each trace, some hundred bytes, and the spans of the one trace that is assembled.

    Args:
        limits: limits on one trace.
    """

    def __init__(self, limits: AssembleSettings) -> None:
        self._limits = limits
        self._places: dict[str, list[tuple[int, int]]] = {}
        self._end = 0
        self._spool = SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115 - closed by `__exit__`

    def __enter__(self) -> Self:
        """Return itself; its temporary file is removed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        """Remove the temporary file."""
        self._spool.close()

    def __len__(self) -> int:
        """Return the number of traces."""
        return len(self._places)

    def add(self, value: bytes) -> list[Slice]:
        """Add an export request, and return its slices.

        Raises:
            Rejected: if it is none.
        """
        found = slices(value)
        self._spool.seek(self._end)
        for each in found:
            self._spool.write(each.value)
            self._places.setdefault(each.trace_id, []).append((self._end, len(each.value)))
            self._end += len(each.value)
        return found

    def __iter__(self) -> Iterator[CollectedTrace]:
        """Yield the traces, assembled."""
        for trace_id, places in self._places.items():
            values = []
            for start, length in places:
                self._spool.seek(start)
                values.append(self._spool.read(length))
            yield assemble_trace(trace_id, values, self._limits)
