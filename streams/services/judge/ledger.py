"""The ledger of one partition of the requests: the cost of judging by day, application and tenant.

Each partition has an equal share of every budget, so that workers share no state: the shares add up to the budget, and
move with their partitions. The number of shares of a day is fixed, and stored in the ledger of partition 0. The most
that calls can cost is reserved before they are sent, and settled with their cost; a reservation that a crash leaves
counts as spent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from ragweir.schemas.codec.json import encode
from ragweir.schemas.judging import (
    ANCHORS,
    AnchorProgress,
    Finished,
    LedgerEntry,
    anchors_entry,
    ledger_key,
    parse_ledger_key,
    shares_entry,
)
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import JudgeSettings

_KEPT_DAYS = 2
"""Jobs that run at midnight are settled on the day of their reservation."""

Account = tuple[str, str, str]
"""Day, application and tenant."""


@dataclass(frozen=True, slots=True)
class Budget:
    """One partition's share of the budgets, in millionths of a dollar a day. None is unlimited."""

    total: int | None = None
    applications: Mapping[str, int] = field(default_factory=dict)
    tenants: Mapping[str, int] = field(default_factory=dict)
    other_tenants: int | None = None
    """For events without a tenant and all tenants that have no budget by name."""
    floor_share: float = 0.0
    """Part of each budget that only events selected by a random floor may spend."""

    @classmethod
    def share(cls, settings: JudgeSettings, floor_share: float, shares: int) -> Budget:
        """Return one of so many shares of the budgets, rounded down.

        >>> Budget.share(JudgeSettings(daily_budget_usd=1, budgets_by_application={"bot": 0.5}), 0.25, 3)
        Budget(total=333333, applications={'bot': 166666}, tenants={}, other_tenants=None, floor_share=0.25)
        >>> Budget.share(JudgeSettings(budgets_by_tenant={"acme": 0.25}, other_tenants_share=0.75), 0.0, 5)
        Budget(total=1000000, applications={}, tenants={'acme': 50000}, other_tenants=750000, floor_share=0.0)
        """

        def share(usd: float) -> int:
            return int(round(usd * 1_000_000) // shares)

        total_usd, others = settings.daily_budget_usd, settings.other_tenants_share
        return cls(
            None if total_usd is None else share(total_usd),
            {name: share(usd) for name, usd in settings.budgets_by_application.items()},
            {name: share(usd) for name, usd in settings.budgets_by_tenant.items()},
            None if total_usd is None or others >= 1 else share(total_usd * others),
            floor_share,
        )

    def account(self, day: str, application: str | None, tenant: str | None) -> Account:
        """Return the account of an event's costs; only names with a budget and anchors have accounts of their own."""
        has_own = application == ANCHORS or application in self.applications
        own = application if has_own else "", tenant if tenant in self.tenants else ""
        return day, *own  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The accounts of one partition. It is replaced, never changed, so that an abort has nothing to undo."""

    partition: int
    accounts: Mapping[Account, LedgerEntry] = field(default_factory=dict)

    @classmethod
    def restored(cls, partition: int, changelog: Iterable[Record]) -> Ledger:
        """Return the ledger that was committed last. Reservations count as spent: their calls may have been sent."""
        accounts: dict[Account, LedgerEntry] = {}
        for record in changelog:
            day, application, tenant, _ = parse_ledger_key(record.key)
            accounts.pop((day, application, tenant), None)
            if record.value is not None:
                entry = LedgerEntry.model_validate_json(record.value)
                accounts[day, application, tenant] = entry.model_copy(
                    update={
                        "spent": entry.spent + entry.reserved,
                        "reserved": 0,
                        "floor_spent": entry.floor_spent + entry.floor_reserved,
                        "floor_reserved": 0,
                    }
                )
        return cls(partition, accounts)

    def available(self, budget: Budget, account: Account, *, by_floor: bool, settled: bool = False) -> int | None:
        """Return the amount that is left in every budget of an account; None if all are unlimited.

        It is below 0 if more is booked than the budget allows. The part that is kept for events selected by a random
        floor is left only for these. `settled` leaves reservations out.
        """
        day, application, tenant = account
        bounds: tuple[tuple[int | None, Callable[[Account], bool]], ...] = (
            (budget.total, lambda other: other[0] == day),
            (budget.applications.get(application), lambda other: other[:2] == (day, application)),
            (budget.tenants.get(tenant), lambda other: other[0] == day and other[2] == tenant),
            (
                None if tenant in budget.tenants else budget.other_tenants,
                lambda other: other[0] == day and other[2] not in budget.tenants,
            ),
        )
        left = []
        for bound, concerned in bounds:
            if bound is not None:
                taken, by_floors = self._taken(concerned, settled=settled)
                left.append(bound - taken)
                if not by_floor:
                    left.append(int(bound * (1 - budget.floor_share)) - (taken - by_floors))
        return min(left, default=None)

    def _taken(self, concerned: Callable[[Account], bool], *, settled: bool) -> tuple[int, int]:
        """Return the amount that is taken, and the part of it for events selected by a random floor."""
        entries = [entry for key, entry in self.accounts.items() if concerned(key)]
        taken = sum(entry.spent + (0 if settled else entry.reserved) for entry in entries)
        by_floors = sum(entry.floor_spent + (0 if settled else entry.floor_reserved) for entry in entries)
        return taken, by_floors

    def taken(self, day: str) -> int:
        """Return the amount that is spent or reserved on a day."""
        return self._taken(lambda other: other[0] == day, settled=False)[0]

    def shares(self, day: str) -> int | None:
        """Return the number of shares of a day's budgets; None if it is not in this ledger."""
        entry = shares_entry(day, 0)
        found = self.accounts.get((entry.day, "", ""))
        return None if found is None else found.shares

    def divided(self, day: str, shares: int) -> Ledger:
        """Return the ledger with the number of shares of a day's budgets."""
        entry = shares_entry(day, shares)
        return replace(self, accounts={**self.accounts, (entry.day, "", ""): entry})

    @property
    def anchors(self) -> AnchorProgress | None:
        """The runs of the anchors that have been requested; None without any."""
        return next((entry.anchors for entry in self.accounts.values() if entry.anchors is not None), None)

    def with_anchors(self, progress: AnchorProgress) -> Ledger:
        """Return the ledger with other runs of the anchors."""
        entry = anchors_entry(progress)
        return replace(self, accounts={**self.accounts, (entry.day, "", ""): entry})

    @property
    def newest_day(self) -> str:
        """The newest day on which anything is booked; empty without any."""
        return max((day for (day, _, _), entry in self.accounts.items() if entry.shares is None), default="")

    def booked(self, account: Account, **amounts: int) -> Ledger:
        """Return the ledger with amounts added to fields of an account's entry."""
        day, application, tenant = account
        entry = self.accounts.get(account) or LedgerEntry(
            day=day, application=application, tenant=tenant, partition=self.partition
        )
        changed = entry.model_copy(update={name: getattr(entry, name) + amount for name, amount in amounts.items()})
        return replace(self, accounts={**self.accounts, account: changed})

    def recent(self, day: str) -> Ledger:
        """Return the ledger without old days that are settled."""
        oldest = (date.fromisoformat(day) - timedelta(days=_KEPT_DAYS)).isoformat()
        kept = {
            key: entry for key, entry in self.accounts.items() if key[0] > oldest or entry.reserved or entry.anchors
        }
        return self if len(kept) == len(self.accounts) else replace(self, accounts=kept)

    def changes(self, before: Ledger, finished: tuple[Finished, ...] = ()) -> Iterator[tuple[bytes, bytes]]:
        """Return the keys and values of the records that lead from an earlier state to this one.

        Each lists the requests that are finished by then.
        """
        for account, entry in self.accounts.items():
            if before.accounts.get(account) is not entry:
                yield ledger_key(entry), encode(entry.model_copy(update={"finished": finished}))


def affordable(entries: Iterable[LedgerEntry], budget: int | None, floor_share: float) -> float | None:
    """Return the ratio of the events selected by a floor for which the budget suffices, from 0 to 1.

    They have what all others and anchors leave, and at least their own part of the budget. None if the budget is
    unlimited, no event was judged yet, or none was selected by a floor.

    >>> one = LedgerEntry(day="", application="", tenant="", partition=0, spent=400, events=4, wanted=30, floor=20)
    >>> affordable([one], 2_000, 0.0), affordable([one], 2_000, 0.75)
    (0.5, 0.75)
    """
    spent = events = wanted = floor = anchors = 0
    for entry in entries:
        if entry.application == ANCHORS:
            anchors += entry.spent
            continue
        spent += entry.spent
        events += entry.events
        wanted += entry.wanted
        floor += entry.floor
    if budget is None or not events or not floor:
        return None
    affords = max(0, budget - anchors) * events / spent if spent else float("inf")
    return max(0.0, min(1.0, max(affords - (wanted - floor), floor_share * affords) / floor))
