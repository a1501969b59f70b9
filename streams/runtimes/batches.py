"""Reading batches: what the consumer holds, as far as the agent takes it, each record once until an abort."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

import structlog
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import RestartRequired
from ragweir.streams.kafka.messages import record_of, topic_partition_of
from ragweir.streams.records import Record, TopicPartition
from ragweir.streams.runtimes.backpressure import Backpressure
from ragweir.streams.runtimes.offsets import OffsetTracker
from ragweir.streams.runtimes.replay_limiter import ReplayLimiter
from ragweir.streams.settings import BatchSettings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class BatchReader:
    """Reads batches from the partitions that a consumer holds.

    Args:
        consumer: reads; its callbacks about partitions run while a batch is read.
        positions: the offsets of the partitions.
        limits: of a batch.
        pacing: pauses what the agent does not take.
        bounding: pauses what a replay does not cover.
        ended: gives the error to leave the process with after one that ends the consumer for good.
    """

    def __init__(
        self,
        consumer: Consumer,
        positions: OffsetTracker,
        limits: BatchSettings,
        pacing: Backpressure,
        bounding: ReplayLimiter,
        ended: Callable[[KafkaError], RestartRequired],
    ) -> None:
        self._consumer, self._positions, self._limits = consumer, positions, limits
        self._pacing, self._bounding, self._ended = pacing, bounding, ended
        self._batch: list[Record] = []
        self._ends: dict[TopicPartition, int] = {}
        self.overtaken = ""
        """Why reading cannot go on in this process; empty while it can."""

    def read(self, most: int) -> list[Record]:
        """Read a batch: up to the limits and at most so many records, for at most the maximal wait.

        Raises:
            RestartRequired: if the consumer is lost for good.
        """
        self._batch = []
        deadline = time.monotonic() + self._limits.max_wait_ms / 1000
        size = 0
        # At least one, so that the client is always polled; where the agent takes nothing, nothing comes.
        limit = self._bounding.capacity(min(most, max(1, self._pacing.capacity(seek=self.seek))))
        while len(self._batch) < limit and size < self._limits.max_bytes:
            message = self._consumer.poll(max(0.0, deadline - time.monotonic()))
            if message is None:
                break
            error = message.error()
            if error is not None:
                self._noted(error, message)
                continue
            record = record_of(message)
            if self._bounding.admits(record) and self._positions.accept(record):
                self._batch.append(record)
                self._ends.pop(record.topic_partition, None)
                size += len(record.value or b"") + len(record.key or b"")
        self._bounding.count(len(self._batch))
        return self._batch

    def put_back(self, records: Iterable[Record]) -> None:
        """Read these records of the last batch again, which are the last ones of their partitions."""
        back: dict[TopicPartition, int] = {}
        for record in records:
            back.setdefault(record.topic_partition, record.offset)
        self._bounding.forget()
        for place, offset in back.items():
            self._positions.back(place, offset)
            self.seek(PartitionOffset(*place, offset))

    def rewind(self) -> None:
        """Go back to the committed offsets after an abort."""
        self._bounding.forget()  # What goes back may have been read to its end.
        for position in self._positions.rewind():
            if (position.topic, position.partition) not in self._pacing.paused:
                self.seek(position)

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Give partitions up, and the records of them that are in the batch in hand: they belong to the next owner."""
        self._pacing.forget()
        self._bounding.forget()
        self._batch[:] = [record for record in self._batch if record.topic_partition not in partitions]
        for place in partitions:
            self._ends.pop(place, None)

    def seek(self, position: PartitionOffset) -> None:
        """Go on reading a partition at an offset.

        Raises:
            RestartRequired: if the client does not do it.
        """
        for _ in range(20):
            try:
                return self._consumer.seek(position)
            except KafkaException as error:
                # A partition that was only just assigned cannot be sought yet.
                if error.args[0].code() != KafkaError._STATE:
                    raise
                time.sleep(0.1)
        raise RestartRequired(f"{position.topic}/{position.partition} cannot be sought; a restart settles it")

    @property
    def at_end(self) -> Collection[TopicPartition]:
        """The partitions that have been read to their end."""
        return self._ends.keys()

    def ends_of_paused(self, timeout_s: float) -> Mapping[TopicPartition, int]:
        """Ask Kafka for the ends of the partitions that are paused: the client learns of ends only where it reads.

        Raises:
            KafkaException: if there is no answer in time.
        """
        if not self._pacing.paused:
            return {}
        asked = [PartitionOffset(*place, OFFSET_END) for place in self._pacing.paused]
        answered = self._consumer.offsets_for_times(asked, timeout=timeout_s)
        ends = {(each.topic, each.partition): each.offset for each in answered if each.error is None}
        for place, end in ends.items():
            if self._ends.get(place, end) < end:
                del self._ends[place]
        return ends

    def _noted(self, error: KafkaError, message: Message) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:
            # A quiet consumer that was fenced reports only the code.
            raise self._ended(error)
        if error.code() == KafkaError._PARTITION_EOF:
            self._ends[topic_partition_of(message)] = message.offset() or 0
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            # Retention has overtaken the worker while it ran. A start counts what is missing, and tells the agent.
            self.overtaken = f"retention deleted records of {message.topic()} unread; a restart goes on behind them"
        else:
            log.warning("the consumer reports", reason=error.str(), code=error.name())
