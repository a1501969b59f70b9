"""The agent of `key`: it divides the records of OTLP topics by trace, and writes clock marks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from typing_extensions import override

from ragweir.errors import ErrorClass, Rejected
from ragweir.schemas.assembly import HEADER_SOURCE, HEADER_TIME, ClockMark, SourceMark
from ragweir.schemas.dead_letter import HEAD_BYTES
from ragweir.schemas.topics import max_record_bytes
from ragweir.schemas.traces.wire import Division, Slice, divide
from ragweir.streams.agent import Agent, Assignment
from ragweir.streams.assemble.key_clock import SourceClock
from ragweir.streams.emissions import add_dead_letter
from ragweir.streams.records import Count, Emission, Measurements, Outcome, Record, TopicPartition
from ragweir.streams.settings import AssembleSettings

_SERVICE = "key"
_SPANS = "spans"
_MARK_INTERVAL_S = 0.2
"""Time between two marks."""
_GONE_MS = 10_000
"""Time for which a source has not existed after which the clock of `join` waits for it no longer: a broker may not know
a topic for a moment."""
_ENVELOPE_BYTES = 2 * 1024
"""Size of a record without its value: key, headers, and the batch that it is in."""
_MARK_TIME = "ragweir_assemble_mark_timestamp_seconds"
_CLOCK_RECORD = Emission(_SPANS, None, ClockMark(sources={}, marks=()).model_dump_json().encode(), ())
_TIME = re.compile("[0-9]{1,15}")
"""A note: the time of a clock, in epoch milliseconds."""


class KeyAgent(Agent):
    """Copies OTLP records to `spans`, one record per source record and trace, and writes clock marks.

    Args:
        settings: the settings of assemble.
        max_event_bytes: the size of the largest event, from which that of records follows.
    """

    outputs = _SPANS, "dead-letter"

    def __init__(self, settings: AssembleSettings, max_event_bytes: int) -> None:
        self._settings, self._max_event_bytes = settings, max_event_bytes
        self._max_slice_bytes = max_record_bytes(max_event_bytes) - _ENVELOPE_BYTES
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

    @property
    @override
    def clock_record(self) -> Emission:
        """A mark of no partition: the marks of all workers follow the brokers' time."""
        return _CLOCK_RECORD

    # Records.

    @override
    def on_time(self, now_s: float) -> None:
        self._now_ms = int(now_s * 1000)

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Emit the slices of each record."""
        outcome = Outcome(settled=list(records))
        for record in records:
            self._advance(record, outcome)
            try:
                division = self._divide(record)
            except Rejected as rejected:
                self._bury(record, rejected.message, rejected.error_class, self._max_event_bytes, outcome)
            else:
                self._copy(record, division, outcome)
        return outcome

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Settle a record as a dead letter. See `Agent.dead_letter`."""
        outcome = Outcome(settled=[record])
        self._advance(record, outcome)
        self._bury(record, reason, error_class, HEAD_BYTES, outcome)
        return outcome

    def _advance(self, record: Record, outcome: Outcome) -> None:
        outcome.counts["ragweir_events_in_total",] += 1
        is_held = record.topic_partition in self._clocks
        if is_held and record.timestamp_ms is not None and 0 <= record.timestamp_ms <= self._now_ms:
            self._read[record.topic_partition].append(record.timestamp_ms)

    @staticmethod
    def _divide(record: Record) -> Division:
        if record.value is None:
            raise Rejected("tombstone", "the record has no value")
        try:
            return divide(record.value)
        except (MemoryError, Rejected):  # A lack of memory may not be the record's fault.
            raise
        except Exception as error:  # One record must not stop the stream.
            raise Rejected("unreadable", f"reading OTLP raised {type(error).__name__}") from None

    def _copy(self, record: Record, division: Division, outcome: Outcome) -> None:
        fitting = [each for each in division.slices if len(each.value) <= self._max_slice_bytes]
        if len(fitting) < len(division.slices):
            self._bury(record, self._too_large(division.slices), "too_large", self._max_event_bytes, outcome)
        # No earlier than the marks before it, whatever the producer's clock is.
        clock_ms = self._clocks.get(record.topic_partition, SourceClock()).time_ms or 0
        has_time = record.timestamp_ms is not None and record.timestamp_ms >= 0
        time_ms = max(clock_ms, min(record.timestamp_ms or 0, self._now_ms) if has_time else self._now_ms)
        source = f"{record.topic}/{record.partition}/{record.offset}"
        headers = (HEADER_TIME, b"%d" % time_ms), (HEADER_SOURCE, source.encode())
        outcome.emissions += [Emission(_SPANS, each.trace_id.encode(), each.value, headers) for each in fitting]
        signal = "logs" if division.has_logs else "traces"
        outcome.counts["ragweir_assemble_slices_total",] += len(fitting)
        outcome.counts["ragweir_assemble_items_total", signal] += sum(each.items for each in fitting)
        outcome.counts["ragweir_assemble_unjoinable_spans_total",] += division.unjoinable

    def _too_large(self, slices: Sequence[Slice]) -> str:
        sizes = [len(each.value) for each in slices if len(each.value) > self._max_slice_bytes]
        return (
            f"the spans of {len(sizes)} of its {len(slices)} traces take up to {max(sizes)} bytes, over the limit of "
            f"{self._max_slice_bytes} bytes that follows from limits.max_event_bytes; the other traces are copied"
        )

    @staticmethod
    def _bury(record: Record, reason: str, error_class: ErrorClass, max_bytes: int, outcome: Outcome) -> None:
        add_dead_letter(outcome, _SERVICE, record, error_class, reason, max_bytes)

    # Marks.

    @property
    @override
    def confirms_ends(self) -> bool:
        return True

    @override
    def on_ends(self, confirmed: Mapping[TopicPartition, float]) -> None:
        self._confirmed_ms |= {partition: int(time_s * 1000) for partition, time_s in confirmed.items()}

    @property
    @override
    def counted_outputs(self) -> tuple[str, ...]:
        return (_SPANS,)

    @override
    def on_partition_counts(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        """Take the partition counts. A topic that is missing for a moment keeps its count, and holds the clock."""
        gone = self._sources.keys() - inputs.keys()
        self._gone_ms = {topic: self._gone_ms.get(topic, self._now_ms) for topic in gone}
        sources, targets = {**self._sources, **inputs}, outputs.get(_SPANS, self._targets)
        if (sources, targets) != (self._sources, self._targets):
            self._sources, self._targets, self._marked = sources, targets, None

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:
        """Emit a mark to each partition of `spans`, if there is progress and the last one is some time ago."""
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
        outcome.emissions += [Emission(_SPANS, None, value, (), target) for target in range(self._targets)]
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

    @override
    def on_commit(self) -> None:
        self._clocks |= self._pending
        if self._pending_mark is not None:
            self._marked, self._marked_s = self._pending_mark, self._pending_s
        self._reset()

    @override
    def on_abort(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Forget the transaction."""
        self._read.clear()
        self._confirmed_ms, self._pending, self._pending_mark = {}, {}, None

    # Partitions.

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        """Take a partition over; its clock goes on from the last owner's. See `Agent.on_assigned`."""
        partition, note = assignment.topic_partition, assignment.note
        self._clocks[partition] = SourceClock(int(note) if _TIME.fullmatch(note) else None)
        self._removed_gauges.discard((_MARK_TIME, partition[0], str(partition[1])))

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        for topic, partition in partitions:
            self._clocks.pop((topic, partition), None)
            self._removed_gauges.add((_MARK_TIME, topic, str(partition)))

    @override
    def note(self, topic_partition: TopicPartition) -> str:
        """Return the time of the partition's clock."""
        clock = self._pending.get(topic_partition) or self._clocks.get(topic_partition)
        return "" if clock is None or clock.time_ms is None else str(clock.time_ms)

    @override
    def drain_metrics(self) -> Measurements:
        """Return the gauges of partitions that were given up since the last call, which have no value any more."""
        removed, self._removed_gauges = self._removed_gauges, set()
        return Measurements(levels=dict.fromkeys(removed))
