"""The share of events to judge: that of the settings, or the one for which the daily budget suffices."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from pydantic import ValidationError

from ragweir.schemas.judging import ANCHORS, LedgerEntry
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.planner.row_plan import share_of_budget
from ragweir.streams.services.planner.traffic import Period
from ragweir.streams.settings import Settings

_MICRO = 1_000_000


class Cost(NamedTuple):
    """The cost of judging, by the ledger."""

    usd: float
    """Mean cost of a judged event in dollars."""
    events: int
    """Number of judged events."""


def cost_of(records: Iterable[Record], first_day: str) -> Cost | None:
    """Return the cost by the records of the ledger from a day on; None if nothing was judged."""
    entries: dict[bytes | None, LedgerEntry] = {}
    for record in records:
        entries.pop(record.key, None)
        try:
            entry = LedgerEntry.model_validate_json(record.value or b"")
        except ValidationError:  # A tombstone, or a foreign record.
            continue
        if entry.shares is None and entry.day >= first_day and entry.application != ANCHORS:
            entries[record.key] = entry
    events = sum(entry.events for entry in entries.values())
    spent = sum(entry.spent for entry in entries.values())
    return Cost(spent / _MICRO / events, events) if events else None


def read_cost(settings: Settings, period: Period) -> Cost | None:
    """Return the cost of the events that were judged since the start of a period; None if there is none.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if there is no topic.
    """
    topic = f"{settings.topics.prefix}judge.ledger"
    start = datetime.combine(period.start.date(), datetime.min.time(), UTC)
    records = read(settings, offset_range(settings, topic, since_ms=round(start.timestamp() * 1_000)))
    return cost_of(records, start.date().isoformat())


def planned_share(settings: Settings, cost: Cost | None, events_per_day: float) -> float:
    """Return the share of events to judge.

    With `routing.share_from_budget` it is the one for which `judge.daily_budget_usd` suffices, once the cost of an
    event is known; else it is `routing.share`.
    """
    budget = settings.judge.daily_budget_usd
    if not settings.routing.share_from_budget or budget is None or cost is None:
        return settings.routing.share
    return share_of_budget(budget, cost.usd, events_per_day)
