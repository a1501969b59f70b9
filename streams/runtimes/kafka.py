"""The Kafka runtime: one consumer, one transactional producer, one loop; outputs and offsets commit together.

A batch is read (`batches`), handled by the agent and committed (`transactions`). After an abort it is read again from
the committed offsets; errors that need a restart are left to the supervisor. Partitions are assigned and revoked while
a batch is read (`rebalance`). Records on which a process may have died are tried first (`crash_protection`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import structlog
from confluent_kafka import Consumer, KafkaException, Producer

from ragweir.errors import Interrupted, RestartRequired
from ragweir.streams.agent import Agent
from ragweir.streams.kafka.client import (
    Assignor,
    Connection,
    Identity,
    build,
    consumer_properties,
    producer_properties,
)
from ragweir.streams.records import Emission, Outcome, Record, ReplayBounds, TopicPartition
from ragweir.streams.runtimes.backpressure import Backpressure
from ragweir.streams.runtimes.batches import BatchReader
from ragweir.streams.runtimes.broker_clock import BrokerClock
from ragweir.streams.runtimes.canary_client import CanaryClient
from ragweir.streams.runtimes.confirmed_ends import ConfirmedEnds, ask_kafka
from ragweir.streams.runtimes.crash_protection import CrashProtection
from ragweir.streams.runtimes.offsets import OffsetTracker
from ragweir.streams.runtimes.poison import RECORD_FAULTS, PoisonBisection
from ragweir.streams.runtimes.progress_group import ProgressGroup
from ragweir.streams.runtimes.rebalance import RebalanceListener
from ragweir.streams.runtimes.replay_limiter import ReplayLimiter
from ragweir.streams.runtimes.status import Status
from ragweir.streams.runtimes.topic_identity import TopicIdentity
from ragweir.streams.runtimes.transactions import Aborted, GroupOffsets, Transactions, restart_after
from ragweir.streams.runtimes.unassigned_partitions import UnassignedPartitions
from ragweir.streams.serving.health import Health
from ragweir.streams.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

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
    ) -> None:
        connection, group = Connection(), identity.group
        stopped_and_alive = health.with_heartbeat(stopped)
        self._agent, self._inputs, self._stopped, self._telemetry = agent, inputs, stopped, telemetry
        self._aborts = 0
        self._bisection = PoisonBisection(settings.batch.max_events)
        self._consumer = consumer = build(Consumer, consumer_properties(settings, identity, connection, assignor))
        starts = bounds.starts if bounds else {}
        self._offsets = offsets = OffsetTracker(settings.input.start_from, self._on_missed, starts)
        self._reader = reader = BatchReader(
            consumer,
            offsets,
            settings.batch,
            Backpressure(agent, consumer, offsets),
            ReplayLimiter(bounds, consumer),
            lambda error: restart_after(error, identity.member, connection.quiet_s),
        )
        client = CanaryClient(canary, stopped_and_alive) if canary else None
        self._crash_protection = CrashProtection(agent, client, self._commit_metadata, health.alive)
        self._counted_outputs = {settings.topics.prefix + name: name for name in agent.counted_outputs}
        self._identity = TopicIdentity(settings, inputs, connection, self._on_wait, stopped, [*self._counted_outputs])
        self._counts: Mapping[str, int] = {}
        # The changelog of an agent without a provenance holds the progress of every partition, idle ones too.
        progress = identity.progress_group if agent.provenance else None
        self._progress = ProgressGroup(settings, progress, self._identity.topics, stopped_and_alive)
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
            lag_from_read=agent.lag_from_read,
        )
        self._unassigned = UnassignedPartitions(settings, consumer, group, self._input_counts, connection, self._rejoin)
        self._clock = BrokerClock()
        self._ends = None
        if agent.confirms_ends:
            self._ends = ConfirmedEnds(ask_kafka(self._identity.admin), reader.position, self._clock.now_s)
        reports = {"delivery.report.only.error": agent.clock_record is None}
        self._transactions = Transactions(
            build(Producer, {**producer_properties(settings, identity, connection), **reports}),
            {name: settings.output_topic(name) for name in agent.outputs},
            identity.member,
            connection,
            self._status.show,
            stopped,
            self._clock.on_delivery,
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
            self._drain()
            self._commit_stop()
            if self._reader.restart_reason:
                self._check_topics()
                raise RestartRequired(self._reader.restart_reason)
            self._consumer.close()
        except Interrupted:
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
        until = time.monotonic() + DRAIN_SECONDS
        while self._agent.in_flight and time.monotonic() < until:
            self._process_batch()

    def _process_batch(self) -> None:
        self._status.tick()
        # A replay reads the partitions that there were when it began.
        if not (self._offsets.is_replay or self._stopped()):
            self._unassigned.tick()
        records = self._reader.read(self._bisection.limit)
        asked = bool(records) or self._identity.due
        if asked:
            self._identity.ask()
        outcome = Outcome()
        began = handled = time.perf_counter()
        try:
            if self._offsets.committed and not self._clock.is_asked:
                self._commit_clock_record()
            if records and self._offsets.uncommitted:
                self._commit_start()
            self._begin(records)
            self._show_counts()
            outcome = self._handle(records)
            handled = time.perf_counter()
            self._crash_protection.survive(outcome)
            commits = bool(
                outcome.settled
                or outcome.emissions
                or self._offsets.uncommitted
                or self._crash_protection.attempts.uncommitted
            )
            if asked or commits:
                self._check_topics()
            if commits:
                self._commit(outcome.emissions, outcome.settled)
                self._bisection.on_commit()
                self._crash_protection.on_commit()
                self._aborts = 0
                self._status.on_batch(len(records), handled - began, time.perf_counter() - handled)
            elif self._progress.due(self._offsets.committed):
                self._commit_metadata()
        except Aborted as aborted:
            self._agent.on_abort()
            self._abort(aborted, outcome.settled)
        else:
            self._on_commit(outcome)
        finally:
            self._telemetry.add(self._agent.drain_metrics())

    def _begin(self, records: list[Record]) -> None:
        """Count the attempt and try suspects; remove the records that were not tried from the batch."""
        first = self._crash_protection.begin(records)
        if first < len(records):
            self._reader.put_back(records[first:])
            del records[first:]

    def _handle(self, records: Sequence[Record]) -> Outcome:
        outcome = Outcome()
        poison = self._bisection.poison
        if poison is not None and (poison in records or poison.topic_partition in self._agent.held):
            outcome = self._agent.dead_letter(poison, self._bisection.reason)
            records = [record for record in records if record != poison]
        if records:
            outcome.extend(self._crash_protection.handle(records))
        if self._ends and (confirmed := self._ends.confirmed(self._offsets.committed)):
            self._agent.on_ends(confirmed)
        limit = self._bisection.limit - len(outcome.settled)
        outcome.extend(self._agent.tick(self._clock.now_s(), self._reader.at_end, limit))
        return outcome

    def _show_counts(self) -> None:
        """Hand partition counts that are new to the agent."""
        counts = self._identity.partitions
        if counts == self._counts:
            return
        outputs = {topic: counts[topic] for topic in self._counted_outputs if topic in counts}
        if all(self._transactions.knows_partitions(*each) for each in outputs.items()):
            self._counts = counts
            own = {self._counted_outputs[topic]: count for topic, count in outputs.items()}
            self._agent.on_partition_counts(self._input_counts(), own)

    def _input_counts(self) -> Mapping[str, int]:
        return {name: count for name, count in self._identity.partitions.items() if name not in self._counted_outputs}

    def _check_topics(self) -> None:
        """Check that the records that were read belong to the topics whose offsets are committed.

        Raises:
            RestartRequired: if a topic was deleted and created again. Nothing of the batch is committed.
        """
        if not (changed := self._identity.changed()):
            return
        try:
            # Kafka deletes offsets with their topic: the next process has to find those of the old one.
            self._commit_metadata()
        except Aborted as aborted:
            self._transactions.abort(aborted)
        names = ", ".join(changed)
        raise RestartRequired(f"{names}: deleted and created again; a restart reads from its start, without duplicates")

    # One transaction.

    def _commit_start(self) -> None:
        """Commit the starts of partitions, with the agent's state there, before any record is handled."""
        outcome = self._agent.tick(self._clock.now_s(), self._reader.at_end, self._bisection.limit)
        self._commit(outcome.emissions, outcome.settled)
        self._on_commit(outcome)

    def _commit_clock_record(self) -> None:
        """Commit a record whose delivery report has the brokers' time, before the agent's first `tick`."""
        if (record := self._agent.clock_record) is None:
            return
        _, partition = next(iter(self._offsets.committed))
        self._commit([record._replace(partition=partition)], [])
        if not self._clock.is_brokers:
            log.warning(
                "the days of the budget follow this machine's clock: the topic does not have the brokers' time",
                topic=record.topic,
                setting="message.timestamp.type=LogAppendTime",
            )

    def _commit_metadata(self) -> None:
        """Commit the current offsets with new metadata."""
        self._commit([], [])

    def _commit(self, emissions: Sequence[Emission], settled: Sequence[Record]) -> None:
        before, attempts = dict(self._offsets.committed), self._crash_protection.attempts
        offsets = attempts.with_metadata(self._offsets.next_offsets(settled), before, self._agent.note)
        own = GroupOffsets(offsets, self._consumer.consumer_group_metadata())
        progress = self._progress.offsets(offsets)
        further = [GroupOffsets(progress, self._progress.metadata)] if progress else []
        self._transactions.commit(emissions, own, *further)
        self._progress.on_commit(progress)
        attempts.on_commit(offsets, before)
        self._offsets.on_commit()
        self._telemetry.count("ragweir_transactions_total", 1, "committed")

    def _on_commit(self, outcome: Outcome) -> None:
        """Report that an outcome is committed, or that there was nothing to commit."""
        self._agent.on_commit()
        self._status.on_commit(outcome)

    def _abort(self, aborted: Aborted, records: Sequence[Record]) -> None:
        """Abort, go back to the committed offsets, and continue the search for a poison record."""
        poison = self._bisection.poison
        cause = self._transactions.abort(aborted)
        self._telemetry.count("ragweir_transactions_total", 1, "aborted")
        log.warning("transaction aborted", reason=cause.str(), code=cause.name(), events=len(records))
        self._bisection.on_abort(cause.code(), f"Kafka refuses what it came to: {cause.str()}", records)
        self._reader.rewind()
        is_letter_rejected = poison is not None and poison in records
        if is_letter_rejected:
            log.error("Kafka rejects a dead letter; the partition waits until people correct the cause")
        if is_letter_rejected or not records or cause.code() not in RECORD_FAULTS:
            time.sleep(min(0.1 * 2**self._aborts, 2.0))
            self._aborts += 1

    def _commit_stop(self) -> None:
        """Commit that no attempt is in progress and the progress group is up to date, as the worker stops in order."""
        if self._connection.lost_reason:
            return
        try:
            self._progress.end()
            self._crash_protection.withdraw()
            if self._progress.due(self._offsets.committed):
                self._commit_metadata()
        except Aborted as aborted:
            self._transactions.abort(aborted)

    def _rejoin(self) -> None:
        """Leave the group and join it again: Kafka then assigns all partitions again."""
        self._consumer.unsubscribe()
        self._rebalance.subscribe(self._consumer, self._inputs)

    def _on_wait(self) -> None:
        self._status.show()

    def _on_missed(self, partition: TopicPartition, number: int) -> None:
        self._telemetry.count("ragweir_events_missed_total", number, partition[0], str(partition[1]))
