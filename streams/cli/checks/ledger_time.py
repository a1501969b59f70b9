"""The topic setting that gives the ledger the brokers' time, which the days of the judge's budget need."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from ragweir.streams.cli.checks.durability import configurations
from ragweir.streams.settings import Settings

SETTING, VALUE = "message.timestamp.type", "LogAppendTime"


def missing(admin: AdminClient, settings: Settings) -> str:
    """Return the command that gives the ledger the brokers' time; empty if it has it.

    Raises:
        KafkaException: if Kafka does not answer, there is no ledger, or the user may not describe it.
    """
    topic = f"{settings.topics.prefix}judge.ledger"
    if configurations(admin, [topic])[topic][SETTING] == VALUE:
        return ""
    return (
        f"{topic} does not have the brokers' time, so the days of the judge's budget follow the clocks of its workers: "
        f"kafka-configs.sh --bootstrap-server {settings.kafka.bootstrap_servers} --alter --topic {topic} "
        f"--add-config {SETTING}={VALUE}"
    )
