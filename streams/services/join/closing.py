"""Closes one trace: its interactions or the reason why it gives none, as emissions, counts and a line of the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from ragweir.errors import ErrorClass, Rejected
from ragweir.schemas.codec.json import encode
from ragweir.schemas.dead_letter import HEAD_BYTES
from ragweir.schemas.interaction import Assembly, AssemblyFlag, Interaction
from ragweir.streams.runtime.emissions import add_dead_letter, cloud_event
from ragweir.streams.runtime.records import Count, Emission, Outcome, Record, TopicPartition
from ragweir.streams.services.join.emitted import EmittedTrace, span_key
from ragweir.streams.services.join.open_traces import Cause, OpenTrace
from ragweir.streams.traces import interactions, wire
from ragweir.streams.traces.interactions import Assembled, Made
from ragweir.streams.traces.span import TraceLog, TraceSpan
from ragweir.streams.traces.wire import SpanHead

SERVICE = "join"
_FLAGS: tuple[AssemblyFlag, ...] = "attributes_cut", "spans_missed", "spans_missing", "incomplete", "several_roots"


class Assemble(Protocol):
    """Makes the interactions of one trace; see `ragweir.streams.traces.interactions.assemble`."""

    def __call__(self, spans: Sequence[TraceSpan], logs: Sequence[TraceLog], /, *, max_interactions: int) -> Assembled:
        """Return the interactions."""
        ...


@dataclass(frozen=True, slots=True)
class TraceReader:
    """The functions that read the values of `spans`, and make interactions of them."""

    heads: Callable[[bytes], Iterable[SpanHead]] = wire.heads
    read: Callable[[bytes], tuple[list[TraceSpan], list[TraceLog]]] = wire.read
    assemble: Assemble = interactions.assemble


@dataclass(slots=True)
class ClosingResult:
    """The result of closing a trace."""

    source: Record
    """The first record of the trace, without its value."""
    emissions: list[Emission] = field(default_factory=list)
    counts: Counter[Count] = field(default_factory=Counter)
    packed: bytes = b""
    """Its emission, packed; empty if it gave no interaction."""

    @property
    def size(self) -> int:
        """The size of the emissions."""
        return sum(len(each.value or b"") for each in self.emissions)

    def reject(self, reason: str) -> None:
        """Replace the emissions by one dead letter, since Kafka does not accept them."""
        self.emissions, self.counts = [], Counter()
        self.add_letter("refused", reason)

    def add_letter(self, error_class: ErrorClass, reason: str, key: bytes | None = None, index: int = 0) -> None:
        """Add a dead letter, which has no value."""
        record = self.source
        if key is not None:
            record = Record(record.topic, record.partition, record.offset, key, None, record.timestamp_ms)
        outcome = Outcome()
        add_dead_letter(outcome, SERVICE, record, error_class, reason, HEAD_BYTES, index)
        self.emissions += outcome.emissions
        self.counts += outcome.counts


class TraceCloser:
    """Closes traces.

    Args:
        reader: reads values and makes interactions.
        max_interactions: the most interactions of one trace.
        max_event_bytes: the size of the largest interaction.
    """

    def __init__(self, reader: TraceReader, max_interactions: int, max_event_bytes: int) -> None:
        self._reader, self._max_interactions, self._max_event_bytes = reader, max_interactions, max_event_bytes

    def close(
        self,
        trace: OpenTrace,
        cause: Cause,
        at: TopicPartition,
        now_ms: int,
        before: EmittedTrace | None,
        *,
        missed: bool,
    ) -> ClosingResult:
        """Return what a trace gives.

        Args:
            trace: the trace.
            cause: the reason why it is closed.
            at: the partition of `spans`.
            now_ms: the time of its emission.
            before: what it has emitted before; only spans that do not belong to that give interactions.
            missed: true if retention may have deleted some of its spans unread.
        """
        closed = ClosingResult(Record(*at, trace.first_offset, trace.trace_id.hex().encode(), None, trace.first_ms))
        closed.counts["ragweir_assemble_traces_total", cause] += 1
        spans, logs = self._read(trace, closed)
        if before is not None:
            new = new_spans(spans, before)
            closed.counts["ragweir_assemble_late_spans_total",] += _count_late(spans, new, before)
            ids = {span.span_id for span in new}
            spans, logs = new, [each for each in logs if each.span_id in ids]
            if not spans:
                closed.counts["ragweir_assemble_empty_total", "late"] += 1
                return closed
        assembled = self._assemble(spans, logs)
        known = set(before.roots) if before else set()
        made = [each for each in assembled.made if span_key(each.root_id) not in known]
        if not made:
            self._explain(trace, closed, assembled, len(spans), len(logs))
            return closed
        flags: set[AssemblyFlag] = set()
        flags |= {"incomplete"} if cause in {"deadline", "limit"} else set()
        flags |= {"spans_missing"} if trace.lacks_parents else set()
        flags |= {"spans_missed"} if missed else set()
        for index, each in enumerate(made):
            self._emit(closed, each, flags, trace, index)
        roots = [span_key(each.root_id) for each in made]
        parents = [span_key(each) for each in missing_parents(spans, [each.root_id for each in made])]
        closed.packed = (before or EmittedTrace(now_ms)).extended(now_ms, roots, parents).packed
        return closed

    def _read(self, trace: OpenTrace, closed: ClosingResult) -> tuple[list[TraceSpan], list[TraceLog]]:
        spans: list[TraceSpan] = []
        logs: list[TraceLog] = []
        for value in trace.values:
            try:
                own_spans, own_logs = self._reader.read(value)
            except Rejected as rejected:
                closed.add_letter(rejected.error_class, rejected.message)
                continue
            spans += own_spans
            logs += own_logs
        return spans, logs

    def _assemble(self, spans: Sequence[TraceSpan], logs: Sequence[TraceLog]) -> Assembled:
        if not spans:
            return Assembled((), ("no_genai",))
        return self._reader.assemble(spans, logs, max_interactions=self._max_interactions)

    @staticmethod
    def _explain(trace: OpenTrace, closed: ClosingResult, assembled: Assembled, spans: int, logs: int) -> None:
        """Count a trace without an interaction; one of a RAG application becomes a dead letter."""
        if not spans:
            closed.counts["ragweir_assemble_empty_total", "logs_only"] += 1
        elif assembled.made:
            closed.counts["ragweir_assemble_empty_total", "late"] += 1
        elif not assembled.gaps or "no_genai" in assembled.gaps:
            closed.counts["ragweir_assemble_empty_total", "no_genai"] += 1
        else:
            closed.counts["ragweir_assemble_empty_total", "no_root"] += 1
            closed.add_letter(
                "no_root",
                f"trace {trace.trace_id.hex()} has no interaction: {spans} spans and {logs} log records from offset "
                f"{trace.first_offset} on ({', '.join(assembled.gaps)})",
            )

    def _emit(self, closed: ClosingResult, made: Made, flags: set[AssemblyFlag], trace: OpenTrace, index: int) -> None:
        interaction = with_flags(made.interaction, flags)
        key = interaction.event_id.encode("utf-8", "replace")
        try:
            value = encode(interaction)
        except MemoryError:
            raise
        except Exception:  # A value that JSON does not have: one trace must not stop the stream.
            closed.add_letter("invalid", f"interaction {index} of the trace cannot be written as JSON", key, index)
            return
        if len(value) > self._max_event_bytes:
            reason = f"an interaction of {len(value)} bytes is over the limit of {self._max_event_bytes} bytes"
            closed.add_letter("too_large", reason, key, index)
            return
        time = interaction.ended_at or interaction.started_at or _time(trace.first_ms)
        headers = cloud_event(SERVICE, "interaction", interaction.event_id, time, "application/json")
        closed.emissions.append(Emission("interactions", key, value, headers))
        closed.counts["ragweir_assemble_interactions_total", "full" if not made.gaps else "partial"] += 1
        for gap in made.gaps:
            closed.counts["ragweir_assemble_gaps_total", gap] += 1


def with_flags(interaction: Interaction, flags: Iterable[AssemblyFlag]) -> Interaction:
    """Return an interaction with further flags of its assembly."""
    assembly = interaction.assembly or Assembly()
    every = {*assembly.flags, *flags}
    if every == set(assembly.flags):
        return interaction
    ordered = tuple(flag for flag in _FLAGS if flag in every)
    return interaction.model_copy(update={"assembly": assembly.model_copy(update={"flags": ordered})})


def new_spans(spans: Sequence[TraceSpan], before: EmittedTrace) -> list[TraceSpan]:
    """Return the spans of a trace that do not belong to the interactions it has emitted.

    These are the topmost spans whose parents are those of the emitted topmost spans, which have not come, and all spans
    below them. A span that is such a parent itself is left out.
    """
    roots, parents = set(before.roots), set(before.parents) - set(before.roots)
    by_id = {span.span_id: span for span in spans if span_key(span.span_id) not in parents}
    is_new: dict[str, bool] = {}
    for span in by_id.values():
        path: list[str] = []
        at: TraceSpan | None = span
        answer = False
        while at is not None:
            if at.span_id in is_new:
                answer = is_new[at.span_id]
                break
            path.append(at.span_id)
            is_new[at.span_id] = False  # In a circle of parents no span is new.
            key = span_key(at.span_id)
            if key in roots or at.parent_id is None:
                break
            above = by_id.get(at.parent_id)
            if above is None:
                answer = span_key(at.parent_id) in parents
            at = above
        is_new |= dict.fromkeys(path, answer)
    return [span for span in spans if is_new.get(span.span_id, False)]


def _count_late(spans: Sequence[TraceSpan], new: Sequence[TraceSpan], before: EmittedTrace) -> int:
    """Return the number of spans that came too late; the missing parents of emitted spans are expected."""
    parents = set(before.parents)
    ids = {span.span_id for span in spans if span_key(span.span_id) not in parents}
    return len(ids) - len({span.span_id for span in new})


def missing_parents(spans: Iterable[TraceSpan], roots: Iterable[str]) -> list[str]:
    """Return the parents that are not there of the topmost spans above some roots.

    Args:
        spans: the spans of a trace.
        roots: span ids, in order.
    """
    parent_of: Mapping[str, str | None] = {span.span_id: span.parent_id for span in spans}
    missing: dict[str, None] = {}
    for root in roots:
        at: str | None = root
        seen: set[str] = set()
        while at is not None and at in parent_of and at not in seen:
            seen.add(at)
            at = parent_of[at]
        if at is not None and at not in parent_of and at != root:
            missing[at] = None
    return list(missing)


def _time(time_ms: int) -> datetime:
    """Return a time; dates end with the year 9999."""
    return datetime.fromtimestamp(max(0, min(time_ms, 2**43)) / 1000, UTC)
