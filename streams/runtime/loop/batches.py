"""Reads batches: the records that the consumer has, as far as the agent takes them, each once until an abort."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import structlog
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import RestartRequired
from ragweir.streams.runtime.kafka.client_messages import record_of, topic_partition_of
from ragweir.streams.runtime.loop.backpressure import Backpressure
from ragweir.streams.runtime.loop.replay_limiter import ReplayLimiter
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record, TopicPartition
from ragweir.streams.runtime.recovery.offsets import OffsetTracker
from ragweir.streams.settings import BatchSettings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_FETCH_SECONDS = 0.005
"""Time between two looks for records that are on their way."""


class BatchReader:
    """Reads batches; the consumer's rebalance callbacks run in `read`.

    `restart_error` returns the error to raise after one that ends the consumer for good.
    """

    def __init__(
        self,
        consumer: Consumer,
        offsets: OffsetTracker,
        limits: BatchSettings,
        backpressure: Backpressure,
        replay_limiter: ReplayLimiter,
        restart_error: Callable[[KafkaError], RestartRequired],
    ) -> None:
        self._consumer, self._offsets, self._limits = consumer, offsets, limits
        self._backpressure, self._replay_limiter, self._restart_error = backpressure, replay_limiter, restart_error
        self._batch: list[Record] = []
        self._ends: dict[TopicPartition, int] = {}
        self.has_more = False
        """True if the last batch ended at a limit of its size, with more records behind it."""
        self.restart_reason = ""
        """The reason why reading cannot go on in this process; empty while it can."""

    def read(self, max_records: int, *, linger: bool = True) -> list[Record]:
        """Read a batch up to the limits, for at most the maximal wait.

        Args:
            max_records: the number of records at which the batch ends.
            linger: false to end it as well where there are no more records that the client knows of.

        Raises:
            RestartRequired: if the consumer is lost for good.
        """
        self._batch = []
        deadline = machine.monotonic() + self._limits.max_wait_ms / 1000
        size = 0
        # At least one, so that the client is always polled; without capacity all partitions are paused.
        capacity = max(1, self._backpressure.capacity(seek=self.seek))
        limit = self._replay_limiter.capacity(min(max_records, capacity))
        while len(self._batch) < limit and size < self._limits.max_bytes:
            message = self._consumer.poll(0)
            if message is None and (message := self._wait(deadline, linger=linger)) is None:
                break
            error = message.error()
            if error is not None:
                self._on_error(error, message)
                continue
            record = record_of(message)
            if self._replay_limiter.admits(record) and self._offsets.accept(record):
                self._batch.append(record)
                if self._ends:
                    self._ends.pop(record.topic_partition, None)
                size += len(record.value or b"") + len(record.key or b"")
        self._replay_limiter.count(len(self._batch))
        self.has_more = (len(self._batch) >= max_records or size >= self._limits.max_bytes) and not self._is_drained
        return self._batch

    def _wait(self, deadline: float, *, linger: bool) -> Message | None:
        """Wait for a message; return None at the deadline, or without lingering if there are no more records."""
        while (wait_s := deadline - machine.monotonic()) > 0:
            if linger:
                return self._consumer.poll(wait_s)
            if self._is_drained:
                return None
            if (message := self._consumer.poll(min(wait_s, _FETCH_SECONDS))) is not None:
                return message
        return None

    @property
    def _is_drained(self) -> bool:
        """True if all records were read that the client knows of."""
        for partition, consumed in self._offsets.consumed.items():
            if partition in self._ends or partition in self._backpressure.paused:
                continue
            _, high = self._consumer.get_watermark_offsets(PartitionOffset(*partition), cached=True)
            # Before the first fetch there are no ends.
            if high < 0 or consumed < high:
                return False
        return True

    def put_back(self, records: Iterable[Record]) -> None:
        """Read these records again, which are the last ones of their partitions in the batch."""
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(record.topic_partition, record.offset)
        self._replay_limiter.resume_all()
        for partition, offset in first.items():
            self._offsets.consumed[partition] = offset
            self._ends.pop(partition, None)
            self.seek(PartitionOffset(*partition, offset))

    def rewind(self) -> None:
        """Go back to the committed offsets after an abort."""
        self._replay_limiter.resume_all()
        for at in self._offsets.rewind():
            self._ends.pop((at.topic, at.partition), None)
            if (at.topic, at.partition) not in self._backpressure.paused:
                self.seek(at)

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Remove revoked partitions and their records in the current batch, which the next owner reads."""
        self._backpressure.resume_all()
        self._replay_limiter.resume_all()
        self._batch[:] = [record for record in self._batch if record.topic_partition not in partitions]
        for partition in partitions:
            self._ends.pop(partition, None)

    def seek(self, at: PartitionOffset) -> None:
        """Set the next offset to read of a partition.

        Raises:
            RestartRequired: if the client does not do it.
        """
        for _ in range(20):
            try:
                return self._consumer.seek(at)
            except KafkaException as error:
                # A partition that was only just assigned cannot be sought yet.
                if error.args[0].code() != KafkaError._STATE:
                    raise
                machine.sleep(0.1)
        raise RestartRequired(f"{at.topic}/{at.partition} cannot be sought; a restart settles it")

    @property
    def at_end(self) -> Collection[TopicPartition]:
        """The partitions that have been read to their end."""
        return self._ends.keys()

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset up to which a partition was read; None if it is not held.

        At an end it is that end, which commit markers and aborted records may separate from the last record.
        """
        consumed = self._offsets.consumed.get(partition)
        return None if consumed is None else max(consumed, self._ends.get(partition, consumed))

    def ends_of_paused(self, timeout_s: float) -> Mapping[TopicPartition, int]:
        """Return the ends of the paused partitions from Kafka; the client learns only of those that it fetches.

        Raises:
            KafkaException: if there is no answer in time.
        """
        if not self._backpressure.paused:
            return {}
        asked = [PartitionOffset(*partition, OFFSET_END) for partition in self._backpressure.paused]
        answered = self._consumer.offsets_for_times(asked, timeout=timeout_s)
        ends = {(each.topic, each.partition): each.offset for each in answered if each.error is None}
        for partition, end in ends.items():
            if self._ends.get(partition, end) < end:
                del self._ends[partition]
        return ends

    def _on_error(self, error: KafkaError, message: Message) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:
            # A fenced consumer that reads nothing reports only the code.
            raise self._restart_error(error)
        if error.code() == KafkaError._PARTITION_EOF:
            self._ends[topic_partition_of(message)] = message.offset() or 0
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            # A start counts the missing records and reports them to the agent.
            self.restart_reason = (
                f"retention deleted records of {message.topic()} unread; a restart goes on behind them"
            )
        else:
            log.warning("consumer error", reason=error.str(), code=error.name())
