"""The Kafka runtime: one consumer, one transactional producer, one loop; outputs and offsets commit together.

A batch is read (`batches`), computed by the agent, and committed (`transactions`). After an abort it is read again from
the committed offsets; what a restart settles is left to the supervisor. Partitions come and go while a batch is read
(`partitions`). Records on which a process may have died are handled with `precautions`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

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
from ragweir.streams.runtimes.guard import Guard
from ragweir.streams.runtimes.offsets import OffsetTracker
from ragweir.streams.runtimes.partitions import Partitions
from ragweir.streams.runtimes.poison import RECORD_FAULTS, PoisonBisection
from ragweir.streams.runtimes.precautions import Precautions
from ragweir.streams.runtimes.progress_group import ProgressGroup
from ragweir.streams.runtimes.replay_limiter import ReplayLimiter
from ragweir.streams.runtimes.status import Status
from ragweir.streams.runtimes.topic_identity import TopicIdentity
from ragweir.streams.runtimes.transactions import Aborted, GroupOffsets, Transactions, restart_after
from ragweir.streams.runtimes.unread_partitions import UnreadPartitions
from ragweir.streams.serving.health import Health
from ragweir.streams.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

DRAIN_S = 2.0
"""How long a stopping worker waits for what is under way."""


class KafkaRuntime:
    """Drives one agent in one slot, exactly once.

    Args:
        settings: all of them.
        identity: of the slot.
        agent: computes what to emit.
        inputs: the topics to read, by their full names.
        telemetry: the service's instruments.
        health: says whether the worker is ready.
        stopped: says whether to stop; the batch in hand is committed first.
        assignor: how Kafka deals out the inputs' partitions.
        bounds: what of the inputs is read; all of it without.
        canary: the command line of the process that tries suspected records; without it the worker stops for good
            after so many attempts.
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
        self._agent, self._inputs, self._stopped = agent, inputs, stopped
        self._aborts = 0
        self._isolation = PoisonBisection(settings.batch.max_events)
        self._consumer = consumer = build(Consumer, consumer_properties(settings, identity, connection, assignor))
        starts = bounds.starts if bounds else {}
        self._positions = positions = OffsetTracker(settings.input.start_from, self._missed, starts)
        pacing, bounding = Backpressure(agent, consumer, positions), ReplayLimiter(bounds, consumer)
        self._reader = reader = BatchReader(
            *(consumer, positions, settings.batch, pacing, bounding),
            lambda error: restart_after(error, identity.member, connection.quiet_s),
        )
        guard = Guard(canary, health.alive, stopped) if canary else None
        self._precautions = Precautions(agent, guard, self._note, health.alive)
        waiting = health.beating(stopped)
        self._identity = TopicIdentity(settings, inputs, connection, self._waiting, stopped)
        # What an agent without a provenance has written tells of every partition, idle ones too.
        self._progress = ProgressGroup(
            settings, identity.progress_group if agent.provenance else None, self._identity.known, waiting
        )
        self._partitions = Partitions(
            settings,
            consumer,
            self._identity,
            self._progress,
            agent,
            group,
            positions,
            reader,
            self._precautions,
            telemetry,
            health.alive,
            waiting,
        )
        self._status = Status(consumer, inputs[0], connection, self._partitions, positions, reader, telemetry, health)
        self._unread = UnreadPartitions(
            settings, consumer, group, lambda: self._identity.partitions, connection, self._rejoin
        )
        self._clock = BrokerClock()
        reports = {"delivery.report.only.error": agent.clock_record is None}
        self._transactions = Transactions(
            build(Producer, {**producer_properties(settings, identity, connection), **reports}),
            {name: settings.topics.prefix + name for name in agent.outputs},
            identity.member,
            connection,
            self._status.show,
            stopped,
            self._clock.delivered,
        )

    def run(self) -> None:
        """Work until told to stop.

        Raises:
            RestartRequired: if the process has to be replaced by a new one.
            PermanentError: if a partition cannot be begun without a decision by people.
        """
        try:
            self._transactions.take_over()
            self._partitions.subscribe(self._consumer, self._inputs)
            while not (self._stopped() or self._reader.overtaken):
                self._turn()
            self._drain()
            self._withdraw()
            if self._reader.overtaken:
                self._must_be_same()
                raise RestartRequired(self._reader.overtaken)
            self._consumer.close()
        except Interrupted:
            log.info("ended while waiting for the broker")
        except Aborted as aborted:
            raise RestartRequired(f"Kafka refuses the transaction: {aborted}") from None
        except KafkaException as error:
            raise RestartRequired(f"Kafka: {error.args[0].str()}") from None
        finally:
            # The consumer is not closed on the way out of an error: a fenced or lost one may hang, and the broker
            # settles what it left.
            self._status.end()
            self._precautions.close()

    # The loop.

    def _drain(self) -> None:
        """Let what is under way come to its end, for a while: what is given up has to be done again."""
        self._agent.drain()
        until = time.monotonic() + DRAIN_S
        while self._agent.in_flight and time.monotonic() < until:
            self._turn()

    def _turn(self) -> None:
        self._status.watch()
        # A replay reads the partitions that there were when it began.
        if not (self._positions.bounded or self._stopped()):
            self._unread.watch()
        records = self._reader.read(self._isolation.limit)
        asked = bool(records) or self._identity.due
        if asked:
            self._identity.ask()
        outcome = Outcome()
        began = handled = time.perf_counter()
        try:
            if len(self._positions) and not self._clock.is_asked:
                self._ask_time()
            if records and self._positions.uncommitted:
                self._commit_start()
            self._begin(records)
            outcome = self._work(records)
            handled = time.perf_counter()
            self._precautions.survived(outcome)
            commits = bool(
                outcome.settled or outcome.emissions or self._positions.uncommitted or self._precautions.uncommitted
            )
            if asked or commits:
                self._must_be_same()
            if commits:
                self._commit(outcome.emissions, outcome.settled)
                self._isolation.committed()
                self._precautions.settled()
                self._aborts = 0
                self._status.batch(len(records), handled - began, time.perf_counter() - handled)
            elif self._progress.due(self._positions.committed_all()):
                self._note()
        except Aborted as aborted:
            self._agent.on_abort()
            self._abort(aborted, outcome.settled)
        else:
            self._committed(outcome)
        finally:
            self._status.measured(self._agent.drain_metrics())

    def _begin(self, records: list[Record]) -> None:
        """Take precautions; what there was no time for is taken out of the batch, and read again."""
        first = self._precautions.begin(records)
        if first < len(records):
            self._reader.put_back(records[first:])
            del records[first:]

    def _work(self, records: Sequence[Record]) -> Outcome:
        outcome = Outcome()
        condemned = self._isolation.condemned
        if condemned is not None and (condemned in records or condemned.topic_partition in self._agent.held):
            outcome = self._agent.dead_letter(condemned, self._isolation.reason)
            records = [record for record in records if record != condemned]
        if records:
            outcome.extend(self._precautions.handled(records))
        most = self._isolation.limit - len(outcome.settled)
        outcome.extend(self._agent.tick(self._clock.now_s(), self._reader.at_end, most))
        return outcome

    def _must_be_same(self) -> None:
        """See that what was read is of the topics whose offsets are committed.

        Raises:
            RestartRequired: if a topic was deleted and made again. Nothing of the batch is committed.
        """
        if not (changed := self._identity.changed()):
            return
        try:
            # Kafka forgets offsets with their topic: the next process has to find those of the old one.
            self._note()
        except Aborted as aborted:
            self._transactions.abort(aborted)
        names = ", ".join(changed)
        raise RestartRequired(f"{names}: deleted and made again; a restart begins at its start, and repeats nothing")

    # One transaction.

    def _commit_start(self) -> None:
        """Commit where partitions start, with what the agent tells of that, before any record is handled."""
        outcome = self._agent.tick(self._clock.now_s(), self._reader.at_end, self._isolation.limit)
        self._commit(outcome.emissions, outcome.settled)
        self._committed(outcome)

    def _ask_time(self) -> None:
        """Commit a record whose delivery report tells the brokers' time, before the agent is told any."""
        if (record := self._agent.clock_record) is None:
            return
        _, partition = self._positions.partitions()[0]
        self._commit([replace(record, partition=partition)], [])
        if not self._clock.is_brokers:
            log.warning(
                "the days of the budget follow this machine's clock: the topic does not have the brokers' time",
                topic=record.topic,
                setting="message.timestamp.type=LogAppendTime",
            )

    def _note(self) -> None:
        """Commit the offsets as they are, for the sake of their metadata."""
        self._commit([], [])

    def _commit(self, emissions: Sequence[Emission], settled: Sequence[Record]) -> None:
        before = dict(self._positions.committed_all())
        offsets = self._precautions.noted(self._positions.offsets(settled), before)
        own = GroupOffsets(offsets, self._consumer.consumer_group_metadata())
        progress = self._progress.offsets(offsets)
        also = [GroupOffsets(progress, self._progress.metadata)] if progress else []
        self._transactions.commit(emissions, own, *also)
        self._progress.committed(progress)
        self._precautions.committed(offsets, before)
        self._positions.committed()
        self._status.transaction("committed")

    def _committed(self, outcome: Outcome) -> None:
        """Take note that an outcome is committed, or that there was nothing to commit."""
        self._agent.on_commit()
        self._status.committed(outcome)

    def _abort(self, aborted: Aborted, records: Sequence[Record]) -> None:
        """Abort, go back to the committed offsets, and remember what may be at fault."""
        condemned = self._isolation.condemned
        cause = self._transactions.abort(aborted)
        self._status.transaction("aborted")
        log.warning("transaction aborted", reason=cause.str(), code=cause.name(), events=len(records))
        self._isolation.aborted(cause.code(), f"Kafka refuses what it came to: {cause.str()}", records)
        self._reader.rewind()
        refused = condemned is not None and condemned in records
        if refused:
            log.error("a dead letter is refused; nothing is passed over, so people have to mend this")
        if refused or not records or cause.code() not in RECORD_FAULTS:
            time.sleep(min(0.1 * 2**self._aborts, 2.0))
            self._aborts += 1

    def _withdraw(self) -> None:
        """A stop in good order counts as no attempt, and leaves nothing that the progress group does not know."""
        if self._status.lost:
            return
        try:
            self._progress.end()
            self._precautions.withdraw()
            if self._progress.due(self._positions.committed_all()):
                self._note()
        except Aborted as aborted:
            self._transactions.abort(aborted)

    def _rejoin(self) -> None:
        """Leave the group, and join it again at once: Kafka then assigns all partitions anew."""
        self._consumer.unsubscribe()
        self._partitions.subscribe(self._consumer, self._inputs)

    def _waiting(self) -> None:
        self._status.show()

    def _missed(self, place: TopicPartition, number: int) -> None:
        self._status.missed(place, number)
