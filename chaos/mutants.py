"""`python -m chaos.mutants NAME evaluate --slot 0`: one slot of a service with one rule of the runtime broken.

Tests that do not detect the mutants prove nothing. The product has no hook for them.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as PartitionOffset
from typing_extensions import override

from ragweir.schemas.assembly import ClockMark
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.runtime.kafka import transactional_sender
from ragweir.streams.runtime.kafka.client import Identity, build, producer_properties, reader_properties
from ragweir.streams.runtime.loop import kafka_runtime as kafka
from ragweir.streams.runtime.loop import transactions
from ragweir.streams.runtime.loop.batches import BatchReader
from ragweir.streams.runtime.loop.committer import Committer
from ragweir.streams.runtime.loop.kafka_runtime import KafkaRuntime
from ragweir.streams.runtime.loop.transactions import Transactions
from ragweir.streams.runtime.records import Emission, Measurements, Outcome, TopicPartition
from ragweir.streams.runtime.recovery import restore as changelog
from ragweir.streams.runtime.recovery.offset_recovery import OffsetRecovery
from ragweir.streams.runtime.recovery.offsets import OffsetTracker
from ragweir.streams.services.aggregate import agent as aggregate
from ragweir.streams.services.evaluate.control_log import ControlLog
from ragweir.streams.services.join.emitted import EmittedTraces
from ragweir.streams.services.join.join_clock import JoinClock
from ragweir.streams.services.join.ledger import Position
from ragweir.streams.services.join.partition import PartitionAssembly
from ragweir.streams.services.match.waiting import WaitingList
from ragweir.streams.services.shared import routing_rows as rows
from ragweir.streams.services.shared.routing_rows import RoutingRows, Selection
from ragweir.streams.services.tally.held_feedback import Held, HeldFeedback
from ragweir.streams.settings import RoutingSettings


def replace_in(place: Any, name: str, replacement: object) -> None:
    """Replace an attribute; raise AttributeError if there is none, since that would replace nothing."""
    getattr(place, name)
    setattr(place, name, replacement)


def commit_before_produce() -> None:
    """Commit offsets in a separate transaction, before the outputs."""
    write, commit = Transactions.write, Transactions.commit
    held: list[Emission] = []

    def hold(_: Transactions, emissions: Sequence[Emission]) -> None:
        held.extend(emissions)

    def broken(self: Transactions, *given: Any) -> None:
        commit(self, *given)
        write(self, held)
        held.clear()
        commit(self)

    replace_in(Transactions, "write", hold)
    replace_in(Transactions, "commit", broken)


def no_rewind() -> None:
    """After an abort, go on after the records that were read."""
    replace_in(OffsetTracker, "rewind", lambda _: [])


def no_fencing() -> None:
    """Give each process another transactional id, and commit offsets without the member's metadata."""

    def with_fresh_id(*given: Any) -> dict[str, Any]:
        usual = producer_properties(*given)
        return {**usual, "transactional.id": f"{usual['transactional.id']}~{uuid.uuid4()}"}

    class Anybody(Consumer):
        def __init__(self, properties: dict[str, Any]) -> None:
            super().__init__(properties)
            servers = {name: properties[name] for name in ("bootstrap.servers", "group.id")}
            self._nobody = Consumer({**servers, "log_level": 0})

        @override
        def consumer_group_metadata(self) -> Any:
            return self._nobody.consumer_group_metadata()

    # A worker that was stopped within a call would notice how long it took, and end.
    replace_in(transactions, "CALL_LIMIT_SECONDS", 600.0)
    replace_in(kafka, "producer_properties", with_fresh_id)
    replace_in(kafka, "Consumer", Anybody)


def drop_on_revoke() -> None:
    """Discard the records read from a revoked partition, and commit their offsets."""
    made = KafkaRuntime.__init__

    def broken(self: KafkaRuntime, *given: Any, **named: Any) -> None:
        made(self, *given, **named)
        revoke = self._reader.revoke

        def dropping(partitions: Collection[TopicPartition]) -> None:
            if batch := self._reader._batch:
                self._commit(Outcome(settled=[*batch]))
            revoke(partitions)

        replace_in(self._reader, "revoke", dropping)

    replace_in(KafkaRuntime, "__init__", broken)


def commit_revoked() -> None:
    """Commit the records read from a revoked partition."""
    revoke = BatchReader.revoke

    def broken(self: BatchReader, partitions: Collection[TopicPartition]) -> None:
        batch = list(self._batch)
        revoke(self, partitions)
        self._batch[:] = batch

    replace_in(BatchReader, "revoke", broken)


def forget_on_revoke() -> None:
    """Forget the offsets of the open transaction before partitions are revoked, but not what was sent."""

    def broken(self: KafkaRuntime) -> None:
        self._agent.on_commit()
        self._committer.pending.clear()

    replace_in(KafkaRuntime, "_end_transaction", broken)


def wall_clock_windows() -> None:
    """Assign evaluations to windows by the time at which they are read."""
    read = aggregate._evaluation

    def broken(*given: Any) -> Evaluation:
        return read(*given).model_copy(update={"event_time": datetime.now(UTC)})

    replace_in(aggregate, "_evaluation", broken)


def offsets_without_one() -> None:
    """Commit the offset of the last record instead of the next one, without offset recovery."""
    offsets = OffsetTracker.next_offsets

    def broken(self: OffsetTracker, *given: Any) -> list[PartitionOffset]:
        return [PartitionOffset(at.topic, at.partition, max(0, at.offset - 1)) for at in offsets(self, *given)]

    replace_in(OffsetTracker, "next_offsets", broken)
    replace_in(OffsetRecovery, "recovered", lambda _, committed: list(committed))


def restore_to_stable_end() -> None:
    """Restore windows up to the last stable offset, which any open transaction holds back."""

    def broken(settings: Any, topic: str, partition: int, _: Callable[[], bool]) -> int:
        consumer = build(Consumer, reader_properties(settings))
        try:
            return consumer.get_watermark_offsets(PartitionOffset(topic, partition), timeout=10)[1]
        finally:
            consumer.close()

    replace_in(changelog, "_end", broken)


def count_before_commit() -> None:
    """Count in telemetry what is not committed yet."""
    add = Committer.add

    def broken(self: Committer, outcome: Outcome) -> None:
        self._telemetry.add(Measurements(outcome.counts))
        outcome.counts.clear()
        add(self, outcome)

    replace_in(Committer, "add", broken)


def newest_offset() -> None:
    """Commit the offset after the last record, not that of the oldest open trace."""
    move = PartitionAssembly._move

    def broken(self: PartitionAssembly, position: Position) -> None:
        move(self, position)
        self._position = self._position._replace(floor=self._position.next)

    replace_in(PartitionAssembly, "_move", broken)


def no_ledger() -> None:
    """Leave the ledger's entries out of the transactions that have interactions."""
    send = PartitionAssembly.send

    def broken(self: PartitionAssembly, outcome: Outcome, *given: Any) -> int:
        size = send(self, outcome, *given)
        if any(each.topic == "interactions" for each in outcome.emissions):
            outcome.emissions = [each for each in outcome.emissions if each.topic != "assembly"]
        return size

    replace_in(PartitionAssembly, "send", broken)


def timers_behind_the_batch() -> None:
    """Close what is due behind a batch, not between its records."""
    close = PartitionAssembly._close_due

    def broken(self: PartitionAssembly, max_results: int) -> bool:
        return bool(self.backlog) or close(self, max_results)

    replace_in(PartitionAssembly, "_close_due", broken)


def forgotten_ids() -> None:
    """Forget the traces that were emitted."""
    replace_in(EmittedTraces, "get", lambda *_: None)


def greatest_clock() -> None:
    """Let the clock of join follow the source partition that was read farthest."""
    after = JoinClock.after

    def broken(self: JoinClock, mark: ClockMark) -> JoinClock:
        clock = after(self, mark)
        return replace(clock, time_ms=max([clock.time_ms, *(each.time_ms for each in clock.marks)]))

    replace_in(JoinClock, "after", broken)


def newest_row() -> None:
    """Select every event by the newest row of its application."""

    def broken(self: RoutingRows, application: str | None, _: datetime) -> tuple[Selection | None, str]:
        selections = self.by_application.get(application, ([], []))[1]
        return (selections[-1] if selections else None), ""

    replace_in(RoutingRows, "at", broken)


def late_rows() -> None:
    """Let rows hold that were written too late."""
    replace_in(rows, "_is_late", lambda *_: False)


def no_floor_part() -> None:
    """Let events of high risk spend all of the judge's budget."""
    replace_in(RoutingSettings, "reserved_share", property(lambda _: 0.0))


def unfenced_planners() -> None:
    """Give each planner another transactional id."""

    def anybody(name: str, slot: int, prefix: str, host: str) -> Identity:
        return Identity(name, slot, prefix, f"{host}-{uuid.uuid4()}")

    replace_in(transactional_sender, "Identity", anybody)


def kept_rows() -> None:
    """Go on with the rows of a topic that was deleted and created again."""
    replace_in(ControlLog, "topics", property(lambda _: {}))
    replace_in(ControlLog, "_check_topic", lambda *_: None)


def given_twice() -> None:
    """Count feedback again that is not newer than what was joined before."""
    put = HeldFeedback.put

    def broken(self: HeldFeedback, key: bytes, held: Held) -> Held | None:
        self._count(held, 1)
        return put(self, key, held)

    replace_in(HeldFeedback, "put", broken)


def forgotten_waiting() -> None:
    """Begin without the feedback that waits in a partition which was assigned."""

    def broken(self: WaitingList, partition: int, _: object) -> None:
        self.revoke(partition)
        self._held[partition] = {}

    replace_in(WaitingList, "assign", broken)


def _named(*mutants: Callable[[], None]) -> Mapping[str, Callable[[], None]]:
    return MappingProxyType({mutant.__name__.replace("_", "-"): mutant for mutant in mutants})


ROW_MUTANTS = _named(newest_row, late_rows, no_floor_part, unfenced_planners, kept_rows)
"""Mutants of evaluate, the judge and planners, which a run with rows has to detect."""
FEEDBACK_MUTANTS = _named(given_twice, forgotten_waiting)
"""Mutants of match and tally, which a run with feedback has to detect."""
TRACE_MUTANTS = _named(newest_offset, no_ledger, timers_behind_the_batch, forgotten_ids, greatest_clock)
"""Mutants of join, which a run over traces has to detect."""
MUTANTS = _named(
    *(commit_before_produce, no_rewind, no_fencing, drop_on_revoke, commit_revoked, forget_on_revoke),
    *(wall_clock_windows, offsets_without_one, restore_to_stable_end, count_before_commit),
)

if __name__ == "__main__":
    from ragweir.streams.commands import main

    {**MUTANTS, **TRACE_MUTANTS}[sys.argv.pop(1)]()
    main()
