"""Adds partitions to the topics of the topic table, in a safe order and after open requests are judged.

With more partitions most keys move to another one. Evaluate detects duplicates within a partition only, and readers
expect an event's scored and judged evaluation in the same partition, so requests are judged before topics grow. Judge
has one ledger for each partition number, so that its topics must have the same partition count while it runs; aggregate
writes the windows of a partition to the one with the same number.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

import stamina
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from ragweir.errors import PermanentError
from ragweir.schemas.registry.schema import FORMATS
from ragweir.schemas.topics import formatted
from ragweir.streams.runtime.kafka.client import (
    Connection,
    Identity,
    build,
    client_properties,
    is_transient,
    partition_counts,
    reader_properties,
)
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.settings import Settings

ORDER = (
    *("dead-letter", *(formatted("windows", form) for form in FORMATS), "windows"),
    *("otlp.evaluations", *(formatted("evaluations", form) for form in FORMATS), "evaluations"),
    *("judge.anchors", "judge.ledger", "judge.deferred", "judge.retry", "judge.requests"),
    *("redrive", "interactions", "assembly", "spans", "control", "labels", "labels.draws"),
    "documents",
    *("feedback.unmatched", "feedback.waiting", "feedback"),
)
"""The topics in the order in which they grow: each after the outputs of its readers."""
_SERVICES = ("key", "join", "evaluate", "evaluate-faust", "judge", "aggregate", "match")
"""The services that must not run. The exporter detects new partitions itself."""
_DRAINED = ("judge.requests", "judge.retry")
"""The topics that must be read to their ends. Records of `judge.deferred` may wait for days."""
_MAX_READ = 1_000
"""The number of offsets that are read to check that they are only commit markers."""
_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Obstacles:
    """The reasons why topics cannot grow now."""

    working: tuple[str, ...]
    """The services that run."""
    left: int
    """The number of offsets that judge has not read yet, about as many as requests."""

    def __bool__(self) -> bool:
        return bool(self.working or self.left)

    @property
    def advice(self) -> str:
        """Return the steps to take first.

        >>> Obstacles(("evaluate", "judge"), 7).advice
        'stop evaluate; judge has about 7 requests left'
        >>> Obstacles(("aggregate",), 7).advice
        'start judge, which has about 7 requests left'
        >>> Obstacles(("judge", "aggregate"), 0).advice
        'stop judge and aggregate'
        """
        feeding = [name for name in self.working if name.startswith("evaluate")]
        if not self.left:
            return f"stop {' and '.join(self.working)}"
        if "judge" in self.working:
            requests = f"judge has about {self.left:,} requests left"
        else:
            requests = f"start judge, which has about {self.left:,} requests left"
        return "; ".join([*(f"stop {name}" for name in feeding), requests])


class TopicGrowth:
    """Adds partitions to the existing topics of the topic table.

    Args:
        settings: all settings.
        partitions: the new partition count of all topics.
    """

    def __init__(self, settings: Settings, partitions: int) -> None:
        self._settings, self._partitions, self._prefix = settings, partitions, settings.topics.prefix
        self._connection = Connection(quiet=True)
        self._admin = build(AdminClient, client_properties(settings, self._connection))

    def plan(self) -> Mapping[str, int]:
        """Return the topics that are to grow, in their order, with their current partition counts.

        Raises:
            PermanentError: if there are no topics, or one has more partitions already.
            Unreachable: if no broker answers.
        """
        present = partition_counts(self._admin, self._connection)
        ours = {name: present[name] for name in (self._prefix + each for each in ORDER) if name in present}
        if not ours:
            raise PermanentError(f"there are no topics {self._prefix}*; `ragweir topics create` makes them")
        largest = max(ours, key=lambda name: ours[name])
        if ours[largest] > self._partitions:
            raise PermanentError(
                f"{largest} has {ours[largest]} partitions already, and Kafka takes none away; use --partitions "
                f"{ours[largest]} or more"
            )
        return {name: number for name, number in ours.items() if number < self._partitions}

    def obstacles(self) -> Obstacles:
        """Return the obstacles as they are now.

        Raises:
            PermanentError: if Kafka answers with an error.
            Unreachable: if no broker answers.
        """
        try:
            groups = self._admin.list_consumer_groups(request_timeout=_TIMEOUT_SECONDS).result().valid
            ended = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
            active = {group.group_id for group in groups if group.state not in ended}
            working = [name for name in _SERVICES if Identity(name, 0, self._prefix).group in active]
            return Obstacles(tuple(working), self._left() if self._settings.judge.base_url else 0)
        except KafkaException as error:
            raise PermanentError(f"Kafka does not list the groups: {error.args[0].str()}") from None

    @stamina.retry(on=is_transient, attempts=None, timeout=_TIMEOUT_SECONDS, wait_initial=0.1, wait_max=1.0)
    def _left(self) -> int:
        """Return the number of offsets that judge has not settled; 0 if they are only commit markers."""
        left = 0
        group = {**reader_properties(self._settings), "group.id": Identity("judge", 0, self._prefix).group}
        present = partition_counts(self._admin, self._connection)
        with closing(build(Consumer, group)) as consumer:
            for name in (self._prefix + each for each in _DRAINED if self._prefix + each in present):
                whole = offset_range(self._settings, name, committed=False)
                asked = [PartitionOffset(name, partition) for partition in whole.ends]
                found = consumer.committed(asked, timeout=_TIMEOUT_SECONDS)
                rest = whole.since({each.partition: each.offset for each in found})
                stable = offset_range(self._settings, name).ends == whole.ends
                if len(rest) > _MAX_READ or not stable or any(True for _ in read(self._settings, rest)):
                    left += len(rest)
        return left

    def grow(self, name: str) -> None:
        """Add partitions to a topic.

        Raises:
            PermanentError: if Kafka answers with an error.
        """
        asked = self._admin.create_partitions(
            [NewPartitions(name, self._partitions)], operation_timeout=_TIMEOUT_SECONDS
        )
        try:
            asked[name].result(2 * _TIMEOUT_SECONDS)
        except KafkaException as error:
            raise PermanentError(f"Kafka adds no partitions to {name}: {error.args[0].str()}") from None
