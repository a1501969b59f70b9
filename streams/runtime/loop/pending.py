"""The sum of the outcomes of one transaction, which is kept until it is committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Outcome, Record, TopicPartition


class PendingOutcome:
    """Sums outcomes, without the records and the values of the emissions, which are sent already.

    >>> now_s = 100.0
    >>> pending = PendingOutcome(clock=lambda: now_s)
    >>> records = [Record("t", 0, offset, None, b"", None) for offset in (3, 4)]
    >>> pending.begin(records)
    >>> pending.is_open, pending.has_effects
    (True, False)
    >>> pending.add(Outcome(settled=records))
    >>> now_s = 102.0
    >>> pending.has_effects, pending.settled, pending.offsets, pending.age_s
    (True, 2, {('t', 0): 5}, 2.0)

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = machine.monotonic) -> None:
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Forget everything: the transaction has ended."""
        self._began_s: float | None = None
        self.outcome = Outcome()
        """Counts, levels, and dead letters without their values."""
        self.offsets: dict[TopicPartition, int] = {}
        """The offset after the last settled record of each partition."""
        self.handled = self.settled = 0
        """The numbers of records that were handled and settled."""
        self.last: Record | None = None
        """The last settled record."""
        self.has_effects = False
        """True if there is something to commit."""
        self.handle_s = 0.0
        """The time that handling took."""

    @property
    def is_open(self) -> bool:
        """True if records were handled, or outcomes added, since the last transaction ended."""
        return self._began_s is not None

    @property
    def age_s(self) -> float:
        """The time since the transaction began, in seconds; 0 before that."""
        return 0.0 if self._began_s is None else self._clock() - self._began_s

    def begin(self, records: Sequence[Record]) -> None:
        """Count records that are about to be handled."""
        if records:
            self._begin()
            self.handled += len(records)

    def add(self, outcome: Outcome) -> None:
        """Add an outcome."""
        self.outcome.counts += outcome.counts
        self.outcome.levels |= outcome.levels
        self.outcome.emissions += [
            each._replace(value=None) for each in outcome.emissions if each.topic == "dead-letter"
        ]
        for record in outcome.settled:
            self.offsets[record.topic_partition] = record.offset + 1
        if outcome.settled:
            self.settled += len(outcome.settled)
            self.last = outcome.settled[-1]
        if outcome.settled or outcome.emissions:
            self._begin()
            self.has_effects = True

    def _begin(self) -> None:
        if self._began_s is None:
            self._began_s = self._clock()
