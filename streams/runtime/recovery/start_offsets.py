"""The offsets at which partitions start: the committed ones, if they belong to the topic and nothing proves later ones.

A topic that was deleted and created again starts at its beginning. So does a partition that was added after the group
started to read its topic, since all its records were written after that, and a topic that did not exist for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog
from confluent_kafka import OFFSET_INVALID, Consumer
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import PermanentError
from ragweir.streams.runtime.records import TopicPartition
from ragweir.streams.runtime.recovery.offset_metadata import OffsetMetadata, metadata_of
from ragweir.streams.runtime.recovery.offset_recovery import OffsetRecovery
from ragweir.streams.runtime.recovery.offsets import OffsetTracker, ask_until_answered
from ragweir.streams.runtime.recovery.topic_identity import TopicIdentity, TopicVersion

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class StartOffsets:
    """Checks the committed offsets that Kafka answers."""

    def __init__(
        self,
        consumer: Consumer,
        identity: TopicIdentity,
        offsets: OffsetTracker,
        recovery: OffsetRecovery,
        on_recreated: Callable[[str], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._consumer, self._identity, self._offsets = consumer, identity, offsets
        self._recovery, self._on_recreated, self._stopped = recovery, on_recreated, stopped
        self.metadata: dict[TopicPartition, OffsetMetadata] = {}
        """The metadata to commit for each partition of the last check."""
        self._recreated: set[TopicPartition] = set()
        """The partitions of the last check whose topic was deleted and created again."""

    def check(self, answered: Sequence[PartitionOffset]) -> list[PartitionOffset]:
        """Return the offsets to start at, OFFSET_INVALID for a partition without a valid one."""
        before = dict(self._identity.topics)
        topics = self._identity.learn(sorted({each.topic for each in answered}))
        self.metadata = {}
        self._recreated.clear()
        for name, topic in topics.items():
            self._check_topic([each for each in answered if each.topic == name], topic, before.get(name))
        recreated = [PartitionOffset(*partition, OFFSET_INVALID) for partition in self._recreated]
        valid = [each for each in answered if (each.topic, each.partition) not in self._recreated]
        recovered = self._recovery.recovered(valid) if valid else []
        checked = {(each.topic, each.partition): each for each in [*recovered, *recreated]}
        return [checked[each.topic, each.partition] for each in answered]

    def _check_topic(
        self, answered: Sequence[PartitionOffset], topic: TopicVersion, before: TopicVersion | None
    ) -> None:
        """Set the metadata of a topic's partitions, and find those that start at their beginnings."""
        name = answered[0].topic
        own = {each.partition: metadata_of(each) for each in answered}
        known = dict(own)
        if any(each.offset < 0 for each in answered):  # The topic's id may be known from its other partitions.
            others = [PartitionOffset(name, number) for number in range(topic.partitions) if number not in own]
            known |= {each.partition: metadata_of(each) for each in self._committed(others)}
        ids = {each.topic for each in known.values()} | {before.id if before else ""}
        counts = [each.partitions for each in known.values() if each.topic == topic.id and each.partitions is not None]
        is_recreated = bool(ids - {topic.id, ""})
        initial_count = 0 if is_recreated or name in self._identity.were_missing else min(counts, default=None)
        for each in answered:
            partition, metadata = (name, each.partition), own[each.partition]
            if is_recreated and metadata.topic != topic.id:
                self._recreated.add(partition)
                metadata = OffsetMetadata()
            if initial_count is not None and each.partition >= initial_count:
                self._offsets.begin_at_start(partition)
            count = topic.partitions if initial_count is None else initial_count
            self.metadata[partition] = metadata.model_copy(update={"topic": topic.id, "partitions": count})
        if recreated := sorted(partition for other, partition in self._recreated if other == name):
            if self._offsets.is_replay:
                raise PermanentError(
                    f"{name} was deleted and made again while it is replayed; delete the run and start another"
                )
            log.error(
                "topic was deleted and created again; reading it from its start", topic=name, partitions=recreated
            )
            self._on_recreated(name)

    def _committed(self, partitions: list[PartitionOffset]) -> list[PartitionOffset]:
        if not partitions:
            return []
        return ask_until_answered(lambda timeout: self._consumer.committed(partitions, timeout=timeout), self._stopped)
