"""The ledgers of the partitions that a worker holds: as committed, and as the transaction in hand leaves them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragweir.schemas.judging import Finished
from ragweir.streams.emissions import cloud_event
from ragweir.streams.judge.days import next_day
from ragweir.streams.judge.ledger import Account, Budget, Ledger, affordable
from ragweir.streams.records import Count, Emission, Record

_MICRO = 1_000_000
_SPENT = "ragweir_judge_spent_dollars"


def nothing_spent(applications: Iterable[str]) -> dict[Count, float]:
    """Return the gauge of dollars spent as a day begins, for applications with a budget of their own and all others.

    >>> nothing_spent(["bot"])
    {('ragweir_judge_spent_dollars', ''): 0.0, ('ragweir_judge_spent_dollars', 'bot'): 0.0}
    """
    return {(_SPENT, application): 0.0 for application in ("", *applications)}


@dataclass(frozen=True, slots=True)
class Deposit:
    """A part of a job's reservation: an amount of one partition's budget on one day."""

    partition: int
    tenure: int
    """Says which time the worker has held the partition: a ledger that was given up counts the deposit as spent."""
    account: Account
    amount: int
    """Millionths of a dollar."""


class Ledgers:
    """One ledger for each partition of the requests.

    A job's reservation is made in the ledger of its own partition, and as far as that has no room, in those of other
    partitions of the same worker: all of them in one transaction. So no partition ever books more than its own part,
    which is why all of them keep to the budget whatever is restored from whatever was committed, and yet a worker can
    spend the parts of all its partitions, but for less than one reservation.

    Args:
        part: gives a partition's part of the budgets by the number of parts.
        partitions: the number of parts of every day, where that is fixed.
        shares: gives the number of parts of a day as the ledger of partition 0 says it, or None as long as that is not
            known, without waiting; asked where this worker does not hold partition 0. None where the number is fixed.
    """

    def __init__(
        self, part: Callable[[int], Budget], partitions: int, shares: Callable[[str], int | None] | None
    ) -> None:
        self._part, self._partitions, self._ask = part, partitions, shares
        self._shares: dict[str, int] = {}
        """The number of parts of the days of the transaction in hand, as far as it is known."""
        self._committed: dict[int, Ledger] = {}
        self._pending: dict[int, Ledger] = {}
        self._tenures: dict[int, int] = {}
        self._taken_over = 0

    # The partitions.

    def restore(self, partition: int, changelog: Iterable[Record], partitions: int | None) -> None:
        """Take a partition over.

        Args:
            partition: its number.
            changelog: its ledger.
            partitions: the number of partitions that there are now, if it is known.
        """
        if self._ask is not None:
            self._partitions = partitions or self._partitions
        self._taken_over += 1
        self._tenures[partition] = self._taken_over
        self._committed[partition] = Ledger.restored(partition, changelog)

    def __contains__(self, partition: int) -> bool:
        return partition in self._committed

    def drop(self, partitions: Collection[int]) -> None:
        """Give partitions up."""
        for partition in partitions:
            self._committed.pop(partition, None)
            self._pending.pop(partition, None)
            self._tenures.pop(partition, None)

    # One transaction.

    def begin(self, days: Collection[str]) -> None:
        """Begin a transaction with the ledgers as committed, without the days that are over and settled.

        The first of the days is today. A day has parts once their number is committed in the ledger of partition 0: who
        holds that writes it, once a day, and all others wait for it.
        """
        self._pending = {partition: ledger.recent(min(days)) for partition, ledger in self._committed.items()}
        known = {day: self._known(day) for day in days}
        self._shares = {day: shares for day, shares in known.items() if shares is not None}
        if self._ask is not None and 0 in self._pending:
            for day in known.keys() - self._shares.keys():
                self._pending[0] = self._pending[0].divided(day, self._partitions)

    def _known(self, day: str) -> int | None:
        if self._ask is None:
            return self._partitions
        if day in self._shares or not self._committed:
            return self._shares.get(day)
        return self._committed[0].shares(day) if 0 in self._committed else self._ask(day)

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

    # Money.

    def is_open(self, day: str) -> bool:
        """Return whether the parts of a day are known: before that nothing is reserved on it."""
        return day in self._shares

    def account(self, day: str, application: str | None, tenant: str | None) -> Account:
        """Return where an event's costs are booked."""
        return self._part(1).account(day, application, tenant)

    def _budget(self, day: str, partition: int) -> Budget:
        """Return a partition's part of the budgets of a day whose parts are known."""
        part = self._part(self._shares[day])
        return part if partition < self._shares[day] else part.nothing()

    def asked(self, partition: int, account: Account, *, by_floor: bool) -> None:
        """An event asks to be judged, for the first time."""
        self._pending[partition] = self._pending[partition].asked(account, by_floor=by_floor)

    def allows(self, account: Account, amount: int) -> bool:
        """Return whether an amount is within the parts of as many partitions as the worker holds, if all is free."""
        room = Ledger(0).room(self._part(self._shares[account[0]]), account)
        return room is None or amount <= room * len(self._pending)

    def may_fit(self, account: Account, amount: int) -> bool:
        """Return whether an amount will fit once all that is reserved now has turned out to cost nothing."""
        rooms = [self._room(partition, account, settled=True) for partition in self._pending]
        return any(room is None for room in rooms) or sum(max(0, room or 0) for room in rooms) >= amount

    def _room(self, partition: int, account: Account, *, settled: bool = False) -> int | None:
        budget = self._budget(account[0], partition)
        return self._pending[partition].room(budget, account, settled=settled)

    def reserve(self, partition: int, account: Account, amount: int) -> tuple[Deposit, ...]:
        """Set an amount aside for a job of a partition; returns where, which is nowhere if it does not fit.

        The first deposit is in the partition's own ledger, even if it is of nothing.
        """
        own = self._room(partition, account)
        parts = {partition: amount if own is None else max(0, min(amount, own))}
        missing = amount - parts[partition]
        if missing:
            rooms = {other: self._room(other, account) or 0 for other in self._pending if other != partition}
            for other in sorted(rooms, key=lambda each: -rooms[each]):
                parts[other] = max(0, min(missing, rooms[other]))
                missing -= parts[other]
        if missing:
            return ()
        deposits = tuple(
            Deposit(each, self._tenures[each], account, part)
            for each, part in parts.items()
            if part or each == partition
        )
        for each in deposits:
            self._pending[each.partition] = self._pending[each.partition].reserve(account, each.amount)
        return deposits

    def settle(self, deposits: Sequence[Deposit], cost: int, *, judged: bool) -> None:
        """Give the reservation of one day back, and book what that day has cost, on the deposits in their order.

        What is above the reservation is booked on the last. A deposit in a ledger that has been given up since counts
        as spent there.
        """
        left = cost
        for number, each in enumerate(deposits):
            spent = left if number == len(deposits) - 1 else min(left, each.amount)
            left -= spent
            if self._tenures.get(each.partition) == each.tenure:
                ledger = self._pending[each.partition]
                self._pending[each.partition] = ledger.settle(
                    each.account, each.amount, spent, judged=judged and number == 0
                )

    def forfeit(self, deposits: Iterable[Deposit]) -> None:
        """Count deposits as spent, since nobody will hear what their job costs: its partition is given up.

        A ledger that is restored counts them so too, so that there is nothing to write.
        """
        for each in deposits:
            if self._tenures.get(each.partition) == each.tenure:
                ledger = self._committed[each.partition]
                self._committed[each.partition] = ledger.settle(each.account, each.amount, each.amount, judged=False)

    @property
    def newest_day(self) -> str:
        """The newest day on which anything is booked; empty without any."""
        return max((ledger.newest_day for ledger in self._committed.values()), default="")

    def levels(self, day: str) -> Mapping[Count, float]:
        """Return the gauges: dollars spent today by application, dollars left, and the floor that the budget affords.

        An application without a budget of its own has no name.
        """
        part = self._part(1)
        levels: dict[Count, float] = nothing_spent(part.applications)
        today = [entry for ledger in self._pending.values() for entry in ledger.accounts.values() if entry.day == day]
        for entry in today:
            levels[_SPENT, entry.application if entry.application in part.applications else ""] += entry.spent / _MICRO
        if part.total is None or not self._pending or not self.is_open(day):
            return levels
        budget = sum(self._budget(day, partition).total or 0 for partition in self._pending)
        left = budget - sum(ledger.taken(day) for ledger in self._pending.values())
        levels["ragweir_judge_budget_left_dollars",] = left / _MICRO
        share = affordable(today, budget)
        if share is not None:
            levels["ragweir_judge_affordable_floor_ratio",] = share
        return levels
