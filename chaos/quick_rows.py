"""`python -m chaos.quick_rows - evaluate --slot 0`: one slot of a service whose lead times of rows are seconds.

The first argument is the name of a mutant, or `-` for none. An hour of the product is half a minute here, so that rows
which are written during a run take effect in it. A planner plans every second, from traffic that is drawn at random.
Feedback is given up in seconds, too, if more of it waits than a worker may hold, which is less.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from chaos.events import RISKS
from chaos.feedback_checker import GRACE_S, MOST_WAITING
from chaos.mutants import FEEDBACK_MUTANTS, MUTANTS, ROW_MUTANTS, replace_in
from chaos.rows import APPLICATIONS, LEAD_S
from ragweir.schemas.routing_row import RoutingRow
from ragweir.streams.services.evaluate import control_log
from ragweir.streams.services.match import agent as match
from ragweir.streams.services.planner import control, row_plan, service
from ragweir.streams.services.planner.traffic import Period, Traffic
from ragweir.streams.services.shared import routing_rows as rows
from ragweir.streams.settings import Settings

PLANNERS_LEAD_S = 30
"""The lead time that planners keep, in seconds: an hour in the product. The difference covers the time of a commit."""
_SECOND = timedelta(seconds=1)
_EVENTS = 1_000
_WEIGHTS = (3, 3, 3, 1)
"""Fewer risky events than there are, so that these alone would spend the judge's budget."""


def _effective_at(now: datetime) -> datetime:
    return now.replace(microsecond=0) + timedelta(seconds=PLANNERS_LEAD_S + 3)


def _is_late(row: RoutingRow, now: datetime) -> bool:
    return now + _SECOND > row.effective_at - timedelta(seconds=PLANNERS_LEAD_S)


def _traffic() -> dict[str | None, Traffic]:
    """Return traffic with which every plan has other rows."""
    rng = random.Random()  # noqa: S311 (the checker reads the rows, whatever they are)
    bins = (Counter(rng.choices(RISKS, _WEIGHTS, k=_EVENTS - rng.randrange(100))) for _ in range(APPLICATIONS))
    return {f"app-{number}": Traffic(_EVENTS, each) for number, each in enumerate(bins)}


def _plan(settings: Settings, every: timedelta, clock: Callable[[], datetime], *_: Any, **__: Any) -> service.Round:
    period = Period(clock(), clock() + _SECOND - every)  # The next plan is due a second from now.
    share = settings.routing.share
    return service.Round(period, None, share, control.apply(settings, _traffic(), period, share, clock))


def shorten() -> None:
    """Make the lead times and intervals seconds."""
    for place, name, replacement in (
        (rows, "LEAD", timedelta(seconds=LEAD_S)),
        (control_log, "LEAD", timedelta(seconds=LEAD_S)),
        (control_log, "ControlLog", partial(control_log.ControlLog, interval_s=1.0)),
        (row_plan, "_HOUR", _SECOND),
        (row_plan, "effective_at", _effective_at),
        (control, "is_late", _is_late),
        (service, "plan_once", _plan),
        (service, "_RETRY_S", 0.5),
        (match, "_GRACE_MS", 1_000 * GRACE_S),
        (match, "MatchConfig", partial(match.MatchConfig, most_waiting=MOST_WAITING)),
    ):
        replace_in(place, name, replacement)


if __name__ == "__main__":
    from ragweir.streams.commands import main

    shorten()
    if (name := sys.argv.pop(1)) != "-":
        {**MUTANTS, **ROW_MUTANTS, **FEEDBACK_MUTANTS}[name]()
    main()
