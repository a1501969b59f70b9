"""Confirmed ends: the partitions that a worker has read to their ends, with a time at which that was sure.

A consumer reports an end when it comes to it, and nothing when the partition grows while the consumer, the process or
the broker stalls. So the ends are asked for: each answer belongs to a time from before the question, which no delay of
the answer moves. Without an answer nothing is confirmed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress

import structlog
from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec

from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import TopicPartition

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_INTERVAL_SECONDS = 1.0
_CALL_SECONDS = 5.0
_RECOVERY_SECONDS = 10.0
"""Time after a failed answer in which nothing is confirmed: producers write first what they have kept in the outage."""

_MAX_ENDS = 100
"""The most ends of one partition that are kept, of which the newest remain."""
_END: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]

Ask = Callable[[Mapping[PartitionOffset, OffsetSpec]], Mapping[PartitionOffset, "Future[ListOffsetsResultInfo]"]]


def ask_kafka(admin: AdminClient) -> Ask:
    """Return the function that asks Kafka for the ends, records of open transactions included.

    Args:
        admin: a client that describes the topics now and then, without which it finds no partitions that were added.
    """

    def ask(wanted: Mapping[PartitionOffset, OffsetSpec]) -> Mapping[PartitionOffset, Future[ListOffsetsResultInfo]]:
        level = IsolationLevel.READ_UNCOMMITTED
        return admin.list_offsets(dict(wanted), isolation_level=level, request_timeout=_CALL_SECONDS)

    return ask


class ConfirmedEnds:
    """Asks for the ends each second, without waiting for the answers.

    An end counts once it is reached, also by a worker that lags some seconds behind.

    Args:
        ask: requests the ends of partitions.
        position: returns the offset up to which a partition was read; None for one that is not held.
        now_s: returns epoch seconds, which the confirmed times are in.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        ask: Ask,
        position: Callable[[TopicPartition], int | None],
        now_s: Callable[[], float],
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self._ask, self._position, self._now_s, self._clock = ask, position, now_s, clock
        self._asked: Mapping[PartitionOffset, Future[ListOffsetsResultInfo]] = {}
        self._asked_s = 0.0
        """The time before the last question, in epoch seconds."""
        self._ends: dict[TopicPartition, deque[tuple[float, int]]] = {}
        """The ends that are not reached yet, with the times that they belong to, in order."""
        self._failed = False
        self._ask_at = self._trust_at = 0.0

    def confirmed(self, held: Collection[TopicPartition]) -> Mapping[TopicPartition, float]:
        """Return the partitions that were found to be read to their ends since the last call, with the times.

        Args:
            held: the partitions that the worker holds.
        """
        now = self._clock()
        if self._asked and all(future.done() for future in self._asked.values()):
            asked, self._asked = self._asked, {}
            self._take(asked, now)
        if held and not self._asked and now >= self._ask_at:
            self._ask_at, self._asked_s = now + _INTERVAL_SECONDS, self._now_s()
            with suppress(KafkaException):
                self._asked = self._ask({PartitionOffset(*each): _END for each in held})
        self._ends = {partition: ends for partition, ends in self._ends.items() if partition in held}
        confirmed: dict[TopicPartition, float] = {}
        for partition, ends in self._ends.items():
            position = self._position(partition)
            while position is not None and ends and ends[0][1] <= position:
                confirmed[partition], _ = ends.popleft()
        return confirmed

    def _take(self, asked: Mapping[PartitionOffset, Future[ListOffsetsResultInfo]], now: float) -> None:
        """Store the ends of an answer."""
        try:
            ends = {(each.topic, each.partition): future.result().offset for each, future in asked.items()}
        except (KafkaException, FutureTimeoutError) as error:
            log.debug("the ends of partitions are unknown", reason=str(error))
            self._failed = True
            self._ends.clear()
            return
        if self._failed:
            self._failed, self._trust_at = False, now + _RECOVERY_SECONDS
        if now >= self._trust_at:
            for partition, end in ends.items():
                self._ends.setdefault(partition, deque(maxlen=_MAX_ENDS)).append((self._asked_s, end))
