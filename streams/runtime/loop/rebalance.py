"""The consumer's rebalance callbacks, which run while a batch is read: assigned, revoked and lost partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial

import stamina
import structlog
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import Interrupted, StateError
from ragweir.streams.runtime.agent import Agent, Assignment, StoredChangelog
from ragweir.streams.runtime.loop.batches import BatchReader
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.protection.crash_protection import CrashProtection
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.recovery.offset_metadata import OffsetMetadata, metadata_of
from ragweir.streams.runtime.recovery.offset_recovery import OffsetRecovery
from ragweir.streams.runtime.recovery.offsets import OffsetTracker
from ragweir.streams.runtime.recovery.progress_group import ProgressGroup
from ragweir.streams.runtime.recovery.restore import KafkaChangelog, preceding_records
from ragweir.streams.runtime.recovery.start_offsets import StartOffsets
from ragweir.streams.runtime.recovery.topic_identity import TopicIdentity
from ragweir.streams.runtime.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_STATE_RETRY_SECONDS = 4.0
"""Time for which committed offsets that do not fit the state are asked for again: a coordinator that is still loading
can answer wrong ones; see `ragweir.streams.runtime.recovery.offset_recovery`."""


class RebalanceListener:
    """Hands assigned partitions to the agent and takes revoked ones from it. Each call of `stopped` is a heartbeat.

    Before partitions are revoked, `finish` commits the open transaction. Before those that are lost, which may belong
    to other members already, `discard` aborts it.
    """

    def __init__(
        self,
        settings: Settings,
        consumer: Consumer,
        identity: TopicIdentity,
        progress: ProgressGroup,
        agent: Agent,
        group: str,
        offsets: OffsetTracker,
        reader: BatchReader,
        crash_protection: CrashProtection,
        telemetry: Telemetry,
        stopped: Callable[[], bool],
        finish: Callable[[], None],
        discard: Callable[[], None],
    ) -> None:
        self._settings, self._identity, self._agent, self._group = settings, identity, agent, group
        self._offsets, self._reader, self._crash_protection = offsets, reader, crash_protection
        self._telemetry, self._stopped, self._finish, self._discard = telemetry, stopped, finish, discard
        on_recreated = partial(telemetry.count, "ragweir_topics_recreated_total", 1)
        recovery = OffsetRecovery(settings, agent.recovery, identity.topics, progress, stopped)
        self._start_offsets = StartOffsets(consumer, identity, offsets, recovery, on_recreated, stopped)
        self.joined = False
        """True once the group has assigned partitions, perhaps none of them to this worker."""

    def subscribe(self, consumer: Consumer, topics: Sequence[str]) -> None:
        """Join the group."""
        consumer.subscribe(list(topics), self._assigned, self._revoked, self._lost)

    def _assigned(self, consumer: Consumer, partitions: list[PartitionOffset]) -> None:
        retry = stamina.RetryingCaller(attempts=None, timeout=_STATE_RETRY_SECONDS, wait_initial=0.5, wait_max=2.0)
        starts = retry(StateError, self._start, consumer, partitions)
        consumer.assign(starts)
        self.joined = True
        self._show_assigned()
        log.info("partitions assigned", now=len(starts), held=len(self._offsets.committed))

    def _start(self, consumer: Consumer, partitions: list[PartitionOffset]) -> list[PartitionOffset]:
        if self._stopped():
            raise Interrupted
        started = self._offsets.start(consumer, partitions, self._stopped, self._start_offsets.check)
        for committed, start in started:
            stored = self._start_offsets.metadata.get((start.topic, start.partition)) or metadata_of(start)
            self._restore(committed, start, self._crash_protection.on_assigned(start, stored, self._group))
        return [self._resumed(start) for _, start in started]

    def _resumed(self, start: PartitionOffset) -> PartitionOffset:
        """Return the offset to read from: the start, or a later one at which the agent goes on."""
        partition = start.topic, start.partition
        at = self._agent.holding.resumes_at(partition, start.offset)
        if at == start.offset:
            return start
        self._offsets.consumed[partition] = at
        return PartitionOffset(start.topic, start.partition, at, start.metadata or "")

    def _restore(self, committed: int | None, start: PartitionOffset, metadata: OffsetMetadata) -> None:
        agent, began = self._agent, machine.monotonic()
        changelog = None
        if agent.changelog is not None:
            changelog = KafkaChangelog(self._settings, agent.changelog, start.partition, self._stopped)
        with closing(preceding_records(self._settings, start, agent.preparation.warm_up, self._stopped)) as preceding:
            readable: Iterable[Record] = (record for record in preceding if metadata.is_readable(record.offset))
            topic = self._identity.topics.get(start.topic)
            assignment = Assignment(
                (start.topic, start.partition),
                committed,
                start.offset,
                changelog or StoredChangelog(),
                readable,
                metadata.topic,
                topic.partitions if topic else None,
                metadata.note,
            )
            try:
                agent.on_assigned(assignment)
            except StateError as error:
                log.warning("the committed offset does not fit the state", partition=start.partition, reason=str(error))
                raise
        if changelog is not None:
            seconds = round(machine.monotonic() - began, 1)
            fields = {"topic": start.topic, "partition": start.partition}
            log.info("state restored", **fields, records=changelog.read, seconds=seconds)

    def _revoked(self, consumer: Consumer, partitions: list[PartitionOffset]) -> None:
        self._finish()
        self._take_away(consumer, partitions)

    def _lost(self, consumer: Consumer, partitions: list[PartitionOffset]) -> None:
        log.warning("partitions lost", count=len(partitions))
        self._discard()
        self._take_away(consumer, partitions)

    def _take_away(self, consumer: Consumer, partitions: list[PartitionOffset]) -> None:
        revoked = {(each.topic, each.partition) for each in partitions}
        self._reader.revoke(revoked)
        self._offsets.on_revoked(revoked)
        self._crash_protection.attempts.on_revoked(revoked)
        self._agent.on_revoked(revoked)
        consumer.unassign()
        self._telemetry.add(self._agent.drain_metrics())
        self._show_assigned()
        for topic, partition in revoked:
            self._telemetry.remove("ragweir_lag", topic, str(partition))
        log.info("partitions revoked", now=len(partitions), held=len(self._offsets.committed))

    def _show_assigned(self) -> None:
        self._telemetry.set("ragweir_assigned_partitions", len(self._offsets.committed))
