"""The check of the topic `control`: that its rows are kept, have an effect, and are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed, CheckWarning, not_permitted
from ragweir.streams.runtime.kafka.client import Connection, build, client_properties
from ragweir.streams.runtime.kafka.configurations import configurations
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.shared.routing_rows import RowTable
from ragweir.streams.settings import Settings

_OLD = timedelta(days=2)
"""The age of the newest row from which on planners seem not to run: they plan daily, or more often."""
_UNLIMITED = {"retention.ms": "-1", "retention.bytes": "-1"}


def rows(context: CheckContext) -> str:
    """Check that Kafka deletes no routing row, that every row has an effect, and that planners write some."""
    settings = context.settings
    if settings.judge.base_url is None or not settings.routing.uses_rows:
        return "not needed: no events are selected by routing rows"
    topic = f"{settings.topics.prefix}control"
    context.partitions(topic)
    _check_retention(settings, topic)
    records = list(read(settings, offset_range(settings, topic)))
    return summary(records, machine.now(), topic)


def _check_retention(settings: Settings, topic: str) -> None:
    try:
        admin = build(AdminClient, client_properties(settings, Connection(quiet=True)))
        configuration = configurations(admin, [topic])[topic]
    except KafkaException as error:
        raise not_permitted(error) from None
    kept = all(configuration[name] == value for name, value in _UNLIMITED.items())
    if "delete" in configuration["cleanup.policy"] and not kept:
        raise CheckFailed(
            f"Kafka deletes old rows of {topic}, and replays then select other events than before: "
            f"kafka-configs.sh --bootstrap-server {settings.kafka.bootstrap_servers} --alter --topic {topic} "
            "--add-config cleanup.policy=compact"
        )


def summary(records: list[Record], now: datetime, topic: str) -> str:
    """Return how many rows have an effect, and since when the newest one holds.

    Raises:
        CheckWarning: if some records have none, or no row was written for two days.
    """
    table = RowTable()
    rejected = table.add(records)
    held = table.rows()
    if rejected:
        why, first = rejected[0]
        raise CheckWarning(
            f"{len(rejected)} of {len(records)} records have no effect; {topic}/{first.partition}/{first.offset} is "
            f"{why}: rows are written at least 45 minutes before they hold, by planners whose clocks are right"
        )
    if not held.by_application:
        return "there are none yet: the shipped row holds, until an application has 500 events in seven closed days"
    written = datetime.fromtimestamp(max(record.timestamp_ms or 0 for record in records) / 1_000, UTC)
    newest = max(selections[-1].revision for _, selections in held.by_application.values())
    text = f"{len(held)} rows of {len(held.by_application)} applications; the newest holds from {newest}"
    if now - written > _OLD:
        raise CheckWarning(
            f"{text}, and none was written since {written:%Y-%m-%dT%H:%MZ}: if there is traffic, run a planner, which "
            "is part of `ragweir up`, or `ragweir routing plan --apply` daily"
        )
    return text
