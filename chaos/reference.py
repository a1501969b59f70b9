"""The batch reference of join: the outputs for a whole log of spans, computed plainly: no batches, restarts or heap.

All traces that were ever emitted are kept, and all open traces are looked through before each record. It imports
nothing of the product: the functions that read spans, and make interactions of them, are given to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Written = tuple[str, str, bytes]
"""The topic; the key, or the class of a dead letter with its source offset; and the value."""
_TRACE_BYTES, _SPAN_BYTES = 2_048, 256
"""Memory that counts for an open trace, and for each of its spans, besides their values."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The functions that read the values of `spans`, and make interactions of them."""

    heads: Callable[[bytes], Iterable[Any]]
    read: Callable[[bytes], tuple[Sequence[Any], Sequence[Any]]]
    assemble: Callable[..., Any]
    encode: Callable[[Any, Collection[str]], bytes]
    """Encodes an interaction with further flags of its assembly."""


@dataclass(slots=True)
class _OpenSpans:
    """An open trace."""

    first: int
    """Offset of its first record."""
    read_before: int
    """Bytes of the log before it."""
    times: list[int] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    heads: list[Any] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    """The parents in the same process that have not come."""
    due: float = 0
    flag: str = ""
    size: int = 0

    def add(self, time: int, value: bytes, heads: Iterable[Any], settings: Any) -> None:
        """Add a record."""
        self.times.append(time)
        if value not in self.values:
            self.values.append(value)
            self.heads += heads
            self.size += len(value)
        named = {head.parent_id for head in self.heads if head.parent_id and not head.remote_parent}
        self.missing = named - {head.span_id for head in self.heads}
        has_root = any(head.parent_id is None or head.remote_parent for head in self.heads)
        quiet_s = settings.settle_s if has_root and not self.missing else settings.patience_s
        quiet, deadline = max(self.times) + 1000 * quiet_s, min(self.times) + 1000 * settings.deadline_s
        self.due, self.flag = (round(deadline), "incomplete") if deadline < quiet else (round(quiet), "")

    @property
    def held(self) -> int:
        """The memory that counts for it."""
        return self.size + _TRACE_BYTES + _SPAN_BYTES * len(self.heads)


def joined(  # noqa: C901, PLR0915 (one piece, to be read from top to bottom)
    log: Sequence[Any], settings: Any, reading: Reading, max_event_bytes: int = 1024 * 1024
) -> list[Written]:
    """Return the outputs of join for the log of one partition, in order.

    Args:
        log: the committed records, each with `offset`, `key`, `value` and `headers`.
        settings: the settings `assemble`.
        reading: the functions for the spans in it.
        max_event_bytes: the largest interaction that Kafka accepts.
    """
    written: list[Written] = []
    traces: dict[bytes, _OpenSpans] = {}
    """The open traces, oldest first."""
    marks: dict[tuple[str, int], int] = {}
    emissions: list[tuple[int, set[str], set[str]]] = []
    newest: dict[bytes, int] = {}
    """Index of the newest emission of each trace."""
    clock = read = 0

    def closing() -> tuple[bytes, str] | None:
        for key, trace in traces.items():
            if len(trace.heads) > settings.max_spans or trace.size > settings.max_trace_bytes:
                return key, "incomplete"
        for oldest, trace in [*traces.items()][:1]:
            held, behind = sum(each.held for each in traces.values()), read - trace.read_before
            if held > settings.max_held_bytes or behind > settings.max_behind_bytes:
                return oldest, "incomplete"
        due = ((trace.due, trace.first, key, trace.flag) for key, trace in traces.items() if trace.due <= clock)
        ready = min(due, default=None)
        return (ready[2], ready[3]) if ready else None

    def close(key: bytes, flag: str) -> None:
        trace = traces.pop(key)
        contents = [reading.read(value) for value in trace.values]
        spans = [span for own, _ in contents for span in own]
        logs = [each for _, own in contents for each in own]
        roots: set[str] = set()
        parents: set[str] = set()
        before = newest.get(key, -1)
        if before >= max(0, len(emissions) - settings.max_remembered):
            emitted_ms, its_roots, its_parents = emissions[before]
            if min(trace.times) < emitted_ms + 1000 * settings.remember_s:
                roots, parents = its_roots, its_parents
                spans = _unclaimed(spans, roots, parents - roots)
                logs = [each for each in logs if any(span.span_id == each.span_id for span in spans)]
        if not spans:
            return
        result = reading.assemble(spans, logs, max_interactions=settings.max_interactions)
        made = [each for each in result.made if each.root_id not in roots]
        if not result.made and "no_genai" not in result.gaps:
            written.append(("dead-letter", f"no_root {trace.first}", b""))
        if not made:
            return
        for each in made:
            value = reading.encode(each.interaction, {flag, "spans_missing" if trace.missing else ""})
            if len(value) > max_event_bytes:
                written.append(("dead-letter", f"too_large {trace.first}", b""))
            else:
                written.append(("interactions", each.interaction.event_id, value))
        above = {span.span_id: span.parent_id for span in spans}
        tops = set()
        for each in made:
            top: str | None = each.root_id
            while top in above:
                top = above[top]
            tops |= {top} - {each.root_id, None}
        newest[key] = len(emissions)
        own = roots | {each.root_id for each in made}
        emissions.append((max([clock, *trace.times]), own, parents | {top for top in tops if top}))

    for record in log:
        while found := closing():
            close(*found)
        value = record.value or b""
        read_before, read = read, read + len(value)
        try:
            if record.key is None:
                mark = json.loads(value)
                for each in mark["marks"]:
                    at = each["topic"], each["partition"]
                    marks[at] = max(marks.get(at, 0), each["time_ms"])
                if mark["marks"]:
                    # A source that was deleted counts no longer.
                    marks = {at: time for at, time in marks.items() if at[1] < mark["sources"].get(at[0], 0)}
                if mark["marks"] and len(marks) == sum(mark["sources"].values()):
                    clock = max(clock, min(marks.values()))
                continue
            heads = [*reading.heads(value)]
            time = int(dict(record.headers)["ragweir-time"] or b"")
            if not re.fullmatch(b"[0-9a-f]{32}", record.key) or not 0 <= time < 2**53:
                raise ValueError  # noqa: TRY301
        except Exception as error:  # The value is no export request, or the record is none of key's.
            error_class = getattr(error, "error_class", "invalid")
            written.append(("dead-letter", f"{error_class} {record.offset}", value))
            continue
        traces.setdefault(record.key, _OpenSpans(record.offset, read_before)).add(time, value, heads, settings)
    while found := closing():
        close(*found)
    return written


def _unclaimed(spans: Sequence[Any], roots: set[str], parents: set[str]) -> list[Any]:
    """Return the spans under missing parents of emitted spans that are under no emitted root."""
    below = [span for span in spans if span.span_id not in parents]
    new: set[str] = set()
    while more := {
        span.span_id for span in below if span.span_id not in roots | new and span.parent_id in parents | new
    }:
        new |= more
    return [span for span in below if span.span_id in new]
