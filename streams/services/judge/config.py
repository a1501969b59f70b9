"""The configuration of a judge agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragweir.metrics.judged.suite import Case, Suite
from ragweir.metrics.metric import Null
from ragweir.schemas.topics import MAX_EVENT_BYTES, max_record_bytes
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import JudgeSettings

if TYPE_CHECKING:
    from ragweir.streams.services.judge.anchor_runs import AnchorSet
    from ragweir.streams.services.judge.rate_ledger import RateLedger
    from ragweir.streams.services.shared.row_writer import RowConfig
    from ragweir.streams.traces.otlp_results import OtlpResults


@dataclass(frozen=True, slots=True)
class JudgeConfig:
    """All that judging depends on, except the requests and the endpoint."""

    suites: Mapping[str, Suite]
    """The suites that exist, by name."""
    judge: JudgeSettings
    partitions: int
    """The number of partitions of the requests' topic: each has an equal share of the budgets."""
    shares: Callable[[str], int | None] | None = None
    """Returns the number of shares of a day's budgets from the ledger of partition 0, or None while it is not known,
    without blocking. Without it the number of partitions does not change."""
    rates: RateLedger | None = None
    """The rate limits whose use is in the ledger; None if they are kept in this process alone."""
    anchors: AnchorSet | None = None
    """The anchors, which are judged again and again; None without any."""
    floor_share: float = 0.0
    """Part of each budget that only events selected by a random floor may spend."""
    redact: Callable[[Case], Case | Null] = lambda case: case
    """Returns the case as it may be sent to the endpoint, or the reason why it must not be sent."""
    day: str | None = None
    """The day on which all costs are booked; None if the budget renews each day."""
    moves: bool = True
    """True if held requests above their tenant's share go to `judge.retry`."""
    off: frozenset[str] = frozenset()
    """The metrics that are not published."""
    max_bytes: int = max_record_bytes(MAX_EVENT_BYTES)
    """The largest request that is read."""
    otlp: OtlpResults | None = None
    """Makes the OpenTelemetry form of evaluations; None if it is not written."""
    documents: RowConfig | None = None
    """Makes the rows of the topic `documents`; None if they are not written."""
    clock: Callable[[], float] = machine.monotonic
    """Monotonic seconds."""
