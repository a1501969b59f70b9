"""`ragweir topics`: our topics, made and shown from the topic table."""

from __future__ import annotations

import typer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.table import Table

from schemas.topics import TOPICS, Topic, max_record_bytes
from streams.cli.app import app, out, settings
from streams.kafka_client import Connection, Refusal, ask, build, client_properties
from streams.settings import Settings

commands = typer.Typer(help="Create or show ragweir's topics.", no_args_is_help=True)
app.add_typer(commands, name="topics")

_HOUR_MS = 3_600_000
_TIMEOUT_S = 30


@commands.command()
def create() -> None:
    """Create the topics that do not exist yet. What exists is left as it is."""
    for name, done in create_topics(settings()).items():
        out.print(f"{name}: {'created' if done else 'is there'}", highlight=False, soft_wrap=True)


@commands.command()
def show() -> None:
    """Show our topics: what each holds, for how long, and whether it exists."""
    effective = settings()
    connection = Connection(quiet=True)
    present = ask(build(AdminClient, client_properties(effective, connection)), connection)
    table = Table("topic", "partitions", "key", "kept", "holds text of users or documents")
    for topic in TOPICS.values():
        name = effective.topics.prefix + topic.name
        partitions = str(present[name]) if name in present else "[red]missing[/]"
        table.add_row(name, partitions, topic.key, f"{_retention_h(topic, effective) // 24} days", topic.text)
    out.print(table)


def create_topics(effective: Settings) -> dict[str, bool]:
    """Create what is missing; gives each topic's name, and whether it was created now.

    Raises:
        Refusal: if Kafka refuses, or a topic exists with fewer partitions than the settings ask for.
        Unreachable: if no broker answers.
    """
    connection = Connection(quiet=True)
    admin = build(AdminClient, client_properties(effective, connection))
    present = ask(admin, connection)
    wanted = effective.topics.partitions
    names = {topic.name: effective.topics.prefix + topic.name for topic in TOPICS.values()}
    for name in names.values():
        if name in present and present[name] < wanted:
            raise Refusal(
                f"{name} has {present[name]} partitions and topics.partitions is {wanted}: adding some to a topic in "
                f"use would move keys; set topics.partitions to {present[name]} or use another topics.prefix"
            )
    new = [
        NewTopic(
            names[topic.name],
            num_partitions=wanted,
            replication_factor=effective.topics.replication_factor,
            config={
                **dict(topic.config),
                "cleanup.policy": topic.cleanup,
                "retention.ms": str(_retention_h(topic, effective) * _HOUR_MS),
                "max.message.bytes": str(max_record_bytes(effective.limits.max_event_bytes)),
            },
        )
        for topic in TOPICS.values()
        if names[topic.name] not in present
    ]
    created = admin.create_topics(new, operation_timeout=_TIMEOUT_S) if new else {}
    for name, future in created.items():
        try:
            future.result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise Refusal(f"Kafka does not create {name}: {error.args[0].str()}") from None
    return {name: name in created for name in names.values()}


def _retention_h(topic: Topic, effective: Settings) -> int:
    """How long a topic keeps its records: as the table says, but for windows, which have a setting."""
    return effective.windows.retention_h if topic.name == "windows" else topic.retention_h
