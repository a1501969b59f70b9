"""The progress group: a second consumer group with the offsets that a service has committed, which nobody resets.

An operator may set a group's offsets back, and a coordinator may answer older ones than were committed. The output of a
partition that has been idle for long is too far back to tell. So a transaction every few seconds, and the last one of
a process, commits its offsets to this group as well, and whoever takes a partition over compares the two groups.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.streams.kafka.client import build, reader_properties
from ragweir.streams.records import TopicPartition
from ragweir.streams.runtimes.attempts import OffsetMetadata
from ragweir.streams.runtimes.offsets import ask_until_answered
from ragweir.streams.runtimes.topic_identity import TopicVersion
from ragweir.streams.settings import Settings

_EVERY_S = 10.0
"""The time in seconds between two commits to the group by one process."""
_AGAIN_S = 24 * 3600.0
"""The time in seconds after which offsets that have not changed are committed again: Kafka forgets those of a group
without members after `offsets.retention.minutes`, by default seven days."""


class ProgressGroup:
    """Reads the progress group, and says when to commit to it.

    It has no members, so that Kafka takes its offsets from any producer. They share a transaction with those of the
    service's own group, which Kafka takes from the owner of the partitions only.

    Args:
        settings: how to reach Kafka.
        group: its name; None for an agent whose own state tells how far every partition is.
        topics: the topics as they were when their partitions were taken over, by name.
        stopped: says whether to stop waiting.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        settings: Settings,
        group: str | None,
        topics: Mapping[str, TopicVersion],
        stopped: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._group, self._topics = settings, group, topics
        self._stopped, self._clock = stopped, clock
        self._committed: dict[TopicPartition, int] = {}
        """What this process has committed to it within a day."""
        self._due_at = self._again_at = 0.0
        self.metadata: object = None
        """The group's metadata, as a producer needs it; None before partitions were taken over."""

    def read(self, partitions: Iterable[PartitionOffset]) -> Mapping[TopicPartition, int]:
        """Return the offsets that the group has of partitions; those of topics that were made again are left out.

        Raises:
            Interrupted: if told to stop meanwhile.
            KafkaException: if the broker answers with an error that waiting does not mend.
        """
        places = [PartitionOffset(each.topic, each.partition) for each in partitions]
        if self._group is None or not places:
            return {}
        with closing(build(Consumer, {**reader_properties(self._settings), "group.id": self._group})) as consumer:
            found = ask_until_answered(lambda timeout: _committed(consumer, places, timeout), self._stopped)
            self.metadata = consumer.consumer_group_metadata()
        self._committed.clear()
        return {(at.topic, at.partition): at.offset for at in found if at.offset >= 0 and self._is_of_today(at)}

    def _is_of_today(self, at: PartitionOffset) -> bool:
        topic = self._topics.get(at.topic)
        return topic is not None and OffsetMetadata.stored(at.metadata).topic == topic.id

    def end(self) -> None:
        """Let the next transaction commit to the group, however recent the last one is: the process ends."""
        self._due_at = 0.0

    def due(self, settled: Mapping[TopicPartition, int]) -> bool:
        """Return whether the next transaction has something to commit to the group.

        Args:
            settled: up to where every partition held is settled.
        """
        now = self._clock()
        if self.metadata is None or now < self._due_at:
            return False
        if now >= self._again_at:
            self._again_at = now + _AGAIN_S
            self._committed.clear()
        return bool(self._changed(settled))

    def offsets(self, sent: Iterable[PartitionOffset]) -> list[PartitionOffset]:
        """Return those of the offsets of a transaction that are to be committed to the group as well, if it is due."""
        settled = {(at.topic, at.partition): at.offset for at in sent}
        if not self.due(settled):
            return []
        return [
            PartitionOffset(*place, offset, OffsetMetadata(topic=self._topics[place[0]].id).text)
            for place, offset in self._changed(settled).items()
        ]

    def committed(self, offsets: Sequence[PartitionOffset]) -> None:
        """Take note that offsets are committed to the group."""
        if not offsets:
            return
        self._committed.update({(at.topic, at.partition): at.offset for at in offsets})
        self._due_at = self._clock() + _EVERY_S

    def _changed(self, settled: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {
            place: offset
            for place, offset in settled.items()
            if self._committed.get(place) != offset and place[0] in self._topics
        }


def _committed(consumer: Consumer, places: list[PartitionOffset], timeout_s: float) -> list[PartitionOffset]:
    try:
        return consumer.committed(places, timeout=timeout_s)
    except KafkaException:
        # A consumer that may not see its group waits for a coordinator until the time is over, and tells why elsewhere.
        message = consumer.poll(0)
        error = message and message.error()
        if error and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise KafkaException(error) from None
        raise
