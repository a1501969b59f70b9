"""Offset recovery: the offsets up to which an agent's output and the progress group prove that inputs were handled.

A committed offset is what the group's coordinator remembers. Up to Kafka 4.3.0 at least, a coordinator whose partition
loses and regains its leader while it loads, as after a lone broker was killed, takes the end of one loading for that of
the next, and answers from what it has read by then: an older offset or none. Operators may set offsets back, too. The
output and the progress group were written in the same transactions as the offset, so that they cannot be older.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import Interrupted, PermanentError, Unreachable
from ragweir.streams.runtime.agent_parts import Recovery
from ragweir.streams.runtime.kafka.client import is_transient
from ragweir.streams.runtime.kafka.reader import OffsetRange, offset_range, read
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import EventPosition, Record, TopicPartition
from ragweir.streams.runtime.recovery.progress_group import ProgressGroup
from ragweir.streams.runtime.recovery.topic_identity import TopicVersion
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_TAIL = 300
"""The number of newest offsets of each output partition that are read."""
_PAUSE_SECONDS = 0.5
_AWAY = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


class OffsetRecovery:
    """Replaces committed offsets that are older than is proven. Each call of `stopped` is a heartbeat."""

    def __init__(
        self,
        settings: Settings,
        recovery: Recovery,
        topics: Mapping[str, TopicVersion],
        progress: ProgressGroup,
        stopped: Callable[[], bool],
    ) -> None:
        self._settings, self._recovery, self._topics = settings, recovery, topics
        self._progress, self._stopped = progress, stopped
        self._outputs = [settings.topics.prefix + name for name in recovery.outputs]
        self._names = ", ".join(self._outputs)

    def recovered(self, committed: Sequence[PartitionOffset]) -> list[PartitionOffset]:
        """Return committed offsets, with later ones in place of those that are older than is proven.

        Raises:
            PermanentError: if the output may not be read.
            Interrupted: if `stopped` returns true meanwhile.
            KafkaException: if the broker answers with an error that is not transient.
        """
        if not self._outputs:
            return list(committed)
        while True:
            try:
                written, progress = self._newest_positions(), self._progress.read(committed)
                return [
                    self._recovered(each, written.get(partition, {}), progress.get(partition))
                    for each in committed
                    for partition in [(each.topic, each.partition)]
                ]
            except Unreachable as error:
                reason = str(error)
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise PermanentError(
                        f"{self._names} may not be read; its newest records prove where to go on"
                    ) from None
                if not is_transient(error) and code not in _AWAY:
                    raise
                reason = error.args[0].str()
            log.info("waiting to read where to go on", topic=self._names, reason=reason)
            if self._stopped():
                raise Interrupted
            machine.sleep(_PAUSE_SECONDS)

    def _newest_positions(self) -> Mapping[TopicPartition, Mapping[EventPosition, str]]:
        """Return the positions and ids of the events that the newest records of the output were made of."""
        written: defaultdict[TopicPartition, dict[EventPosition, str]] = defaultdict(dict)
        for record in self._newest_records():
            if self._stopped():
                raise Interrupted
            for origin in self._recovery.origins(record):
                topic = self._topics.get(origin.topic_partition[0])
                if topic is not None and origin.topic_id in ("", topic.id):
                    written[origin.topic_partition][origin.position] = origin.event_id
        return written

    def _newest_records(self) -> Iterator[Record]:
        for output in self._outputs:
            yield from read(self._settings, offset_range(self._settings, output).newest(_TAIL))

    def _recovered(
        self, committed: PartitionOffset, written: Mapping[EventPosition, str], progress: int | None
    ) -> PartitionOffset:
        """Return a committed offset, or the later one that is proven by written events or the progress group."""
        topic, partition, first = committed.topic, committed.partition, max(committed.offset, 0)
        ahead = [position for position in written if position[0] >= max(first, progress or 0)]
        if not ahead and (progress is None or progress <= committed.offset):
            return committed
        # A topic that was recreated or lost records may end before these offsets, or have other records there.
        present = offset_range(self._settings, topic, partitions=[partition])
        low, end = present.starts[partition], present.ends[partition]
        proven = [progress] if progress is not None and committed.offset < progress <= end else []
        candidates = [position for position in ahead if low <= position[0] < end]
        # All events of a record are settled in one transaction, so that one of them proves the record.
        if candidates and self._has_event(topic, partition, last := max(candidates), written[last]):
            proven.append(last[0] + 1)
        if not proven:
            return committed
        goes_on_at = max(proven)
        if goes_on_at > first:
            self._report(committed, goes_on_at, max(first, low))
        return PartitionOffset(topic, partition, goes_on_at, committed.metadata or "")

    def _report(self, committed: PartitionOffset, goes_on_at: int, first: int) -> None:
        log.error(
            "the committed offset lies behind what is written already: the group's coordinator is wrong, or the offset "
            "was set back; going on after the last written event, as going back would write duplicates. The command "
            "evaluates these records again, into topics of a run",
            topic=committed.topic,
            partition=committed.partition,
            committed=committed.offset if committed.offset >= 0 else None,
            goes_on_at=goes_on_at,
            command=self._recovery.replay_command(committed.topic, first, goes_on_at),
        )

    def _has_event(self, topic: str, partition: int, position: EventPosition, event_id: str) -> bool:
        """Return whether the input has this event at this position."""
        one = OffsetRange(topic, {partition: position[0]}, {partition: position[0] + 1})
        return any(
            event == (position, event_id)
            for record in read(self._settings, one)
            for event in self._recovery.identities(record)
        )
