"""The planner as a service: plans at the end of each interval, and goes on after a failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from confluent_kafka import KafkaException

from ragweir.errors import RagweirError
from ragweir.schemas.topics import TOPICS as TABLE
from ragweir.streams.runtime.kafka.client import wait_for_topics
from ragweir.streams.runtime.kafka.reader import OnProgress, Watch
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.serving.instruments import PROCESS, KnownLabels
from ragweir.streams.runtime.worker import bind_slot, started
from ragweir.streams.services.planner.control import NAME, apply, effective_rows
from ragweir.streams.services.planner.instruments import INSTRUMENTS
from ragweir.streams.services.planner.row_plan import Planned, plan
from ragweir.streams.services.planner.share import Cost, planned_share, read_cost
from ragweir.streams.services.planner.traffic import Period, check_dimensions, events_per_day, read_traffic
from ragweir.streams.services.shared.from_settings import catalogue
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

PORT = 700
"""Added to `telemetry.port`."""
TOPICS = tuple(topic.name for topic in TABLE.values() if NAME in topic.readers)
"""The topics that a planner reads, by their names in the topic table; it writes to `control`."""
_RETRY_S = 60.0
"""Time from a failure to the next attempt."""
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Round:
    """A plan with what it was made from."""

    period: Period
    cost: Cost | None
    share: float
    planned: list[Planned]


def plan_once(
    settings: Settings, every: timedelta, clock: Callable[[], datetime], watch: Watch, *, applied: bool
) -> Round:
    """Read the windows of the last seven closed days and plan rows from them; append the rows if `applied` is true.

    Raises:
        RagweirError: if the topics cannot be read, or the rows cannot be appended.
    """
    period = Period.closed(clock(), every)
    traffic = read_traffic(settings, period, watch)
    cost = read_cost(settings, period)
    share = planned_share(settings, cost, events_per_day(traffic, period))
    if applied:
        return Round(period, cost, share, apply(settings, traffic, period, share, clock))
    rows = effective_rows(settings)
    return Round(period, cost, share, plan(traffic, rows, period, clock(), share, settings.routing.floor_share))


def now() -> datetime:
    """Return the present time in UTC."""
    return machine.now()


def run(settings: Settings, every: timedelta, slot: int, stopped: Callable[[], bool]) -> None:
    """Plan at once and at the end of each interval until `stopped` returns true.

    A failure is logged and counted, and the next attempt follows after a minute; evaluate goes on with the rows that
    there are.

    Raises:
        PermanentError, ConfigurationError: if a restart would not help.
    """
    bind_slot(NAME, slot)
    check_dimensions(settings)
    known = KnownLabels(catalogue_version=catalogue(settings).version)
    with started(NAME, slot, settings, PORT, (*PROCESS, *INSTRUMENTS), known, stopped) as own:
        if wait_for_topics(settings, [settings.topics.prefix + name for name in TOPICS], own.stopped) is None:
            return
        own.health.not_ready = ""

        def watch(_doing: str, _total: int) -> OnProgress:
            return on_progress

        def on_progress(_steps: int) -> None:
            own.stopped()  # Each call is a heartbeat.

        due = 0.0
        while not own.stopped():
            if machine.time() < due:
                machine.sleep(_PAUSE_S)
                continue
            try:
                made = plan_once(settings, every, now, watch, applied=True)
            except (RagweirError, KafkaException) as error:
                own.telemetry.count("ragweir_routing_plans_total", 1, "failed")
                log.warning("no rows were planned; evaluate goes on with those that there are", error=str(error))
                due = machine.time() + _RETRY_S
            else:
                states = Counter(each.state for each in made.planned)
                own.telemetry.count("ragweir_routing_plans_total", 1, "planned")
                own.telemetry.count("ragweir_routing_rows_total", states["new"])
                own.telemetry.set("ragweir_routing_planned_timestamp_seconds", machine.time())
                log.info("rows planned", **dict(states))
                due = (made.period.end + every).timestamp()
        log.info("stopped")
