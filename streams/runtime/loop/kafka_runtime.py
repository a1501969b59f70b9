"""The Kafka runtime: one consumer, one transactional producer, one loop; outputs and offsets commit together.

A batch is read (`batches`) and handled by the agent, and its outputs are sent (`transactions`). Under a backlog one
transaction spans several batches, as in Kafka Streams; what is to be done with its end is kept until then
(`committer`). After an abort all of them are read again from the committed offsets; errors that need a restart are left
to the supervisor. Partitions are assigned and revoked while a batch is read (`rebalance`), and the open transaction is
committed before partitions are revoked. Records on which a process may have died are tried first (`crash_protection`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException

from ragweir.errors import Interrupted, RestartRequired
from ragweir.streams.runtime.agent import Agent
from ragweir.streams.runtime.kafka.client import (
    Assignor,
    Connection,
    Identity,
    build,
    consumer_properties,
    producer_properties,
)
from ragweir.streams.runtime.kafka.transactional_producer import TransactionalProducer
from ragweir.streams.runtime.loop.backpressure import Backpressure
from ragweir.streams.runtime.loop.batches import BatchReader
from ragweir.streams.runtime.loop.broker_clock import BrokerClock
from ragweir.streams.runtime.loop.clock_record import commit_clock_record
from ragweir.streams.runtime.loop.committer import Committer, Forms
from ragweir.streams.runtime.loop.confirmed_ends import ConfirmedEnds, ask_kafka
from ragweir.streams.runtime.loop.rebalance import RebalanceListener
from ragweir.streams.runtime.loop.replay_limiter import ReplayLimiter
from ragweir.streams.runtime.loop.status import Status
from ragweir.streams.runtime.loop.topic_report import TopicReport
from ragweir.streams.runtime.loop.transactions import Aborted, Transactions, restart_after
from ragweir.streams.runtime.loop.unassigned_partitions import UnassignedPartitions
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.protection.canary_client import CanaryClient
from ragweir.streams.runtime.protection.crash_protection import CrashProtection
from ragweir.streams.runtime.protection.poison import RECORD_FAULTS, PoisonBisection
from ragweir.streams.runtime.records import Outcome, Record, ReplayBounds, TopicPartition
from ragweir.streams.runtime.recovery.offsets import OffsetTracker
from ragweir.streams.runtime.recovery.progress_group import ProgressGroup
from ragweir.streams.runtime.recovery.topic_identity import TopicIdentity
from ragweir.streams.runtime.serving.health import Health
from ragweir.streams.runtime.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_LOST = Aborted(KafkaError(KafkaError._ASSIGNMENT_LOST))
_WAIT_SECONDS = 0.1
"""Pause after a batch of which all records wait."""
DRAIN_SECONDS = 2.0
"""Time for which a stopping worker waits for work in flight."""


class KafkaRuntime:
    """Drives one agent in one slot, exactly once.

    Args:
        settings: all settings.
        identity: the slot's names in Kafka.
        agent: the agent to drive.
        inputs: the full names of the topics to read.
        telemetry: the service's instruments.
        health: the worker's health.
        stopped: returns true once the worker is to stop; the current batch is committed first.
        assignor: the assignment strategy of the group.
        bounds: the offsets and the rate of a replay; None reads the inputs without end.
        canary: the command line of the process that tries suspected records; without it the worker stops for good after
            too many attempts.
        forms: adds further forms to the agent's emissions.
    """

    def __init__(
        self,
        settings: Settings,
        identity: Identity,
        agent: Agent,
        inputs: Sequence[str],
        telemetry: Telemetry,
        health: Health,
        stopped: Callable[[], bool],
        assignor: Assignor = "roundrobin",
        bounds: ReplayBounds | None = None,
        canary: Sequence[str] = (),
        forms: Forms | None = None,
    ) -> None:
        connection, group = Connection(), identity.group
        stopped_and_alive = health.with_heartbeat(stopped)
        self._agent, self._inputs, self._stopped, self._telemetry = agent, inputs, stopped, telemetry
        self._holding, self._input_progress = agent.holding, agent.input_progress
        agent.preparation.on_member(identity.member)
        self._aborts = 0
        self._max_events = settings.batch.max_events
        self._bisection = PoisonBisection(settings.batch.max_events)
        self._consumer = consumer = build(Consumer, consumer_properties(settings, identity, connection, assignor))
        starts = bounds.starts if bounds else {}
        self._offsets = offsets = OffsetTracker(settings.input.start_from, self._on_missed, starts)
        self._reader = reader = BatchReader(
            consumer,
            offsets,
            settings.batch,
            Backpressure(agent.holding, consumer, offsets),
            ReplayLimiter(bounds, consumer),
            lambda error: restart_after(error, identity.member, connection.quiet_s),
        )
        client = CanaryClient(canary, stopped_and_alive) if canary else None
        self._crash_protection = CrashProtection(agent, client, self._commit_metadata, health.alive)
        counted = {settings.topics.prefix + name: name for name in agent.input_progress.counted_outputs}
        self._identity = TopicIdentity(
            settings, inputs, connection, self._on_wait, stopped, [*counted], agent.preparation.reads
        )
        self._progress = ProgressGroup(settings, identity.progress_group, self._identity.topics, stopped_and_alive)
        self._rebalance = RebalanceListener(
            settings,
            consumer,
            self._identity,
            self._progress,
            agent,
            group,
            offsets,
            reader,
            self._crash_protection,
            telemetry,
            stopped_and_alive,
            self._end_transaction,
            self._discard_transaction,
        )
        self._connection = connection
        self._status = Status(
            consumer,
            inputs[0],
            connection,
            self._rebalance,
            offsets,
            reader,
            telemetry,
            health,
            lag_from_read=agent.holding.lag_from_read,
        )
        self._clock = BrokerClock()
        self._ends = ConfirmedEnds(ask_kafka(self._identity.admin), reader.position, self._clock.now_s)
        reports = {"delivery.report.only.error": agent.clock_record is None}
        properties = {**producer_properties(settings, identity, connection), **reports}
        self._max_bytes = settings.commit.max_bytes
        self._transactions = Transactions(
            TransactionalProducer(settings, properties),
            {name: settings.output_topic(name) for name in agent.outputs} | dict(forms.topics if forms else {}),
            identity.member,
            connection,
            self._status.show,
            stopped,
            self._clock.on_delivery,
            settings.commit.interval_ms / 1_000,
        )
        self._topics = TopicReport(agent.input_progress, inputs, counted, self._identity, self._transactions, telemetry)
        self._unassigned = UnassignedPartitions(
            settings, consumer, group, self._topics.input_counts, connection, self._rejoin
        )
        self._committer = Committer(
            agent,
            self._transactions,
            offsets,
            self._crash_protection,
            self._progress,
            self._identity,
            self._bisection,
            self._status,
            telemetry,
            forms,
        )

    def run(self) -> None:
        """Drive the agent until `stopped` returns true.

        Raises:
            RestartRequired: if a new process has to go on.
            PermanentError: if people have to decide where a partition starts.
        """
        try:
            self._transactions.take_over()
            self._rebalance.subscribe(self._consumer, self._inputs)
            while not (self._stopped() or self._reader.restart_reason):
                self._process_batch()
            self._end_transaction()
            self._drain()
            self._commit_stop()
            if self._reader.restart_reason:
                self._committer.check_topics()
                raise RestartRequired(self._reader.restart_reason)
            self._consumer.close()
        except Interrupted:
            self._transactions.abandon()
            log.info("ended while waiting for the broker")
        except Aborted as aborted:
            raise RestartRequired(f"Kafka rejects the transaction: {aborted}") from None
        except KafkaException as error:
            raise RestartRequired(f"Kafka: {error.args[0].str()}") from None
        finally:
            # After an error the consumer is not closed: a fenced or lost one may block.
            self._status.end()
            self._crash_protection.close()

    # The loop.

    def _drain(self) -> None:
        """Wait a short while for work in flight, which would have to be repeated."""
        self._agent.drain()
        until = machine.monotonic() + DRAIN_SECONDS
        while self._holding.in_flight and machine.monotonic() < until:
            self._process_batch()

    def _process_batch(self) -> None:
        self._status.tick()
        # A replay reads the partitions that there were when it began.
        if not (self._offsets.is_replay or self._stopped()):
            self._unassigned.tick()
        records = self._reader.read(max(1, self._max_settled), linger=not self._committer.pending.is_open)
        if waiting := self._agent.preparation.waiting(records):
            self._put_back(records, waiting)
        self._committer.group_metadata = self._consumer.consumer_group_metadata()
        is_last = self._is_last_batch(len(records))
        asked = self._identity.due or (is_last and (bool(records) or self._committer.pending.is_open))
        if asked:
            self._identity.ask()
        try:
            if self._offsets.committed and not self._clock.is_asked:
                commit_clock_record(self._agent, self._transactions, self._clock, self._offsets.committed)
            if records and self._offsets.uncommitted:
                self._commit()  # The starts of partitions, with the agent's state there.
            self._begin(records)
            self._topics.show()
            outcome = self._handle(records)
            if is_last or self._is_last_batch():
                # Only here have all records that were read been handled.
                if confirmed := self._ends.confirmed(self._input_progress.to_confirm(self._offsets.committed)):
                    self._input_progress.on_ends(confirmed)
                self._commit(outcome)
            else:
                self._committer.add(outcome)
                if asked:
                    self._committer.check_topics()
        except Aborted as aborted:
            self._abort(aborted)
        finally:
            self._telemetry.add(self._agent.drain_metrics())

    def _put_back(self, records: list[Record], waiting: Collection[Record]) -> None:
        """Remove the records from a batch that wait; other partitions go on."""
        self._reader.put_back(waiting)
        gone = set(map(id, waiting))
        records[:] = [record for record in records if id(record) not in gone]
        if not records:
            machine.sleep(_WAIT_SECONDS)

    def _is_last_batch(self, records: int = 0) -> bool:
        """Return whether the transaction is to be committed after the current batch, of which records are not handled.

        Without a backlog that is each batch, and so are the first ones of a partition, whose attempts are counted.
        """
        pending = self._committer.pending
        return (
            not self._reader.has_more
            or pending.age_s >= self._transactions.interval_s
            or pending.handled + records >= self._bisection.limit
            or self._transactions.written_bytes >= self._max_bytes
            or self._agent.is_commit_due
            or self._crash_protection.attempts.in_progress
            or self._stopped()
        )

    def _begin(self, records: list[Record]) -> None:
        """Count the attempt and try suspects; remove the records that were not tried from the batch."""
        attempts = self._crash_protection.attempts
        if self._committer.pending.is_open and attempts.are_first(records):
            self._commit()
        first = self._crash_protection.begin(records)
        if attempts.in_progress:
            self._bisection.on_assigned()
        if first < len(records):
            self._reader.put_back(records[first:])
            del records[first:]

    def _handle(self, records: Sequence[Record]) -> Outcome:
        """Handle records and send what they come to; return what is to be sent with the end of the transaction.

        That is everything while attempts are in progress, and where each batch is committed.
        """
        rest, pending = Outcome(), self._committer.pending
        self._input_progress.on_time(self._clock.now_s())
        poison = self._bisection.poison
        if poison is not None and (poison in records or poison.topic_partition in self._holding.held):
            rest.extend(self._agent.dead_letter(poison, self._bisection.reason))
            records = [record for record in records if record != poison]
        if not records:
            return rest
        pending.begin(records)
        began, interval_s = machine.monotonic(), self._transactions.interval_s
        attempts = self._crash_protection.attempts
        is_one_batch = interval_s == 0 or attempts.in_progress or self._agent.is_commit_due
        for outcome in self._crash_protection.handle(records):
            rest.extend(outcome)
            if not is_one_batch:
                self._committer.add(rest)
                rest = Outcome()
                # Not even a batch that takes unusually long, or has large outputs, keeps a transaction open.
                if pending.age_s > 2 * interval_s or self._transactions.written_bytes >= 2 * self._max_bytes:
                    self._commit()
        pending.handle_s += machine.monotonic() - began
        return rest

    @property
    def _max_settled(self) -> int:
        """The number of records that the next batch, or the next tick, may settle."""
        return max(0, min(self._max_events, self._bisection.limit - self._committer.pending.settled))

    # One transaction.

    def _commit(self, outcome: Outcome | None = None) -> None:
        """Let the agent tick, and end the transaction.

        Args:
            outcome: the part of its outcome that is not sent yet.

        Raises:
            Aborted: if `_abort` has to be called.
            RestartRequired: if a new process has to go on.
        """
        outcome, began = outcome or Outcome(), machine.monotonic()
        limit = max(0, self._max_settled - len(outcome.settled))
        outcome.extend(self._agent.tick(self._clock.now_s(), self._reader.at_end, limit))
        self._committer.pending.handle_s += machine.monotonic() - began
        self._crash_protection.survive(outcome)
        self._committer.add(outcome)
        if self._committer.commit():
            self._aborts = 0

    def _commit_metadata(self) -> None:
        self._committer.commit_metadata()

    def _end_transaction(self) -> None:
        """Commit the open transaction before partitions are revoked, or the process stops."""
        if self._committer.pending.is_open:
            try:
                self._commit()
            except Aborted as aborted:
                self._discard_transaction(aborted)

    def _discard_transaction(self, aborted: Aborted = _LOST) -> None:
        """Abort the open transaction as partitions go away, whose next owner reads its records again."""
        if self._committer.pending.is_open:
            self._committer.undo(aborted)
            self._offsets.rewind()

    def _abort(self, aborted: Aborted) -> None:
        """Abort, go back to the committed offsets, and continue the search for a poison record."""
        poison, pending = self._bisection.poison, self._committer.pending
        is_letter_rejected = poison is not None and pending.offsets.get(poison.topic_partition, 0) > poison.offset
        is_empty = pending.settled == 0
        code = self._committer.undo(aborted).code()
        self._reader.rewind()
        if is_letter_rejected:
            log.error("Kafka rejects a dead letter; the partition waits until people correct the cause")
        if is_letter_rejected or is_empty or code not in RECORD_FAULTS:
            machine.sleep(min(0.1 * 2**self._aborts, 2.0))
            self._aborts += 1

    def _commit_stop(self) -> None:
        """Commit that no attempt is in progress and the progress group is up to date, as the worker stops in order."""
        if self._connection.lost_reason:
            return
        try:
            self._progress.end()
            self._crash_protection.withdraw()
            if self._progress.due(self._offsets.committed):
                self._committer.commit_metadata()
        except Aborted as aborted:
            self._transactions.abort(aborted)

    def _rejoin(self) -> None:
        """Leave the group and join it again: Kafka then assigns all partitions again."""
        self._end_transaction()
        self._consumer.unsubscribe()
        self._rebalance.subscribe(self._consumer, self._inputs)

    def _on_wait(self) -> None:
        self._status.show()

    def _on_missed(self, partition: TopicPartition, number: int) -> None:
        self._telemetry.count("ragweir_events_missed_total", number, partition[0], str(partition[1]))
