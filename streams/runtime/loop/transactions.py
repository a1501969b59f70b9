"""Transactions of one producer: outputs and offsets commit together, or neither does.

Records are sent while the transaction is open, so that little is left to wait for when it is committed.
An error of librdkafka is answered by a retry of the call, by an abort, or by a restart of the process. A restart also
settles a commit whose result is unknown: the new process takes over the transactional id, which ends the old
transaction, and reads the committed offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from ragweir.errors import RestartRequired
from ragweir.streams.runtime.kafka.client import SILENCE_SECONDS, Connection
from ragweir.streams.runtime.kafka.transactional_producer import TransactionalProducer
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.processes.watchdog import Watchdog
from ragweir.streams.runtime.records import Emission

CALL_TIMEOUT_SECONDS = 1.0
CALL_LIMIT_SECONDS = 5.0
"""Time after which the watchdog ends a process whose call ignores its timeout."""
STOP_GRACE_SECONDS = 3.0
"""Time for which a stopping worker retries calls. With one call before, one after and the closing of the clients, it
must stay well below the supervisor's limit."""
_LATE = 2
"""The longest that one call counts, in time-outs: one that returns later did not wait for a broker all the while."""
_GIVE_UP_SECONDS = 60.0
"""Time after which a call is no longer retried: its transaction has timed out long before."""


class Aborted(Exception):
    """The transaction cannot be committed and must be aborted."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.error = error


_JOINED = {KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID}
"""Errors of a consumer whose member id belongs to a newer member. A consumer that reads nothing reports the first."""
_FENCED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
"""Errors of a producer whose transactional id has a newer epoch."""
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
"""Errors of records that an abort discards."""
_BROKER_FAILURE_SECONDS = 60.0
"""Time for which requests from before a broker's failure may still have effects."""


def restart_after(
    error: KafkaError, member: str, quiet_s: float, open_s: float = 0.0, usual_s: float = CALL_TIMEOUT_SECONDS
) -> RestartRequired:
    """Return the error that ends the process after one that ends a client for good.

    Kafka does not report which process has taken an id over: another one, or this one by an earlier request that a
    broker answered late. A producer is fenced as well after a transaction that took too long. The message names the
    likelier cause first, from the state of the connection and the transaction, and then the other.

    Args:
        error: the error of librdkafka.
        member: the slot's member id and transactional id.
        quiet_s: the time since a broker was last away; infinite if none was.
        open_s: the age of the transaction; 0 for an error of a consumer.
        usual_s: the age that an undisturbed transaction does not exceed.
    """
    name, text = repr(member), error.str()
    if error.code() in _JOINED:
        own = f"an earlier request of its own to join its group arrived after a later one ({text})"
        twin = f"another process has joined the group as {name} ({text})"
    elif error.code() in _FENCED:
        own = f"the broker has ended its transaction, which was open for {open_s:.1f} s ({text})"
        twin = f"another process has begun to write as {name} ({text})"
    else:
        return RestartRequired(f"Kafka: {text}")
    if quiet_s < _BROKER_FAILURE_SECONDS or open_s > usual_s:
        seen = (
            f"a broker was away {quiet_s:.0f} s ago"
            if quiet_s < _BROKER_FAILURE_SECONDS
            else "this process or a broker was suspended"
        )
        return RestartRequired(
            f"{name} has to start again: {seen}, and probably {own}; the restart settles it. "
            "If this repeats while all brokers are well, the slot runs twice: give each process its own"
        )
    return RestartRequired(
        f"{name} has to start again: probably {twin}; give each process its own slot. "
        f"If there is no other, {own.partition(' (')[0]}, and the restart settles it"
    )


class GroupOffsets(NamedTuple):
    """Offsets to commit to one group."""

    offsets: Sequence[TopicPartition]
    metadata: Any
    """The group's metadata, by which the broker sees whether the consumer still owns the partitions."""


class Transactions:
    """Commits emissions and offsets, exactly once.

    Args:
        producer: a producer for this alone.
        topics: the full names of the outputs, by their names in the topic table.
        member: the slot's member id, for messages.
        connection: is set to lost while no broker answers.
        on_wait: called between two attempts of a call, about once a second.
        stopped: returns true once the worker is to stop; calls are then retried for some seconds only.
        on_delivery: called with each successful delivery report, if the producer requests them.
        interval_s: the time for which a transaction is usually open before it is committed, at most.
    """

    def __init__(
        self,
        producer: TransactionalProducer,
        topics: Mapping[str, str],
        member: str,
        connection: Connection,
        on_wait: Callable[[], object],
        stopped: Callable[[], bool],
        on_delivery: Callable[[Message], object],
        interval_s: float = 0.0,
    ) -> None:
        self._transactional, self._topics, self._member, self._connection = producer, topics, member, connection
        self._on_wait, self._stopped, self._on_delivery = on_wait, stopped, on_delivery
        self._longest_interval_s = interval_s
        self._watchdog = Watchdog(CALL_LIMIT_SECONDS)
        self._undelivered: KafkaError | None = None
        self._stop_by = 0.0
        self._began = 0.0
        """The begin of the newest transaction; 0 before the first."""
        self._is_open = False
        self.written_bytes = 0
        """The size of the values that were written in the open transaction."""

    @property
    def _producer(self) -> Producer:
        return self._transactional.client

    @property
    def interval_s(self) -> float:
        """The time for which a transaction is usually open before it is committed: a quarter of its timeout at most."""
        return min(self._longest_interval_s, self._transactional.timeout_s / 4)

    def take_over(self) -> None:
        """Abort the open transaction of another process of this slot, and fence that process.

        Raises:
            RestartRequired: if a new process has to go on. All methods may raise it.
            PermanentError: if the brokers accept no transaction timeout.
        """
        self._transactional.initialise(lambda: self._retry(self._producer.init_transactions))

    def write(self, emissions: Sequence[Emission]) -> None:
        """Send emissions, in order, in the open transaction or a new one. Does not wait for their acknowledgement.

        Raises:
            Aborted: if `abort` has to be called.
        """
        if not emissions:
            return
        self._begin()
        for emission in emissions:
            self._produce(emission)
            self.written_bytes += len(emission.value or b"")
        self._producer.poll(0)
        if self._undelivered is not None:
            raise Aborted(self._undelivered)

    def commit(self, *groups: GroupOffsets) -> None:
        """Commit offsets together with what was written.

        Args:
            groups: the offsets to commit to each group; those of the consumer's own group first.

        Raises:
            Aborted: if `abort` has to be called.
        """
        self._begin()
        for group in groups:
            self._retry(partial(self._producer.send_offsets_to_transaction, list(group.offsets), group.metadata))
        self._retry(self._producer.commit_transaction)
        self._end()

    def abort(self, aborted: Aborted) -> KafkaError:
        """Abort; return the cause, which is the error of the first record that was not written, if there is one."""
        if not self._is_open:
            return aborted.error
        self._retry(self._producer.abort_transaction)
        self._end()
        return self._undelivered or aborted.error

    def abandon(self) -> None:
        """Abort the open transaction as the process ends, if the broker answers at once."""
        if self._is_open:
            with suppress(KafkaException):
                self._producer.abort_transaction(CALL_TIMEOUT_SECONDS)

    def _begin(self) -> None:
        if self._is_open:
            return
        self._undelivered, self._began, self._is_open = None, machine.monotonic(), True
        self._retry(lambda _: self._producer.begin_transaction())

    def _end(self) -> None:
        self._is_open, self.written_bytes = False, 0

    def knows_partitions(self, topic: str, count: int) -> bool:
        """Return whether records can be written to so many partitions of a topic, after asking Kafka for them.

        A producer asks for itself every few minutes only, and an emission to a partition that it does not know fails.
        """
        try:
            found = self._producer.list_topics(topic, timeout=CALL_TIMEOUT_SECONDS).topics.get(topic)
        except KafkaException:
            return False
        return found is not None and len(found.partitions) >= count

    def _produce(self, emission: Emission) -> None:
        try:
            self._enqueue(emission)
        except KafkaException:  # The queue is full, or the client is lost.
            self._retry(lambda _: self._enqueue(emission))

    def _enqueue(self, emission: Emission) -> None:
        # No timestamp: Kafka rejects timestamps far ahead, and retention would delete records with old ones.
        try:
            self._producer.produce(
                self._topics[emission.topic],
                value=emission.value,
                key=emission.key,
                headers=list(emission.headers),
                on_delivery=self._on_report,
                partition=emission.partition,
            )
        except BufferError:
            raise KafkaException(KafkaError(KafkaError._QUEUE_FULL, retriable=True)) from None
        except KafkaException as error:
            # Rejected by the client itself, which leaves the transaction open.
            if error.args[0].fatal():
                raise
            raise Aborted(error.args[0]) from None

    def _on_report(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._on_delivery(message)
        elif self._undelivered is None and error.code() not in _PURGED:
            self._undelivered = error

    def _fatal(self, raised: KafkaException) -> Exception:
        """Return the error that ends the process, or the one with which a producer can be replaced."""
        error: KafkaError = raised.args[0]
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return raised
        open_s = machine.monotonic() - self._began if self._began else 0.0
        usual_s = self.interval_s + CALL_TIMEOUT_SECONDS
        return restart_after(error, self._member, self._connection.quiet_s, open_s, usual_s)

    def _retry(self, call: Callable[[float], None]) -> None:
        """Call until the call succeeds or its error is not retriable."""
        waited = 0.0
        while True:
            began = machine.monotonic()
            self._watchdog.call_begins()
            try:
                return call(CALL_TIMEOUT_SECONDS)
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                if error.fatal():
                    raise self._fatal(raised) from None
                if error.txn_requires_abort():
                    raise Aborted(error) from None
                if not error.retriable():
                    raise RestartRequired(
                        f"the outcome of a transaction is unknown ({error.str()}); a restart settles it"
                    ) from None
            finally:
                self._watchdog.call_ended()
            self._producer.poll(0.05)
            # Not the time in which this process was suspended or starved.
            waited += min(machine.monotonic() - began, _LATE * CALL_TIMEOUT_SECONDS)
            if waited > SILENCE_SECONDS:
                self._connection.on_lost(error.str())
            if waited > _GIVE_UP_SECONDS:
                raise RestartRequired(
                    f"Kafka has not answered for {waited:.0f} s ({error.str()}); a restart settles it"
                )
            self._on_wait()
            if self._stopped():
                self._stop_by = self._stop_by or machine.monotonic() + STOP_GRACE_SECONDS
                if machine.monotonic() > self._stop_by:
                    raise RestartRequired(
                        "stopped while Kafka did not answer; the next start settles the open transaction"
                    )
