"""The settings that brokers have for topics and for themselves, and the brokers' time of the topics that need it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # It does export them.
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from ragweir.schemas.topics import BROKER_TIME, topic_table
from ragweir.streams.settings import Settings

_TIMEOUT_S = 5.0


def configurations(admin: AdminClient, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the settings of topics.

    Raises:
        KafkaException: if Kafka does not answer, a topic does not exist, or the user may not describe it.
    """
    return _asked(admin, ConfigResource.Type.TOPIC, topics)


def broker_configuration(admin: AdminClient) -> dict[str, str]:
    """Return the settings of the broker with the lowest id.

    Raises:
        KafkaException: if Kafka does not answer, or the user may not describe the cluster.
    """
    broker = str(min(admin.list_topics(timeout=_TIMEOUT_S).brokers))
    return _asked(admin, ConfigResource.Type.BROKER, [broker])[broker]


def broker_limits(admin: AdminClient, *names: str) -> list[int] | None:
    """Return settings of the broker with the lowest id that are numbers.

    None if it does not answer, or the user may not read them.
    """
    try:
        found = broker_configuration(admin)
    except KafkaException as error:
        if denied(error) or error.args[0].retriable():
            return None
        raise
    return [int(found[name]) for name in names]


def _asked(admin: AdminClient, kind: Any, names: Iterable[str]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(kind, name) for name in names]
    asked = admin.describe_configs(resources, request_timeout=_TIMEOUT_S) if resources else {}
    return {
        resource.name: {name: str(entry.value) for name, entry in future.result().items()}
        for resource, future in asked.items()
    }


def denied(error: KafkaException) -> bool:
    """Return true if the user lacks a right."""
    return error.args[0].code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


def without_broker_time(admin: AdminClient, settings: Settings, existing: Collection[str]) -> list[str]:
    """Return the full names of the existing topics that need the brokers' time and do not have it.

    Raises:
        KafkaException: as `configurations`.
    """
    name, value = BROKER_TIME
    table = topic_table(settings.output.registry_format).values()
    wanted = [settings.topics.prefix + topic.name for topic in table if topic.has_broker_time]
    found = configurations(admin, [topic for topic in wanted if topic in existing])
    return [topic for topic, each in found.items() if each[name] != value]


def give_broker_time(admin: AdminClient, topic: str) -> None:
    """Let the brokers stamp the records of a topic from now on.

    Raises:
        KafkaException: if Kafka does not answer, or does not accept it.
    """
    entry = ConfigEntry(*BROKER_TIME, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource], request_timeout=_TIMEOUT_S).values():
        future.result()
