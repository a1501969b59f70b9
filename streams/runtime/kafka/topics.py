"""Creates the topics of the topic table."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ragweir.errors import PermanentError
from ragweir.schemas.topics import Topic, max_record_bytes, topic_table
from ragweir.schemas.window import Window
from ragweir.streams.runtime.kafka.client import connected_admin
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_HOUR_MS = 3_600_000
_TIMEOUT_SECONDS = 30
_LISTED_SECONDS = 10.0
"""Time after which a topic that is not listed may not be seen by this user."""
_PAUSE_SECONDS = 0.02


def create_topics(effective: Settings, topics: Iterable[Topic] | None = None) -> dict[str, bool]:
    """Create missing topics; return the full names of all, with true for those that were created now.

    Args:
        effective: all settings.
        topics: the topics to create; None for all that the settings need.

    Raises:
        PermanentError: if Kafka answers with an error, or a topic has fewer partitions than the settings require.
        Unreachable: if no broker answers.
    """
    topics = tuple(topic_table(effective.output.registry_format).values() if topics is None else topics)
    admin, present = connected_admin(effective)
    wanted = effective.topics.partitions
    names = {topic.name: effective.topics.prefix + topic.name for topic in topics}
    for topic in topics:
        name = names[topic.name]
        if topic.grows and name in present and present[name] < wanted:
            raise PermanentError(
                f"{name} has {present[name]} partitions and topics.partitions is {wanted}: adding some moves keys; "
                f"`ragweir topics grow --partitions {wanted}` does it safely; or set topics.partitions to "
                f"{present[name]}"
            )
    new = [
        NewTopic(
            names[topic.name],
            num_partitions=wanted,
            replication_factor=effective.topics.replication_factor,
            config={
                **dict(topic.config),
                "cleanup.policy": topic.cleanup,
                "retention.ms": str(retention_h(topic, effective) * _HOUR_MS),
                "max.message.bytes": str(max_record_bytes(effective.limits.max_event_bytes)),
            },
        )
        for topic in topics
        if names[topic.name] not in present
    ]
    created = admin.create_topics(new, operation_timeout=_TIMEOUT_SECONDS) if new else {}
    for name, future in created.items():
        try:
            future.result(_TIMEOUT_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise PermanentError(f"Kafka does not create {name}: {error.args[0].str()}") from None
    _wait_until_listed(admin, created)
    return {name: name in created for name in names.values()}


def _wait_until_listed(admin: AdminClient, names: Iterable[str]) -> None:
    """Wait until the broker that answers lists topics, which the controller created before.

    Whoever reads the metadata earlier is told that there is no such topic.
    """
    missing, until = set(names), machine.monotonic() + _LISTED_SECONDS
    while missing:
        with suppress(KafkaException):
            missing -= admin.list_topics(timeout=_LISTED_SECONDS).topics.keys()
        if missing and machine.monotonic() > until:
            log.warning("topics were created, and are not listed", topics=sorted(missing))
            return
        if missing:
            machine.sleep(_PAUSE_SECONDS)


def retention_h(topic: Topic, effective: Settings) -> int:
    """Return the retention of a topic in hours: the table's, or the setting for windows."""
    if topic.horizons:
        return topic.retention_h + topic.horizons * effective.feedback.horizon_s // 3600
    return effective.windows.retention_h if topic.model is Window else topic.retention_h
