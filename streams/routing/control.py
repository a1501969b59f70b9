"""The planner's side of the topic `control`: reads all rows, and appends new ones in a transaction.

There is one writer: a planner that begins fences the one before it, whose open transaction is aborted. It reads the
topic after that and before it writes, so that it sees every row that was committed, and no row is appended twice or
overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from ragweir.errors import PermanentError
from ragweir.schemas.codec.json import encode
from ragweir.schemas.routing_row import RoutingRow, encode_row_key, parse_row_key
from ragweir.streams.emissions import cloud_event
from ragweir.streams.evaluate.rows import RowTable
from ragweir.streams.kafka.reader import offset_range, read
from ragweir.streams.kafka.transactional_sender import TransactionalSender
from ragweir.streams.records import Record
from ragweir.streams.routing.planner import Planned, is_late, plan
from ragweir.streams.routing.traffic import Period, Traffic
from ragweir.streams.settings import Settings

NAME = "planner"
"""The planner's name in its transactional id, telemetry and announcements."""


def rows_of(records: Iterable[Record]) -> list[RoutingRow]:
    """Return the rows of the records of `control`; other records are ignored."""
    found = []
    for record in records:
        try:
            row = RoutingRow.model_validate_json(record.value or b"")
            if parse_row_key(record.key) == (row.application, row.effective_at):
                found.append(row)
        except (ValueError, RecursionError):  # pydantic's error is a ValueError.
            continue
    return found


def read_rows(settings: Settings) -> list[RoutingRow]:
    """Return all committed rows.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if there is no topic.
    """
    return rows_of(read(settings, offset_range(settings, f"{settings.topics.prefix}control")))


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
        PermanentError: if another planner has begun meanwhile, or it took too long to append the rows.
    """
    sender = TransactionalSender(settings, NAME, "the routing rows")
    made = plan(traffic, read_rows(settings), period, clock(), share, settings.routing.floor_share)
    if new := [each.row for each in made if each.row is not None and each.state == "new"]:
        with sender.transaction():
            for row in new:
                key = encode_row_key(row.application, row.effective_at)
                headers = cloud_event("routing", "row", key.decode(), row.effective_at, "application/json")
                sender.produce(f"{settings.topics.prefix}control", encode(row), key, headers)
            if any(is_late(row, clock()) for row in new):
                raise PermanentError("the rows were not appended an hour before they take effect; plan again")
    return made
