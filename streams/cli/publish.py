"""`ragweir publish`: sends a file to the interactions topic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragweir.errors import Rejected, UnreadableFile
from ragweir.schemas.codec.json import encode_json, interaction, parse
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.streams.cli.app import FAILURE, app, err, settings
from ragweir.streams.cli.options import MapFile
from ragweir.streams.cli.progress import Bars, FileProgress
from ragweir.streams.cli.rejections import Rejections
from ragweir.streams.from_settings import read_map
from ragweir.streams.kafka.publisher import Publisher
from ragweir.streams.sources.events import EventReader


@app.command()
def publish(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="File of interactions.")],
    map_file: MapFile = None,
) -> None:
    """Send a file of interactions to the interactions topic.

    JSON lines, JSON arrays, CSV, TSV and Parquet are read, also compressed by gzip or Zstandard and in UTF-16.

    Each event is checked before it is sent. One that is no interaction is not sent: the first three are reported as
    they come, and all of them by reason at the end, with the lines of a map that would read them. The exit status is
    then 1. Without a map the events are sent unchanged.
    """
    effective = settings()
    limit = effective.limits.max_event_bytes
    mapping = read_map(map_file) if map_file else None
    rejections, sent, skipped = Rejections(mapping), 0, 0
    problem: UnreadableFile | None = None
    with Publisher(effective) as publisher, Bars() as bars, file.open("rb") as source:
        progress = FileProgress(bars, "Publishing", file.stat().st_size)
        reader = EventReader(source, str(file), limit, progress.on_bytes)
        try:
            for number, event in reader:
                rejections.on_event(event)
                try:
                    checked = _checked(event, number, mapping, limit)
                except Rejected as error:
                    rejections.add(f"{reader.format.unit} {number}", error.message, event)
                else:
                    if checked is None:
                        skipped += 1
                    else:
                        publisher.send(checked[1], checked[0].encode())
                        sent += 1
                progress.on_event()
        except UnreadableFile as error:
            problem = error
    rejections.report()
    others = ((skipped, "skipped by the map's `where`"), (rejections.count, "rejected"))
    err.say(f"{sent} published to {publisher.topic}" + "".join(f", {count} {what}" for count, what in others if count))
    if problem:
        raise problem
    if rejections.count:
        raise typer.Exit(FAILURE)


def _checked(event: bytes, number: int, mapping: FieldMap | None, limit: int) -> tuple[str, bytes] | None:
    """Return the event's id and the value to send: the event, or what the map makes of it; None if it is skipped.

    Raises:
        Rejected: if it is no interaction, or larger than the limit.
    """
    data = parse(event, limit)
    if mapping is None:
        return interaction(data).event_id, event
    ours = mapping(data, number)
    if ours is None:
        return None
    value = encode_json(ours)
    if len(value) > limit:
        raise Rejected("too_large", f"mapped, the event is over the limit of {limit} bytes")
    return interaction(ours, origins=mapping.origins).event_id, value
