"""One transaction after the other, with one producer: outputs and offsets commit together, or neither does.

Every error of librdkafka has one of three answers: the same call again, abort and go back to the committed offsets,
or leave the process, whose supervisor starts it anew. The last also settles a commit whose outcome is unknown: the
new process takes over the transactional id, which ends the old transaction, and reads the committed offsets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from ragweir.errors import RestartRequired
from ragweir.streams.kafka_client import Connection
from ragweir.streams.records import Emission
from ragweir.streams.runtimes.watchdog import Watchdog

CALL_TIMEOUT_S = 1.0
CALL_LIMIT_S = 5.0
"""When a call that ignores its timeout is given up, and the process with it."""
STOP_GRACE_S = 3.0
"""How long a stopping worker goes on asking a broker that does not answer. With a call before it, one after it and the
clients' own end, it must stay well under what the supervisor grants."""
_SILENCE_S = 5.0
"""A broker that has not answered the same call for so long is lost, even where librdkafka does not say so: its error
callback tells of connections that break, and may have told the consumer only, which is not polled meanwhile."""
_GIVE_UP_S = 60.0
"""A call that has found no answer for so long is given up: the transaction it belongs to has long timed out, and a new
process waits for the broker from the start."""


class Aborted(Exception):
    """The transaction cannot be committed and must be aborted."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.error = error


def restart_after(error: KafkaError, member: str) -> RestartRequired:
    """Return the error to leave the process with, after one that ends a client for good.

    Args:
        error: as librdkafka reports it.
        member: the slot's name in its group, and its transactional id.
    """
    if error.code() in (
        KafkaError._FATAL,
        KafkaError._FENCED,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.INVALID_PRODUCER_EPOCH,
    ):
        return RestartRequired(
            f"{member!r} was taken over by another process, or the broker gave it up "
            f"({error.str()}); if it runs twice, give each its own slot"
        )
    return RestartRequired(f"Kafka: {error.str()}")


class Transactions:
    """Commits what an agent came to, exactly once.

    Args:
        producer: a transactional one, for nothing else.
        topics: the outputs' full names, by their own.
        member: the slot's name, for people.
        connection: is told of a broker that keeps silent.
        waiting: called every second or so while Kafka is asked again.
        stopped: says whether to stop; then a broker that does not answer is not asked for much longer.
    """

    def __init__(
        self,
        producer: Producer,
        topics: Mapping[str, str],
        member: str,
        connection: Connection,
        waiting: Callable[[], object],
        stopped: Callable[[], bool],
    ) -> None:
        self._producer = producer
        self._topics = topics
        self._member = member
        self._connection = connection
        self._waiting = waiting
        self._stopped = stopped
        self._watchdog = Watchdog(CALL_LIMIT_S)
        self._undelivered: KafkaError | None = None
        self._stop_by = 0.0

    def take_over(self) -> None:
        """End what another process of this slot has left open, and keep it from committing ever after.

        Raises:
            RestartRequired: if the process has to be replaced by a new one, here as in all that follows.
        """
        self._insist(self._producer.init_transactions)

    def commit(self, emissions: Sequence[Emission], offsets: Sequence[TopicPartition], group: Any) -> None:
        """Write, and commit the offsets of what it came from, in one transaction.

        Args:
            emissions: what to write, in order.
            offsets: the next record to be read of each partition.
            group: the consumer's metadata, by which the broker sees whether it still owns the partitions.

        Raises:
            Aborted: if it must be aborted, by `abort`.
        """
        self._undelivered = None
        self._insist(lambda _: self._producer.begin_transaction())
        for emission in emissions:
            self._produce(emission)
        self._insist(lambda timeout: self._producer.send_offsets_to_transaction(list(offsets), group, timeout))
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

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and self._undelivered is None:
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
                    raise restart_after(error, self._member) from None
                if error.txn_requires_abort():
                    raise Aborted(error) from None
                if not error.retriable():
                    why = f"the outcome of a transaction is unknown ({error.str()}); a restart settles it"
                    raise RestartRequired(why) from None
            finally:
                self._watchdog.call_ended()
            self._producer.poll(0.05)
            waited = time.monotonic() - asked
            if waited > _SILENCE_S:
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
