"""Crash protection: keeps a record that ends its process from ending one process after the other.

An agent that may handle records one by one has its suspects tried in a canary, and those that end it become dead
letters. An agent with a changelog stops for good after too many attempts, without losing a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import PermanentError
from ragweir.streams.runtime.agent import Agent
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.protection.canary_client import CanaryClient
from ragweir.streams.runtime.protection.delivery_attempts import MAX_ATTEMPTS, DeliveryAttempts
from ragweir.streams.runtime.records import Outcome, Record, TopicPartition
from ragweir.streams.runtime.recovery.offset_metadata import OffsetMetadata

_CHUNK = 50
"""The records of a batch that are handled between two heartbeats, if the agent allows that."""
_SURVIVED_SECONDS = 10.0
"""Time after which a process has survived the records that its agent holds."""


class CrashProtection:
    """Hands records to an agent, after the attempt is counted and suspects are tried.

    Args:
        agent: handles the records.
        canary: tries suspects; None for an agent without a canary.
        commit_metadata: commits the current offsets with new metadata. May raise Aborted and RestartRequired.
        alive: records a heartbeat.
    """

    def __init__(
        self, agent: Agent, canary: CanaryClient | None, commit_metadata: Callable[[], None], alive: Callable[[], None]
    ) -> None:
        self._agent, self._canary, self._commit_metadata, self._alive = agent, canary, commit_metadata, alive
        self.attempts = DeliveryAttempts()

    def on_assigned(self, start: PartitionOffset, stored: OffsetMetadata, group: str) -> OffsetMetadata:
        """Add a partition; see `DeliveryAttempts.on_assigned`.

        Raises:
            PermanentError: if too many processes have died on the next records and there is no canary.
        """
        stored = self.attempts.on_assigned(start, stored)
        if stored.attempts >= MAX_ATTEMPTS and self._canary is None:
            raise PermanentError(_too_many_attempts(group, start, stored))
        return stored

    def begin(self, records: Sequence[Record]) -> int:
        """Commit the attempt if it is the first one of a partition, and try suspects.

        No transaction may be open if records are the `attempts.are_first` of a partition.

        Returns:
            The number of records to handle. The remaining ones were not tried in time and must be read again.

        Raises:
            Aborted: if the attempt cannot be committed.
            RestartRequired: if the attempt cannot be committed, or suspects cannot be tried.
        """
        if self.attempts.begin(records, machine.monotonic()):
            self._commit_metadata()
        if self._canary is None:
            return len(records)
        suspects = self.attempts.suspects(records)
        if not suspects:
            self._canary.close()
            return len(records)
        tried = self._canary.try_records([records[number] for number in suspects])
        return suspects[tried] if tried < len(suspects) else len(records)

    def handle(self, records: Sequence[Record]) -> Iterator[Outcome]:
        """Yield the outcomes of records; those that ended the canary become dead letters of class `fatal`.

        An agent with a changelog gets all of them in one call.
        """
        if self._agent.changelog is not None:
            yield self._agent.handle(records)
            return
        if not self.attempts.suspects(records):
            for first in range(0, len(records), _CHUNK):
                self._alive()
                yield self._agent.handle(records[first : first + _CHUNK])
            return
        for record in records:
            # A suspect may take long, so that there is a heartbeat before each.
            self._alive()
            if cause := self._canary.cause(record) if self._canary else "":
                self.attempts.mark_fatal(record)
                yield self._agent.dead_letter(record, cause, "fatal")
            else:
                yield self._agent.handle([record])

    def survive(self, outcome: Outcome) -> None:
        """Commit that this process has survived its first records, before the outcome is committed.

        After a first attempt the commit of the outcome resets the count as well. Records that the agent still holds are
        survived after a while only.

        Raises:
            Aborted, RestartRequired: if it cannot be committed.
        """
        if not self.attempts.in_progress:
            return
        held, moved = self._agent.holding.held, {record.topic_partition for record in outcome.settled}
        started_before_s = machine.monotonic() - _SURVIVED_SECONDS

        def is_safe(partition: TopicPartition, started_s: float, attempts: int) -> bool:
            return started_s <= started_before_s or (partition not in held and (attempts > 1 or partition not in moved))

        if self.attempts.survive(is_safe):
            self._commit_metadata()

    def on_commit(self) -> None:
        """Forget the results of trials: the batch is committed."""
        if self._canary is not None:
            self._canary.on_commit()

    def withdraw(self) -> None:
        """Commit that no attempt is in progress, as the process stops in good order.

        Raises:
            Aborted, RestartRequired: if it cannot be committed.
        """
        if self.attempts.withdraw():
            self._commit_metadata()

    def close(self) -> None:
        """End the canary."""
        if self._canary is not None:
            self._canary.close()


def _too_many_attempts(group: str, start: PartitionOffset, stored: OffsetMetadata) -> str:
    return (
        f"{stored.attempts} processes in a row have ended while they handled the records of "
        f"{start.topic}/{start.partition} from offset {start.offset} to before {stored.until}, so one of these may be "
        "the cause. No record is skipped: give the process more memory or upgrade it, and then try again by setting "
        f"the same offset anew, with kafka-consumer-groups --group {group} --topic {start.topic}:{start.partition} "
        f"--reset-offsets --to-offset {start.offset} --execute"
    )
