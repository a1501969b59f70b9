"""Traces: up to where an agent's own output proves that its inputs have been handled.

A group's committed offset is what its coordinator remembers, and Kafka's can remember wrongly: up to 4.3.0 at least,
a coordinator whose partition loses and regains its leader while it loads, as when a lone broker is killed and comes
back, takes the end of one loading for that of the next and answers from what it has by then, an older offset or none.
What was written in the same transaction as the offset cannot lie behind it, so it is asked as well.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import Interrupted, PermanentError, Unreachable
from ragweir.streams.agents.agent import Agent
from ragweir.streams.kafka_client import settling
from ragweir.streams.reading import Span, read, span
from ragweir.streams.records import EventPosition, TopicPartition
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_TAIL = 300
"""How many of the last offsets of each partition are read: whoever wrote last about an input is most likely there."""

_PAUSE_S = 0.5
_AWAY = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


class Traces:
    """Looks up what the output of one agent tells.

    Args:
        settings: how to reach Kafka.
        agent: whose output it is; where none of its outputs tells anything, committed offsets are taken as they are.
        stopped: says whether to stop waiting.
        alive: is called while reading goes on.
    """

    def __init__(
        self, settings: Settings, agent: Agent, stopped: Callable[[], bool], alive: Callable[[], None]
    ) -> None:
        self._settings, self._agent = settings, agent
        self._topic = settings.topics.prefix + (agent.provenance or "")
        self._stopped, self._alive = stopped, alive

    def mended(self, committed: Sequence[PartitionOffset]) -> list[PartitionOffset]:
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
                told = self._told()
                return [self._mended(each, told.get((each.topic, each.partition), {})) for each in committed]
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

    def _told(self) -> Mapping[TopicPartition, Mapping[EventPosition, str]]:
        """Return the positions of events, by partition, that the output's newest records tell of, and their ids."""
        told: defaultdict[TopicPartition, dict[EventPosition, str]] = defaultdict(dict)
        for record in read(self._settings, span(self._settings, self._topic).newest(_TAIL)):
            self._alive()
            for place, position, identity in self._agent.origins(record):
                told[place][position] = identity
        return told

    def _mended(self, committed: PartitionOffset, told: Mapping[EventPosition, str]) -> PartitionOffset:
        topic, partition = committed.topic, committed.partition
        ahead = [position for position in told if position[0] >= max(committed.offset, 0)]
        if not ahead:
            return committed
        # A topic that was made anew may end before what is told of the old one, or have other records there.
        held = span(self._settings, topic, partitions=[partition])
        present = [position for position in ahead if held.starts[partition] <= position[0] < held.ends[partition]]
        if not present:
            return committed
        # All events of a record are settled in one transaction, so that one of them speaks for the record.
        last = max(present)
        goes_on_at = last[0] + 1
        one = Span(topic, {partition: last[0]}, {partition: goes_on_at})
        events = (event for record in read(self._settings, one) for event in self._agent.identities(record))
        if (last, told[last]) not in events:
            return committed
        log.error(
            "the committed offset lies behind what is written already, so the group's coordinator is wrong or it was "
            "set back; going on behind what is written",
            topic=topic,
            partition=partition,
            committed=committed.offset if committed.offset >= 0 else None,
            goes_on_at=goes_on_at,
        )
        return PartitionOffset(topic, partition, goes_on_at, committed.metadata or "")
