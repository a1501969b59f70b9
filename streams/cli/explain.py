"""`ragweir explain`: the story of one event, for people or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from ragweir.errors import PermanentError
from ragweir.metrics.metric import Metric
from ragweir.schemas.codec.json import encode
from ragweir.schemas.window import duration_s
from ragweir.streams.cli.app import app, out, settings
from ragweir.streams.cli.progress import Bars
from ragweir.streams.dead_letters.listing import shown
from ragweir.streams.evaluate.rows import shipped_selection
from ragweir.streams.explain import NEWEST_OFFSETS, Story, TopicSearch, from_file
from ragweir.streams.from_settings import known_catalogue
from ragweir.streams.records import Record
from ragweir.streams.screens.story import StoryScreen, place, redriven_from, searched
from ragweir.streams.terminal import printable, printable_json
from ragweir.streams.traces.story import TraceStory


def _seconds(text: str | None) -> int | None:
    try:
        return None if text is None else duration_s(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@app.command()
def explain(
    event_id: Annotated[str, typer.Argument(help="Id of the event.")],
    file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="File of evaluations to search in place of Kafka.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Id of a replay, whose topics are searched.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Search what was written within this time, such as 2h, in place of --newest.")
    ] = None,
    newest: Annotated[
        int, typer.Option(min=1, help="Number of offsets of a partition that are searched, the newest ones.")
    ] = NEWEST_OFFSETS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the story of one event: where it was read, its scores and their reasons, its routing, judge and windows.

    The event id is the key of the records, so that one partition of each topic is searched. The windows are those that
    the present settings give the event. Where a routing row selected, the row is shown, with the days and events that
    it was planned from, and how the event's probability follows from it. A request to the judge that has no answer yet
    is shown with the topic where it waits. Of an event that was assembled from an OpenTelemetry trace, the tree of its
    spans is shown, with the use of each; a trace id alone shows a trace that gave no interaction.
    Exit status 1 when nothing is found.
    """
    since_s, effective = _seconds(since), settings()
    with Bars() as bars:
        if file is not None:
            story = from_file(file, event_id, effective, bars.watch)
        else:
            story = TopicSearch(effective, event_id, run, bars.watch, newest, since_s).story()
    if not story.known:
        where = " nor in ".join(map(searched, story.searched))
        raise PermanentError(f"there is nothing of the event {shown(event_id, 200)} in {where}")
    catalogue = known_catalogue(effective).metrics
    if as_json:
        data = orjson.dumps(_data(story, catalogue), option=orjson.OPT_UTC_Z | orjson.OPT_INDENT_2)
        typer.echo(printable_json(data))
    else:
        shipped = shipped_selection(effective.routing)
        StoryScreen(out, catalogue, effective.windows, shipped=shipped).show(story)


def _data(story: Story, catalogue: Mapping[str, Metric]) -> dict[str, Any]:
    evaluation = story.evaluation
    names = [*evaluation.scores, *evaluation.categories] if evaluation else []
    return {
        "event_id": story.event_id,
        "found_at": story.found_at or None,
        "times_evaluated": story.times,
        "evaluation": orjson.Fragment(encode(evaluation)) if evaluation else None,
        "metrics": {
            name: {"unit": metric.unit, "better": metric.better, "meaning": metric.meaning, "cost": metric.cost}
            for name in names
            if (metric := catalogue.get(name)) is not None
        },
        "source": story.source and _record(story.source),
        "row": story.row and orjson.Fragment(encode(story.row)),
        "windows": story.windows,
        "waits": story.pending,
        "dead_letters": [
            {
                "at": place(each.record),
                "written_ms": each.record.timestamp_ms,
                "by": each.service,
                **each.details.model_dump(exclude_none=True),
            }
            for each in story.letters
        ],
        "trace": story.trace and _trace(story.trace),
        "looked": story.searched,
    }


def _trace(story: TraceStory) -> dict[str, Any]:
    return {
        "trace_id": story.trace_id,
        "records": story.records,
        "log_records": story.logs,
        "interactions": story.interactions,
        "gaps": story.gaps,
        "deleted": story.deleted and not story.records and story.whole,
        "whole": story.whole,
        "closed": story.closed,
        "spans": [
            {
                "id": each.span.span_id,
                "parent_id": each.span.parent_id,
                "depth": each.depth,
                "name": printable(each.span.name, None),
                "kind": each.kind,
                "called": printable(each.name, None),
                "use": each.use,
                "offset_ms": (each.span.started_ns - story.began_ns) / 1e6,
                "duration_ms": (each.span.ended_ns - each.span.started_ns) / 1e6,
                "error": each.span.error,
                "dropped_attributes": each.span.dropped_attributes,
                "copies": each.copies,
                "at": each.position,
            }
            for each in story.spans
        ],
    }


def _record(record: Record) -> dict[str, Any]:
    before = redriven_from(record)
    return {
        "at": place(record),
        "written_ms": record.timestamp_ms,
        "redriven": before.model_dump(exclude_none=True) if before else None,
    }
