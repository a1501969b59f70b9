"""`ragweir topics`: our topics, made and shown from the topic table."""

from __future__ import annotations

from contextlib import suppress

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from rich.table import Table
from rich.text import Text

from ragweir.schemas.topics import TOPICS
from ragweir.streams.cli import ledger_time
from ragweir.streams.cli.app import app, out, settings
from ragweir.streams.kafka_client import Connection, ask, build, client_properties
from ragweir.streams.topics import create_topics, retention_h

commands = typer.Typer(help="Create or show ragweir's topics.", no_args_is_help=True)
app.add_typer(commands, name="topics")


@commands.command()
def create() -> None:
    """Create the topics that do not exist yet. What exists is left as it is; a setting that it needs is named."""
    effective = settings()
    for name, done in create_topics(effective).items():
        out.print(f"{name}: {'created' if done else 'is there'}", soft_wrap=True)
    with suppress(KafkaException):  # To look at settings takes a right of its own.
        if hint := ledger_time.missing(
            build(AdminClient, client_properties(effective, Connection(quiet=True))), effective
        ):
            out.print(Text(hint, "yellow"), soft_wrap=True)


@commands.command()
def show() -> None:
    """Show our topics: what each holds, for how long, and whether it exists."""
    effective = settings()
    connection = Connection(quiet=True)
    present = ask(build(AdminClient, client_properties(effective, connection)), connection)
    table = Table("topic", "partitions", "key", "kept", "holds text of users or documents")
    for topic in TOPICS.values():
        name = effective.topics.prefix + topic.name
        partitions = Text(str(present[name])) if name in present else Text("missing", "red")
        table.add_row(name, partitions, topic.key, f"{retention_h(topic, effective) // 24} days", topic.text)
    out.print(table)
