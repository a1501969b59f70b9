"""The ledger: what judging may cost, by day, application and tenant, in one partition of the requests.

Each partition has an equal part of every budget, so that nothing has to be shared between workers: the parts add up to
the budget, and move with their partitions. The number of parts of a day does not change while the day lasts: the ledger
of partition 0 says it. What calls may cost is reserved before they are made, and settled with
what they did cost; what a crash leaves reserved counts as spent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from ragweir.schemas.codec.json import encode
from ragweir.schemas.judging import Finished, LedgerEntry, ledger_key, parse_ledger_key, shares_entry
from ragweir.streams.records import Record

_KEPT_DAYS = 2
"""What is under way at midnight is settled on the day that it was reserved on."""

Account = tuple[str, str, str]
"""Day, application and tenant."""


@dataclass(frozen=True, slots=True)
class Budget:
    """One partition's part of the budgets, in millionths of a dollar a day. None has no bound."""

    total: int | None = None
    applications: Mapping[str, int] = field(default_factory=dict)
    tenants: Mapping[str, int] = field(default_factory=dict)
    other_tenants: int | None = None
    """For all tenants together that have no budget of their own, and for events without a tenant."""

    @classmethod
    def part(
        cls,
        partitions: int,
        total_usd: float | None,
        applications: Mapping[str, float],
        tenants: Mapping[str, float],
        other_tenants_share: float = 1.0,
    ) -> Budget:
        """Return the budget of each of so many partitions; amounts are rounded down, so that their sum keeps within it.

        >>> Budget.part(3, 1.0, {"bot": 0.5}, {})
        Budget(total=333333, applications={'bot': 166666}, tenants={}, other_tenants=None)
        >>> Budget.part(3, 1.0, {}, {"acme": 0.25}, other_tenants_share=0.75)
        Budget(total=333333, applications={}, tenants={'acme': 83333}, other_tenants=250000)
        """

        def share(usd: float) -> int:
            return int(round(usd * 1_000_000) // partitions)

        return cls(
            None if total_usd is None else share(total_usd),
            {name: share(usd) for name, usd in applications.items()},
            {name: share(usd) for name, usd in tenants.items()},
            None if total_usd is None or other_tenants_share >= 1 else share(total_usd * other_tenants_share),
        )

    def nothing(self) -> Budget:
        """Return the part of a partition that was added after the day was divided: nothing of what has a bound.

        >>> Budget(total=5).nothing()
        Budget(total=0, applications={}, tenants={}, other_tenants=None)
        >>> Budget(tenants={"acme": 7}).nothing()
        Budget(total=None, applications={}, tenants={'acme': 0}, other_tenants=None)
        """
        return Budget(
            None if self.total is None else 0,
            dict.fromkeys(self.applications, 0),
            dict.fromkeys(self.tenants, 0),
            None if self.other_tenants is None else 0,
        )

    def account(self, day: str, application: str | None, tenant: str | None) -> Account:
        """Where an event's costs are booked: by name only where the name has a budget of its own."""
        return (
            day,
            application if application in self.applications else "",
            tenant if tenant in self.tenants else "",
        )  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The accounts of one partition. It is replaced, never changed, so that an abort has nothing to undo."""

    partition: int
    accounts: Mapping[Account, LedgerEntry] = field(default_factory=dict)

    @classmethod
    def restored(cls, partition: int, changelog: Iterable[Record]) -> Ledger:
        """The ledger as it was committed last. What was reserved counts as spent: its calls may have gone out."""
        accounts: dict[Account, LedgerEntry] = {}
        for record in changelog:
            day, application, tenant, _ = parse_ledger_key(record.key)
            accounts.pop((day, application, tenant), None)
            if record.value is not None:
                entry = LedgerEntry.model_validate_json(record.value)
                settled = entry.model_copy(update={"spent": entry.spent + entry.reserved, "reserved": 0})
                accounts[day, application, tenant] = settled
        return cls(partition, accounts)

    def room(self, budget: Budget, account: Account, *, settled: bool = False) -> int | None:
        """Return the amount that fits within every budget that an account concerns; None where none has a bound.

        It is below 0 where more is booked than the budget allows.

        Args:
            budget: this partition's part on the account's day.
            account: where the amount would be booked.
            settled: return what it will be if all that is reserved now turns out to cost nothing.
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
        rooms = [bound - self._taken(concerned, settled) for bound, concerned in bounds if bound is not None]
        return min(rooms, default=None)

    def _taken(self, concerned: Callable[[Account], bool], settled: bool) -> int:  # noqa: FBT001 - its own
        entries = (entry for key, entry in self.accounts.items() if concerned(key))
        return sum(entry.spent + (0 if settled else entry.reserved) for entry in entries)

    def taken(self, day: str) -> int:
        """Return what is spent and reserved on a day."""
        return self._taken(lambda other: other[0] == day, settled=False)

    def shares(self, day: str) -> int | None:
        """Return the number of shares of a day's budgets; None if this ledger does not say it."""
        entry = shares_entry(day, 0)
        found = self.accounts.get((entry.day, "", ""))
        return None if found is None else found.shares

    def divided(self, day: str, shares: int) -> Ledger:
        """Say into how many shares a day's budgets are divided."""
        entry = shares_entry(day, shares)
        return replace(self, accounts={**self.accounts, (entry.day, "", ""): entry})

    @property
    def newest_day(self) -> str:
        """The newest day on which anything is booked; empty without any."""
        return max((day for (day, _, _), entry in self.accounts.items() if entry.shares is None), default="")

    def asked(self, account: Account, *, by_floor: bool) -> Ledger:
        """An event asks to be judged, for the first time."""
        return self._booked(account, wanted=1, floor=int(by_floor))

    def reserve(self, account: Account, amount: int) -> Ledger:
        """Set an amount aside."""
        return self._booked(account, reserved=amount)

    def settle(self, account: Account, reserved: int, spent: int, *, judged: bool) -> Ledger:
        """Give a reservation back, and book what was spent."""
        return self._booked(account, reserved=-reserved, spent=spent, events=int(judged))

    def _booked(self, account: Account, **amounts: int) -> Ledger:
        day, application, tenant = account
        entry = self.accounts.get(account) or LedgerEntry(
            day=day, application=application, tenant=tenant, partition=self.partition
        )
        changed = entry.model_copy(update={name: getattr(entry, name) + amount for name, amount in amounts.items()})
        return replace(self, accounts={**self.accounts, account: changed})

    def recent(self, day: str) -> Ledger:
        """Without the days that are over and settled."""
        oldest = (date.fromisoformat(day) - timedelta(days=_KEPT_DAYS)).isoformat()
        kept = {key: entry for key, entry in self.accounts.items() if key[0] > oldest or entry.reserved}
        return self if len(kept) == len(self.accounts) else replace(self, accounts=kept)

    def changes(self, before: Ledger, finished: tuple[Finished, ...] = ()) -> Iterator[tuple[bytes, bytes]]:
        """The keys and values of the records that lead from another state of this ledger to this one.

        Each tells which requests were finished by then.
        """
        for account, entry in self.accounts.items():
            if before.accounts.get(account) is not entry:
                yield ledger_key(entry), encode(entry.model_copy(update={"finished": finished}))


def affordable(entries: Iterable[LedgerEntry], budget: int | None) -> float | None:
    """The share of the events that a random floor selects for which the budget suffices beside all others; 0 to 1.

    None if there is no bound, or nothing yet to judge by: no event was judged, or none asked for by a floor alone.

    >>> one = LedgerEntry(day="", application="", tenant="", partition=0, spent=400, events=4, wanted=30, floor=20)
    >>> affordable([one], 2_000)
    0.5
    """
    spent = events = wanted = floor = 0
    for entry in entries:
        spent += entry.spent
        events += entry.events
        wanted += entry.wanted
        floor += entry.floor
    if budget is None or not events or not floor:
        return None
    affords = budget * events / spent if spent else float("inf")
    return max(0.0, min(1.0, (affords - (wanted - floor)) / floor))
