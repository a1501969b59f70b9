"""The end of a transaction: outcomes and the offsets of their records are committed together, or both are undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import structlog
from confluent_kafka import KafkaError

from ragweir.errors import RestartRequired
from ragweir.streams.runtime.agent import Agent
from ragweir.streams.runtime.loop.pending import PendingOutcome
from ragweir.streams.runtime.loop.status import Status
from ragweir.streams.runtime.loop.transactions import Aborted, GroupOffsets, Transactions
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.protection.crash_protection import CrashProtection
from ragweir.streams.runtime.protection.poison import PoisonBisection
from ragweir.streams.runtime.records import Emission, Outcome, TopicPartition
from ragweir.streams.runtime.recovery.offsets import OffsetTracker
from ragweir.streams.runtime.recovery.progress_group import ProgressGroup
from ragweir.streams.runtime.recovery.topic_identity import TopicIdentity
from ragweir.streams.runtime.serving.telemetry import Telemetry

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_DELETED = Aborted(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


class Forms(Protocol):
    """Further forms of emissions, for topics of their own."""

    @property
    def topics(self) -> Mapping[str, str]:
        """The full names of the topics, by the names that their emissions have."""

    def added(self, emissions: Sequence[Emission]) -> Sequence[Emission]:
        """Return emissions with their further forms, each behind its own."""


class Committer:
    """Sends the outcomes of an agent, and ends their transaction.

    Args:
        agent: the agent, which is told of each end.
        transactions: the producer's transactions.
        offsets: the offsets of the held partitions.
        crash_protection: has the metadata of the offsets.
        progress: selects the offsets for the progress group.
        identity: detects topics that were deleted and created again.
        bisection: is told of each end.
        status: shows what is committed.
        telemetry: counts transactions.
        forms: adds further forms to emissions; None if there are none.
    """

    def __init__(
        self,
        agent: Agent,
        transactions: Transactions,
        offsets: OffsetTracker,
        crash_protection: CrashProtection,
        progress: ProgressGroup,
        identity: TopicIdentity,
        bisection: PoisonBisection,
        status: Status,
        telemetry: Telemetry,
        forms: Forms | None,
    ) -> None:
        self._forms = forms
        self._agent, self._transactions, self._offsets, self._progress = agent, transactions, offsets, progress
        self._crash_protection, self._identity, self._bisection = crash_protection, identity, bisection
        self._status, self._telemetry = status, telemetry
        self.pending = PendingOutcome()
        self.group_metadata: object = None
        """The group's metadata when the last batch was read: a member that has lost its partitions since is fenced."""

    def add(self, outcome: Outcome) -> None:
        """Add an outcome to the transaction, and send its emissions.

        Raises:
            Aborted: if `undo` has to be called. `commit` and `commit_metadata` raise it too.
            RestartRequired: if a new process has to go on. All methods may raise it.
        """
        self.pending.add(outcome)
        self._transactions.write(self._forms.added(outcome.emissions) if self._forms else outcome.emissions)

    def commit(self) -> bool:
        """Commit the outcomes that were added; return False if there was nothing to commit."""
        pending, began = self.pending, machine.monotonic()
        uncommitted = self._offsets.uncommitted or self._crash_protection.attempts.uncommitted
        if pending.is_open or uncommitted or self._identity.is_asked:
            self.check_topics()
        if any(topic in self._identity.missing for topic, _ in pending.offsets):
            raise _DELETED  # Its offsets cannot be committed, nor the outputs of its records without them.
        if has_effects := pending.has_effects or uncommitted:
            self._commit(pending.offsets)
            self._bisection.on_commit()
            self._crash_protection.on_commit()
            self._status.on_batch(pending.handled, pending.handle_s, machine.monotonic() - began)
        elif self._progress.due(self._offsets.committed):
            self.commit_metadata()
        self._agent.on_commit()
        self._status.on_commit(pending.outcome)
        pending.clear()
        return has_effects

    def commit_metadata(self) -> None:
        """Commit the committed offsets again with new metadata."""
        self._commit({})

    def _commit(self, moved: Mapping[TopicPartition, int]) -> None:
        before, attempts = dict(self._offsets.committed), self._crash_protection.attempts
        # Kafka accepts no offset of a topic that does not exist, and with it none of the others.
        known = [each for each in self._offsets.next_offsets(moved) if each.topic not in self._identity.missing]
        offsets = attempts.with_metadata(known, before, self._agent.input_progress.note)
        own = GroupOffsets(offsets, self.group_metadata)
        progress = self._progress.offsets(offsets)
        further = [GroupOffsets(progress, self._progress.metadata)] if progress else []
        self._transactions.commit(own, *further)
        self._progress.on_commit(progress)
        attempts.on_commit(offsets, before)
        self._offsets.on_commit()
        self._telemetry.count("ragweir_transactions_total", 1, "committed")

    def check_topics(self) -> None:
        """Check that the records that were read belong to the topics whose offsets are committed.

        So do those of the topics that the agent reads by itself.
        A topic of which no partition is held any more is checked when one is assigned.

        Raises:
            RestartRequired: if a topic was deleted and created again. Nothing of the transaction is committed.
        """
        held = {topic for topic, _ in self._offsets.committed} | self._agent.preparation.reads.keys()
        if not (changed := self._identity.changed().keys() & held):
            return
        try:
            self._transactions.abort(Aborted(KafkaError(KafkaError.UNKNOWN_TOPIC_ID)))
            # Kafka deletes offsets with their topic: the next process has to find those of the old one.
            self.commit_metadata()
        except Aborted as aborted:
            self._transactions.abort(aborted)
        names = ", ".join(sorted(changed))
        raise RestartRequired(f"{names}: deleted and created again; a restart reads from its start, without duplicates")

    def undo(self, aborted: Aborted) -> KafkaError:
        """Abort the transaction; return the cause."""
        pending = self.pending
        self._agent.on_abort()
        cause = self._transactions.abort(aborted)
        self._telemetry.count("ragweir_transactions_total", 1, "aborted")
        log.warning("transaction aborted", reason=cause.str(), code=cause.name(), events=pending.settled)
        reason = f"Kafka rejects the records made from it: {cause.str()}"
        self._bisection.on_abort(cause.code(), reason, pending.settled, pending.last)
        self._identity.discard_answer()
        pending.clear()
        return cause
