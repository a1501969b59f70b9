"""`ragweir topics`: creates and shows ragweir's topics, and gives them more partitions."""

from __future__ import annotations

from typing import Annotated

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from rich.table import Table
from rich.text import Text

from ragweir.errors import PermanentError, RegistryUnavailable
from ragweir.schemas.topics import BROKER_TIME, topic_table
from ragweir.streams.commands.app import app, err, out, settings
from ragweir.streams.commands.options import Yes, check_can_confirm, confirm
from ragweir.streams.commands.progress import Bars
from ragweir.streams.runtime.kafka.client import Connection, build, client_properties, connected_admin, partition_counts
from ragweir.streams.runtime.kafka.configurations import give_broker_time, without_broker_time
from ragweir.streams.runtime.kafka.topic_growth import Obstacles, TopicGrowth
from ragweir.streams.runtime.kafka.topics import create_topics, retention_h
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import Settings

_POLL_SECONDS = 1.0

commands = typer.Typer(help="Create, show or grow ragweir's topics.", no_args_is_help=True)
app.add_typer(commands, name="topics")


@commands.command()
def create() -> None:
    """Create the topics that do not exist yet.

    Of the topics that exist, those whose records the brokers are to stamp get that setting; nothing else is changed.
    With `output.format` the schemas of its topics are registered as well; a version that the registry has keeps its id.
    """
    effective = settings()
    for name, done in create_topics(effective).items():
        out.say(f"{name}: {'created' if done else 'is there'}")
    _give_broker_time(effective)
    if effective.output.registry_format is not None:
        from ragweir.streams.runtime.registry.output import register  # noqa: PLC0415 - with the packages of the format

        try:
            registered = register(effective)
        except RegistryUnavailable as unavailable:
            raise PermanentError(
                f"the topics are there, but the registry does not answer: {unavailable}; run this command again"
            ) from None
        for subject, schema_id in registered.items():
            out.say(f"{subject}: schema {schema_id} is registered")


def _give_broker_time(effective: Settings) -> None:
    """Let the brokers stamp the records of the topics that need it, or say how it is done."""
    admin, existing = connected_admin(effective)
    try:
        lacking = without_broker_time(admin, effective, existing)
    except KafkaException as error:  # To describe configurations takes another right than to create topics.
        out.say(f"whether the brokers stamp the records is not checked: {error.args[0].str()}", "yellow")
        return
    for topic in lacking:
        try:
            give_broker_time(admin, topic)
            out.say(f"{topic}: the brokers stamp its records now")
        except KafkaException as error:
            out.say(
                f"{topic}: the clocks of its writers stamp its records, and Kafka does not accept a change "
                f"({error.args[0].str()}); ask an administrator for kafka-configs.sh --bootstrap-server "
                f"{effective.kafka.bootstrap_servers} --alter --topic {topic} --add-config {'='.join(BROKER_TIME)}",
                "yellow",
            )


@commands.command()
def show() -> None:
    """Show ragweir's topics: partitions, key, retention and the personal data that each one holds."""
    effective = settings()
    connection = Connection(quiet=True)
    present = partition_counts(build(AdminClient, client_properties(effective, connection)), connection)
    table = Table("topic", "partitions", "key", "kept", "holds text of users or documents")
    for topic in topic_table(effective.output.registry_format).values():
        name = effective.topics.prefix + topic.name
        partitions = Text(str(present[name])) if name in present else Text("missing", "red")
        table.add_row(name, partitions, topic.key, f"{retention_h(topic, effective) // 24} days", topic.text)
    out.print(table)


@commands.command()
def grow(
    partitions: Annotated[int, typer.Option(min=1, help="Number of partitions that every topic gets.")],
    yes: Yes = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0, help="Seconds to wait until judging is done and services are stopped.")
    ] = 600.0,
) -> None:
    """Add partitions to all of ragweir's topics. Publishers may keep running.

    Stop evaluate first. The command waits until judge has no requests left, and then until judge and aggregate are
    stopped; it shows what it waits for. Then the topics grow, those at the end of the data flow first. If it is
    interrupted, run it again. Afterwards set `topics.partitions` to the same number and start the services.

    An event that was published before and is published again afterwards is evaluated twice if its key belongs in
    another partition then. The command asks for confirmation; `--yes` is required where standard input is no terminal.
    Exit status 1 when it is denied or the time is over; nothing is changed then.
    """
    check_can_confirm(yes=yes)
    effective = settings()
    growth = TopicGrowth(effective, partitions)
    plan = growth.plan()
    for name, number in plan.items():
        err.say(f"{name}: from {number} to {partitions} partitions")
    if plan:
        again = "an event that was published before and is published again afterwards may be evaluated again"
        confirm(f"Grow these topics? Most keys move to another partition: {again}.", yes=yes)
        _wait(growth, timeout_s)
    for name in plan:
        growth.grow(name)
        out.say(f"{name}: has {partitions} partitions now")
    done = "now set" if effective.topics.partitions != partitions else "the settings have"
    text = f"all topics have {partitions} partitions; {done} topics.partitions = {partitions}, and start the services"
    err.print(f"{text}. The new partitions of judge's topics get their part of the budget from the next day (UTC) on")


def _wait(growth: TopicGrowth, timeout_s: float) -> None:
    """Wait until nothing keeps the topics from growing.

    Raises:
        PermanentError: if that takes longer than the timeout.
    """
    until, shown = machine.monotonic() + timeout_s, ""
    with Bars() as bars:
        task, most = bars.add(""), 0
        while obstacles := growth.obstacles():
            most = max(most, obstacles.left)
            bars.update(task, description=obstacles.advice, total=most or None, completed=most - obstacles.left)
            shown = _show(obstacles, shown)
            if machine.monotonic() >= until:
                raise PermanentError(f"nothing was changed: after {timeout_s:,.0f} s, still to do: {obstacles.advice}")
            machine.sleep(_POLL_SECONDS)


def _show(obstacles: Obstacles, shown: str) -> str:
    """Print the obstacles where there is no bar, if they are others than those shown before; return them."""
    steps = Obstacles(obstacles.working, min(obstacles.left, 1)).advice
    if steps != shown and not err.is_terminal:
        err.say(f"waiting: {obstacles.advice}")
    return steps
