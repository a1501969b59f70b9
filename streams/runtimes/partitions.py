"""Taking partitions over, and giving them up: the consumer's callbacks, which run while a batch is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial

import stamina
import structlog
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import Interrupted, StateError
from ragweir.streams.agent import Agent, Assignment, StoredChangelog
from ragweir.streams.records import Record
from ragweir.streams.runtimes.attempts import OffsetMetadata
from ragweir.streams.runtimes.batches import BatchReader
from ragweir.streams.runtimes.offset_recovery import OffsetRecovery
from ragweir.streams.runtimes.offsets import OffsetTracker
from ragweir.streams.runtimes.precautions import Precautions
from ragweir.streams.runtimes.progress_group import ProgressGroup
from ragweir.streams.runtimes.restore import KafkaChangelog, preceding_records
from ragweir.streams.runtimes.start_offsets import StartOffsets
from ragweir.streams.runtimes.topic_identity import TopicIdentity
from ragweir.streams.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_DOUBT_S = 4.0
"""The time in seconds for which committed offsets that do not fit the state are asked for again: a coordinator that is
still loading can answer wrong ones; see `ragweir.streams.runtimes.offset_recovery`."""


class Partitions:
    """Hands partitions over to an agent and takes them from it again.

    Args:
        settings: how to reach Kafka.
        consumer: holds the partitions.
        identity: knows which topics there are.
        progress: knows the offsets that were committed, whatever the group answers.
        agent: whose partitions they are.
        group: its consumer group.
        positions: the offsets of the partitions.
        reader: reads them.
        precautions: knows the records on which a process may have died.
        telemetry: shows which partitions are held.
        alive: called while something is waited for.
        stopped: says whether to stop waiting.
    """

    def __init__(
        self,
        settings: Settings,
        consumer: Consumer,
        identity: TopicIdentity,
        progress: ProgressGroup,
        agent: Agent,
        group: str,
        positions: OffsetTracker,
        reader: BatchReader,
        precautions: Precautions,
        telemetry: Telemetry,
        alive: Callable[[], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._settings, self._identity, self._agent, self._group = settings, identity, agent, group
        self._positions, self._reader, self._precautions, self._telemetry = positions, reader, precautions, telemetry
        self._alive, self._stopped = alive, stopped
        recreated = partial(telemetry.count, "ragweir_topics_recreated_total", 1)
        traces = OffsetRecovery(settings, agent, identity.known, progress, stopped, alive)
        self._beginnings = StartOffsets(consumer, identity, positions, traces, recreated, stopped)
        self.joined = False
        """True once the group has dealt partitions out, of which none may have been for this worker."""

    def subscribe(self, consumer: Consumer, topics: Sequence[str]) -> None:
        """Join the group."""
        consumer.subscribe(list(topics), self._assigned, self._revoked, self._lost)

    def _assigned(self, consumer: Consumer, partitions: list[PartitionOffset]) -> None:
        insistent = stamina.RetryingCaller(attempts=None, timeout=_DOUBT_S, wait_initial=0.5, wait_max=2.0)
        started = insistent(StateError, self._take_over, consumer, partitions)
        consumer.assign(started)
        self.joined = True
        self._telemetry.set("ragweir_assigned_partitions", len(self._positions))
        log.info("partitions assigned", now=len(started), held=len(self._positions))

    def _take_over(self, consumer: Consumer, partitions: list[PartitionOffset]) -> list[PartitionOffset]:
        if self._stopped():
            raise Interrupted
        started = self._positions.start(consumer, partitions, self._stopped, self._beginnings.checked)
        for committed, start in started:
            place = start.topic, start.partition
            metadata = self._beginnings.metadata.get(place) or OffsetMetadata.stored(start.metadata)
            known = self._precautions.take_over(start, metadata, self._group)
            self._restore(committed, start, known)
        return [start for _, start in started]

    def _restore(self, committed: int | None, start: PartitionOffset, known: OffsetMetadata) -> None:
        agent, place = self._agent, (start.topic, start.partition)
        began = time.monotonic()
        state = None
        if agent.changelog is not None:
            state = KafkaChangelog(self._settings, agent.changelog, start.partition, self._stopped, self._alive)
        with closing(preceding_records(self._settings, start, agent.warm_up, self._stopped, self._alive)) as preceding:
            readable: Iterable[Record] = (record for record in preceding if known.readable(record.offset))
            try:
                changelog = state or StoredChangelog()
                topic = self._identity.known.get(start.topic)
                partitions = topic.partitions if topic else None
                agent.on_assigned(
                    Assignment(place, committed, start.offset, changelog, readable, known.topic, partitions)
                )
            except StateError as error:
                log.warning("the committed offset does not fit the state", partition=place[1], reason=str(error))
                raise
        if state is not None:
            seconds = round(time.monotonic() - began, 1)
            log.info("state restored", topic=place[0], partition=place[1], records=state.read, seconds=seconds)

    def _revoked(self, consumer: Consumer, partitions: list[PartitionOffset]) -> None:
        gone = {(each.topic, each.partition) for each in partitions}
        self._reader.revoke(gone)
        self._positions.drop(partitions)
        self._precautions.drop(gone)
        self._agent.on_revoked(gone)
        consumer.unassign()
        self._telemetry.measure(self._agent.drain_metrics())
        self._telemetry.set("ragweir_assigned_partitions", len(self._positions))
        for topic, partition in gone:
            self._telemetry.forget("ragweir_lag", topic, str(partition))
        log.info("partitions given up", now=len(partitions), held=len(self._positions))

    def _lost(self, consumer: Consumer, partitions: list[PartitionOffset]) -> None:
        log.warning("partitions lost", count=len(partitions))
        self._revoked(consumer, partitions)
