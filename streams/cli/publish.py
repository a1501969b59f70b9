"""`ragweir publish`: sends a JSONL file to the interactions topic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragweir.errors import Rejected
from ragweir.schemas.codec.json import encode_json, interaction, parse
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.streams.cli.app import FAILURE, app, err, settings
from ragweir.streams.cli.options import MapFile
from ragweir.streams.cli.progress import Bars
from ragweir.streams.from_settings import read_map
from ragweir.streams.kafka.publisher import BlockingPublisher
from ragweir.streams.sources.lines import read_lines
from ragweir.streams.terminal import printable


@app.command()
def publish(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="File of interactions, one JSON object a line.")
    ],
    map_file: MapFile = None,
) -> None:
    """Send a file of interactions to the interactions topic.

    Each line is checked before it is sent. A line that is no interaction is reported with the reason and not sent; the
    exit status is then 1. Without a map the lines are sent unchanged.
    """
    effective = settings()
    limit = effective.limits.max_event_bytes
    mapping = read_map(map_file) if map_file else None
    rejected = sent = 0
    with BlockingPublisher(effective) as publisher, Bars() as bars, file.open("rb") as source:
        published = bars.watch("Publishing", file.stat().st_size)
        for number, line in read_lines(source, limit, str(file)):
            try:
                event_id, value = _checked(line, mapping, limit)
                publisher.send(value, event_id.encode())
                sent += 1
            except Rejected as error:
                rejected += 1
                err.say(f"line {number}: {printable(error.message, None)}")
            published(len(line) + 1)
    err.say(f"{sent} published to {publisher.topic}" + (f", {rejected} rejected" if rejected else ""))
    if rejected:
        raise typer.Exit(FAILURE)


def _checked(line: bytes, mapping: FieldMap | None, limit: int) -> tuple[str, bytes]:
    """Return the event's id and the value to send: the line, or what the map makes of it.

    Raises:
        Rejected: if it is no interaction, or larger than the limit.
    """
    data = parse(line, limit)
    if mapping is None:
        return interaction(data).event_id, line
    ours = mapping(data)
    value = encode_json(ours)
    if len(value) > limit:
        raise Rejected("too_large", f"mapped, the event is over the limit of {limit} bytes")
    return interaction(ours).event_id, value
