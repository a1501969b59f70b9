"""`ragweir publish`: a JSONL file to the interactions topic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ragweir.errors import Rejected
from ragweir.schemas.codec.json import encode_json, interaction, parse
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.streams.cli.app import FAILURE, app, err, settings
from ragweir.streams.from_settings import read_map
from ragweir.streams.kafka.publisher import Publisher
from ragweir.streams.runtimes.files import read_lines
from ragweir.streams.terminal import printable


@app.command()
def publish(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="JSON lines, one interaction each.")],
    map: Annotated[Path | None, typer.Option(help="The map for a foreign shape.")] = None,
) -> None:
    """Send a file of interactions to the interactions topic.

    Every line is checked first; one that is no interaction is named with its reason and not sent, and the exit
    status is then 1. Without a map a line is sent as it stands.
    """
    effective = settings()
    limit = effective.limits.max_event_bytes
    mapping = read_map(map) if map else None
    refused = sent = 0
    columns = (TextColumn("Publishing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Publisher(effective) as publisher, Progress(*columns, console=err) as progress, file.open("rb") as source:
        total = sum(1 for _ in read_lines(source, limit, str(file)))
        source.seek(0)
        for number, line in progress.track(read_lines(source, limit), total):
            try:
                event_id, value = _checked(line, mapping, limit)
                publisher.send(value, event_id.encode())
                sent += 1
            except Rejected as rejected:
                refused += 1
                progress.console.print(f"line {number}: {printable(rejected.message, None)}", soft_wrap=True)
    err.print(
        f"{sent} published to {publisher.topic}" + (f", {refused} refused" if refused else ""),
        soft_wrap=True,
    )
    if refused:
        raise typer.Exit(FAILURE)


def _checked(line: bytes, mapping: FieldMap | None, limit: int) -> tuple[str, bytes]:
    """The event's id, and what is to be sent: the line as it stands, or what the map makes of it.

    Raises:
        Rejected: if it is no interaction, or larger than what would be evaluated.
    """
    data = parse(line, limit)
    if mapping is None:
        return interaction(data).event_id, line
    ours = mapping(data)
    value = encode_json(ours)
    if len(value) > limit:
        raise Rejected("too_large", f"mapped, the event is over the limit of {limit} bytes")
    return interaction(ours).event_id, value
