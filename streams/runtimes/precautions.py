"""Precautions: no record ends one process after the other, and none is passed over for what others brought about.

Agents whose records stand for themselves have suspected ones tried by a guard. An agent with state stops for good where
its processes have died too often on the same records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import PermanentError
from ragweir.streams.agent import Agent
from ragweir.streams.records import Outcome, Record, TopicPartition
from ragweir.streams.runtimes.attempts import MOST, Attempts, OffsetMetadata
from ragweir.streams.runtimes.guard import Guard

_PART = 50
"""The records of a batch that are handled at once, where it may be handed over in parts: between them the worker shows
that it is alive."""
_OUTLIVED_S = 10.0
"""The time after which a process has survived the records that its agent holds."""


class Precautions:
    """Hands records to an agent.

    Args:
        agent: handles them.
        guard: tries suspected records; None where nobody can.
        note: commits the offsets as they are, for the sake of their metadata.
        alive: called between the parts of a batch.
    """

    def __init__(
        self,
        agent: Agent,
        guard: Guard | None,
        note: Callable[[], None],
        alive: Callable[[], None],
    ) -> None:
        self._agent, self._guard = agent, guard
        self._attempts = Attempts()
        self._note, self._alive = note, alive

    def take_over(self, start: PartitionOffset, found: OffsetMetadata, group: str) -> OffsetMetadata:
        """Take a partition over; see `Attempts.take_over`.

        Raises:
            PermanentError: if processes have died on the next records too often.
        """
        found = self._attempts.take_over(start, found)
        if found.attempts >= MOST and self._guard is None:
            raise PermanentError(_given_up(group, start, found))
        return found

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Give partitions up."""
        self._attempts.drop(partitions)

    @property
    def uncommitted(self) -> bool:
        """True while there is metadata to commit."""
        return self._attempts.uncommitted

    def noted(self, offsets: Iterable[PartitionOffset], settled: Mapping[TopicPartition, int]) -> list[PartitionOffset]:
        """Return offsets to commit with the metadata that belongs to each; see `Attempts.noted`."""
        return self._attempts.noted(offsets, settled)

    def begin(self, records: Sequence[Record]) -> int:
        """Commit that records are about to be handled, where nobody knows yet that a process survives that.

        Those on which one may have died are tried first. Gives how many of the records may be handled: the rest, which
        there was no time to try, has to be read again.

        Raises:
            Aborted, RestartRequired: if it cannot be committed; `RestartRequired` also where records cannot be tried.
        """
        if self._attempts.begin(records, time.monotonic()):
            self._note()
        if self._guard is None:
            return len(records)
        suspects = [number for number, record in enumerate(records) if self._attempts.suspects(record)]
        if not suspects:
            self._guard.close()
            return len(records)
        tried = self._guard.tried([records[number] for number in suspects])
        return suspects[tried] if tried < len(suspects) else len(records)

    def handled(self, records: Sequence[Record]) -> Outcome:
        """Handle records; those that are known to end a process become dead letters."""
        if self._agent.changelog is not None:
            return self._agent.handle(records)
        outcome = Outcome()
        # What may take long takes it one by one, with a sign of life between.
        most = 1 if any(self._attempts.suspects(record) for record in records) else _PART
        for cause, run in groupby(records, key=self._guard.cause if self._guard else lambda _: ""):
            own = [*run]
            if cause:
                for record in own:
                    self._attempts.mark_fatal(record)
                    outcome.extend(self._agent.dead_letter(record, cause, "fatal"))
                continue
            for first in range(0, len(own), most):
                self._alive()
                outcome.extend(self._agent.handle(own[first : first + most]))
        return outcome

    def survived(self, outcome: Outcome) -> None:
        """Tell the processes to come that handling records ends none, whatever becomes of the commit of the outcome.

        Where none has died before, the commit of progress tells it. An agent goes on with records that it holds, so
        that its process has to live for a while.

        Raises:
            Aborted, RestartRequired: if it cannot be committed.
        """
        if not self._attempts.begun:
            return
        held, moved = self._agent.held, {record.topic_partition for record in outcome.settled}
        outlived_s = time.monotonic() - _OUTLIVED_S

        def safe(place: TopicPartition, begun_s: float, attempts: int) -> bool:
            return begun_s <= outlived_s or (place not in held and (attempts > 1 or place not in moved))

        if self._attempts.survived(safe):
            self._note()

    def committed(self, offsets: Iterable[PartitionOffset], before: Mapping[TopicPartition, int]) -> None:
        """Take note that offsets are committed.

        Args:
            offsets: as `noted` gave them.
            before: the committed offsets until then.
        """
        self._attempts.committed(offsets, before)

    def settled(self) -> None:
        """Take note that all that was handled is committed."""
        if self._guard is not None:
            self._guard.settled()

    def withdraw(self) -> None:
        """Commit that nothing is begun any more: a stop in good order counts as no attempt.

        Raises:
            Aborted, RestartRequired: if it cannot be committed.
        """
        if self._attempts.withdraw():
            self._note()

    def close(self) -> None:
        """The process ends."""
        if self._guard is not None:
            self._guard.close()


def _given_up(group: str, start: PartitionOffset, found: OffsetMetadata) -> str:
    place = f"{start.topic}/{start.partition}"
    return (
        f"{found.attempts} processes in a row have ended while they handled the records of {place} from offset "
        f"{start.offset} to before {found.until}, so one of these may be what ends them. Nothing is passed over: give "
        "the process more memory or upgrade it, and then try again by setting the same offset anew, with "
        f"kafka-consumer-groups --group {group} --topic {start.topic}:{start.partition} --reset-offsets "
        f"--to-offset {start.offset} --execute"
    )
