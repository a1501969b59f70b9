"""The story of one trace: its spans as a tree, and the use of each."""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from ragweir.errors import Rejected
from ragweir.schemas.assembly import AssemblyEntry
from ragweir.schemas.interaction import Span
from ragweir.streams.analysis.traces.collection import assemble_trace
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.join.ledger import unpacked_closings
from ragweir.streams.settings import AssembleSettings
from ragweir.streams.traces.gaps import Gap
from ragweir.streams.traces.span import TraceSpan
from ragweir.streams.traces.wire import read

LATE = "late"
"""The use of a span that came after the interactions of its trace: none."""
_ID = re.compile(r"([0-9a-f]{32})(?::[0-9a-f]{16})?")


def trace_id_of(event_id: str) -> str | None:
    """Return the trace id of an assembled interaction's id, or of a trace id alone; None for any other id.

    >>> trace_id_of("0af7651916cd43dd8448eb211c80319c:b7ad6b7169203331")
    '0af7651916cd43dd8448eb211c80319c'
    >>> trace_id_of("order-1")
    """
    found = _ID.fullmatch(event_id)
    return found[1] if found else None


@dataclass(frozen=True, slots=True)
class SpanStory:
    """One span of a trace."""

    span: TraceSpan
    depth: int
    """Number of its ancestors that came."""
    use: str
    """Its use: a fate, or `LATE`."""
    kind: str | None
    """Its kind in an interaction."""
    name: str
    """Name of its tool, model or API in an interaction, or else its own."""
    position: str
    """Topic, partition and offset of its record."""
    copies: int
    """Number of spans with this id that came."""
    has_parent: bool
    """True if its parent came, or it has none."""


@dataclass(slots=True)
class TraceStory:
    """Everything that the topic `spans` holds of one trace."""

    trace_id: str
    spans: list[SpanStory] = field(default_factory=list)
    """The spans, each before its children, in the order of their beginnings."""
    records: int = 0
    """Number of records of the trace."""
    logs: int = 0
    """Number of log records of the trace."""
    interactions: tuple[str, ...] = ()
    """Event ids of the interactions of the spans that were not late."""
    gaps: tuple[Gap, ...] = ()
    """The reasons why they are not full, or there is none."""
    whole: bool = True
    """False if older records of the partition were not searched."""
    closed: bool = False
    """True if the ledger of `join` has the trace: it gave its interactions, or none."""
    deleted: bool = False
    """True if retention has deleted records of the partition."""

    @property
    def began_ns(self) -> int:
        """The beginning of the first span, in epoch nanoseconds; 0 without spans."""
        return min((each.span.started_ns for each in self.spans), default=0)

    @property
    def late(self) -> int:
        """Number of spans that came after the interactions."""
        return sum(each.use == LATE for each in self.spans)


def read_to(trace_id: str, ledger: Iterable[Record]) -> int | None:
    """Return the offset of the record before which a trace was closed last; None if the ledger has it not.

    Args:
        trace_id: the id of the trace.
        ledger: records of its partition of the topic `assembly`, in order.
    """
    found, wanted = None, bytes.fromhex(trace_id)
    for record in ledger:
        try:
            entry = AssemblyEntry.model_validate_json(record.value or b"")
            closings = list(unpacked_closings(b64decode(entry.emitted), entry.next))
        except (ValidationError, ValueError, struct.error):  # Whatever it is, `join` judges it.
            continue
        found = next((each.read_to for each in reversed(closings) if each.trace_id == wanted), found)
    return found


def trace_story(
    trace_id: str, records: Sequence[Record], limits: AssembleSettings, late_from: int | None = None
) -> TraceStory:
    """Return the story of a trace.

    Args:
        trace_id: its id.
        records: its records of the topic `spans`, in order.
        limits: limits on one trace.
        late_from: offset of the first record that came after the trace was closed; None if it is not known to be.
    """
    in_time = [each for each in records if not _is_late(each, late_from)]
    trace = assemble_trace(trace_id, [each.value or b"" for each in in_time], limits)
    story = TraceStory(trace_id, records=len(records), logs=len(trace.logs), closed=late_from is not None)
    story.interactions = tuple(each.event_id for each in trace.interactions)
    gaps = (*trace.assembled.gaps, *(gap for made in trace.assembled.made for gap in made.gaps))
    story.gaps = tuple(dict.fromkeys(gaps))
    steps = {step.id: step for each in trace.interactions for step in each.spans or () if step.id}
    came: dict[str, list[tuple[TraceSpan, Record]]] = {}
    for record in records:
        for span in _spans(record, trace_id):
            came.setdefault(span.span_id, []).append((span, record))
    story.spans = list(_tree(came, steps, trace.assembled.fates, late_from))
    return story


def _is_late(record: Record, late_from: int | None) -> bool:
    return late_from is not None and record.offset >= late_from


def _spans(record: Record, trace_id: str) -> Iterator[TraceSpan]:
    try:
        spans, _ = read(record.value or b"")
    except Rejected:
        return
    yield from (span for span in spans if span.trace_id == trace_id)


def _tree(
    came: Mapping[str, Sequence[tuple[TraceSpan, Record]]],
    steps: Mapping[str, Span],
    fates: Mapping[str, str],
    late_from: int | None,
) -> Iterator[SpanStory]:
    """Yield the spans, each before its children. Of repeated ids the one that counts is shown."""
    shown: dict[str, tuple[TraceSpan, Record]] = {}
    for span_id, copies in came.items():
        in_time = [each for each in copies if not _is_late(each[1], late_from)]
        shown[span_id] = max(in_time or copies, key=lambda each: each[0].ended_ns)
    children: dict[str | None, list[str]] = {}
    for span_id, (span, _) in sorted(shown.items(), key=lambda each: (each[1][0].started_ns, each[0])):
        children.setdefault(span.parent_id if span.parent_id in shown else None, []).append(span_id)
    done: set[str] = set()
    # A span that is its own ancestor is below no top; what is left over is shown as if it were one.
    for top in (*children.get(None, ()), *shown):
        waiting = [(top, 0)]
        while waiting:
            span_id, depth = waiting.pop()
            if span_id in done:
                continue
            done.add(span_id)
            span, record = shown[span_id]
            step = steps.get(span_id)
            yield SpanStory(
                span,
                depth,
                LATE if _is_late(record, late_from) else fates.get(span_id, "ignored"),
                step.kind if step else None,
                (step.name if step else None) or span.name,
                f"{record.topic}/{record.partition}/{record.offset}",
                len(came[span_id]),
                span.parent_id is None or span.parent_id in shown,
            )
            waiting += [(child, depth + 1) for child in reversed(children.get(span_id, ()))]
