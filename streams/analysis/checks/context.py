"""The context of the checks: the settings, the topics that exist, and the offsets of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import stamina
from confluent_kafka import Consumer, KafkaException, TopicPartition

from ragweir.schemas.topics import Topic, topic_table
from ragweir.streams.runtime.kafka.client import Identity, build, is_transient, reader_properties
from ragweir.streams.runtime.kafka.configurations import denied
from ragweir.streams.settings import Settings

TIMEOUT_SECONDS = 5.0
_COORDINATOR_S = 10.0
"""Time for which a broker may have no coordinator, as after its start or at the first group of all."""


class CheckFailed(Exception):
    """Something is wrong; the message says what, and how to fix it. A `RagweirError` of a check means the same."""


class CheckSkipped(CheckFailed):
    """Something cannot be checked, because of what another check has found.

    Args:
        because: name of the other check; unless it has failed, this is a failure.
        why: what cannot be checked.
    """

    def __init__(self, because: str, why: str) -> None:
        super().__init__(f"not checked, since {why}")
        self.because = because


class CheckWarning(Exception):
    """Something works but may not be intended; the message says what to do about it."""


@dataclass(slots=True)
class CheckContext:
    """The settings, and the topics that exist with their numbers of partitions, once the broker has answered."""

    settings: Settings
    topics: Mapping[str, int] | None = None

    @property
    def existing(self) -> Mapping[str, int]:
        """The topics that exist.

        Raises:
            CheckFailed: if the broker did not answer.
        """
        if self.topics is None:
            raise CheckSkipped("broker", "the broker does not answer")
        return self.topics

    def own_topics(self) -> dict[str, Topic]:
        """Return ragweir's topics by their full names."""
        table = topic_table(self.settings.output.registry_format)
        return {self.settings.output_topic(name): topic for name, topic in table.items()}

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic.

        Raises:
            CheckFailed: if it does not exist.
        """
        count = self.existing.get(topic, 0)
        if not count:
            raise CheckSkipped("topics", f"there is no topic {topic}")
        return [TopicPartition(topic, partition) for partition in range(count)]

    def committed(self, identity: Identity, partitions: Sequence[TopicPartition]) -> tuple[list[TopicPartition], int]:
        """Return the committed offsets of a group, where there are any, and its lag in offsets.

        Raises:
            CheckFailed: if retention has deleted unread records.
        """
        if not partitions:
            return [], 0
        with build(Consumer, {**reader_properties(self.settings), "group.id": identity.group}) as consumer:
            offsets = _committed(consumer, partitions)
            committed = [each for each in offsets if each.offset >= 0]
            lag = 0
            for each in committed:
                low, high = consumer.get_watermark_offsets(each, timeout=TIMEOUT_SECONDS)
                if each.offset < low:
                    raise CheckFailed(
                        f"retention has deleted {low - each.offset} unread records of {each.topic}/{each.partition}; "
                        "run more workers or keep the topic longer"
                    )
                lag += high - each.offset
        return committed, lag


@stamina.retry(on=is_transient, attempts=None, timeout=_COORDINATOR_S, wait_initial=0.1, wait_max=1.0)
def _committed(consumer: Consumer, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return the committed offsets of a consumer's group; wait while its coordinator is being found."""
    return consumer.committed(list(partitions), timeout=TIMEOUT_SECONDS)


def not_permitted(error: KafkaException) -> Exception:
    """Return a warning if the user lacks the right to describe configurations; else the error."""
    if denied(error):
        return CheckWarning("not checked: the user lacks the right DescribeConfigs on topics or the cluster")
    return error
