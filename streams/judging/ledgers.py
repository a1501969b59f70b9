"""The ledgers of the partitions that a worker holds: as committed, and as the transaction in hand leaves them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ragweir.schemas.judging import Finished
from ragweir.streams.emissions import cloud_event
from ragweir.streams.judging.days import next_day
from ragweir.streams.judging.ledger import Budget, Ledger, affordable
from ragweir.streams.records import Count, Emission, Record

_MICRO = 1_000_000


class Ledgers:
    """One ledger for each partition of the requests.

    Args:
        budget: one partition's part of the budgets.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._committed: dict[int, Ledger] = {}
        self._pending: dict[int, Ledger] = {}

    def restore(self, partition: int, changelog: Iterable[Record]) -> None:
        """Take a partition over; one that is held already keeps its ledger."""
        if partition not in self._committed:
            self._committed[partition] = Ledger.restored(partition, self.budget, changelog)

    def drop(self, partitions: Collection[int]) -> None:
        """Give partitions up."""
        for partition in partitions:
            self._committed.pop(partition, None)
            self._pending.pop(partition, None)

    def begin(self, day: str) -> None:
        """Begin a transaction with the ledgers as committed, without the days that are over and settled."""
        self._pending = {partition: ledger.recent(day) for partition, ledger in self._committed.items()}

    def __getitem__(self, partition: int) -> Ledger:
        """Return a ledger as the transaction in hand leaves it so far."""
        return self._pending[partition]

    def __setitem__(self, partition: int, ledger: Ledger) -> None:
        self._pending[partition] = ledger

    @property
    def newest_day(self) -> str:
        """The newest day on which anything is booked; empty without any."""
        return max((day for ledger in self._committed.values() for day, _, _ in ledger.accounts), default="")

    def emissions(self, day: str, finished: Callable[[int], tuple[Finished, ...]]) -> Iterator[Emission]:
        """Return the records of all accounts that the transaction in hand changes.

        Args:
            day: the day of the transaction.
            finished: gives the requests of a partition that each record says are finished.
        """
        for partition, ledger in self._pending.items():
            for key, value in ledger.changes(self._committed[partition], finished(partition)):
                headers = cloud_event("judge", "ledger", key.decode(), next_day(day), "application/json")
                yield Emission("judge.ledger", key, value, headers, partition)

    def commit(self) -> None:
        """Take note that the transaction in hand is committed. An aborted one needs no call: `begin` starts anew."""
        self._committed.update(self._pending)

    def levels(self, day: str) -> Mapping[Count, float]:
        """Return the budget's gauges: dollars that are left of the day's, and the floor that the budget affords."""
        if self.budget.total is None or not self._pending:
            return {}
        left = sum(ledger.left(day) or 0 for ledger in self._pending.values())
        levels: dict[Count, float] = {("ragweir_judge_budget_left_dollars",): left / _MICRO}
        today = [entry for ledger in self._pending.values() for entry in ledger.accounts.values() if entry.day == day]
        share = affordable(today, self.budget.total * len(self._pending))
        if share is not None:
            levels["ragweir_judge_affordable_floor_ratio",] = share
        return levels
