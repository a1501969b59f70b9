"""The agent of `key`: it divides the records of OTLP topics by trace, and writes the marks of their clocks.

Feedback in them is written to its own topic.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from typing_extensions import override

from ragweir.errors import ErrorClass, Rejected
from ragweir.schemas.assembly import HEADER_SOURCE, HEADER_TIME, ClockMark
from ragweir.schemas.dead_letter import HEAD_BYTES
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.runtime.agent import Agent, Assignment
from ragweir.streams.runtime.emissions import add_dead_letter
from ragweir.streams.runtime.records import Emission, Measurements, Outcome, Record, TopicPartition
from ragweir.streams.services.key.source_marks import SPANS, SourceMarks
from ragweir.streams.settings import AssembleSettings
from ragweir.streams.traces.annotations import GivenFeedback, taken_feedback
from ragweir.streams.traces.export_request import parse
from ragweir.streams.traces.wire import Division, Slice, divided

_SERVICE = "key"
_FEEDBACK = "feedback"
_JSON = (("content-type", b"application/json"),)
_ENVELOPE_BYTES = 2 * 1024
"""Size of a record without its value: key, headers, and the batch that it is in."""
_CLOCK_RECORD = Emission(SPANS, None, ClockMark(sources={}, marks=()).model_dump_json().encode(), ())


class KeyAgent(Agent):
    """Copies OTLP records to `spans`, one record per source record and trace, and writes clock marks.

    Args:
        settings: the settings of assemble.
        max_event_bytes: the size of the largest event, from which that of records follows.
        reads_feedback: true if feedback is written to its topic; else it is read as other spans and log records are.
    """

    clock_record = _CLOCK_RECORD
    """A mark of no partition: the marks of all workers follow the brokers' time."""

    def __init__(self, settings: AssembleSettings, max_event_bytes: int, *, reads_feedback: bool = False) -> None:
        self._settings, self._max_event_bytes = settings, max_event_bytes
        self._max_slice_bytes = max_record_bytes(max_event_bytes) - _ENVELOPE_BYTES
        self._reads_feedback = reads_feedback
        self.input_progress = self._marks = SourceMarks()

    @property
    @override
    def outputs(self) -> tuple[str, ...]:
        return (SPANS, "dead-letter", *((_FEEDBACK,) if self._reads_feedback else ()))

    # Records.

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Emit the slices of each record."""
        outcome = Outcome(settled=list(records))
        for record in records:
            self._advance(record, outcome)
            try:
                division, taken = self._divide(record)
            except Rejected as rejected:
                self._bury(record, rejected.message, rejected.error_class, self._max_event_bytes, outcome)
            else:
                self._copy(record, division, outcome)
                self._give(record, taken, outcome)
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
        self._marks.advance(record)

    def _divide(self, record: Record) -> tuple[Division, GivenFeedback]:
        if record.value is None:
            raise Rejected("tombstone", "the record has no value")
        try:
            request = parse(record.value)
            taken = taken_feedback(request, record.value) if self._reads_feedback else GivenFeedback(request)
            return divided(taken.request, record.value), taken
        except (MemoryError, Rejected):  # A lack of memory may not be the record's fault.
            raise
        except Exception as error:  # One record must not stop the stream.
            raise Rejected("unreadable", f"reading OTLP raised {type(error).__name__}") from None

    def _copy(self, record: Record, division: Division, outcome: Outcome) -> None:
        fitting = [each for each in division.slices if len(each.value) <= self._max_slice_bytes]
        if len(fitting) < len(division.slices):
            self._bury(record, self._too_large(division.slices), "too_large", self._max_event_bytes, outcome)
        source = f"{record.topic}/{record.partition}/{record.offset}"
        headers = (HEADER_TIME, b"%d" % self._marks.time_ms(record)), (HEADER_SOURCE, source.encode())
        outcome.emissions += [Emission(SPANS, each.trace_id.encode(), each.value, headers) for each in fitting]
        signal = "logs" if division.has_logs else "traces"
        outcome.counts["ragweir_assemble_slices_total",] += len(fitting)
        outcome.counts["ragweir_assemble_items_total", signal] += sum(each.items for each in fitting)
        outcome.counts["ragweir_assemble_unjoinable_spans_total",] += division.unjoinable

    def _give(self, record: Record, taken: GivenFeedback, outcome: Outcome) -> None:
        outcome.emissions += [Emission(_FEEDBACK, each.key, each.value, _JSON) for each in taken.given]
        outcome.counts["ragweir_assemble_feedback_total", "given"] += len(taken.given)
        if taken.rejected:
            outcome.counts["ragweir_assemble_feedback_total", "rejected"] += len(taken.rejected)
            number = len(taken.given) + len(taken.rejected)
            reason = f"{len(taken.rejected)} of its {number} annotations are no feedback, at first: {taken.rejected[0]}"
            self._bury(record, reason, "invalid", self._max_event_bytes, outcome)

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

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:
        """Emit the marks that are due."""
        return self._marks.emit(now_s)

    @override
    def on_commit(self) -> None:
        self._marks.on_commit()

    @override
    def on_abort(self) -> None:
        self._marks.on_abort()

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        self._marks.add(assignment)

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._marks.remove(partitions)

    @override
    def drain_metrics(self) -> Measurements:
        """Return the gauges of partitions that were given up since the last call, which have no value any more."""
        return Measurements(levels=dict.fromkeys(self._marks.removed_gauges()))
