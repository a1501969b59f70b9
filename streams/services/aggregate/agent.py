"""The aggregate agent: evaluations in, windows of event time out. Its state is what it has emitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog
from pydantic import ValidationError
from typing_extensions import override

from ragweir.errors import ErrorClass, Rejected, StateError
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.cardinality import Labels
from ragweir.schemas.codec.json import parse
from ragweir.schemas.dead_letter import HEAD_BYTES
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.packed_scores import RowReader, ScoreRow, infinite
from ragweir.schemas.topics import MAX_EVENT_BYTES, max_record_bytes
from ragweir.schemas.window import Progress
from ragweir.schemas.window_key import WindowKey
from ragweir.schemas.window_record import parse_window
from ragweir.streams.runtime.agent import Agent, Assignment
from ragweir.streams.runtime.emissions import add_dead_letter
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Count, Measurements, Outcome, Record, TopicPartition
from ragweir.streams.services.aggregate.held_windows import HeldWindows, LabelSetAdmission, WindowPart, Windows
from ragweir.streams.services.aggregate.objectives import Objective
from ragweir.streams.services.aggregate.open_windows import OpenWindows
from ragweir.streams.services.aggregate.partition_state import PartitionState, restored_state
from ragweir.streams.services.aggregate.window_emissions import SERVICE, part_emission, progress_emission
from ragweir.streams.services.aggregate.window_times import END_US, FIRST_US, WindowTimes, has_windows
from ragweir.streams.services.shared.dimensions import Dimensions, admission_limits
from ragweir.streams.settings import Slo, WindowSettings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_MILLION = 1_000_000
_SUMMED = "ragweir_evaluations_summed_total"
_WATERMARK = "ragweir_watermark_timestamp_seconds"
_WINDOWS_HELD = "ragweir_windows_held"
_MOST_ROWS = 40_000
"""Evaluations that one transaction may collect, in all partitions, before it is committed."""
_MOST_WINDOWS = 2_000
"""Windows that one transaction may change before it is committed. Their contents are in memory until then."""


@dataclass(frozen=True, slots=True)
class AggregateConfig:
    """The configuration of an aggregate agent."""

    aggregator: Aggregator
    windows: WindowSettings = field(default_factory=WindowSettings)
    slos: tuple[Slo, ...] = ()
    max_bytes: int = max_record_bytes(MAX_EVENT_BYTES)
    """The largest evaluation that is read."""


class AggregateAgent(Agent):
    """Keeps the base windows of each partition of `evaluations` in the same partition of `windows`.

    The progress of a partition names the offset in `windows` from which a restore has to read. Producing does not
    return the offsets of records, so the agent counts: the first record after an assignment has at least the offset
    that was the changelog's end then, and each record and each transaction's end mark takes one more. This is a lower
    bound, and exact unless transactions were aborted. A bound that is too high, as after `windows` was deleted and
    created again, loses no event: a window that is not restored continues in a new part.

    Args:
        config: the configuration.
        clock: monotonic seconds, by which a partition falls idle.
    """

    outputs = "windows", "dead-letter"
    changelog = "windows"

    def __init__(self, config: AggregateConfig, clock: Callable[[], float] = machine.monotonic) -> None:
        self._config, self._clock = config, clock
        self._decoder = config.aggregator.decoder()
        self._reader = RowReader()
        windows = config.windows
        self._times = WindowTimes(windows)
        # A topic forgets what is older than its retention, and a quiet partition's progress must not be forgotten.
        self._progress_interval_s = windows.retention_h * 3600 / 4
        self._dimensions = Dimensions(windows.dimensions, windows.values)
        self._objectives = [Objective.of(slo, config.aggregator) for slo in config.slos]
        self._limits = admission_limits(windows)
        self._states: dict[int, PartitionState] = {}
        self._assigned: set[int] = set()
        """The partitions that the worker has; the states of others are kept for a while."""
        self._open: dict[int, OpenWindows] = {}
        """The windows of the open transaction, by partition."""
        self._pending: dict[int, PartitionState] = {}
        """The states after the transaction, since its `tick`."""
        self._warned: set[int] = set()
        """The partitions for which it was logged that label sets are folded because of memory."""
        self._removed_gauges: set[Count] = set()

    @property
    @override
    def is_commit_due(self) -> bool:
        """True if this transaction has changed as many windows, or collected as many rows, as may be in memory."""
        opened = self._open.values()
        return sum(map(len, opened)) >= _MOST_WINDOWS or sum(each.rows for each in opened) >= _MOST_ROWS

    # Records.

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Add records to their windows, which the `tick` at the end of the transaction emits."""
        self._forget_given_up()
        outcome = Outcome(settled=list(records))
        partitions: defaultdict[int, list[Record]] = defaultdict(list)
        for record in records:
            partitions[record.partition].append(record)
        for partition, own in partitions.items():
            self._add(partition, own, outcome)
        return outcome

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Settle a record as a dead letter; the evaluation enters no window. See `Agent.dead_letter`."""
        outcome = Outcome(settled=[record])
        outcome.counts["ragweir_events_in_total",] += 1
        add_dead_letter(outcome, SERVICE, record, error_class, reason, HEAD_BYTES)
        self._opened(record.partition).advance(record.offset + 1)
        return outcome

    def _add(self, partition: int, records: Sequence[Record], outcome: Outcome) -> None:
        opened = self._opened(partition)
        late, overflows = opened.late, opened.overflows
        outcome.counts["ragweir_events_in_total",] += len(records)
        for record, row in self._rows(records, outcome):
            opened.add(row, record)
            if self._objectives:
                self._count_slos(row, outcome)
        opened.advance(records[-1].offset + 1)
        if opened.overflows > overflows:
            outcome.counts["ragweir_window_overflow_total",] += opened.overflows - overflows
        outcome.counts["ragweir_late_events_total",] += opened.late - late
        if opened.admission.is_full and partition not in self._warned:
            self._warned.add(partition)
            log.warning(
                "windows take the memory of windows.max_bytes: further label sets count under __overflow__",
                partition=partition,
                max_bytes=self._max_bytes,
            )

    def _opened(self, partition: int) -> OpenWindows:
        """Return the windows of a partition in the open transaction."""
        opened = self._open.get(partition)
        if opened is None:
            state, times = self._states[partition], self._times
            admission = LabelSetAdmission(state.held, self._limits, self._max_bytes, times.most_held)
            opened = OpenWindows(state, self._dimensions, times, admission, self._config.aggregator, self._decoded)
            self._open[partition] = opened
        return opened

    def _rows(self, records: Sequence[Record], outcome: Outcome) -> Iterator[tuple[Record, ScoreRow]]:
        """Return the rows of records, from their headers or their values; add a dead letter for each that has neither.

        A header is read only for a value that would be: a tombstone or a record that is too large has no row.
        """
        most, read = self._config.max_bytes, self._reader.read
        rows: list[ScoreRow | None] = []
        known = 0
        for record in records:
            size = -1 if record.value is None else len(record.value)
            row = read(record.headers, size) if 0 <= size <= most else None
            if row is not None and FIRST_US <= row.time_us < END_US:
                known += 1
            else:
                row = self._row_of_value(record, outcome)
            rows.append(row)
        # All at once, which is much faster than one by one. None is infinite unless its header was forged.
        for place in infinite(rows):
            known -= 1
            rows[place] = self._row_of_value(records[place], outcome)
        if known:
            outcome.counts[_SUMMED, "header"] += known
        return ((record, row) for record, row in zip(records, rows, strict=True) if row is not None)

    def _row_of_value(self, record: Record, outcome: Outcome) -> ScoreRow | None:
        try:
            row = self._reader.of(_evaluation(record, self._config.max_bytes))
        except Rejected as rejected:
            most = self._config.max_bytes
            add_dead_letter(outcome, SERVICE, record, rejected.error_class, rejected.message, most)
            return None
        outcome.counts[_SUMMED, "json"] += 1
        return row

    def _decoded(self, part: WindowPart) -> WindowPart | None:
        """Return a part with its contents; None if it has another base size or was summed in another way."""
        if part.contents is not None:
            return part
        try:
            window = parse_window(part.json())
            contents = self._decoder.decode(window)
        except ValueError:
            return None
        if window.window != self._config.windows.sizes[0]:
            return None
        return replace(part, revision=window.revision or 0, contents=contents)

    def _kept(self, held: HeldWindows, touched: Windows, newest: datetime | None) -> HeldWindows:
        """Return the windows to hold; decoded are those touched and the current ones, as far as memory allows."""
        windows = dict(held.windows)
        for start, parts in touched.items():
            windows[start] = {**windows.pop(start, {}), **parts}
        decoded = {*touched, *(start for start in held.decoded if self._times.is_current(start, newest))}
        windows = {start: parts for start, parts in windows.items() if self._times.is_held(start, newest)}
        now = held.replaced(windows, (held.decoded | decoded) & windows.keys())
        return now.release_contents(now.decoded - decoded).within(self._max_bytes)

    @property
    def _max_bytes(self) -> int:
        """Memory for the windows of one partition, in bytes: an equal share, so that none depends on the others."""
        return self._config.windows.max_bytes // max(1, len(self._assigned))

    def _count_slos(self, row: ScoreRow, outcome: Outcome) -> None:
        for objective in self._objectives:
            value = row.score(objective.slo.metric)
            suites, undefined = row.outcomes.suites, row.outcomes.undefined
            found = objective.outcome(value, suites, judged=row.judged, undefined=undefined)
            if found is None or not objective.covers(row.origin):
                continue
            name, (kind, weight) = objective.slo.name, found
            if kind in ("good", "bad"):
                outcome.counts["ragweir_slo_events_total", name, kind] += 1
            if objective.suite is not None:
                outcome.counts["ragweir_slo_weight_millionths_total", name, kind] += round(weight * _MILLION)
                squared = round(weight * weight * _MILLION)
                outcome.counts["ragweir_slo_squared_weight_millionths_total", name, kind] += squared

    # The end of a transaction.

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:
        """Emit the windows that have changed, and the progress of their partitions.

        The progress of partitions that fell idle is emitted as well, and that which was not emitted lately.
        """
        outcome, elapsed_s = Outcome(), self._clock()
        at_end = {partition for _, partition in caught_up}
        for partition in self._assigned:
            opened = self._open.get(partition)
            state = self._states[partition] if opened is None else self._closed(partition, opened, outcome)
            if opened is not None or not state.active_s or partition not in at_end:
                state = replace(state, active_s=elapsed_s)
            if state.progress_s == 0:
                state = replace(state, progress_s=elapsed_s)
            idle = partition in at_end and elapsed_s - state.active_s >= self._config.windows.idle_s
            due = state.progress_s is None or elapsed_s - state.progress_s >= self._progress_interval_s
            if due or idle != state.idle:
                state = self._emit_progress(partition, replace(state, idle=idle), outcome)
            self._pending[partition] = state
        return outcome

    def _closed(self, partition: int, opened: OpenWindows, outcome: Outcome) -> PartitionState:
        """Emit the windows of a transaction; return the state after it, of which the progress is to be emitted."""
        state, newest = opened.state, opened.newest
        touched: defaultdict[datetime, dict[Labels, WindowPart]] = defaultdict(dict)
        for (start, labels), part, contents in opened.parts():
            key = WindowKey(start, self._dimensions.named(labels), partition, part.number)
            revision = part.revision + 1
            emission = part_emission(self._config.windows.sizes[0], start + self._times.size, key, revision, contents)
            outcome.emissions.append(emission)
            touched[start][labels] = WindowPart.of(part.number, labels, emission.value or b"", revision, contents)
        held = self._kept(state.held, touched, newest)
        return replace(
            state,
            held=held,
            first={start: state.first.get(start, state.written) for start in held.windows},
            written=state.written + len(opened),
            newest=newest,
            progress_s=None,
        )

    def _emit_progress(self, partition: int, state: PartitionState, outcome: Outcome) -> PartitionState:
        """Emit the progress of a partition."""
        watermark = self._times.watermark(state.newest)
        progress = Progress(
            partition=partition,
            next_offset=state.next_offset,
            watermark=watermark,
            idle=state.idle,
            part_base=state.part_base,
            topic_id=state.topic_id,
            changelog_offset=min(state.first.values(), default=state.written),
        )
        outcome.emissions.append(progress_emission(progress))
        if watermark is not None:
            outcome.levels[_WATERMARK, str(partition)] = watermark.timestamp()
        outcome.levels[_WINDOWS_HELD, str(partition)] = sum(map(len, state.held.windows.values()))
        return replace(state, progress_s=0.0, written=state.written + 1)

    @override
    def on_commit(self) -> None:
        for partition, state in self._pending.items():
            end_mark = state.written > self._states[partition].written
            self._states[partition] = replace(state, written=state.written + end_mark)
        self._pending, self._open = {}, {}

    @override
    def on_abort(self) -> None:
        # What was added to aggregates is undone by decoding the last committed records again.
        for partition in self._open.keys() & self._states.keys():
            state = self._states[partition]
            self._states[partition] = replace(state, held=state.held.release_contents(state.held.decoded))
        self._pending, self._open = {}, {}

    # Partitions.

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        """Take a partition over with the windows that it still holds; see `Agent.on_assigned`.

        Raises:
            StateError: if the progress in the changelog is not that of the committed offset.
        """
        (_, partition), committed = assignment.topic_partition, assignment.committed
        state = self._states.pop(partition, None)
        self._assigned.discard(partition)
        if state is None or state.next_offset != committed:
            self._forget_given_up()
            max_bytes = self._config.windows.max_bytes // (len(self._assigned) + 1)
            state = restored_state(assignment.changelog, self._dimensions, self._times, max_bytes)
        topic_id = assignment.topic_id
        if state is not None and topic_id and state.topic_id and state.topic_id != topic_id:
            # The offsets are those of another topic, and begin again at 0; so would the numbers of parts.
            state = replace(state, part_base=state.part_base + state.next_offset, next_offset=assignment.start)
            committed = assignment.start
        if state is None and committed is not None:
            raise StateError(
                f"partition {partition} has the committed offset {committed} but no windows to continue: the windows "
                "topic was emptied or is not that of this group; use another topics.prefix, or delete the group with "
                "kafka-consumer-groups to count all evaluations again"
            )
        if state is not None and state.next_offset != committed:
            raise StateError(
                f"the windows of partition {partition} are at offset {state.next_offset}, but the group's committed "
                f"offset is {'gone' if committed is None else committed}: it would count events twice or not at "
                f"all; set the group's offset of this partition to {state.next_offset} with kafka-consumer-groups, or "
                "use another topics.prefix. To compute the windows in a separate run: ragweir replay --run-id again"
            )
        # The progress is emitted in any case: its offset may be another, or another worker may have found it idle.
        state = state or PartitionState(assignment.start, written=assignment.changelog.end)
        self._states[partition] = replace(state, next_offset=assignment.start, topic_id=topic_id, progress_s=None)
        self._assigned.add(partition)
        self._warned.discard(partition)
        for each in self._assigned:  # Each has less memory now.
            state = self._states[each]
            self._states[each] = replace(state, held=state.held.within(self._max_bytes))

    def _forget_given_up(self) -> None:
        """Forget the states of partitions that were given up, if all states take a third of the memory."""
        if 3 * sum(state.held.size for state in self._states.values()) >= self._config.windows.max_bytes:
            self._states = {each: state for each, state in self._states.items() if each in self._assigned}

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Give partitions up. Their states stay, in case they come back at the same offset."""
        for _, partition in partitions:
            self._assigned.discard(partition)
            self._pending.pop(partition, None)
            self._open.pop(partition, None)
            self._removed_gauges |= {(name, str(partition)) for name in (_WATERMARK, _WINDOWS_HELD)}

    @override
    def drain_metrics(self) -> Measurements:
        """Return the gauges of partitions that were given up since the last call, which have no value any more."""
        removed, self._removed_gauges = self._removed_gauges, set()
        return Measurements(levels=dict.fromkeys(removed))


def _evaluation(record: Record, max_bytes: int) -> Evaluation:
    data = parse(record.value, max_bytes)
    try:
        evaluation = Evaluation.model_validate(data)
    except ValidationError:
        raise Rejected("invalid", "not an evaluation") from None
    if not has_windows(evaluation.event_time):
        raise Rejected("no_time", "the event's time is at an end of the calendar, where there is no room for windows")
    return evaluation
