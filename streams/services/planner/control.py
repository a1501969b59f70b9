"""The planner's side of the topic `control`: reads all rows, and appends new ones in a transaction.

There is one writer: a planner that begins fences the one before it, whose open transaction is aborted. It reads the
topic after that and before it writes, so that it sees every row that was committed, and no row is appended twice or
overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from ragweir.errors import PermanentError
from ragweir.schemas.codec.json import encode
from ragweir.schemas.routing_row import RoutingRow, encode_row_key
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.runtime.kafka.transactional_sender import TransactionalSender
from ragweir.streams.runtime.loop.broker_clock import BrokerClock
from ragweir.streams.services.planner.row_plan import Planned, is_late, plan
from ragweir.streams.services.planner.traffic import Period, Traffic
from ragweir.streams.services.shared.routing_rows import RowTable
from ragweir.streams.settings import Settings

NAME = "planner"
"""The planner's name in its transactional id, telemetry and announcements."""


def effective_rows(settings: Settings) -> list[RoutingRow]:
    """Return the rows that evaluate selects by; rows that were written too late have no effect.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if there is no topic.
    """
    table = RowTable()
    table.add(read(settings, offset_range(settings, settings.output_topic("control"))))
    return table.held


def apply(
    settings: Settings,
    traffic: Mapping[str | None, Traffic],
    period: Period,
    share: float,
    clock: Callable[[], datetime],
) -> list[Planned]:
    """Append the rows of a plan that differ from the present ones, all or none; return the plan.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if another planner has begun meanwhile, or the rows would have no effect, as they were appended
            too late by the brokers' time.
    """
    brokers = BrokerClock(own=lambda: clock().timestamp())
    sender = TransactionalSender(settings, NAME, "the routing rows", brokers.on_delivery)
    made = plan(traffic, effective_rows(settings), period, clock(), share, settings.routing.floor_share)
    if new := [each.row for each in made if each.row is not None and each.state == "new"]:
        with sender.transaction():
            for row in new:
                key = encode_row_key(row.application, row.effective_at)
                headers = cloud_event("routing", "row", key.decode(), row.effective_at, "application/json")
                sender.produce(f"{settings.topics.prefix}control", encode(row), key, headers)
            sender.flush()
            appended = datetime.fromtimestamp(brokers.now_s(), UTC)
            if any(is_late(row, appended) for row in new):
                raise PermanentError(
                    "the rows were not appended an hour before they take effect, and would have none: it is "
                    f"{appended:%Y-%m-%d %H:%M:%S} UTC at the brokers and {clock():%Y-%m-%d %H:%M:%S} UTC here; set "
                    "the clock that is wrong, and plan again"
                )
    return made
