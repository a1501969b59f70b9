"""`ragweir publish`: sends a file to the interactions topic."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from ragweir.errors import Rejected, UnreadableFile
from ragweir.schemas.codec.json import encode_json, interaction, parse
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.streams.analysis.traces.collection import TraceCollection
from ragweir.streams.analysis.traces.trace_report import TraceReport
from ragweir.streams.commands.app import FAILURE, app, err, settings
from ragweir.streams.commands.options import MapFile
from ragweir.streams.commands.progress import Bars, FileProgress
from ragweir.streams.commands.rejections import Rejections
from ragweir.streams.files.events import EventReader
from ragweir.streams.runtime.kafka.blocking_publisher import BlockingPublisher
from ragweir.streams.services.shared.from_settings import is_ready, read_map
from ragweir.streams.settings import Settings


@app.command()
def publish(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="File of interactions.")],
    map_file: MapFile = None,
) -> None:
    """Send a file of interactions, or those of a file of OpenTelemetry traces, to the interactions topic.

    JSON lines, JSON arrays, CSV, TSV and Parquet are read, also compressed by gzip or Zstandard and in UTF-16. Export
    requests of traces (OTLP) are read as `ragweir score` does, and their interactions are sent.

    Each event is checked before it is sent. One that is no interaction is not sent: the first three are reported as
    they come, and all of them by reason at the end, with the lines of a map that would read them. The exit status is
    then 1. Without a map the events are sent unchanged.
    """
    effective = settings()
    mapping = read_map(map_file) if map_file else None
    rejections = Rejections(mapping, is_ready(map_file))
    problem: UnreadableFile | None = None
    with BlockingPublisher(effective) as publisher, Bars() as bars, file.open("rb") as source:
        progress = FileProgress(bars, "Publishing", file.stat().st_size)
        reader = EventReader(source, str(file), effective.limits.max_event_bytes, progress.on_bytes)
        publication = _Publication(publisher, rejections, mapping, effective, progress)
        try:
            publication.publish(reader)
        except UnreadableFile as error:
            problem = error
    rejections.report()
    for line in publication.report.lines() if publication.report.traces else ():
        err.say(line)
    others = ((publication.skipped, "skipped by the map's `where`"), (rejections.count, "rejected"))
    more = "".join(f", {count} {what}" for count, what in others if count)
    err.say(f"{publication.sent} published to {publisher.topic}{more}")
    if problem:
        raise problem
    if rejections.count:
        raise typer.Exit(FAILURE)


@dataclass(slots=True)
class _Publication:
    """Sends the interactions of a file, and counts them."""

    publisher: BlockingPublisher
    rejections: Rejections
    mapping: FieldMap | None
    effective: Settings
    progress: FileProgress
    sent: int = 0
    skipped: int = 0
    report: TraceReport = field(default_factory=TraceReport)
    """The traces of the file."""

    def publish(self, reader: EventReader) -> None:
        """Send the events of a file, or the interactions of its traces.

        Raises:
            UnreadableFile: if the file cannot be read to its end; all before it is sent.
            typer.BadParameter: if it holds traces and there is a map.
        """
        with TraceCollection(self.effective.assemble) as collection:
            try:
                for number, value in reader:
                    if reader.format.has_traces:
                        self._collect(collection, number, value)
                    else:
                        self._send(f"{reader.format.unit} {number}", number, value)
                    self.progress.on_event()
            finally:
                for trace in collection:
                    self.report.add(trace)
                    for each in trace.records(self.publisher.topic, 1):
                        self._send(
                            f"interaction {each.offset} of trace {trace.trace_id}", each.offset, each.value or b""
                        )

    def _collect(self, collection: TraceCollection, number: int, request: bytes) -> None:
        if self.mapping is not None:
            raise typer.BadParameter("the file holds OpenTelemetry traces, which are read without a map")
        try:
            collection.add(request)
        except Rejected as error:
            self.rejections.add(f"request {number}", error.message, None)

    def _send(self, place: str, number: int, event: bytes) -> None:
        self.rejections.on_event(event)
        try:
            checked = _checked(event, number, self.mapping, self.effective.limits.max_event_bytes)
        except Rejected as error:
            self.rejections.add(place, error.message, event)
            return
        if checked is None:
            self.skipped += 1
        else:
            self.publisher.send(checked[1], checked[0].encode())
            self.sent += 1


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
