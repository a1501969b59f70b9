"""The Kafka runtime: one consumer, one transactional producer, one loop; outputs and offsets commit together.

What is read is accepted once and in order (`positions`), computed by the agent, and committed (`transactions`). After
an abort it is read again from the committed offsets; what a restart settles is left to the supervisor. Records on which
a process may have died are handled with `precautions`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import stamina
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import Interrupted, PermanentError, RestartRequired, StateError
from ragweir.streams.agents.agent import Agent, Keeper, Mindful, Patient, Traced
from ragweir.streams.kafka_client import Assignor, Connection, Identity, build, consumer_properties, producer_properties
from ragweir.streams.records import Emission, Outcome, Record, TopicPartition
from ragweir.streams.runtimes.attempts import Attempts, OffsetMetadata
from ragweir.streams.runtimes.bounds import Bounding, Bounds
from ragweir.streams.runtimes.changelog import before, changelog
from ragweir.streams.runtimes.guard import Guard
from ragweir.streams.runtimes.isolation import RECORD_FAULTS, Isolation
from ragweir.streams.runtimes.messages import place_of, received
from ragweir.streams.runtimes.pacing import Pacing
from ragweir.streams.runtimes.positions import Positions
from ragweir.streams.runtimes.precautions import Precautions
from ragweir.streams.runtimes.traces import Traces
from ragweir.streams.runtimes.transactions import CALL_TIMEOUT_S, Aborted, Transactions, restart_after
from ragweir.streams.serving.dead_letter_log import DeadLetterLog
from ragweir.streams.serving.health import Health
from ragweir.streams.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

DRAIN_S = 2.0
"""How long a stopping worker waits for what is under way."""
_LAG_EVERY_S = 5.0
_DOUBT_S = 4.0
"""How long committed offsets that do not fit the state are asked for again: a coordinator that is still loading can
answer wrong ones; see `ragweir.streams.runtimes.traces`."""


class KafkaRuntime:
    """Drives one agent in one slot, exactly once.

    Args:
        agent: computes what to emit.
        inputs: the topics to read, by their full names.
        stopped: says whether to stop; the batch in hand is committed first.
        assignor: how Kafka deals out the inputs' partitions.
        bounds: what of the inputs is read; all of it without.
        canary: the command line of the process that tries suspected records; without it, and for agents with state,
            the worker stops for good after so many attempts.
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
        bounds: Bounds | None = None,
        canary: Sequence[str] = (),
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._agent = agent
        self._inputs = list(inputs)
        self._topics = {name: settings.topics.prefix + name for name in agent.outputs}
        self._telemetry = telemetry
        self._dead_letters = DeadLetterLog()
        self._health = health
        self._stopped, self._stopped_beating = stopped, health.beating(stopped)
        self._connection = Connection()
        self._positions = Positions(settings.input.start_from, self._missed, bounds.starts if bounds else {})
        self._isolation = Isolation(settings.batch.max_events)
        self._attempts = Attempts()
        self._keeper = agent if isinstance(agent, Keeper) else None
        self._mindful = agent if isinstance(agent, Mindful) else None
        self._patient = agent if isinstance(agent, Patient) else None
        self._traces = (
            Traces(settings, agent, self._topics[agent.trace], stopped, health.alive)
            if isinstance(agent, Traced)
            else None
        )
        guard = Guard(canary, health.alive, stopped) if canary and self._keeper is None else None
        self._precautions = Precautions(agent, self._attempts, guard, self._note, health.alive)
        self._ends: set[TopicPartition] = set()
        self._pending: list[Record] = []
        self._aborts = 0
        self._lag_at = 0.0
        self._joined = False
        self._consumer = build(Consumer, consumer_properties(settings, identity, self._connection, assignor))
        producer = build(Producer, producer_properties(settings, identity, self._connection))
        topics, member = self._topics, identity.member
        self._transactions = Transactions(producer, topics, member, self._connection, self._waiting, stopped)
        self._bounding = None if bounds is None else Bounding(bounds, self._consumer)
        self._pacing = (
            None if self._patient is None else Pacing(self._patient, self._consumer, self._positions, self._seek)
        )

    def run(self) -> None:
        """Work until told to stop.

        Raises:
            RestartRequired: if the process has to be replaced by a new one.
            PermanentError: if a partition cannot be begun without a decision by people.
        """
        try:
            self._transactions.take_over()
            self._consumer.subscribe(self._inputs, self._assigned, self._revoked, self._lost)
            while not self._stopped():
                self._turn()
            self._drain()
            self._withdraw()
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
            self._health.not_ready = "stopped"
            self._precautions.close()
            self._dead_letters.flush()

    # The loop.

    def _drain(self) -> None:
        """Let what is under way come to its end, for a while: what is given up has to be done again."""
        if self._patient is None:
            return
        self._patient.finish()
        until = time.monotonic() + DRAIN_S
        while self._patient.busy and time.monotonic() < until:
            self._turn()

    def _turn(self) -> None:
        self._health.alive()
        self._dead_letters.tick()
        self._watch()
        records = self._gather()
        began = handled = time.perf_counter()
        try:
            if records and self._positions.uncommitted:
                self._commit_start()
            self._begin(records)
            outcome = self._work(records)
            handled = time.perf_counter()
            self._precautions.survived(records)
            moved = bool(records) and self._patient is None
            if not (moved or outcome.emissions or self._positions.uncommitted or self._attempts.uncommitted):
                self._settled(committed=True)
                return
            self._transact(outcome)
        except Aborted as aborted:
            self._settled(committed=False)
            # Of a patient agent nobody knows which record is at fault; what it emits is no larger than what it read.
            self._abort(aborted, records if self._patient is None else [])
            return
        self._settled(committed=True)
        self._isolation.committed()
        self._precautions.committed()
        self._aborts = 0
        self._telemetry.add(outcome.counts)
        self._dead_letters.committed(outcome)
        self._telemetry.show(outcome.levels)
        self._telemetry.count("ragweir_transactions_total", 1, "committed")
        self._telemetry.observe("ragweir_batch_events", len(records))
        self._telemetry.observe("ragweir_handle_seconds", handled - began)
        self._telemetry.observe("ragweir_commit_seconds", time.perf_counter() - handled)
        self._telemetry.set("ragweir_last_commit_timestamp_seconds", time.time())

    def _work(self, records: Sequence[Record]) -> Outcome:
        reason = self._isolation.verdict(records)
        outcome = self._agent.refuse(records[0], reason) if reason else self._precautions.handled(records)
        if self._keeper is not None:
            held = self._positions.places()
            outcome.extend(self._keeper.look(time.time(), [place[1] for place in held if place in self._ends]))
        if self._patient is not None:
            counts, levels, seconds = self._patient.observed()
            self._telemetry.add(counts)
            self._telemetry.show(levels)
            for each in seconds:
                self._telemetry.observe("ragweir_judge_call_seconds", each)
        return outcome

    def _commit_start(self) -> None:
        """Commit where partitions start, with what the agent tells of that, before any record is handled."""
        outcome = self._work([])
        self._commit(outcome.emissions, self._positions.offsets(self._patient.finished() if self._patient else {}))
        self._settled(committed=True)
        self._telemetry.add(outcome.counts)
        self._telemetry.show(outcome.levels)
        self._telemetry.count("ragweir_transactions_total", 1, "committed")

    def _begin(self, records: list[Record]) -> None:
        """Take precautions; what there was no time for is taken out of the batch, and read again."""
        first = self._precautions.begin(records)
        if first < len(records):
            self._put_back(records, first)

    def _put_back(self, records: list[Record], first: int) -> None:
        back: dict[TopicPartition, int] = {}
        for record in records[first:]:
            back.setdefault((record.topic, record.partition), record.offset)
        del records[first:]
        if self._bounding is not None:
            self._bounding.forget()
        for place, offset in back.items():
            self._positions.back(place, offset)
            self._seek(PartitionOffset(*place, offset))

    def _withdraw(self) -> None:
        """A stop in good order counts as no attempt."""
        if not self._attempts.withdraw() or self._connection.lost_because:
            return
        try:
            self._note()
        except Aborted as aborted:
            self._transactions.abort(aborted)

    def _note(self) -> None:
        """Commit the offsets as they are, for the sake of their metadata."""
        self._commit([], self._positions.offsets({}))
        self._telemetry.count("ragweir_transactions_total", 1, "committed")

    def _settled(self, *, committed: bool) -> None:
        for each in (self._keeper, self._mindful):
            if each is not None:
                each.settled(committed=committed)

    def _gather(self) -> list[Record]:
        """Read a batch: up to the limits, for at most the maximal wait."""
        self._pending = []
        batch = self._settings.batch
        deadline = time.monotonic() + batch.max_wait_ms / 1000
        size = 0
        # At least one, so that the client is always polled; with no room nothing comes.
        limit = min(self._isolation.limit, max(1, self._pacing.pace())) if self._pacing else self._isolation.limit
        if self._bounding is not None:
            limit = self._bounding.room(limit)
        while len(self._pending) < limit and size < batch.max_bytes:
            message = self._consumer.poll(max(0.0, deadline - time.monotonic()))
            if message is None:
                break
            error = message.error()
            if error is not None:
                self._consumer_error(error, message)
                continue
            record = received(message)
            if self._bounding is not None and not self._bounding.admits(record):
                continue
            if self._positions.accept(record):
                self._pending.append(record)
                self._ends.discard((record.topic, record.partition))
                size += len(record.value or b"") + len(record.key or b"")
        if self._bounding is not None:
            self._bounding.took(len(self._pending))
        return self._pending

    def _watch(self) -> None:
        """Keep health and lag current; notice when a lost broker is back."""
        if self._connection.lost_because:
            try:
                self._consumer.list_topics(self._inputs[0], timeout=CALL_TIMEOUT_S)
                self._connection.back()
            except KafkaException:
                pass
        self._show()
        if time.monotonic() < self._lag_at:
            return
        self._lag_at = time.monotonic() + _LAG_EVERY_S
        for topic, partition in self._positions.places():
            low, high = self._consumer.get_watermark_offsets(PartitionOffset(topic, partition), cached=True)
            if low <= high:  # Before the first fetch the cache holds nothing.
                # The marks of others' transactions have offsets too, but are nothing to read.
                settled, read = self._positions.standing((topic, partition))
                lag = 0 if (topic, partition) in self._ends and settled == read else max(0, high - settled)
                self._telemetry.set("ragweir_lag", lag, topic, str(partition))

    def _show(self) -> None:
        """Show whether the worker can work."""
        lost = self._connection.lost_because or self._connection.refused_because
        self._telemetry.set("ragweir_broker_up", 0 if lost else 1)
        if lost:
            self._health.not_ready = f"the broker is lost: {lost}"
        else:
            self._health.not_ready = "" if self._joined else "waiting for partitions"

    def _waiting(self) -> None:
        self._health.alive()
        self._show()

    # One transaction.

    def _transact(self, outcome: Outcome) -> None:
        self._commit(
            outcome.emissions, self._positions.offsets(None if self._patient is None else self._patient.finished())
        )

    def _commit(self, emissions: Sequence[Emission], offsets: Sequence[PartitionOffset]) -> None:
        before = dict(self._positions.settled_all())
        noted = self._attempts.noted(offsets, before)
        self._transactions.commit(emissions, noted, self._consumer.consumer_group_metadata())
        self._attempts.committed(noted, before)
        self._positions.committed()

    def _abort(self, aborted: Aborted, records: Sequence[Record]) -> None:
        """Abort, go back to the committed offsets, and remember what may be at fault."""
        cause = self._transactions.abort(aborted)
        self._telemetry.count("ragweir_transactions_total", 1, "aborted")
        log.warning("transaction aborted", reason=cause.str(), code=cause.name(), events=len(records))
        buried = bool(self._isolation.verdict(records))
        self._isolation.aborted(cause.code(), f"Kafka refuses what it came to: {cause.str()}", records)
        if self._bounding is not None:
            self._bounding.forget()  # What goes back may have been read to its end.
        for position in self._positions.rewind():
            if self._pacing is None or (position.topic, position.partition) not in self._pacing.paused:
                self._seek(position)
        if buried:
            log.error("a dead letter is refused; nothing is passed over, so people have to mend this")
        if buried or not records or cause.code() not in RECORD_FAULTS:
            time.sleep(min(0.1 * 2**self._aborts, 2.0))
            self._aborts += 1

    def _seek(self, position: PartitionOffset) -> None:
        for _ in range(20):
            try:
                return self._consumer.seek(position)
            except KafkaException as error:
                # A partition that was only just assigned cannot be sought yet.
                if error.args[0].code() != KafkaError._STATE:
                    raise
                time.sleep(0.1)
        raise RestartRequired(f"{position.topic}/{position.partition} cannot be sought; a restart settles it")

    # What the consumer tells. These run inside poll, so never within a transaction.

    def _assigned(self, consumer: Consumer, partitions: list[PartitionOffset]) -> None:
        insistent = stamina.RetryingCaller(attempts=None, timeout=_DOUBT_S, wait_initial=0.5, wait_max=2.0)
        try:
            started = insistent(StateError, self._take_over, consumer, partitions)
        except StateError as error:
            raise PermanentError(str(error)) from None
        consumer.assign([start for _, start in started])
        self._joined = True
        self._telemetry.set("ragweir_assigned_partitions", len(self._positions))
        log.info("partitions assigned", now=len(started), held=len(self._positions))

    def _take_over(
        self, consumer: Consumer, partitions: list[PartitionOffset]
    ) -> list[tuple[int | None, PartitionOffset]]:
        self._health.alive()
        if self._stopped():
            raise Interrupted
        mended = self._traces.mended if self._traces else list
        started = self._positions.start(consumer, partitions, self._stopped_beating, mended)
        for committed, start in started:
            found = self._precautions.take_over(start, self._identity.group)
            self._restore(committed, start)
            self._remind(start, found)
        return started

    def _restore(self, committed: int | None, start: PartitionOffset) -> None:
        if self._keeper is None or start.topic != self._inputs[0]:
            return  # Where there are several inputs, the state goes with the first one's partitions.
        topic, partition = self._topics[self._keeper.changelog], start.partition
        began = time.monotonic()
        records = changelog(self._settings, topic, partition, self._stopped_beating, self._health.alive)
        try:
            self._keeper.restore(partition, committed, start.offset, records)
        except StateError as error:
            log.warning("the committed offset does not fit the state", partition=partition, reason=str(error))
            raise
        finally:
            records.close()
        log.info("state restored", partition=partition, seconds=round(time.monotonic() - began, 1))

    def _remind(self, start: PartitionOffset, known: OffsetMetadata) -> None:
        if self._mindful is not None:
            records = before(self._settings, start, self._mindful.horizon, self._stopped, self._health.alive)
            readable = (record for record in records if known.readable(record.offset))
            self._mindful.remember((start.topic, start.partition), start.offset, readable)
            records.close()

    def _revoked(self, consumer: Consumer, partitions: list[PartitionOffset]) -> None:
        for each in (self._pacing, self._bounding):
            if each is not None:
                each.forget()
        # What was read of them and not yet handled belongs to their next owner.
        self._positions.drop(partitions)
        gone = {(each.topic, each.partition) for each in partitions}
        self._pending[:] = [record for record in self._pending if (record.topic, record.partition) not in gone]
        self._ends -= gone
        self._attempts.drop(gone)
        if self._keeper is not None:
            self._keeper.drop([partition for _, partition in gone])
        if self._mindful is not None:
            self._mindful.forget(gone)
        consumer.unassign()
        self._telemetry.set("ragweir_assigned_partitions", len(self._positions))
        for topic, partition in gone:
            self._telemetry.forget("ragweir_lag", topic, str(partition))
            for level in ("ragweir_watermark_timestamp_seconds", "ragweir_windows_held"):
                self._telemetry.forget(level, str(partition))
        log.info("partitions given up", now=len(partitions), held=len(self._positions))

    def _lost(self, consumer: Consumer, partitions: list[PartitionOffset]) -> None:
        log.warning("partitions lost", count=len(partitions))
        self._revoked(consumer, partitions)

    def _missed(self, place: TopicPartition, number: int) -> None:
        self._telemetry.count("ragweir_events_missed_total", number, place[0], str(place[1]))

    def _consumer_error(self, error: KafkaError, message: Message) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:
            # A quiet consumer that was fenced reports only the code.
            raise restart_after(error, self._identity.member)
        if error.code() == KafkaError._PARTITION_EOF:
            self._ends.add(place_of(message))
            return
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            # Retention has overtaken the worker while it ran.
            if self._keeper is not None:  # Its state has to be told of the gap, as it is at a start.
                raise RestartRequired(
                    f"retention deleted records of {message.topic()} unread; a restart goes on behind them"
                )
            place = place_of(message)
            at = PartitionOffset(*place, self._positions.reached(place))
            self._positions.begin(self._consumer, at, self._stopped_beating)
            # After this error librdkafka no longer fetches the partition, and what is not fetched cannot be sought.
            self._consumer.assign(self._positions.reached_all())
            return
        log.warning("the consumer reports", reason=error.str(), code=error.name())
