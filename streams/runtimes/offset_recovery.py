"""Offset recovery: up to where it is proven that the inputs of an agent have been handled.

A group's committed offset is what its coordinator remembers, and Kafka's can remember wrongly: up to 4.3.0 at least,
a coordinator whose partition loses and regains its leader while it loads, as when a lone broker is killed and comes
back, takes the end of one loading for that of the next and answers from what it has by then, an older offset or none.
An operator may set offsets back, too. What was written in the same transaction as the offset cannot lie behind it, so
it is asked as well: the newest records of the output, and the progress group, which knows idle partitions too.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import Interrupted, PermanentError, Unreachable
from ragweir.streams.agent import Agent
from ragweir.streams.kafka.client import settling
from ragweir.streams.kafka.reader import OffsetRange, offset_range, read
from ragweir.streams.records import EventPosition, TopicPartition
from ragweir.streams.runtimes.progress_group import ProgressGroup
from ragweir.streams.runtimes.topic_identity import TopicVersion
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_TAIL = 300
"""How many of the last offsets of each partition are read: whoever wrote last about an input is most likely there."""

_PAUSE_S = 0.5
_AWAY = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


class OffsetRecovery:
    """Looks up what the output of one agent tells.

    Args:
        settings: how to reach Kafka.
        agent: whose output it is; where none of its outputs tells anything, committed offsets are taken as they are.
        topics: the topics as they are now, by name.
        progress: knows the offsets that were committed.
        stopped: says whether to stop waiting.
        alive: is called while reading goes on.
    """

    def __init__(
        self,
        settings: Settings,
        agent: Agent,
        topics: Mapping[str, TopicVersion],
        progress: ProgressGroup,
        stopped: Callable[[], bool],
        alive: Callable[[], None],
    ) -> None:
        self._settings, self._agent, self._topics, self._progress = settings, agent, topics, progress
        self._topic = settings.topics.prefix + (agent.provenance or "")
        self._stopped, self._alive = stopped, alive

    def recovered(self, committed: Sequence[PartitionOffset]) -> list[PartitionOffset]:
        """The committed offsets as Kafka answered them, those replaced that lie behind what is proven.

        Raises:
            PermanentError: if the output may not be read.
            Interrupted: if told to stop while waiting for the broker.
            KafkaException: if the broker answers with an error that waiting does not mend.
        """
        if self._agent.provenance is None:
            return list(committed)
        while True:
            try:
                told, known = self._newest_positions(), self._progress.read(committed)
                return [
                    self._recovered(
                        each, told.get((each.topic, each.partition), {}), known.get((each.topic, each.partition))
                    )
                    for each in committed
                ]
            except Unreachable as error:
                why = str(error)
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    why = f"{self._topic} may not be read; what was written to it says where to go on"
                    raise PermanentError(why) from None
                if not settling(error) and code not in _AWAY:
                    raise
                why = error.args[0].str()
            log.info("waiting to read where to go on", topic=self._topic, reason=why)
            self._alive()
            if self._stopped():
                raise Interrupted
            time.sleep(_PAUSE_S)

    def _newest_positions(self) -> Mapping[TopicPartition, Mapping[EventPosition, str]]:
        """Return the positions of events, by partition, that the output's newest records tell of, and their ids."""
        told: defaultdict[TopicPartition, dict[EventPosition, str]] = defaultdict(dict)
        for record in read(self._settings, offset_range(self._settings, self._topic).newest(_TAIL)):
            self._alive()
            for origin in self._agent.origins(record):
                topic = self._topics.get(origin.topic_partition[0])
                if topic is not None and origin.topic_id in ("", topic.id):
                    told[origin.topic_partition][origin.position] = origin.event_id
        return told

    def _recovered(
        self, committed: PartitionOffset, told: Mapping[EventPosition, str], known: int | None
    ) -> PartitionOffset:
        """Return a committed offset, or the one to go on at instead.

        Args:
            committed: as Kafka answered it.
            told: the positions of events that the output tells of, and their ids.
            known: the offset in the progress group; None where it has none.
        """
        topic, partition, first = committed.topic, committed.partition, max(committed.offset, 0)
        ahead = [position for position in told if position[0] >= max(first, known or 0)]
        if not ahead and (known is None or known <= committed.offset):
            return committed
        # A topic that was made anew, or has lost records, may end before what is told of it, or have others there.
        held = offset_range(self._settings, topic, partitions=[partition])
        low, end = held.starts[partition], held.ends[partition]
        proven = [known] if known is not None and committed.offset < known <= end else []
        present = [position for position in ahead if low <= position[0] < end]
        # All events of a record are settled in one transaction, so that one of them speaks for the record.
        if present and self._is_there(topic, partition, last := max(present), told[last]):
            proven.append(last[0] + 1)
        if not proven:
            return committed
        goes_on_at = max(proven)
        if goes_on_at > first:
            self._report(committed, goes_on_at, max(first, low))
        return PartitionOffset(topic, partition, goes_on_at, committed.metadata or "")

    def _report(self, committed: PartitionOffset, goes_on_at: int, first: int) -> None:
        log.error(
            "the committed offset lies behind what is written already, so the group's coordinator is wrong or it was "
            "set back; going on behind what is written, since going back would write it twice. The command computes it "
            "again in topics of its own",
            topic=committed.topic,
            partition=committed.partition,
            committed=committed.offset if committed.offset >= 0 else None,
            goes_on_at=goes_on_at,
            command=self._agent.replay_command(committed.topic, first, goes_on_at),
        )

    def _is_there(self, topic: str, partition: int, position: EventPosition, identity: str) -> bool:
        """Return whether an event has the position that the output tells of it."""
        one = OffsetRange(topic, {partition: position[0]}, {partition: position[0] + 1})
        return any(
            event == (position, identity)
            for record in read(self._settings, one)
            for event in self._agent.identities(record)
        )
