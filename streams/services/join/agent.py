"""The agent of `join`: it collects the spans of each trace, and emits its interactions once the trace is complete."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import structlog
from typing_extensions import override

from ragweir.errors import ErrorClass, StateError
from ragweir.schemas.assembly import CLOCK_KEY
from ragweir.streams.runtime.agent import Agent, Assignment
from ragweir.streams.runtime.agent_parts import Holding
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Count, Emission, Measurements, Outcome, Record, TopicPartition
from ragweir.streams.services.join.closing import TraceCloser, TraceReader
from ragweir.streams.services.join.emitted import EmittedTraces
from ragweir.streams.services.join.join_clock import JoinClock
from ragweir.streams.services.join.ledger import (
    LedgerWriter,
    MissedRange,
    Position,
    StoredState,
    newest_entry,
    restored,
)
from ragweir.streams.services.join.open_traces import TraceTimes
from ragweir.streams.services.join.partition import PartitionAssembly
from ragweir.streams.settings import AssembleSettings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_MAX_BACKLOG = 10_000
"""The records that wait to be applied from which on no more are read."""
_MAX_EMITTED_BYTES = 16 * 1024 * 1024
"""The size of the emissions of a transaction, not counting its last trace."""
_INTERVAL_MS = 1_000
"""The progress of the clock after which a partition's progress is committed if nothing is emitted."""
_GAUGES = (
    "ragweir_assemble_open_traces",
    "ragweir_assemble_held_bytes",
    "ragweir_assemble_behind_bytes",
    "ragweir_assemble_remembered_traces",
    "ragweir_assemble_clock_timestamp_seconds",
    "ragweir_assemble_clock_delay_seconds",
)


class _JoinHolding(Holding):
    """The records of open traces, which are held until their traces are complete."""

    def __init__(self, states: Mapping[TopicPartition, PartitionAssembly]) -> None:
        self._states = states

    @property
    @override
    def capacity(self) -> int:
        return max(0, _MAX_BACKLOG - sum(len(state.backlog) for state in self._states.values()))

    @property
    @override
    def held(self) -> Collection[TopicPartition]:
        return [at for at, state in self._states.items() if state.holds_records]

    @property
    @override
    def lag_from_read(self) -> bool:
        return True

    @override
    def resumes_at(self, topic_partition: TopicPartition, start: int) -> int:
        return max(start, self._states[topic_partition].read_to)


class JoinAgent(Agent):
    """Keeps the open traces of each partition of `spans`, and their ledger in the same partition of `assembly`.

    All that it emits is a function of the records of `spans` alone; see `PartitionAssembly`. The offset that it commits
    is the first one of the oldest open trace. The records from there on are read again after a restart, and after an
    abort, when they are skipped.

    Args:
        settings: the settings of assemble.
        max_event_bytes: the size of the largest interaction.
        reader: reads values and makes interactions.
        clock: monotonic seconds, by which the newest entry of a quiet partition is written again.
    """

    outputs = "interactions", "assembly", "dead-letter"
    changelog = "assembly"
    clock_record = Emission("assembly", CLOCK_KEY, None, ())
    """A tombstone in the ledger: the delay of the clock is its distance to the brokers' time."""

    def __init__(
        self,
        settings: AssembleSettings,
        max_event_bytes: int,
        reader: TraceReader | None = None,
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self._settings, self._max_event_bytes, self._clock = settings, max_event_bytes, clock
        self._reader = reader or TraceReader()
        self._closer = TraceCloser(self._reader, settings.max_interactions, max_event_bytes)
        self._states: dict[TopicPartition, PartitionAssembly] = {}
        self._revoked: dict[TopicPartition, PartitionAssembly] = {}
        """The states of partitions that were given up, in case they come back in the same rebalance."""
        self.holding = _JoinHolding(self._states)
        self._now_s = 0.0
        self._removed_gauges: set[Count] = set()

    # Records.

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Take records, which `tick` applies."""
        self._revoked.clear()
        for record in records:
            self._states[record.topic_partition].take(record)
        return Outcome()

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Make a dead letter of the next result of the record's partition, which `tick` emits.

        A transaction that Kafka does not accept is repeated with half of its results until it has only one, whose trace
        is rejected. The record that it settles need not be of that trace.
        """
        state = self._states[record.topic_partition]
        state.reject(record, reason)
        if record.value is not None:  # A record that was read, which the runtime does not hand to `handle`.
            state.take(record)
        return Outcome()

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:
        """Apply records, and emit the results with an entry of the ledger for each partition that has any.

        Without results, an entry is written about once a second of the partition's clock.
        """
        self._now_s = now_s
        outcome = Outcome()
        left, bytes_left = max_settled, _MAX_EMITTED_BYTES
        for state in self._states.values():
            state.advance(max(1, max_settled))
            state.ledger.retell()
        if not any(state.is_due(_INTERVAL_MS) for state in self._states.values()):
            return outcome
        for _, state in sorted(self._states.items()):
            # The first entry of a partition goes with its start, which this transaction commits.
            if state.ledger.is_due or (left > 0 and bytes_left > 0 and state.is_due(_INTERVAL_MS // 2)):
                settled = len(outcome.settled)
                bytes_left -= state.send(outcome, left, bytes_left)
                left -= len(outcome.settled) - settled
        return outcome

    @override
    def on_commit(self) -> None:
        for state in self._states.values():
            state.on_commit()

    @override
    def on_abort(self) -> None:
        """Keep the results for the next transaction: they do not depend on it. What was applied is not repeated."""
        for state in self._states.values():
            state.on_abort()

    @override
    def drain_metrics(self) -> Measurements:
        """Return the gauges of the partitions, and remove those of partitions that were given up."""
        levels: dict[Count, float | None] = dict.fromkeys(self._removed_gauges)
        self._removed_gauges = set()
        for (_, partition), state in self._states.items():
            traces, clock_s = state.traces, state.clock_ms / 1000
            values = (
                *(len(traces), traces.held_bytes, traces.bytes_behind, state.remembered),
                *((clock_s, self._now_s - clock_s) if clock_s else (None, None)),
            )
            levels |= {(name, str(partition)): value for name, value in zip(_GAUGES, values, strict=True)}
        return Measurements(levels=levels)

    # Partitions.

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        """Take a partition over with the state that its ledger has; see `Agent.on_assigned`.

        Raises:
            StateError: if the newest entry of the ledger is not that of the committed offset.
        """
        at, start = assignment.topic_partition, assignment.start
        kept = self._revoked.pop(at, None)
        newest = newest_entry(assignment.changelog)
        self._states.pop(at, None)
        if newest is not None and kept is not None and kept.ledger.newest == newest[1]:
            is_same = kept.ledger.topic_id == assignment.topic_id
            if is_same and assignment.committed == newest[1].committed == start:
                kept.resume(assignment.changelog.end)
                self._states[at] = kept
                return
        stored = self._stored(assignment)
        self._states[at] = PartitionAssembly(
            at, stored, start, self._settings, self._reader, self._closer, self._max_event_bytes
        )
        if stored.forgotten:
            self._states[at].counts["ragweir_assemble_forgotten_total",] += stored.forgotten

    def _stored(self, assignment: Assignment) -> StoredState:
        """Return the state of a partition, with a position at its start or after it."""
        (_, partition), committed, start = assignment.topic_partition, assignment.committed, assignment.start
        times, topic_id = TraceTimes.of(self._settings), assignment.topic_id
        emitted = EmittedTraces(times.remember, self._settings.max_remembered)
        newest = newest_entry(assignment.changelog)
        if newest is None:
            if committed is not None:
                raise StateError(
                    f"partition {partition} has the committed offset {committed} but no ledger to go on from: the "
                    "assembly topic was emptied or is not that of this group; use another topics.prefix, or delete the "
                    "group with kafka-consumer-groups to assemble all traces in `spans` again"
                )
            ledger = LedgerWriter(assignment.changelog.end, topic_id, self._clock)
            return StoredState(Position(start, start, 0, JoinClock(), 0, 0), ledger, emitted)
        stored = restored(assignment.changelog, newest, emitted, topic_id, self._clock)
        if not stored.is_same_topic:  # The offsets are those of another topic, and begin again at 0.
            position = stored.position._replace(next=start, floor=start)
            return stored.at(position)
        position = stored.position
        if position.floor != committed:
            raise StateError(
                f"the ledger of partition {partition} is at offset {position.floor}, but the group's committed offset "
                f"is {'gone' if committed is None else committed}: traces would be assembled twice or not at all; set "
                f"the group's offset of this partition to {position.floor} with kafka-consumer-groups, or use another "
                "topics.prefix"
            )
        if start > position.floor:
            log.error(
                "retention deleted spans of open traces; their interactions may lack spans",
                partition=partition,
                offsets=start - position.floor,
                unread=max(0, start - position.next),
            )
            until_ms = None if start > position.next else position.clock.time_ms + times.patience
            missed = MissedRange(start, until_ms)
            return stored.at(position._replace(next=max(start, position.next), floor=start, gap=missed))
        return stored

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Give partitions up. Their states stay until the next records, in case they come back unchanged."""
        for at in partitions:
            state = self._states.pop(at, None)
            if state is not None:
                self._revoked[at] = state
                self._removed_gauges |= {(name, str(at[1])) for name in _GAUGES}
