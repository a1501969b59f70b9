"""The batch reference of join: what has to be written for a whole partition of `spans`, trace by trace.

It shares the pure functions that read spans and make interactions with the product, and nothing of join: no queue of
timers, no batches, no state that is stored and restored. It knows neither limits of size nor forgotten traces, which
its runs do not reach.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import get_args

from ragweir.schemas.assembly import HEADER_TIME
from ragweir.schemas.codec.json import encode
from ragweir.schemas.interaction import Assembly, AssemblyFlag
from ragweir.streams.runtime.records import Emission, Record
from ragweir.streams.traces.interactions import assemble
from ragweir.streams.traces.span import TraceSpan
from ragweir.streams.traces.wire import heads, read


@dataclass(frozen=True, slots=True)
class TraceTimes:
    """Settings of assemble, in seconds."""

    settle_s: float
    patience_s: float
    deadline_s: float


@dataclass(slots=True)
class _Open:
    """The records of an open trace."""

    times: list[int] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)

    def missing(self) -> set[str]:
        """Return the parents in the same process that have not come."""
        every = [head for value in self.values for head in heads(value)]
        named = {head.parent_id for head in every if head.parent_id is not None and not head.remote_parent}
        return named - {head.span_id for head in every}

    def due(self, times: TraceTimes) -> tuple[float, bool]:
        """Return the time at which it is closed, and true if that is its deadline."""
        has_root = any(h.parent_id is None or h.remote_parent for value in self.values for h in heads(value))
        quiet_s = times.settle_s if has_root and not self.missing() else times.patience_s
        quiet, deadline = max(self.times) + 1_000 * quiet_s, min(self.times) + 1_000 * times.deadline_s
        return min(quiet, deadline), deadline < quiet


def joined(log: Sequence[Record], times: TraceTimes) -> Iterator[Emission]:
    """Yield the interactions and dead letters of a partition, trace by trace.

    A trace is closed before the first record that finds the clock at its due time. Only its own records matter: any
    other in between changes neither its content nor when it is due.

    Args:
        log: all committed records, in order.
        times: the settings.
    """
    clocks = list(_clocks(log))
    traces: defaultdict[bytes, list[int]] = defaultdict(list)
    for place, record in enumerate(log):
        if record.key is not None:
            traces[record.key].append(place)
    for key, places in traces.items():
        yield from _trace(key, [(log[place], clocks[place]) for place in places], clocks[-1], times)


def _clocks(log: Sequence[Record]) -> Iterator[int]:
    """Yield the clock before each record, and after the last one."""
    marks: dict[tuple[str, int], int] = {}
    clock = 0
    for record in log:
        yield clock
        if record.key is None:
            mark = json.loads(record.value or b"")
            for each in mark["marks"]:
                at = each["topic"], each["partition"]
                marks[at] = max(marks.get(at, 0), each["time_ms"])
            if mark["marks"]:
                # A source that was deleted counts no longer.
                marks = {at: time for at, time in marks.items() if at[1] < mark["sources"].get(at[0], 0)}
            if mark["marks"] and len(marks) == sum(mark["sources"].values()):
                clock = max(clock, min(marks.values()))
    yield clock


def _trace(key: bytes, records: Sequence[tuple[Record, int]], last_clock: int, times: TraceTimes) -> Iterator[Emission]:
    """Yield what one trace gives."""
    emitted = _Emitted()
    trace = _Open()
    for record, clock in [*records, (None, last_clock)]:
        if trace.times and trace.due(times)[0] <= clock:
            yield from _closed(key, trace, times, emitted)
            trace = _Open()
        if record is not None:
            trace.times.append(int(dict(record.headers)[HEADER_TIME] or b""))
            trace.values.append(record.value or b"")


@dataclass(slots=True)
class _Emitted:
    """The emissions of a trace: the roots of its interactions, and the missing parents above them."""

    roots: set[str] = field(default_factory=set)
    parents: set[str] = field(default_factory=set)


def _closed(key: bytes, trace: _Open, times: TraceTimes, emitted: _Emitted) -> Iterator[Emission]:
    spans = [span for value in trace.values for span in read(value)[0]]
    if emitted.roots:
        spans = _new(spans, emitted)
    if not spans:
        return
    result = assemble(spans)
    made = [each for each in result.made if each.root_id not in emitted.roots]
    if not result.made and "no_genai" not in result.gaps:
        yield Emission("dead-letter", key, None, ())
    more = {"spans_missing"} if trace.missing() else set()
    more |= {"incomplete"} if trace.due(times)[1] else set()
    for each in made:
        assembly = each.interaction.assembly or Assembly()
        flags = tuple(flag for flag in get_args(AssemblyFlag) if flag in {*assembly.flags, *more})
        event = each.interaction.model_copy(update={"assembly": assembly.model_copy(update={"flags": flags})})
        yield Emission("interactions", event.event_id.encode(), encode(event), ())
    above = {span.span_id: span.parent_id for span in spans}
    emitted.roots |= {each.root_id for each in made}
    for each in made:
        at: str | None = each.root_id
        while at in above:
            at = above[at]
        emitted.parents |= {at} if at is not None else set()


def _new(spans: Collection[TraceSpan], emitted: _Emitted) -> list[TraceSpan]:
    """Return the spans below missing parents of emitted interactions, but for those below the interactions' roots."""
    waited = emitted.parents - emitted.roots
    below = [span for span in spans if span.span_id not in waited]
    new: set[str] = set()
    while more := {
        span.span_id for span in below if span.span_id not in emitted.roots | new and span.parent_id in waited | new
    }:
        new |= more
    return [span for span in below if span.span_id in new]
