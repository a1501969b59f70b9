"""The progress group: a second consumer group with a service's committed offsets, which operators do not reset.

An operator may set a group's offsets back, and a coordinator may answer older ones than were committed. The newest
records of the output prove nothing about a partition that has been idle for long. So a transaction every few seconds,
and the last one of a process, commits its offsets to this group as well. An assignment compares the two groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.streams.runtime.kafka.client import build, reader_properties
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import TopicPartition
from ragweir.streams.runtime.recovery.offset_metadata import OffsetMetadata, metadata_of
from ragweir.streams.runtime.recovery.offsets import ask_until_answered
from ragweir.streams.runtime.recovery.topic_identity import TopicVersion
from ragweir.streams.settings import Settings

_INTERVAL_SECONDS = 10.0
"""Time between two commits to the group by one process."""
_REFRESH_SECONDS = 24 * 3600.0
"""Time after which unchanged offsets are committed again: Kafka deletes those of a group without members after
`offsets.retention.minutes`, by default seven days."""


class ProgressGroup:
    """Reads the progress group, and selects the offsets to commit to it.

    The group has no members, so that Kafka accepts its offsets from any producer. They share a transaction with those
    of the service's own group, which Kafka accepts from the owner of the partitions only.

    Args:
        settings: all settings.
        group: the group's name.
        topics: the versions of the topics when their partitions were assigned, by name.
        stopped: returns true once the worker is to stop.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        settings: Settings,
        group: str,
        topics: Mapping[str, TopicVersion],
        stopped: Callable[[], bool],
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self._settings, self._group, self._topics = settings, group, topics
        self._stopped, self._clock = stopped, clock
        self._committed: dict[TopicPartition, int] = {}
        """The offsets that this process has committed to the group since the last refresh."""
        self._due_at = self._refresh_at = 0.0
        self.metadata: object = None
        """The group's metadata for the producer; None before the first `read`, without which nothing is due."""

    def read(self, partitions: Iterable[PartitionOffset]) -> Mapping[TopicPartition, int]:
        """Return the group's offsets of partitions, without those of recreated topics.

        Raises:
            Interrupted: if `stopped` returns true meanwhile.
            KafkaException: if the broker answers with an error that is not transient.
        """
        unknown = [PartitionOffset(each.topic, each.partition) for each in partitions]
        if not unknown:
            return {}
        with closing(build(Consumer, {**reader_properties(self._settings), "group.id": self._group})) as consumer:
            found = ask_until_answered(lambda timeout: _committed(consumer, unknown, timeout), self._stopped)
            self.metadata = consumer.consumer_group_metadata()
        self._committed.clear()
        return {(at.topic, at.partition): at.offset for at in found if at.offset >= 0 and self._is_current(at)}

    def _is_current(self, at: PartitionOffset) -> bool:
        topic = self._topics.get(at.topic)
        return topic is not None and metadata_of(at).topic == topic.id

    def end(self) -> None:
        """Make the next commit due now, as the process ends."""
        self._due_at = 0.0

    def due(self, committed: Mapping[TopicPartition, int]) -> bool:
        """Return whether the next transaction has offsets to commit to the group.

        Args:
            committed: the committed offsets of all held partitions.
        """
        now = self._clock()
        if self.metadata is None or now < self._due_at:
            return False
        if now >= self._refresh_at:
            self._refresh_at = now + _REFRESH_SECONDS
            self._committed.clear()
        return bool(self._changed(committed))

    def offsets(self, sent: Iterable[PartitionOffset]) -> list[PartitionOffset]:
        """Return the offsets of a transaction that are to be committed to the group as well; none if it is not due."""
        following = {(at.topic, at.partition): at.offset for at in sent}
        if not self.due(following):
            return []
        return [
            PartitionOffset(*partition, offset, OffsetMetadata(topic=self._topics[partition[0]].id).text)
            for partition, offset in self._changed(following).items()
        ]

    def on_commit(self, offsets: Sequence[PartitionOffset]) -> None:
        """Store the offsets that were committed to the group."""
        if not offsets:
            return
        self._committed.update({(at.topic, at.partition): at.offset for at in offsets})
        self._due_at = self._clock() + _INTERVAL_SECONDS

    def _changed(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {
            partition: offset
            for partition, offset in offsets.items()
            if self._committed.get(partition) != offset and partition[0] in self._topics
        }


def _committed(consumer: Consumer, partitions: list[PartitionOffset], timeout_s: float) -> list[PartitionOffset]:
    try:
        return consumer.committed(partitions, timeout=timeout_s)
    except KafkaException:
        # A consumer without a right to its group times out, and has the reason as an event.
        message = consumer.poll(0)
        error = message and message.error()
        if error and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise KafkaException(error) from None
        raise
