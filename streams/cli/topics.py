"""`ragweir topics`: our topics, made and shown from the topic table, and given more partitions."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Annotated

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ragweir.errors import PermanentError
from ragweir.schemas.topics import TOPICS
from ragweir.streams.cli import ledger_time
from ragweir.streams.cli.app import FAILURE, app, err, out, settings
from ragweir.streams.kafka.client import Connection, build, client_properties, partition_counts
from ragweir.streams.kafka.topic_growth import Obstacles, TopicGrowth
from ragweir.streams.kafka.topics import create_topics, retention_h

_LOOK_S = 1.0

commands = typer.Typer(help="Create, show or grow ragweir's topics.", no_args_is_help=True)
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
    present = partition_counts(build(AdminClient, client_properties(effective, connection)), connection)
    table = Table("topic", "partitions", "key", "kept", "holds text of users or documents")
    for topic in TOPICS.values():
        name = effective.topics.prefix + topic.name
        partitions = Text(str(present[name])) if name in present else Text("missing", "red")
        table.add_row(name, partitions, topic.key, f"{retention_h(topic, effective) // 24} days", topic.text)
    out.print(table)


@commands.command()
def grow(
    partitions: Annotated[int, typer.Option(min=1, help="Number of partitions that every topic is to have.")],
    yes: Annotated[bool, typer.Option("--yes", help="Grow without asking first.")] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0, help="Seconds to wait until requests are judged and services stopped.")
    ] = 600.0,
) -> None:
    """Give all of ragweir's topics more partitions. Publishers may go on meanwhile.

    Stop evaluate first. The command waits until judge has judged what it was asked to, and then until judge and
    aggregate are stopped; it says what it waits for. Then the topics grow, those first to which others lead. After an
    interruption the same command goes on. Afterwards set `topics.partitions` to the same number and start the services
    again.

    An event that was published before and is published again afterwards is evaluated again, if its key is in another
    partition then. Asks first. Without a terminal nobody can answer, and `--yes` is required. Exit status 1 when the
    answer is no, or when the time is over; nothing is changed then.
    """
    if not yes and not (sys.stdin and sys.stdin.isatty()):
        raise typer.BadParameter("--yes is required where standard input is no terminal, since nobody can be asked")
    effective = settings()
    growth = TopicGrowth(effective, partitions)
    plan = growth.plan()
    for name, number in plan.items():
        err.print(f"{name}: from {number} to {partitions} partitions", soft_wrap=True)
    if plan:
        again = "an event that was published before and is published again afterwards may be evaluated again"
        if not yes and not typer.confirm(f"Grow these topics? Most keys move to another partition: {again}.", err=True):
            raise typer.Exit(FAILURE)
        _wait(growth, timeout_s)
    for name in plan:
        growth.grow(name)
        out.print(f"{name}: has {partitions} partitions now", soft_wrap=True)
    done = "now set" if effective.topics.partitions != partitions else "the settings have"
    said = f"all topics have {partitions} partitions; {done} topics.partitions = {partitions}, and start the services"
    err.print(f"{said}. What was added to judge's topics has a part of the budget from the next day (UTC) on")


def _wait(growth: TopicGrowth, timeout_s: float) -> None:
    """Wait under a bar until nothing keeps the topics from growing.

    Raises:
        PermanentError: if that takes too long.
    """
    until, told = time.monotonic() + timeout_s, ""
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task, most = bar.add_task("", total=None), 0
        while obstacles := growth.obstacles():
            most = max(most, obstacles.left)
            bar.update(task, description=obstacles.advice, total=most or None, completed=most - obstacles.left)
            told = _tell(obstacles, told)
            if time.monotonic() >= until:
                raise PermanentError(
                    f"nothing was changed: after {timeout_s:,.0f} s it still has to be done: {obstacles.advice}"
                )
            time.sleep(_LOOK_S)


def _tell(obstacles: Obstacles, told: str) -> str:
    """Say without a bar what is waited for, each time that something else has to be done; gives what was said last."""
    steps = Obstacles(obstacles.working, min(obstacles.left, 1)).advice
    if steps != told and not err.is_terminal:
        err.print(f"waiting: {obstacles.advice}", soft_wrap=True)
    return steps
