"""The aggregate agent: evaluations in, windows of event time out. Its state is what it has emitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import monotonic

import orjson
import structlog
from pydantic import ValidationError
from typing_extensions import override

from ragweir.errors import ErrorClass, Rejected, StateError
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.cardinality import Labels
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.codec.json import encode, parse
from ragweir.schemas.dead_letter import HEAD_BYTES
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.packed_scores import RowReader, ScoreRow, infinite
from ragweir.schemas.topics import MAX_EVENT_BYTES, max_record_bytes
from ragweir.schemas.window import Progress, Window
from ragweir.schemas.window_key import ProgressKey, WindowKey, encode_window_key
from ragweir.streams.agent import Agent, Assignment
from ragweir.streams.aggregate.dimensions import Dimensions, admission_limits
from ragweir.streams.aggregate.held_windows import HeldWindows, LabelSetAdmission, WindowPart, Windows
from ragweir.streams.aggregate.objectives import Objective
from ragweir.streams.aggregate.partition_state import PartitionState, restored_state
from ragweir.streams.aggregate.window_batch import Key, WindowBatch
from ragweir.streams.aggregate.window_times import END_US, EPOCH, FIRST_US, WindowTimes, has_windows
from ragweir.streams.emissions import add_dead_letter, cloud_event
from ragweir.streams.records import Count, Emission, Measurements, Outcome, Record, TopicPartition
from ragweir.streams.settings import Slo, WindowSettings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_SERVICE = "aggregate"
_MILLION = 1_000_000
_SUMMED = "ragweir_evaluations_summed_total"
_WATERMARK = "ragweir_watermark_timestamp_seconds"
_WINDOWS_HELD = "ragweir_windows_held"


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

    def __init__(self, config: AggregateConfig, clock: Callable[[], float] = monotonic) -> None:
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
        self._pending: dict[int, PartitionState] = {}
        self._warned: set[int] = set()
        """The partitions for which it was logged that label sets are folded because of memory."""
        self._removed_gauges: set[Count] = set()

    @property
    @override
    def changelog(self) -> str:
        return "windows"

    # Records.

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Emit the windows that the records fall into, and the progress of their partitions."""
        self._forget_given_up()
        outcome = Outcome(settled=list(records))
        partitions: defaultdict[int, list[Record]] = defaultdict(list)
        for record in records:
            partitions[record.partition].append(record)
        for partition, own in partitions.items():
            self._pending[partition] = self._advance(partition, own, outcome)
        return outcome

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Settle a record as a dead letter; the evaluation enters no window. See `Agent.dead_letter`."""
        outcome = Outcome(settled=[record])
        outcome.counts["ragweir_events_in_total",] += 1
        add_dead_letter(outcome, _SERVICE, record, error_class, reason, HEAD_BYTES)
        state = replace(self._state(record.partition), next_offset=record.offset + 1)
        self._pending[record.partition] = self._emit_progress(record.partition, state, outcome)
        return outcome

    def _advance(self, partition: int, records: Sequence[Record], outcome: Outcome) -> PartitionState:
        times, state = self._times, self._state(partition)
        windows = state.held.windows
        admission = LabelSetAdmission(state.held, self._limits, self._max_bytes, times.most_held)
        batch = WindowBatch(self._dimensions, times, windows, admission, state.newest)
        outcome.counts["ragweir_events_in_total",] += len(records)
        for record, row in self._rows(records, outcome):
            batch.add(row, record)
            if self._objectives:
                self._count_slos(row, outcome)
        if batch.overflows:
            outcome.counts["ragweir_window_overflow_total",] += batch.overflows
        outcome.counts["ragweir_late_events_total",] += batch.late.total()
        if admission.is_full and partition not in self._warned:
            self._warned.add(partition)
            log.warning(
                "windows take the memory of windows.max_bytes: further label sets count under __overflow__",
                partition=partition,
                max_bytes=self._max_bytes,
            )
        newest = batch.newest
        parts: dict[Key, WindowPart] = {}
        for (start, labels), offset in batch.opened.items():
            opened_at = state.part_base + offset
            new = WindowPart(opened_at if times.is_held(start, newest) else -1 - opened_at)
            parts[start, labels] = self._decoded(windows.get(start, {}).get(labels)) or new
        contents = [part.contents or WindowAggregate() for part in parts.values()]
        # The aggregates in memory are changed, which `on_abort` undoes: copying each takes longer than the sums.
        self._pending.setdefault(partition, state)
        self._config.aggregator.add(batch.rows, batch.owners, contents)
        touched: defaultdict[datetime, dict[Labels, WindowPart]] = defaultdict(dict)
        for number, ((key, part), total) in enumerate(zip(parts.items(), contents, strict=True)):
            total.late += batch.late[number]
            touched[key[0]][key[1]] = self._emit_part(partition, key, part, total, outcome)
        held = self._kept(state.held, touched, newest)
        advanced = replace(
            state,
            next_offset=records[-1].offset + 1,
            held=held,
            first={start: state.first.get(start, state.written) for start in held.windows},
            written=state.written + len(parts),
            newest=newest,
            active_s=0.0,
            idle=False,
        )
        return self._emit_progress(partition, advanced, outcome)

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
            add_dead_letter(outcome, _SERVICE, record, rejected.error_class, rejected.message, most)
            return None
        outcome.counts[_SUMMED, "json"] += 1
        return row

    def _state(self, partition: int) -> PartitionState:
        """Return the state of a partition with what is not committed yet."""
        return self._pending.get(partition, self._states[partition])

    def _decoded(self, part: WindowPart | None) -> WindowPart | None:
        """Return a part with its contents; None if it has another base size or was summed in another way."""
        if part is None or part.contents is not None:
            return part
        try:
            window = Window.model_validate(orjson.loads(part.json()))
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

    # What is emitted.

    def _emit_part(
        self, partition: int, key: Key, part: WindowPart, contents: WindowAggregate, outcome: Outcome
    ) -> WindowPart:
        """Emit a part with new contents."""
        start, labels = key
        dimensions = self._dimensions.named(labels)
        # A model of it would cost more than the sums.
        record = orjson.dumps(
            {
                "window": self._config.windows.sizes[0],
                "start": start,
                "end": start + self._times.size,
                "dimensions": dimensions,
                "partition": partition,
                "part": part.number,
                "revision": part.revision + 1,
                **contents.fields(),
            },
            option=orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS,
        )
        name = encode_window_key(WindowKey(start, dimensions, partition, part.number))
        headers = cloud_event(_SERVICE, "window", name.decode(), start, "application/json")
        outcome.emissions.append(Emission("windows", name, record, headers, partition))
        return WindowPart.of(part.number, labels, record, part.revision + 1, contents)

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
        name = encode_window_key(ProgressKey(partition))
        headers = cloud_event(_SERVICE, "progress", name.decode(), watermark or EPOCH, "application/json")
        outcome.emissions.append(Emission("windows", name, encode(progress), headers, partition))
        if watermark is not None:
            outcome.levels[_WATERMARK, str(partition)] = watermark.timestamp()
        outcome.levels[_WINDOWS_HELD, str(partition)] = sum(map(len, state.held.windows.values()))
        return replace(state, progress_s=0.0, written=state.written + 1)

    # Time.

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:
        """Emit the progress of partitions that fell idle, and of those whose progress was not emitted lately."""
        outcome, elapsed_s = Outcome(), self._clock()
        at_end = {partition for _, partition in caught_up}
        for partition in self._assigned:
            state = self._state(partition)
            if not state.active_s or partition not in at_end:
                state = replace(state, active_s=elapsed_s)
            if state.progress_s == 0:
                state = replace(state, progress_s=elapsed_s)
            idle = partition in at_end and elapsed_s - state.active_s >= self._config.windows.idle_s
            due = state.progress_s is None or elapsed_s - state.progress_s >= self._progress_interval_s
            if due or idle != state.idle:
                state = self._emit_progress(partition, replace(state, idle=idle), outcome)
            self._pending[partition] = state
        return outcome

    @override
    def on_commit(self) -> None:
        for partition, state in self._pending.items():
            end_mark = state.written > self._states[partition].written
            self._states[partition] = replace(state, written=state.written + end_mark)
        self._pending = {}

    @override
    def on_abort(self) -> None:
        # What was added to aggregates is undone by decoding the last committed records again.
        for partition in self._pending.keys() & self._states.keys():
            state = self._states[partition]
            self._states[partition] = replace(state, held=state.held.release_contents(state.held.decoded))
        self._pending = {}

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
                f"use another topics.prefix. To compute the windows in a separate run: {self.replay_command('', 0, 0)}"
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
