"""Reports on a worker's topics: missing inputs to the telemetry, and partition counts to the agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from ragweir.streams.runtime.agent_parts import InputProgress
from ragweir.streams.runtime.loop.transactions import Transactions
from ragweir.streams.runtime.recovery.topic_identity import TopicIdentity
from ragweir.streams.runtime.serving.telemetry import Telemetry

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class TopicReport:
    """Reports what has changed about the topics since the last call.

    Args:
        input_progress: the part of the agent that takes partition counts.
        inputs: the full names of the topics to read.
        counted_outputs: the names of the outputs whose partition counts the agent takes, by full name.
        identity: the versions of the topics.
        transactions: the worker's transactions, whose producer has to know partitions that are written.
        telemetry: the service's instruments.
    """

    def __init__(
        self,
        input_progress: InputProgress,
        inputs: Sequence[str],
        counted_outputs: Mapping[str, str],
        identity: TopicIdentity,
        transactions: Transactions,
        telemetry: Telemetry,
    ) -> None:
        self._input_progress, self._inputs, self._counted_outputs = input_progress, inputs, counted_outputs
        self._identity, self._transactions, self._telemetry = identity, transactions, telemetry
        self._counts: Mapping[str, int] = {}
        self._missing: frozenset[str] | None = None

    def show(self) -> None:
        """Show the inputs that do not exist, and hand new partition counts to the agent."""
        self._show_missing()
        self._show_counts()

    def input_counts(self) -> Mapping[str, int]:
        """Return the number of partitions of each input."""
        return {name: count for name, count in self._identity.partitions.items() if name not in self._counted_outputs}

    def _show_missing(self) -> None:
        missing = self._identity.missing
        if missing == self._missing:
            return
        self._missing = missing
        if missing:
            log.error("input topics do not exist; the others are read", topics=sorted(missing))
        for topic in self._inputs:
            self._telemetry.set("ragweir_topic_missing", topic in missing, topic)

    def _show_counts(self) -> None:
        counts = self._identity.partitions
        if counts == self._counts:
            return
        outputs = {topic: counts[topic] for topic in self._counted_outputs if topic in counts}
        if all(self._transactions.knows_partitions(*each) for each in outputs.items()):
            self._counts = counts
            own = {self._counted_outputs[topic]: count for topic, count in outputs.items()}
            self._input_progress.on_partition_counts(self.input_counts(), own)
