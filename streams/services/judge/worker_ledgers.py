"""The ledgers of the partitions that a worker has, as committed and with the changes of the current transaction."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragweir.schemas.judging import AnchorProgress, Finished
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.records import Count, Emission, Record
from ragweir.streams.services.judge.days import next_day
from ragweir.streams.services.judge.ledger import Account, Budget, Ledger, affordable

_MICRO = 1_000_000
_SPENT = "ragweir_judge_spent_dollars"


def nothing_spent(applications: Iterable[str]) -> dict[Count, float]:
    """Return the gauge of dollars spent at the start of a day, by application with a budget and for all others.

    >>> nothing_spent(["bot"])
    {('ragweir_judge_spent_dollars', ''): 0.0, ('ragweir_judge_spent_dollars', 'bot'): 0.0}
    """
    return {(_SPENT, application): 0.0 for application in ("", *applications)}


@dataclass(frozen=True, slots=True)
class LedgerReservation:
    """A part of a job's reservation: an amount of one partition's budget on one day."""

    partition: int
    epoch: int
    """The assignment of the partition in which it was made: in a ledger that was given up it counts as spent."""
    account: Account
    amount: int
    """Millionths of a dollar."""
    by_floor: bool
    """True for an event that a random floor selected."""

    def booking(self, **amounts: int) -> dict[str, int]:
        """Return the amounts to book, with the parts for events selected by a random floor."""
        return {**amounts, **({f"floor_{name}": amount for name, amount in amounts.items()} if self.by_floor else {})}


class WorkerLedgers:
    """One ledger for each partition of the requests.

    A job's reservation is made in the ledger of its own partition, and what exceeds that partition's budget, in ledgers
    of other partitions of the same worker, all in one transaction. No partition books more than its own share, so all
    of them keep to the budget whichever commits are restored. A worker can still spend the shares of all its
    partitions, except for less than one reservation.

    Args:
        share: returns a partition's share of the budgets by the number of shares.
        partitions: the number of shares of every day, if that is fixed.
        shares: returns the number of shares of a day from the ledger of partition 0, or None while that is not known,
            without blocking; called if this worker does not have partition 0. None if the number is fixed.
    """

    def __init__(
        self, share: Callable[[int], Budget], partitions: int, shares: Callable[[str], int | None] | None
    ) -> None:
        self._share, self._partitions, self._read_shares = share, partitions, shares
        self._shares: dict[str, int] = {}
        """The known numbers of shares of the days of the current transaction."""
        self._committed: dict[int, Ledger] = {}
        self._pending: dict[int, Ledger] = {}
        self._epochs: dict[int, int] = {}
        self._last_epoch = 0

    # The partitions.

    def restore(self, partition: int, changelog: Iterable[Record], partitions: int | None) -> None:
        """Take a partition over from its changelog. `partitions` is the number that there are now, if it is known."""
        if self._read_shares is not None:
            self._partitions = partitions or self._partitions
        self._last_epoch += 1
        self._epochs[partition] = self._last_epoch
        self._committed[partition] = Ledger.restored(partition, changelog)

    def __contains__(self, partition: int) -> bool:
        return partition in self._committed

    def drop(self, partitions: Collection[int]) -> None:
        """Give partitions up."""
        for partition in partitions:
            self._committed.pop(partition, None)
            self._pending.pop(partition, None)
            self._epochs.pop(partition, None)

    # One transaction.

    def begin(self, days: Collection[str]) -> None:
        """Begin a transaction with the committed ledgers, without old days that are settled.

        The first of the days is today. A day has shares once their number is committed in the ledger of partition 0.
        The worker that has this partition writes it once a day, and all others wait for it.
        """
        self._pending = {partition: ledger.recent(min(days)) for partition, ledger in self._committed.items()}
        known = {day: self._known_shares(day) for day in days}
        self._shares = {day: shares for day, shares in known.items() if shares is not None}
        if self._read_shares is not None and 0 in self._pending:
            for day in known.keys() - self._shares.keys():
                self._pending[0] = self._pending[0].divided(day, self._partitions)

    def _known_shares(self, day: str) -> int | None:
        if self._read_shares is None:
            return self._partitions
        if day in self._shares or not self._committed:
            return self._shares.get(day)
        return self._committed[0].shares(day) if 0 in self._committed else self._read_shares(day)

    def emissions(self, day: str, finished: Callable[[int], tuple[Finished, ...]]) -> Iterator[Emission]:
        """Return the records of all accounts that the current transaction changes, dated with its day.

        Each lists the requests of its partition that `finished` returns.
        """
        for partition, ledger in self._pending.items():
            for key, value in ledger.changes(self._committed[partition], finished(partition)):
                headers = cloud_event("judge", "ledger", key.decode(), next_day(day), "application/json")
                yield Emission("judge.ledger", key, value, headers, partition)

    def commit(self) -> None:
        """Keep the changes of the current transaction. An aborted one needs no call: `begin` discards its changes."""
        self._committed.update(self._pending)

    # The runs of anchors, which the worker with partition 0 requests.

    @property
    def has_anchors(self) -> bool:
        """True if this worker requests the runs of anchors."""
        return 0 in self._pending

    @property
    def anchors(self) -> AnchorProgress | None:
        """The runs that have been requested; None without any."""
        return self._pending[0].anchors

    def request_anchors(self, progress: AnchorProgress) -> None:
        """Record the runs that have been requested with the current transaction."""
        self._pending[0] = self._pending[0].with_anchors(progress)

    # Reservations and costs.

    def is_open(self, day: str) -> bool:
        """Return whether the shares of a day are known: before that nothing is reserved on it."""
        return day in self._shares

    def account(self, day: str, application: str | None, tenant: str | None) -> Account:
        """Return the account of an event's costs."""
        return self._share(1).account(day, application, tenant)

    def _budget(self, day: str, partition: int) -> Budget:
        """Return a partition's share of the budgets of a day that is open."""
        shares = self._shares[day]
        # A partition that was added after the day was divided has nothing.
        return self._share(shares if partition < shares else sys.maxsize)

    def count_request(self, partition: int, account: Account, *, by_floor: bool) -> None:
        """Count a request to judge an event, once for each event."""
        self._book(partition, account, wanted=1, floor=int(by_floor))

    def allows(self, account: Account, amount: int, *, by_floor: bool) -> bool:
        """Return whether an amount is within the shares of all partitions of the worker, if nothing is booked."""
        available = Ledger(0).available(self._share(self._shares[account[0]]), account, by_floor=by_floor)
        return available is None or amount <= available * len(self._pending)

    def may_fit(self, account: Account, amount: int, *, by_floor: bool) -> bool:
        """Return whether an amount will fit if all reservations are settled at no cost."""
        every = [self._available(partition, account, by_floor=by_floor, settled=True) for partition in self._pending]
        return any(each is None for each in every) or sum(max(0, each or 0) for each in every) >= amount

    def _available(self, partition: int, account: Account, *, by_floor: bool, settled: bool = False) -> int | None:
        budget = self._budget(account[0], partition)
        return self._pending[partition].available(budget, account, by_floor=by_floor, settled=settled)

    def _book(self, partition: int, account: Account, **amounts: int) -> None:
        self._pending[partition] = self._pending[partition].booked(account, **amounts)

    def reserve(
        self, partition: int, account: Account, amount: int, *, by_floor: bool
    ) -> tuple[LedgerReservation, ...]:
        """Reserve an amount for a job of a partition; returns nothing if it does not fit.

        The first reservation is in the partition's own ledger, even if its amount is 0.
        """
        own = self._available(partition, account, by_floor=by_floor)
        parts = {partition: amount if own is None else max(0, min(amount, own))}
        missing = amount - parts[partition]
        if missing:
            others = {
                other: self._available(other, account, by_floor=by_floor) or 0
                for other in self._pending
                if other != partition
            }
            for other in sorted(others, key=lambda each: -others[each]):
                parts[other] = max(0, min(missing, others[other]))
                missing -= parts[other]
        if missing:
            return ()
        reservations = tuple(
            LedgerReservation(each, self._epochs[each], account, part, by_floor)
            for each, part in parts.items()
            if part or each == partition
        )
        for each in reservations:
            self._book(each.partition, account, **each.booking(reserved=each.amount))
        return reservations

    def settle(self, reservations: Sequence[LedgerReservation], cost: int, *, judged: bool) -> None:
        """Replace the reservations of one day by the cost of that day, distributed over them in their order.

        A cost above their sum is booked on the last. A reservation in a ledger that was given up since counts as spent
        there.
        """
        left = cost
        for number, each in enumerate(reservations):
            spent = left if number == len(reservations) - 1 else min(left, each.amount)
            left -= spent
            if self._epochs.get(each.partition) == each.epoch:
                events = int(judged and number == 0)
                amounts = each.booking(reserved=-each.amount, spent=spent)
                self._book(each.partition, each.account, **amounts, events=events)

    def forfeit(self, reservations: Iterable[LedgerReservation]) -> None:
        """Count reservations as spent: the cost of their job will not be known, since its partition is given up.

        A restored ledger counts them in the same way, so nothing has to be written.
        """
        for each in reservations:
            if self._epochs.get(each.partition) == each.epoch:
                amounts = each.booking(reserved=-each.amount, spent=each.amount)
                self._committed[each.partition] = self._committed[each.partition].booked(each.account, **amounts)

    @property
    def newest_day(self) -> str:
        """The newest day with costs; empty without any."""
        return max((ledger.newest_day for ledger in self._committed.values()), default="")

    def levels(self, day: str) -> Mapping[Count, float]:
        """Return the gauges: dollars spent today by application, dollars left, and the affordable floor.

        All applications without a budget of their own count under the empty name.
        """
        share = self._share(1)
        levels: dict[Count, float] = nothing_spent(share.applications)
        today = [entry for ledger in self._pending.values() for entry in ledger.accounts.values() if entry.day == day]
        for entry in today:
            levels[_SPENT, entry.application if entry.application in share.applications else ""] += entry.spent / _MICRO
        if share.total is None or not self._pending or not self.is_open(day):
            return levels
        budget = sum(self._budget(day, partition).total or 0 for partition in self._pending)
        left = budget - sum(ledger.taken(day) for ledger in self._pending.values())
        levels["ragweir_judge_budget_left_dollars",] = left / _MICRO
        ratio = affordable(today, budget, share.floor_share)
        if ratio is not None:
            levels["ragweir_judge_affordable_floor_ratio",] = ratio
        return levels
