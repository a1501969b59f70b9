"""The aggregate agent: evaluations in, windows of event time out. Its state is what it has emitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from time import monotonic
from zlib import decompress

import orjson
import structlog
from pydantic import ValidationError
from typing_extensions import override

from ragweir.errors import ErrorClass, Rejected, StateError
from ragweir.metrics.aggregation.aggregator import Aggregator, WindowEntry
from ragweir.metrics.aggregation.cardinality import Admission, Labels
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate, merged
from ragweir.schemas.codec.json import encode, parse
from ragweir.schemas.dead_letter import HEAD_BYTES
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.topics import MAX_EVENT_BYTES, max_record_bytes
from ragweir.schemas.window import Progress, Window, duration_s
from ragweir.schemas.window_key import ProgressKey, WindowKey, encode_window_key, parse_window_key
from ragweir.streams.agent import Agent, Assignment, Changelog
from ragweir.streams.aggregate.dimensions import Dimensions, admission_limits, label
from ragweir.streams.aggregate.held_windows import HeldWindows, RestoredWindows, Room, WindowPart, Windows
from ragweir.streams.emissions import add_dead_letter, cloud_event
from ragweir.streams.records import Count, Emission, Measurements, Outcome, Record, TopicPartition
from ragweir.streams.settings import Slo, WindowSettings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_SERVICE = "aggregate"
_AHEAD = 60
"""Windows after the newest that are held too, for clocks that are ahead: event time does not reach them yet."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_TAIL = 64
"""Records that are read first of the changelog's end, to find the newest progress."""

_WATERMARK = "ragweir_watermark_timestamp_seconds"
_WINDOWS_HELD = "ragweir_windows_held"

Key = tuple[datetime, Labels]
"""A window of one partition: its start and its dimensions."""


@dataclass(frozen=True, slots=True)
class AggregateConfig:
    """All that windows depend on beside the evaluations."""

    totals: Aggregator
    windows: WindowSettings = field(default_factory=WindowSettings)
    slos: tuple[Slo, ...] = ()
    max_bytes: int = max_record_bytes(MAX_EVENT_BYTES)


@dataclass(frozen=True, slots=True)
class _State:
    """The state of one partition. It is replaced, never changed, so that an abort has nothing to undo."""

    next_offset: int
    held: HeldWindows = field(default_factory=HeldWindows)
    first: Mapping[datetime, int] = field(default_factory=dict)
    """A lower bound of the changelog offsets of each window held: where it was written first."""
    written: int = 0
    """A lower bound of the changelog offset that the next record gets."""
    newest: datetime | None = None
    """The largest event time, where none counts for more than its record's timestamp."""
    active_s: float = 0.0
    """The clock at the last tick that found new events."""
    idle: bool = False
    topic_id: str = ""
    """Kafka's id of the topic that the offsets belong to; empty where it is not known."""
    part_base: int = 0
    """Added to the offset at which a part is opened, for its number."""
    told_s: float | None = None
    """The clock at the first tick that found the progress emitted as it is now; None if it has not been."""


class AggregateAgent(Agent):
    """Keeps the base windows of each partition of `evaluations` in the same partition of `windows`.

    The progress of a partition names the offset in `windows` from which a restore has to read. The agent does not learn
    which offsets its records get, but offsets only grow: a record that is written after an assignment lies at or behind
    the end that the changelog had then, and every record since, and every transaction's end mark, has taken one more.
    So the sum is a lower bound, and it is exact unless transactions were aborted. A bound that is too high, as after
    `windows` was deleted and created again, costs no event: a window that is not restored goes on as a new part.

    Args:
        config: all that windows depend on beside the evaluations.
        clock: seconds that never go back, by which a partition falls idle: the wall clock may jump.
    """

    def __init__(self, config: AggregateConfig, clock: Callable[[], float] = monotonic) -> None:
        self._config, self._clock = config, clock
        self._reading = config.totals.decoder()
        windows = config.windows
        self._size = timedelta(seconds=duration_s(windows.sizes[0]))
        self._hold = timedelta(hours=windows.hold_h)
        self._disorder = timedelta(seconds=windows.disorder_s)
        self._closing = self._size + timedelta(seconds=windows.grace_s)
        # A topic forgets what is older than its retention, and a quiet partition's progress must not be forgotten.
        self._tell_again_s = windows.retention_h * 3600 / 4
        self._dimensions = Dimensions(windows.dimensions, windows.values)
        self._limits = admission_limits(windows)
        self._before = self._disorder + self._hold + self._size
        """A held window starts at most this long before the newest event time,"""
        self._after = _AHEAD * self._size
        """and at most this long after it."""
        self._most = int((self._before + self._size) / self._size)
        """The number of windows that are held where no clock is ahead."""
        self._states: dict[int, _State] = {}
        self._held: set[int] = set()
        """The partitions that are ours now; the state of others may still be there."""
        self._pending: dict[int, _State] = {}
        self._full: set[int] = set()
        """The partitions for which it was logged that label sets are folded because of memory."""
        self._gone: set[Count] = set()
        """The gauges of partitions that were given up."""

    @property
    @override
    def outputs(self) -> tuple[str, ...]:
        """Windows, and the dead letters of what is no evaluation."""
        return "windows", "dead-letter"

    @property
    @override
    def changelog(self) -> str:
        """The windows are the state."""
        return "windows"

    # Records.

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """The windows that the records touch, and how far their partitions are now."""
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
        state = replace(self._states[record.partition], next_offset=record.offset + 1)
        self._pending[record.partition] = self._tell(record.partition, state, outcome)
        return outcome

    def _advance(self, partition: int, records: Sequence[Record], outcome: Outcome) -> _State:
        state = self._states[partition]
        newest, watermark, windows = state.newest, self._watermark(state.newest), state.held.windows
        events: list[WindowEntry[Key]] = []
        opened: dict[Key, int] = {}
        late: defaultdict[Key, int] = defaultdict(int)
        admission, room = None, Room(state.held, self._max_bytes, self._most)
        outcome.counts["ragweir_events_in_total",] += len(records)
        for record in records:
            try:
                evaluation = _evaluation(record, self._config.max_bytes)
            except Rejected as rejected:
                add_dead_letter(
                    outcome, _SERVICE, record, rejected.error_class, rejected.message, self._config.max_bytes
                )
                continue
            time = evaluation.event_time
            start = time - (time - _EPOCH) % self._size
            labels = self._dimensions.of(evaluation)
            if (start, labels) not in opened and labels not in windows.get(start, ()):
                admission = admission or self._admission(windows)
                has_room = room.has(start)
                if has_room and admission.admits(labels, _seconds(start)):
                    room.take(start)
                elif labels != self._dimensions.overflow:
                    outcome.counts["ragweir_window_overflow_total",] += 1
                    labels = self._dimensions.overflow
                    if not has_room:
                        self._warn_full(partition)
            key = start, labels
            opened.setdefault(key, record.offset)
            # Judgements come later by nature; what `late` tells is how far the events themselves are out of order.
            if watermark is not None and start + self._closing <= watermark and evaluation.stage == "scored":
                late[key] += 1
            reached = _reached(time, record)
            if newest is None or reached > newest:
                newest, watermark = reached, self._watermark(reached)
            scored = self._config.totals.entry(evaluation, key)
            events.append(scored)
            self._count_slos(evaluation, scored, outcome)
        outcome.counts["ragweir_late_events_total",] += sum(late.values())
        touched: defaultdict[datetime, dict[Labels, WindowPart]] = defaultdict(dict)
        for key, contents in self._config.totals.aggregate(events).items():
            contents.late = late[key]
            start, labels = key
            opened_at = state.part_base + opened[key]
            number = opened_at if self._is_held(start, newest) else -1 - opened_at
            part = self._decoded(windows.get(start, {}).get(labels)) or WindowPart(number)
            total = merged((part.contents, contents)) if part.contents else contents
            touched[start][labels] = self._emitted(partition, key, part, total, outcome)
        kept = self._kept(state.held, touched, newest)
        first = {start: state.first.get(start, state.written) for start in kept.windows}
        emitted = sum(map(len, touched.values()))
        moved = replace(
            state,
            next_offset=records[-1].offset + 1,
            held=kept,
            first=first,
            written=state.written + emitted,
            newest=newest,
            active_s=0.0,
            idle=False,
        )
        return self._tell(partition, moved, outcome)

    def _decoded(self, part: WindowPart | None) -> WindowPart | None:
        """A part with its contents; None if they are not of today's base size or summed otherwise than today."""
        if part is None or part.contents is not None:
            return part
        try:
            window = Window.model_validate(orjson.loads(decompress(part.record)))
            contents = self._reading.decode(window)
        except ValueError:
            return None
        if window.window != self._config.windows.sizes[0]:
            return None
        return replace(part, revision=window.revision or 0, contents=contents)

    def _kept(self, held: HeldWindows, touched: Windows, newest: datetime | None) -> HeldWindows:
        """The windows to hold; decoded are those touched and those that most events still go to, if memory allows."""
        windows = dict(held.windows)
        for start, parts in touched.items():
            windows[start] = {**windows.pop(start, {}), **parts}
        decoded = set(touched)
        for start in held.decoded - decoded:
            if newest is not None and newest - self._disorder < start + self._closing and start <= newest:
                decoded.add(start)
        windows = {start: parts for start, parts in windows.items() if self._is_held(start, newest)}
        now = held.replaced(windows, held.decoded.union(decoded) & windows.keys())
        return now.given_back(now.decoded - decoded).within(self._max_bytes)

    @property
    def _max_bytes(self) -> int:
        """Memory for the windows of one partition, in bytes: an equal share, so that none depends on the others."""
        return self._config.windows.max_bytes // max(1, len(self._held))

    def _warn_full(self, partition: int) -> None:
        """Log, once for each assignment, that label sets are folded because of memory."""
        if partition not in self._full:
            self._full.add(partition)
            log.warning(
                "the windows take the memory that windows.max_bytes gives: further label sets count under __overflow__",
                partition=partition,
                max_bytes=self._max_bytes,
            )

    def _is_held(self, start: datetime, newest: datetime | None) -> bool:
        """Return whether a window is held: from `hold` behind the watermark to a little ahead of it."""
        return newest is None or -self._before < start - newest <= self._after

    def _admission(self, windows: Windows) -> Admission:
        """Admits label sets to windows beside those that are held."""
        admission = Admission(self._limits)
        for start in sorted(windows):
            admission.hold([labels for labels in windows[start] if labels not in admission], _seconds(start))
        return admission

    def _count_slos(self, evaluation: Evaluation, scored: WindowEntry[Key], outcome: Outcome) -> None:
        for slo in self._config.slos:
            value = scored.scores.get(slo.metric)
            if value is not None and all(label(name, evaluation) == own for name, own in slo.dimensions.items()):
                outcome.counts["ragweir_slo_events_total", slo.name, "good" if slo.is_good(value) else "bad"] += 1

    # What is emitted.

    def _emitted(
        self, partition: int, key: Key, part: WindowPart, contents: WindowAggregate, outcome: Outcome
    ) -> WindowPart:
        """Emit a part with new contents."""
        start, labels = key
        dimensions = self._dimensions.named(labels)
        # Written as it stands: a model of it would cost more than all that was summed.
        record = orjson.dumps(
            {
                "window": self._config.windows.sizes[0],
                "start": start,
                "end": start + self._size,
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

    def _tell(self, partition: int, state: _State, outcome: Outcome) -> _State:
        """Emit how far a partition is."""
        watermark = self._watermark(state.newest)
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
        headers = cloud_event(_SERVICE, "progress", name.decode(), watermark or _EPOCH, "application/json")
        outcome.emissions.append(Emission("windows", name, encode(progress), headers, partition))
        if watermark is not None:
            outcome.levels[_WATERMARK, str(partition)] = watermark.timestamp()
        outcome.levels[_WINDOWS_HELD, str(partition)] = sum(map(len, state.held.windows.values()))
        return replace(state, told_s=0.0, written=state.written + 1)

    def _watermark(self, newest: datetime | None) -> datetime | None:
        return None if newest is None else newest - self._disorder

    # Time.

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], most: int) -> Outcome:
        """Emit the progress of partitions that fell idle, and of those whose progress was not emitted lately."""
        outcome, elapsed_s = Outcome(), self._clock()
        at_end = {partition for _, partition in caught_up}
        for partition in self._held:
            state = self._pending.get(partition, self._states[partition])
            if not state.active_s or partition not in at_end:
                state = replace(state, active_s=elapsed_s)
            if state.told_s == 0:
                state = replace(state, told_s=elapsed_s)
            idle = partition in at_end and elapsed_s - state.active_s >= self._config.windows.idle_s
            if idle != state.idle or state.told_s is None or elapsed_s - state.told_s >= self._tell_again_s:
                state = self._tell(partition, replace(state, idle=idle), outcome)
            self._pending[partition] = state
        return outcome

    @override
    def on_commit(self) -> None:
        """Keep the windows that were emitted."""
        for partition, state in self._pending.items():
            end_mark = state.written > self._states[partition].written
            self._states[partition] = replace(state, written=state.written + end_mark)
        self._pending = {}

    @override
    def on_abort(self) -> None:
        """Forget the windows that were emitted."""
        self._pending = {}

    # Partitions.

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        """Take a partition over with the windows that it still holds; see `Agent.on_assigned`.

        Raises:
            StateError: if the progress in the changelog is not that of the committed offset.
        """
        (_, partition), committed = assignment.topic_partition, assignment.committed
        held = self._states.pop(partition, None)
        self._held.discard(partition)
        if held is None or held.next_offset != committed:
            self._forget_given_up()
            held = self._read(assignment.changelog)
        topic_id = assignment.topic_id
        if held is not None and topic_id and held.topic_id and held.topic_id != topic_id:
            # The offsets are others, and begin again at 0; so would the numbers of parts.
            held = replace(held, part_base=held.part_base + held.next_offset, next_offset=assignment.start)
            committed = assignment.start
        if held is None and committed is not None:
            raise StateError(
                f"partition {partition} has the committed offset {committed} but no windows to go on from: the windows "
                "topic was emptied or is not that of this group; use another topics.prefix, or delete the group with "
                "kafka-consumer-groups to count all evaluations anew"
            )
        if held is not None and held.next_offset != committed:
            raise StateError(
                f"the windows of partition {partition} stand at offset {held.next_offset}, but the group's committed "
                f"offset is {'gone' if committed is None else committed}: going on would count events twice or not at "
                f"all; set the group's offset of this partition to {held.next_offset} with kafka-consumer-groups, or "
                f"use another topics.prefix. To sum up again beside it: {self.replay_command('', 0, 0)}"
            )
        # The progress is told in any case: it may have another offset, or be another worker's who found it idle.
        held = held or _State(assignment.start, written=assignment.changelog.end)
        self._states[partition] = replace(held, next_offset=assignment.start, topic_id=topic_id, told_s=None)
        self._held.add(partition)
        self._full.discard(partition)
        for each in self._held:  # Each has less memory now.
            state = self._states[each]
            self._states[each] = replace(state, held=state.held.within(self._max_bytes))

    def _forget_given_up(self) -> None:
        """Forget the state of partitions that are not ours any more, if all states take a third of the memory."""
        if 3 * sum(state.held.size for state in self._states.values()) >= self._config.windows.max_bytes:
            self._states = {each: state for each, state in self._states.items() if each in self._held}

    def _read(self, changelog: Changelog) -> _State | None:
        """The state that a changelog comes to. The newest progress says which windows are held; others are not kept."""
        progress = _newest_progress(changelog)
        if progress is None:
            return None
        newest = progress.watermark and progress.watermark + self._disorder
        restored = RestoredWindows(self._config.windows.max_bytes // (len(self._held) + 1))
        first: dict[datetime, int] = {}
        foreign = 0
        names = self._dimensions.names
        for record in changelog.since(progress.changelog_offset or 0):
            key = _key(record)
            foreign += key is None
            if not isinstance(key, WindowKey) or key.dimensions.keys() != set(names) or key.part < 0:
                continue
            if self._is_held(key.start, newest):
                labels = tuple([key.dimensions[name] for name in names])
                if record.value is None:
                    restored.remove(key.start, labels, key.part)
                else:
                    restored.add(key.start, labels, key.part, record.value)
                    first.setdefault(key.start, record.offset)
        if foreign:
            log.warning("records in the windows topic that are not ours are ignored", records=foreign)
        held = restored.held()
        first = {start: first[start] for start in held.windows}
        return _State(
            progress.next_offset,
            held,
            first,
            changelog.end,
            newest,
            idle=progress.idle,
            topic_id=progress.topic_id,
            part_base=progress.part_base,
        )

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Give partitions up. Their state stays, in case they come back at the same offset."""
        for _, partition in partitions:
            self._held.discard(partition)
            self._pending.pop(partition, None)
            self._gone |= {(name, str(partition)) for name in (_WATERMARK, _WINDOWS_HELD)}

    @override
    def drain_metrics(self) -> Measurements:
        """Return the gauges of partitions that were given up since the last call: nothing is known of them any more."""
        gone, self._gone = self._gone, set()
        return Measurements(levels=dict.fromkeys(gone))


def _newest_progress(changelog: Changelog) -> Progress | None:
    """The progress that was written last; it is looked for from the end, in steps that grow."""
    first, step = changelog.end, _TAIL
    while first > 0:
        first = max(0, first - step)
        found: Progress | None = None
        for record in changelog.since(first):
            if record.value is not None and isinstance(_key(record), ProgressKey):
                found = Progress.model_validate_json(record.value)
                if found.changelog_offset is not None and found.changelog_offset > record.offset:
                    # It speaks of a topic that was deleted and created again.
                    found = found.model_copy(update={"changelog_offset": None})
        if found is not None:
            return found
        step *= 8
    return None


def _key(record: Record) -> WindowKey | ProgressKey | None:
    try:
        return parse_window_key(record.key)
    except ValueError:
        return None


def _evaluation(record: Record, max_bytes: int) -> Evaluation:
    data = parse(record.value, max_bytes)
    try:
        evaluation = Evaluation.model_validate(data)
    except ValidationError:
        raise Rejected("invalid", "not an evaluation") from None
    if not MINYEAR < evaluation.event_time.year < MAXYEAR:
        raise Rejected("no_time", "the event's time is at an end of the calendar, where there is no room for windows")
    return evaluation


def _reached(time: datetime, record: Record) -> datetime:
    """Return the event time that an event leads to: at most its record's timestamp, since clocks may be fast."""
    stamp_ms = record.timestamp_ms
    if stamp_ms is None or time.timestamp() * 1000 <= stamp_ms:
        return time
    return _EPOCH + timedelta(milliseconds=max(0, stamp_ms))


def _seconds(start: datetime) -> int:
    return int(start.timestamp())
