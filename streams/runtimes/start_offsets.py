"""Where partitions begin: at their committed offsets, unless these belong to another topic or are not what was done.

A topic that was deleted and made again begins at its start. So does a partition that was added after the group began to
read its topic: what was written to it before anybody read it was written after that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog
from confluent_kafka import OFFSET_INVALID, Consumer
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import PermanentError
from ragweir.streams.records import TopicPartition
from ragweir.streams.runtimes.attempts import OffsetMetadata
from ragweir.streams.runtimes.offset_recovery import OffsetRecovery
from ragweir.streams.runtimes.offsets import OffsetTracker, ask_until_answered
from ragweir.streams.runtimes.topic_identity import TopicIdentity, TopicVersion

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class StartOffsets:
    """Checks the committed offsets that Kafka answers.

    Args:
        consumer: asks for the committed offsets of further partitions.
        identity: knows which topics there are.
        positions: begins the partitions.
        recovery: knows up to where the agent's output proves that records are done.
        recreated: called with each topic that was deleted and made again, where partitions of it begin anew.
        stopped: says whether to stop waiting.
    """

    def __init__(
        self,
        consumer: Consumer,
        identity: TopicIdentity,
        positions: OffsetTracker,
        recovery: OffsetRecovery,
        recreated: Callable[[str], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._consumer, self._identity, self._positions = consumer, identity, positions
        self._recovery, self._recreated, self._stopped = recovery, recreated, stopped
        self.metadata: dict[TopicPartition, OffsetMetadata] = {}
        """The metadata that holds for each partition that began last."""
        self._anew: set[TopicPartition] = set()
        """Those of them that begin anew, since their topic was deleted and made again."""

    def checked(self, answered: Sequence[PartitionOffset]) -> list[PartitionOffset]:
        """Return the offsets to go on from, none where there are none that hold.

        Raises:
            PermanentError: if a topic was deleted and made again while it is replayed.
            Interrupted, RestartRequired, KafkaException: if Kafka does not answer.
        """
        before = dict(self._identity.known)
        topics = self._identity.learn(sorted({each.topic for each in answered}))
        self.metadata = {}
        self._anew.clear()
        for name, topic in topics.items():
            self._sift([each for each in answered if each.topic == name], topic, before.get(name))
        anew = [PartitionOffset(*place, OFFSET_INVALID) for place in self._anew]
        held = [each for each in answered if (each.topic, each.partition) not in self._anew]
        recovered = self._recovery.recovered(held) if held else []
        checked = {(each.topic, each.partition): each for each in [*recovered, *anew]}
        return [checked[each.topic, each.partition] for each in answered]

    def _sift(self, answered: Sequence[PartitionOffset], topic: TopicVersion, before: TopicVersion | None) -> None:
        """Find which partitions of a topic begin anew or at their starts, and the metadata to commit with them."""
        name = answered[0].topic
        found = {each.partition: OffsetMetadata.stored(each.metadata) for each in answered}
        own = dict(found)
        if any(each.offset < 0 for each in answered):  # Other partitions of the topic tell what these do not.
            found |= self._others(name, topic, found)
        ids = {each.topic for each in found.values()} | {before.id if before else ""}
        counts = [each.partitions for each in found.values() if each.topic == topic.id and each.partitions is not None]
        is_another = bool(ids - {topic.id, ""})
        began = 0 if is_another else min(counts, default=None)
        for each in answered:
            place, metadata = (name, each.partition), own[each.partition]
            if is_another and metadata.topic != topic.id:
                self._anew.add(place)
                metadata = OffsetMetadata()
            if began is not None and each.partition >= began:
                self._positions.begin_at_start(place)
            partitions = topic.partitions if began is None else began
            self.metadata[place] = metadata.model_copy(update={"topic": topic.id, "partitions": partitions})
        if again := sorted(partition for other, partition in self._anew if other == name):
            if self._positions.bounded:
                raise PermanentError(
                    f"{name} was deleted and made again while it is replayed; delete the run and start another"
                )
            log.error("the topic was deleted and made again; it begins at its start", topic=name, partitions=again)
            self._recreated(name)

    def _others(self, name: str, topic: TopicVersion, known: dict[int, OffsetMetadata]) -> dict[int, OffsetMetadata]:
        others = [PartitionOffset(name, number) for number in range(topic.partitions) if number not in known]
        if not others:
            return {}
        answered = ask_until_answered(lambda timeout: self._consumer.committed(others, timeout=timeout), self._stopped)
        return {each.partition: OffsetMetadata.stored(each.metadata) for each in answered}
