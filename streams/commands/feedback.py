"""`ragweir feedback`: joins feedback to answers, and sends a file of feedback."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragweir.errors import Rejected, UnreadableFile
from ragweir.schemas.codec.json import parse
from ragweir.schemas.feedback import feedback_of
from ragweir.streams.commands.app import FAILURE, app, err, settings
from ragweir.streams.commands.options import Workers
from ragweir.streams.commands.progress import Bars, FileProgress
from ragweir.streams.commands.rejections import Rejections
from ragweir.streams.commands.services import run_feedback
from ragweir.streams.files.events import EventReader
from ragweir.streams.runtime.kafka.blocking_publisher import BlockingPublisher

commands = typer.Typer(help="Join feedback of users to the answers that it is about, exactly once.")
app.add_typer(commands, name="feedback")


@commands.callback(invoke_without_command=True)
def feedback(context: typer.Context, match_workers: Workers = 1, tally_workers: Workers = 1) -> None:
    """Join feedback of users to the answers that it is about, exactly once.

    Runs two services under one supervisor. `match` finds the answer of each feedback, which waits for one that is not
    evaluated yet; `tally` keeps the newest feedback of each answer, name and giver, and counts it in windows. Their
    ports are telemetry.port + 900 and + 1000. Stopping as `evaluate`.
    """
    if context.invoked_subcommand is None:
        run_feedback(match_workers, tally_workers)


@commands.command()
def publish(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="File of feedback.")],
) -> None:
    """Send a file of feedback to the feedback topic.

    Each line is a JSON object with `name`, `value`, and `event_id` or `trace_id`; `span_id`, `giver` and `time` may be
    given. JSON arrays, CSV, TSV and Parquet are read too, also compressed.

    Feedback is checked before it is sent. A line that is no feedback is not sent: the first three are reported as they
    come, and all of them by reason at the end. The exit status is then 1.
    """
    effective = settings()
    rejections, sent = Rejections(), 0
    problem: UnreadableFile | None = None
    topic = f"{effective.topics.prefix}feedback"
    with BlockingPublisher(effective, topic) as publisher, Bars() as bars, file.open("rb") as source:
        progress = FileProgress(bars, "Publishing", file.stat().st_size)
        reader = EventReader(source, str(file), effective.limits.max_event_bytes, progress.on_bytes)
        try:
            for number, value in reader:
                try:
                    found = feedback_of(parse(value, effective.limits.max_event_bytes))
                except Rejected as error:
                    rejections.add(f"{reader.format.unit} {number}", error.message, None)
                else:
                    publisher.send(value, found.target.encode())
                    sent += 1
                progress.on_event()
        except UnreadableFile as error:
            problem = error
    rejections.report()
    more = f", {rejections.count} rejected" if rejections.count else ""
    err.say(f"{sent} published to {topic}{more}")
    if problem:
        raise problem
    if rejections.count:
        raise typer.Exit(FAILURE)
