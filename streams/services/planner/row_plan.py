"""The plan: the routing row of each application, from its past traffic. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from ragweir.metrics.routing_share import threshold
from ragweir.schemas.routing_row import RoutingRow
from ragweir.streams.services.planner.traffic import Period, Traffic

FEWEST = 500
"""The fewest events of an application from which a row is made."""
LEAD = timedelta(hours=1)
"""The shortest time from the append of a row to its effective time: evaluate reads new rows in between."""
_SLACK = timedelta(minutes=10)
"""Time to append a row after it was planned."""
_HOUR = timedelta(hours=1)

State = Literal["new", "unchanged", "few_events"]


class Planned(NamedTuple):
    """The plan for one application."""

    application: str | None
    traffic: Traffic
    row: RoutingRow | None
    """The row from the traffic; None if there are too few events."""
    state: State
    """`new` if the row is to be appended, `unchanged` if the present row selects the same, `few_events` if an earlier
    row or the shipped one holds."""


def effective_at(now: datetime) -> datetime:
    """Return the first full hour at which a row that is appended soon may take effect.

    >>> [effective_at(datetime(2026, 11, 22, 12, minute)).isoformat() for minute in (5, 55)]
    ['2026-11-22T14:00:00', '2026-11-22T15:00:00']
    """
    soon = now + _SLACK
    hour = soon.replace(minute=0, second=0, microsecond=0)
    return (hour if hour == soon else hour + _HOUR) + LEAD


def is_late(row: RoutingRow, now: datetime) -> bool:
    """Return whether a row is appended too late for its effective time, with a minute for the commit."""
    return now + timedelta(minutes=1) > row.effective_at - LEAD


def plan(
    traffic: Mapping[str | None, Traffic],
    rows: Iterable[RoutingRow],
    period: Period,
    now: datetime,
    share: float,
    floor_share: float,
) -> list[Planned]:
    """Return the plan for each application, those with most events first.

    Args:
        traffic: events by application.
        rows: the rows of the topic `control` that evaluate selects by.
        period: the time of the traffic.
        now: the present time.
        share: the share of events to select, from 0 to 1.
        floor_share: the part of them that is selected at random, from 0 to 1.
    """
    present: dict[str | None, dict[datetime, RoutingRow]] = {}
    for row in rows:
        present.setdefault(row.application, {})[row.effective_at] = row
    every = sorted(traffic.items(), key=lambda each: (-each[1].events, each[0] or ""))
    return [_planned(name, own, present.get(name, {}), period, now, share, floor_share) for name, own in every]


def _planned(
    application: str | None,
    traffic: Traffic,
    present: Mapping[datetime, RoutingRow],
    period: Period,
    now: datetime,
    share: float,
    floor_share: float,
) -> Planned:
    if traffic.events < FEWEST:
        return Planned(application, traffic, None, "few_events")
    effective = effective_at(now)
    while effective in present:  # A row is never overwritten.
        effective += _HOUR
    found = threshold(traffic.bins, traffic.events, share, floor_share)
    row = RoutingRow(
        application=application,
        effective_at=effective,
        share=share,
        floor_share=floor_share,
        bin=found.bin,
        at_bin=found.at_bin,
        floor=found.floor,
        events=traffic.events,
        window_start=period.start,
        window_end=period.end,
    )
    before = max((each for each in present if each < effective), default=None)
    same = before is not None and selection(present[before]) == selection(row)
    return Planned(application, traffic, row, "unchanged" if same else "new")


def selection(row: RoutingRow) -> tuple[float, ...]:
    """Return the numbers of a row by which events are selected and reports name its share."""
    return row.share, row.floor_share, row.bin, row.at_bin, row.floor


def share_of_budget(daily_budget_usd: float, cost_usd: float, events_per_day: float) -> float:
    """Return the share of events for which a day's budget suffices, at most 1.

    >>> share_of_budget(5.0, 0.001, 100_000), share_of_budget(5.0, 0.001, 100)
    (0.05, 1.0)
    """
    wanted = cost_usd * events_per_day
    return min(1.0, daily_budget_usd / wanted) if wanted > 0 else 1.0
