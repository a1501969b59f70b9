"""One transaction after the other, with one producer: outputs and offsets commit together, or neither does.

Every error of librdkafka has one of three answers: the same call again, abort and go back to the committed offsets,
or leave the process, whose supervisor starts it anew. The last also settles a commit whose outcome is unknown: the
new process takes over the transactional id, which ends the old transaction, and reads the committed offsets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from ragweir.errors import RestartRequired
from ragweir.streams.kafka.client import SILENCE_S, Connection
from ragweir.streams.records import Emission
from ragweir.streams.runtimes.watchdog import Watchdog

CALL_TIMEOUT_S = 1.0
CALL_LIMIT_S = 5.0
"""When a call that ignores its timeout is given up, and the process with it."""
STOP_GRACE_S = 3.0
"""How long a stopping worker goes on asking a broker that does not answer. With a call before it, one after it and the
clients' own end, it must stay well under what the supervisor grants."""
_GIVE_UP_S = 60.0
"""A call that has found no answer for so long is given up: the transaction it belongs to has long timed out, and a new
process waits for the broker from the start."""


class Aborted(Exception):
    """The transaction cannot be committed and must be aborted."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.error = error


_JOINED = {KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID}
"""Errors of a consumer whose name in the group belongs to a newer member. A quiet consumer reports the first."""
_FENCED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
"""Errors of a producer whose transactional id the broker has given a newer epoch."""
_TROUBLE_S = 60.0
"""The time in seconds for which requests of before a broker's failure may still have effects."""


def restart_after(error: KafkaError, member: str, quiet_s: float, open_s: float = 0.0) -> RestartRequired:
    """Return the error to leave the process with, after one that ends a client for good.

    Kafka does not say which process it was that took a name over: another one, or an earlier attempt of this one whose
    request a broker answered late. A producer is fenced as well after a transaction that took too long. The message
    names the likelier cause first, by what this process has seen, and then the other.

    Args:
        error: as librdkafka reports it.
        member: the slot's name in its group, and its transactional id.
        quiet_s: the time in seconds since a broker was last away; infinite if none was.
        open_s: the age of the transaction in seconds; 0 where the error is a consumer's.
    """
    name, said = repr(member), error.str()
    if error.code() in _JOINED:
        own = f"an earlier request of its own to join its group has come after a later one ({said})"
        twin = f"another process has joined the group as {name} ({said})"
    elif error.code() in _FENCED:
        own = f"the broker has ended its transaction, which was open for {open_s:.1f} s ({said})"
        twin = f"another process has begun to write as {name} ({said})"
    else:
        return RestartRequired(f"Kafka: {said}")
    # A transaction that is not disturbed takes milliseconds, and each call within it less than its timeout.
    if quiet_s < _TROUBLE_S or open_s > CALL_TIMEOUT_S:
        seen = (
            f"a broker was away {quiet_s:.0f} s ago" if quiet_s < _TROUBLE_S else "this process or a broker stood still"
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
    """Commits what an agent came to, exactly once.

    Args:
        producer: a transactional one, for nothing else.
        topics: the outputs' full names, by their own.
        member: the slot's name, for people.
        connection: is told of a broker that keeps silent.
        waiting: called every second or so while Kafka is asked again.
        stopped: says whether to stop; then a broker that does not answer is not asked for much longer.
        delivered: called with each delivery report of a record that was written, if the producer asks for them.
    """

    def __init__(
        self,
        producer: Producer,
        topics: Mapping[str, str],
        member: str,
        connection: Connection,
        waiting: Callable[[], object],
        stopped: Callable[[], bool],
        delivered: Callable[[Message], object],
    ) -> None:
        self._producer = producer
        self._topics = topics
        self._member = member
        self._connection = connection
        self._waiting = waiting
        self._stopped = stopped
        self._reported = delivered
        self._watchdog = Watchdog(CALL_LIMIT_S)
        self._undelivered: KafkaError | None = None
        self._stop_by = 0.0
        self._began = 0.0
        """The time at which the newest transaction began; 0 before the first."""

    def take_over(self) -> None:
        """End what another process of this slot has left open, and keep it from committing ever after.

        Raises:
            RestartRequired: if the process has to be replaced by a new one, here as in all that follows.
        """
        self._insist(self._producer.init_transactions)

    def commit(self, emissions: Sequence[Emission], *groups: GroupOffsets) -> None:
        """Write, and commit the offsets of what it came from, in one transaction.

        Args:
            emissions: what to write, in order.
            groups: the next record to be read of each partition, by the group that is to hold it; those of the
                consumer's own group come first.

        Raises:
            Aborted: if it must be aborted, by `abort`.
        """
        self._undelivered, self._began = None, time.monotonic()
        self._insist(lambda _: self._producer.begin_transaction())
        for emission in emissions:
            self._produce(emission)
        for group in groups:
            self._insist(partial(self._producer.send_offsets_to_transaction, list(group.offsets), group.metadata))
        self._insist(self._producer.commit_transaction)

    def abort(self, aborted: Aborted) -> KafkaError:
        """Abort; gives the cause, which is the first record that was not written, if one was not."""
        self._insist(self._producer.abort_transaction)
        return self._undelivered or aborted.error

    def _produce(self, emission: Emission) -> None:
        # No timestamp: Kafka refuses stamps far ahead, and retention would delete old ones at once.
        def produce(_: float) -> None:
            try:
                self._producer.produce(
                    self._topics[emission.topic],
                    value=emission.value,
                    key=emission.key,
                    headers=list(emission.headers),
                    on_delivery=self._delivered,
                    partition=emission.partition,
                )
            except BufferError:
                raise KafkaException(KafkaError(KafkaError._QUEUE_FULL, retriable=True)) from None
            except KafkaException as error:
                # Refused by the client itself, which leaves the transaction open.
                if error.args[0].fatal():
                    raise
                raise Aborted(error.args[0]) from None

        self._insist(produce)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._reported(message)
        elif self._undelivered is None:
            self._undelivered = error

    def _insist(self, step: Callable[[float], None]) -> None:
        """Make a call until it succeeds, or its error has another answer than to call again."""
        asked = time.monotonic()
        while True:
            self._watchdog.call_begins()
            try:
                return step(CALL_TIMEOUT_S)
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                if error.fatal():
                    open_s = time.monotonic() - self._began if self._began else 0.0
                    raise restart_after(error, self._member, self._connection.quiet_s, open_s) from None
                if error.txn_requires_abort():
                    raise Aborted(error) from None
                if not error.retriable():
                    why = f"the outcome of a transaction is unknown ({error.str()}); a restart settles it"
                    raise RestartRequired(why) from None
            finally:
                self._watchdog.call_ended()
            self._producer.poll(0.05)
            waited = time.monotonic() - asked
            if waited > SILENCE_S:
                self._connection.lost(error.str())
            if waited > _GIVE_UP_S:
                raise RestartRequired(
                    f"Kafka has not answered for {waited:.0f} s ({error.str()}); a restart settles it"
                )
            self._waiting()
            self._stop_in_time()

    def _stop_in_time(self) -> None:
        if not self._stopped():
            return
        self._stop_by = self._stop_by or time.monotonic() + STOP_GRACE_S
        if time.monotonic() > self._stop_by:
            raise RestartRequired("stopped while Kafka did not answer; the next start settles the open transaction")
