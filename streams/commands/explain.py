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
from ragweir.streams.analysis.console_links import answer_path
from ragweir.streams.analysis.dead_letters.letters import shown
from ragweir.streams.analysis.evidence.answer_evidence import EvidenceRules, answer_evidence, evidence_data
from ragweir.streams.analysis.evidence.support_evidence import text_data
from ragweir.streams.analysis.explain import NEWEST_OFFSETS, Story, TopicSearch, from_file
from ragweir.streams.analysis.originals import Original, in_evaluation, in_files, in_kafka, located
from ragweir.streams.analysis.traces.story import TraceStory
from ragweir.streams.commands.app import app, out, settings
from ragweir.streams.commands.options import MapFile
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.screens.story import StoryScreen, place, redriven_from, searched
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.text.terminal import printable, printable_json
from ragweir.streams.services.shared.routing_rows import shipped_selection
from ragweir.streams.settings import Settings

_TEXT_DEFAULT = "Default: on with --file while the scored file is there."


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
    text: Annotated[
        bool | None,
        typer.Option(
            "--text/--no-text", show_default=False, help=f"Show question, answer and passages. {_TEXT_DEFAULT}"
        ),
    ] = None,
    evidence: Annotated[
        bool | None,
        typer.Option(
            "--evidence/--no-evidence",
            help="Show the sentences of the answer with words in no passage, and the passage nearest to each. "
            + _TEXT_DEFAULT,
            show_default=False,
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="File that the evaluations of --file were scored from, or its folder, for the texts. Default: the one "
            "that they name, beside --file or in the current folder.",
        ),
    ] = None,
    map_file: MapFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the story of one event: where it was read, its scores and their reasons, its routing, judge and windows.

    Evaluations have no text. `--text` and `--evidence` read the event again where it was read: in Kafka by the settings
    of the input, which keeps it for its retention time, and with `--file` in the file that was scored. The words of the
    answer that no passage has are listed by sentence, with the passage that shares most words with the sentence, which
    is the one that supports it or that it contradicts. The texts are those of the event with this id or not shown.

    The event id is the key of the records, so that one partition of each topic is searched. The windows are those that
    the present settings give the event. Where a routing row selected, the row is shown, with the days and events that
    it was planned from, and how the event's probability follows from it. A request to the judge that has no answer yet
    is shown with the topic where it waits. Of an event that was assembled from an OpenTelemetry trace, the tree of its
    spans is shown, with the use of each; a trace id alone shows a trace that gave no interaction.
    With `--file`, a number that is no id is that of the line or row that an event was read from.
    Exit status 1 when nothing is found.
    """
    since_s, effective = _seconds(since), settings(input={"map": map_file})
    if events is not None and file is None:
        raise typer.BadParameter("--events is for --file: in Kafka an event is read from the input topic")
    with Bars() as bars:
        if file is not None:
            story = from_file(file, event_id, effective, bars.watch)
        else:
            story = TopicSearch(effective, event_id, run, bars.watch, newest, since_s).story()
    if not story.known:
        where = " nor in ".join(map(searched, story.searched))
        raise PermanentError(f"there is nothing of the event {shown(event_id, 200)} in {where}")
    with_text = not evidence if text is None else text
    with_evidence = not text if evidence is None else evidence
    if with_text or with_evidence:
        story.original = _original(story, effective, file, events, asked=bool(text or evidence))
    rules = EvidenceRules.of(effective)
    if as_json:
        shown_texts = _texts(story, rules, text=with_text, evidence=with_evidence)
        data = orjson.dumps(_data(story, rules.catalogue) | shown_texts, option=orjson.OPT_UTC_Z | orjson.OPT_INDENT_2)
        typer.echo(printable_json(data))
    else:
        shipped = shipped_selection(effective.routing)
        screen = StoryScreen(
            out,
            rules,
            effective.windows,
            shipped=shipped,
            text=with_text,
            evidence=with_evidence,
        )
        screen.show(story)
        if effective.console.public_url and story.evaluation is not None:
            out.say(f"In the console: {effective.console.public_url}{answer_path(story.event_id)}")


def _original(
    story: Story, effective: Settings, file: Path | None, events: Path | None, *, asked: bool
) -> Original | None:
    """Read the event of a story again; None if there is none, or nobody asks for it and it is not at hand."""
    evaluation = story.evaluation
    if evaluation is None:
        return None
    if file is None:
        kept = in_evaluation(evaluation)
        return in_kafka(effective, evaluation, story.source) if asked and kept is None else kept
    path = located(evaluation.source.topic if evaluation.source else "", events, file)
    if path is not None:
        return in_files(effective, evaluation, path)
    source = evaluation.source.topic if evaluation.source else "that was scored"
    missing = f"the file {shown(source, 200)} is neither beside {file} nor here; name it with --events"
    return in_evaluation(evaluation) or (Original(None, "", missing) if asked else None)


def _texts(story: Story, rules: EvidenceRules, *, text: bool, evidence: bool) -> dict[str, Any]:
    original = story.original
    if original is None or story.evaluation is None:
        return {}
    if (event := original.interaction) is None:
        return {"text": None, "text_missing": original.why}
    texts: dict[str, Any] = {"text": {"at": original.place, **text_data(event)}} if text else {}
    return texts | ({"evidence": evidence_data(answer_evidence(story.evaluation, original, rules))} if evidence else {})


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
