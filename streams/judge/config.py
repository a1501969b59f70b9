"""The configuration of a judge: all that judging depends on beside the requests and the endpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ragweir.metrics.judged.suite import Case, Suite
from ragweir.metrics.metric import Null
from ragweir.schemas.topics import MAX_EVENT_BYTES, max_record_bytes
from ragweir.streams.settings import JudgeSettings, Price


@dataclass(frozen=True, slots=True)
class JudgeConfig:
    """The configuration of one judge agent."""

    suites: Mapping[str, Suite]
    """The suites that exist, by name."""
    judge: JudgeSettings
    price: Price
    """The price of the model that answers questions."""
    embedding_price: Price
    """The price of the model that gives vectors."""
    partitions: int
    """The number of partitions of the requests' topic: each has an equal part of the budgets."""
    shares: Callable[[str], int | None] | None = None
    """Gives the number of parts of a day's budgets as the ledger of partition 0 says it, or None as long as it is not
    known, without waiting. Without it the number of partitions does not change."""
    redact: Callable[[Case], Case | Null] = lambda case: case
    """Gives the case as it may be sent to the endpoint, or the reason why it must not be sent."""
    day: str | None = None
    """The day on which all costs are booked; without one the budget renews each day."""
    moves: bool = True
    """True where requests above their tenant's share of those that are held go to `judge.retry`."""
    off: frozenset[str] = frozenset()
    """The metrics that are not published."""
    max_bytes: int = max_record_bytes(MAX_EVENT_BYTES)
    """The largest request that is read."""
    clock: Callable[[], float] = time.monotonic
    """Seconds that never go back."""
