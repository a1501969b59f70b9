"""Money: the bill of the judge's endpoint, the ledger's amounts, and the budget, in millionths of a dollar."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from chaos.findings import Found

USD_PER_MILLION_TOKENS = 1
"""Price of tokens of either kind: a call costs a millionth of a dollar per token, and half of it if it was cached."""


def bills(calls: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the amounts that the endpoint charges for its calls, by day in UTC.

    >>> bills([{"at": 0.0, "prompt_tokens": 7, "completion_tokens": 2, "cached_tokens": 4}])
    {'1970-01-01': 7}
    """
    sums: defaultdict[str, int] = defaultdict(int)
    for call in calls:
        tokens = call["prompt_tokens"] + call["completion_tokens"] - call["cached_tokens"] // 2
        sums[f"{datetime.fromtimestamp(call['at'], UTC):%Y-%m-%d}"] += USD_PER_MILLION_TOKENS * tokens
    return dict(sums)


@dataclass(slots=True)
class LedgerAmounts:
    """The accounts of the judge's ledger. An amount that a crash leaves reserved counts as spent."""

    accounts: dict[tuple[str, ...], int] = field(default_factory=dict)
    by_risk: dict[tuple[str, ...], int] = field(default_factory=dict)
    """The part of each account for events that were selected because of their risk."""

    def read(self, key: bytes | None, value: bytes | None) -> None:
        """Add a record of the ledger; of one account the newest counts."""
        match json.loads(key or b"null"):
            case [str(day), str(application), str(tenant), int(partition)]:
                entry = json.loads(value or b"{}")
                amount = entry.get("spent", 0) + entry.get("reserved", 0)
                self.accounts[day, application, tenant, str(partition)] = amount
                by_floor = entry.get("floor_spent", 0) + entry.get("floor_reserved", 0)
                self.by_risk[day, application, tenant, str(partition)] = amount - by_floor

    def days(self) -> Counter[str]:
        """Return the amounts that count as spent, by day."""
        return _by_day(self.accounts)


def _by_day(accounts: Mapping[tuple[str, ...], int]) -> Counter[str]:
    days: Counter[str] = Counter()
    for (day, *_), amount in accounts.items():
        days[day] += amount
    return days


def compare(found: Found, bill: Mapping[str, int], ledger: Mapping[str, int], budget: int) -> None:
    """Add a defect if the bill is above the ledger, or either is above a day's budget.

    A call in the last second of a day may be charged on the next day, so bill and ledger are compared over all days.

    >>> found = Found()
    >>> compare(found, {"2026-01-01": 5}, {"2026-01-01": 4, "2026-01-05": 0}, 4)
    >>> found.examples["wrong"]
    ['2026-01-01: the bill of 5 is above the budget of 4', 'the bill of 5 is above the ledger of 4']
    """
    found.expected, found.found = budget, sum(bill.values())
    for name, amounts in (("bill", bill), ("ledger", ledger)):
        for day, amount in sorted(amounts.items()):
            if amount > budget:
                found.add("wrong", f"{day}: the {name} of {amount} is above the budget of {budget}")
    if sum(bill.values()) > sum(ledger.values()):
        found.add("wrong", f"the bill of {sum(bill.values())} is above the ledger of {sum(ledger.values())}")


def compare_risk(found: Found, accounts: Mapping[tuple[str, ...], int], budget: int, floor_share: float) -> None:
    """Add a defect if events that no floor selected took some of the budget's part for those that one did.

    >>> found = Found()
    >>> compare_risk(found, {("2026-01-01", "", "", "0"): 50, ("2026-01-01", "", "", "1"): 30}, 100, 0.25)
    >>> found.examples["wrong"]
    ['2026-01-01: 80 for events of high risk, of 100 with 0.25 for the floor']
    """
    for day, amount in sorted(_by_day(accounts).items()):
        if amount > (1 - floor_share) * budget:
            found.add("wrong", f"{day}: {amount} for events of high risk, of {budget} with {floor_share} for the floor")
