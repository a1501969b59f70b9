"""The outputs that join has to write for a log of spans, computed plainly: no batches, restarts, heap or packing.

All traces that were ever emitted are kept, and all open traces are looked through before each record.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args

from small_spans import READER

from ragweir.errors import Rejected
from ragweir.schemas.codec.json import encode
from ragweir.schemas.interaction import Assembly, AssemblyFlag
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.join.closing import TraceReader
from ragweir.streams.services.join.open_traces import SPAN_BYTES, TRACE_BYTES
from ragweir.streams.settings import AssembleSettings

Written = tuple[str, str, bytes]
"""The topic; the key, or the class of a dead letter with its source offset; and the value."""


FLAGS = get_args(AssemblyFlag)


@cache
def heads_of(value: bytes, reader: TraceReader) -> list[Any]:
    return list(reader.heads(value))


@dataclass
class Trace:
    first: int
    reader: TraceReader
    times: list[int] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)

    @property
    def heads(self) -> list[Any]:
        return [head for value in self.values for head in heads_of(value, self.reader)]

    @property
    def lacking(self) -> set[str]:
        return {h.parent_id for h in self.heads if h.parent_id and not h.remote_parent} - {
            h.span_id for h in self.heads
        }

    def due(self, settings: AssembleSettings) -> tuple[int, str]:
        has_root = any(head.parent_id is None or head.remote_parent for head in self.heads)
        quiet_s = settings.settle_s if has_root and not self.lacking else settings.patience_s
        quiet = max(self.times) + 1000 * quiet_s
        deadline = min(self.times) + 1000 * settings.deadline_s
        return (round(deadline), "incomplete") if deadline < quiet else (round(quiet), "")


def joined(  # noqa: C901, PLR0915 - one piece, to be read from top to bottom
    log: Sequence[Record],
    settings: AssembleSettings,
    max_event_bytes: int = 1024 * 1024,
    reader: TraceReader = READER,
) -> list[Written]:
    """Return what join writes for the log of one partition, in order."""
    written: list[Written] = []
    traces: dict[bytes, Trace] = {}
    marks: dict[tuple[str, int], int] = {}
    emissions: list[tuple[bytes, int, set[str], set[str]]] = []
    clock = 0
    sizes = [(record.offset, len(record.value or b"")) for record in log]

    def closing() -> tuple[bytes, str] | None:
        by_age = sorted(traces, key=lambda each: traces[each].first)
        for key in by_age:
            trace = traces[key]
            if len(trace.heads) > settings.max_spans or sum(map(len, trace.values)) > settings.max_trace_bytes:
                return key, "incomplete"
        if by_age:
            behind = sum(size for at, size in sizes if traces[by_age[0]].first <= at < position)
            held = sum(len(value) for trace in traces.values() for value in trace.values)
            held += sum(TRACE_BYTES + SPAN_BYTES * len(trace.heads) for trace in traces.values())
            if held > settings.max_held_bytes or behind > settings.max_behind_bytes:
                return by_age[0], "incomplete"
        due = [(trace.due(settings)[0], trace.first, key) for key, trace in traces.items()]
        ready = min((each for each in due if each[0] <= clock), default=None)
        return (ready[2], traces[ready[2]].due(settings)[1]) if ready else None

    def close(key: bytes, flag: str) -> None:
        trace = traces.pop(key)
        spans = [span for value in trace.values for span in reader.read(value)[0]]
        logs = [each for value in trace.values for each in reader.read(value)[1]]
        remembered = [each for each in emissions[-settings.max_remembered :] if each[0] == key]
        before = remembered and min(trace.times) < remembered[-1][1] + 1000 * settings.remember_s
        roots: set[str] = set()
        parents: set[str] = set()
        if before:
            _, _, roots, parents = remembered[-1]
            spans = unclaimed(spans, roots, parents - roots)
            logs = [each for each in logs if any(span.span_id == each.span_id for span in spans)]
        if not spans:
            return
        result = reader.assemble(spans, logs, max_interactions=settings.max_interactions)
        made = [each for each in result.made if each.root_id not in roots]
        if not result.made and "no_genai" not in result.gaps:
            written.append(("dead-letter", f"no_root {trace.first}", b""))
        if not made:
            return
        own_flags = {flag, "spans_missing" if trace.lacking else ""}
        for each in made:
            assert each.interaction.assembly
            flags = tuple(one for one in FLAGS if one in {*own_flags, *each.interaction.assembly.flags})
            assembly = Assembly(**{**each.interaction.assembly.model_dump(), "flags": flags})
            value = encode(each.interaction.model_copy(update={"assembly": assembly}))
            if len(value) > max_event_bytes:
                written.append(("dead-letter", f"too_large {trace.first}", b""))
            else:
                written.append(("interactions", each.interaction.event_id, value))
        by_id = {span.span_id: span for span in spans}
        tops = set()
        for each in made:
            top: str | None = each.root_id
            while top in by_id:
                top = by_id[top].parent_id
            tops |= {top} - {each.root_id, None}
        own = {each.root_id for each in made}
        emissions.append((key, max([clock, *trace.times]), roots | own, parents | {top for top in tops if top}))

    for record in log:
        position = record.offset
        while found := closing():
            close(*found)
        try:
            if record.key is None:
                mark = json.loads(record.value or b"")
                for each in mark["marks"]:
                    at = each["topic"], each["partition"]
                    marks[at] = max(marks.get(at, 0), each["time_ms"])
                if len(marks) == sum(mark["sources"].values()):
                    clock = max(clock, min(marks.values()))
                continue
            heads_of(record.value or b"", reader)
            time = int(record.headers[0][1] or b"")
            if not re.fullmatch(b"[0-9a-f]{32}", record.key) or not 0 <= time < 2**53:
                raise ValueError  # noqa: TRY301
        except (ValueError, KeyError, Rejected, IndexError) as error:
            error_class = error.error_class if isinstance(error, Rejected) else "invalid"
            written.append(("dead-letter", f"{error_class} {record.offset}", record.value or b""))
            continue
        trace = traces.setdefault(record.key, Trace(record.offset, reader))
        trace.times.append(time)
        if record.value not in trace.values:
            trace.values.append(record.value or b"")
    position = log[-1].offset + 1
    while found := closing():
        close(*found)
    return written


def unclaimed(spans: Sequence[Any], roots: set[str], parents: set[str]) -> list[Any]:
    """Return the spans under missing parents of emitted spans that are under no emitted root."""
    below = [span for span in spans if span.span_id not in parents]
    by_id = {span.span_id: span for span in below}
    new: set[str] = set()
    while True:
        more = {
            span.span_id
            for span in by_id.values()
            if span.span_id not in roots and (span.parent_id in new or span.parent_id in parents)
        }
        if more == new:
            return [span for span in below if span.span_id in new]
        new = more
