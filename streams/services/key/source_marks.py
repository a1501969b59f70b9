"""The marks that `key` writes: the times up to which it has read the partitions of its sources."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping

from typing_extensions import override

from ragweir.schemas.assembly import ClockMark, SourceMark
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.agent_parts import InputProgress
from ragweir.streams.runtime.records import Count, Emission, Outcome, Record, TopicPartition
from ragweir.streams.services.key.source_clock import SourceClock

SPANS = "spans"
"""The output that has the marks, to each of its partitions."""
_MARK_INTERVAL_S = 0.2
"""Time between two marks."""
_GONE_MS = 10_000
"""Time for which a source has not existed after which the clock of `join` waits for it no longer: a broker may not know
a topic for a moment."""
_MARK_TIME = "ragweir_assemble_mark_timestamp_seconds"
_TIME = re.compile("[0-9]{1,15}")
"""A note: the time of a clock, in epoch milliseconds."""


class SourceMarks(InputProgress):
    """Keeps the clocks of the held partitions, and emits them as marks."""

    def __init__(self) -> None:
        self._now_ms = 0
        """The current time, beyond which no timestamp counts."""
        self._sources: dict[str, int] = {}
        """The partition count of each source."""
        self._gone_ms: dict[str, int] = {}
        """The sources that do not exist any more, with the times at which that was found."""
        self._targets = 0
        """The partition count of `spans`; 0 while it is unknown."""
        self._clocks: dict[TopicPartition, SourceClock] = {}
        """The clocks of the held partitions, as they are committed."""
        self._read: defaultdict[TopicPartition, list[int]] = defaultdict(list)
        """The timestamps that were read in this transaction."""
        self._confirmed_ms: dict[TopicPartition, int] = {}
        """The times of ends that were confirmed in this transaction."""
        self._pending: dict[TopicPartition, SourceClock] = {}
        """The clocks after this transaction."""
        self._marked: ClockMark | None = None
        """The newest mark; None if one is due in any case."""
        self._marked_s = self._pending_s = 0.0
        self._pending_mark: ClockMark | None = None
        self._removed_gauges: set[Count] = set()

    def advance(self, record: Record) -> None:
        """Add the timestamp of a record that was read, unless it is in the future."""
        is_held = record.topic_partition in self._clocks
        if is_held and record.timestamp_ms is not None and 0 <= record.timestamp_ms <= self._now_ms:
            self._read[record.topic_partition].append(record.timestamp_ms)

    def time_ms(self, record: Record) -> int:
        """Return the time of a record: no earlier than the marks before it, whatever the producer's clock is."""
        clock_ms = self._clocks.get(record.topic_partition, SourceClock()).time_ms or 0
        has_time = record.timestamp_ms is not None and record.timestamp_ms >= 0
        return max(clock_ms, min(record.timestamp_ms or 0, self._now_ms) if has_time else self._now_ms)

    @override
    def on_time(self, now_s: float) -> None:
        self._now_ms = int(now_s * 1000)

    @override
    def to_confirm(self, held: Collection[TopicPartition]) -> Collection[TopicPartition]:
        return held

    @override
    def on_ends(self, confirmed: Mapping[TopicPartition, float]) -> None:
        self._confirmed_ms |= {partition: int(time_s * 1000) for partition, time_s in confirmed.items()}

    @property
    @override
    def counted_outputs(self) -> tuple[str, ...]:
        return (SPANS,)

    @override
    def on_partition_counts(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        """Take the partition counts. A topic that is missing for a moment keeps its count, and holds the clock."""
        gone = self._sources.keys() - inputs.keys()
        self._gone_ms = {topic: self._gone_ms.get(topic, self._now_ms) for topic in gone}
        sources, targets = {**self._sources, **inputs}, outputs.get(SPANS, self._targets)
        if (sources, targets) != (self._sources, self._targets):
            self._sources, self._targets, self._marked = sources, targets, None

    def emit(self, now_s: float) -> Outcome:
        """Return a mark for each partition of `spans`, if there is progress and the last one is some time ago."""
        outcome = Outcome()
        now_ms = int(now_s * 1000)
        self._drop_gone(now_ms)
        self._pending = {
            partition: clock.advance(self._read.get(partition, ()), self._confirmed_ms.get(partition), now_ms)
            for partition, clock in self._clocks.items()
        }
        self._read.clear()
        self._confirmed_ms = {}
        if self._marked is not None and 0 <= now_s - self._marked_s < _MARK_INTERVAL_S:
            return outcome
        mark = self._mark()
        if not (mark.marks and self._targets) or mark == self._marked:
            return outcome
        self._pending_mark, self._pending_s = mark, now_s
        value = mark.model_dump_json().encode()
        outcome.emissions += [Emission(SPANS, None, value, (), target) for target in range(self._targets)]
        outcome.counts["ragweir_assemble_marks_total",] += 1
        for each in mark.marks:
            outcome.levels[_MARK_TIME, each.topic, str(each.partition)] = each.time_ms / 1000
        return outcome

    def _drop_gone(self, now_ms: int) -> None:
        """Let the clock of join go on without the sources that have not existed for a while."""
        for topic in [topic for topic, since_ms in self._gone_ms.items() if now_ms - since_ms >= _GONE_MS]:
            del self._gone_ms[topic], self._sources[topic]
            self._marked = None

    def _mark(self) -> ClockMark:
        marks = [
            SourceMark(topic=topic, partition=partition, time_ms=clock.time_ms, caught_up=clock.caught_up)
            for (topic, partition), clock in sorted(self._pending.items())
            if clock.time_ms is not None and topic in self._sources
        ]
        return ClockMark(sources=dict(self._sources), marks=tuple(marks))

    def on_commit(self) -> None:
        """Keep the clocks and the mark of the transaction."""
        self._clocks |= self._pending
        if self._pending_mark is not None:
            self._marked, self._marked_s = self._pending_mark, self._pending_s
        self.on_abort()

    def on_abort(self) -> None:
        """Forget the transaction."""
        self._read.clear()
        self._confirmed_ms, self._pending, self._pending_mark = {}, {}, None

    # Partitions.

    def add(self, assignment: Assignment) -> None:
        """Add a partition; its clock goes on from the last owner's, which is the note of the offset."""
        partition, note = assignment.topic_partition, assignment.note
        self._clocks[partition] = SourceClock(int(note) if _TIME.fullmatch(note) else None)
        self._removed_gauges.discard((_MARK_TIME, partition[0], str(partition[1])))

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Remove partitions."""
        for topic, partition in partitions:
            self._clocks.pop((topic, partition), None)
            self._removed_gauges.add((_MARK_TIME, topic, str(partition)))

    @override
    def note(self, topic_partition: TopicPartition) -> str:
        """Return the time of the partition's clock."""
        clock = self._pending.get(topic_partition) or self._clocks.get(topic_partition)
        return "" if clock is None or clock.time_ms is None else str(clock.time_ms)

    def removed_gauges(self) -> set[Count]:
        """Return the gauges of partitions that were removed since the last call."""
        removed, self._removed_gauges = self._removed_gauges, set()
        return removed
