"""A sample of the records of topics of OpenTelemetry data, assembled, with the facts about its exporter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from ragweir.errors import Rejected
from ragweir.streams.analysis.traces.collection import TraceCollection
from ragweir.streams.analysis.traces.exporter import ExporterFacts
from ragweir.streams.analysis.traces.trace_report import TraceReport
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import AssembleSettings


@dataclass(slots=True)
class TraceSample:
    """The traces of a sample."""

    report: TraceReport = field(default_factory=TraceReport)
    """Counts of the traces that are whole in the sample; of all of them if none is."""
    facts: ExporterFacts = field(default_factory=ExporterFacts)
    rejections: list[Rejected] = field(default_factory=list)
    """The reasons of the records that are no export request."""
    interactions: list[Record] = field(default_factory=list)
    """The interactions of the counted traces, as records with the newest timestamps of their traces' records."""
    delays_s: list[float] = field(default_factory=list)
    """Seconds from the end of the last span of each counted trace to the newest timestamp of its records."""
    left_out: int = 0
    """Number of traces that are not counted, as they may lack spans."""

    @classmethod
    def of(
        cls,
        records: Sequence[Record],
        limits: AssembleSettings,
        *,
        has_older: bool = False,
        now_ms: int | None = None,
        done: Callable[[int], object] = lambda _: None,
    ) -> Self:
        """Assemble the traces of some records.

        Args:
            records: the records.
            limits: limits on one trace, and the time for which its spans may be apart.
            has_older: true if there are older records, which may hold spans of these traces.
            now_ms: present time in epoch milliseconds; None if no further record can follow.
            done: called with 1 for each record.
        """
        sample = cls()
        times = [record.timestamp_ms for record in records if record.timestamp_ms is not None]
        with TraceCollection(limits) as collection:
            for record in records:
                try:
                    sample.facts.add(record, collection.add(record.value or b""))
                except Rejected as rejected:
                    sample.rejections.append(rejected)
                done(1)
            edges = sample.facts.edges(min(times, default=None) if has_older else None, now_ms, 1_000 * limits.settle_s)
            if len(edges) == len(collection):
                edges = frozenset()
            sample.left_out = len(edges)
            for trace in collection:
                if trace.trace_id not in edges:
                    sample.report.add(trace)
                    newest_ms = sample.facts.traces[trace.trace_id].last_ms
                    if newest_ms is not None and trace.spans:
                        ended_ns = max(span.ended_ns for span in trace.spans)
                        sample.delays_s.append(newest_ms / 1e3 - ended_ns / 1e9)
                    sample.interactions += trace.records("interactions", len(sample.interactions), newest_ms)
        return sample
