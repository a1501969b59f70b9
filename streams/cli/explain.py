"""`ragweir explain`: one event's whole story, for people or as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from ragweir.errors import PermanentError
from ragweir.metrics.catalogue import everything
from ragweir.metrics.metric import Metric
from ragweir.schemas.codec.json import encode
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.window import duration_s
from ragweir.streams.cli.app import app, err, out, settings
from ragweir.streams.dead_letters.listing import Letter, position, shown
from ragweir.streams.explain import NEWEST_OFFSETS, Searched, Story, TopicSearch, Watch, from_file
from ragweir.streams.kafka.reader import Moved, StoredRecord
from ragweir.streams.settings import WindowSettings
from ragweir.streams.terminal import printable_json

_DIRECTION = {"higher": "higher is better", "lower": "lower is better", "neither": "neither way is better"}
_REASON = 400
"""Characters of an explanation or a piece of evidence that are shown."""


def _duration(text: str | None) -> int | None:
    try:
        return None if text is None else duration_s(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@app.command()
def explain(
    event_id: Annotated[str, typer.Argument(help="The event's id.")],
    file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Look in this file of evaluations, and ask no broker."),
    ] = None,
    run: Annotated[str | None, typer.Option(help="Look in the topics of this replay.")] = None,
    since: Annotated[str | None, typer.Option(help="Look at what was written within this time, such as 2h.")] = None,
    newest: Annotated[
        int, typer.Option(min=1, help="Look at this many of the newest offsets of a partition, without --since.")
    ] = NEWEST_OFFSETS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Tell one event's story: where it came from, its scores, and why; its routing, its judge, its windows.

    Of each topic the one partition is looked at that the id, as the records' key, belongs in. Windows are those that
    the settings give it now. Where the judge was asked and has not answered, it tells whether the request waits. Exit
    status 1 when nothing is found.
    """
    within = _duration(since)
    effective = settings()
    with _progress() as watch:
        if file is not None:
            story = from_file(file, event_id, effective, watch)
        else:
            story = TopicSearch(effective, event_id, run, watch, newest, within).story()
    if not story.known:
        looked = " nor in ".join(_looked(each) for each in story.searched)
        raise PermanentError(f"there is nothing of the event {shown(event_id, 200)} in {looked}")
    catalogue = {metric.name: metric for metric in everything(effective.metrics.packs)}
    if as_json:
        data = orjson.dumps(_data(story, catalogue), option=orjson.OPT_UTC_Z | orjson.OPT_INDENT_2)
        typer.echo(printable_json(data))
        return
    _tell(story, catalogue, effective.windows)


def _looked(each: Searched) -> str:
    how = "all" if each.whole else "only the newest"
    return f"{each.where} ({how} {each.records:,} records)"


# For machines.


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
        "windows": story.windows,
        "waits": story.pending,
        "dead_letters": [
            {
                "at": _place(each.record),
                "written_ms": each.record.timestamp_ms,
                "by": each.service,
                **each.details.model_dump(exclude_none=True),
            }
            for each in story.letters
        ],
        "looked": story.searched,
    }


def _record(kept: StoredRecord) -> dict[str, Any]:
    before = _redriven(kept)
    return {
        "at": _place(kept),
        "written_ms": kept.timestamp_ms,
        "redriven": before.model_dump(exclude_none=True) if before else None,
    }


# For people.


def _tell(story: Story, catalogue: Mapping[str, Metric], windows: WindowSettings) -> None:
    _line(f"Event {shown(story.event_id)}", "bold")
    evaluation = story.evaluation
    if evaluation is None:
        _line("It was not evaluated, as far as was looked.")
    else:
        _origin(story, evaluation)
        _scores(evaluation, catalogue)
        _routing(story, evaluation)
        _windows(story, windows)
    for each in story.letters:
        _letter(each)
    _line(f"\nLooked in {', '.join(map(_looked, story.searched))}.", "dim")


def _origin(story: Story, evaluation: Evaluation) -> None:
    _line(f"at {evaluation.event_time.isoformat()}")
    names = "application", "tenant", "environment", "pipeline_version", "model", "question_id", "session_id", "trace_id"
    facts = [f"{name} {shown(value, 200)}" for name in names if (value := getattr(evaluation, name)) is not None]
    facts += [f"labels.{shown(name, 100)} {shown(value, 200)}" for name, value in evaluation.labels.items()]
    if facts:
        _line(", ".join(facts))
    source = evaluation.source
    if source is not None:
        held = story.source
        gone = ", which Kafka no longer holds, or does not show" if story.source_searched else ""
        written = f", written {_time(held.timestamp_ms)}" if held else gone
        _line(f"read at {position(source.topic, source.partition, source.offset, source.index)}{written}")
        if held is not None and (before := _redriven(held)) is not None:
            first = _read_at(before)
            _line(f"redriven: first read at {first} and refused as {before.error_class}: {shown(before.message)}")
    evaluated = f"evaluated {story.times} times; the newest is " if story.times > 1 else ""
    run = f", run {shown(evaluation.run_id)}" if evaluation.run_id else ""
    _line(f"{evaluated}{evaluation.stage}, catalogue {shown(evaluation.catalogue_version)}{run}, {story.found_at}")
    if evaluation.document_ids:
        _line(f"documents {', '.join(shown(each, 100) for each in evaluation.document_ids)}")
    if evaluation.flags:
        _line(f"flags {', '.join(shown(flag, 200) for flag in evaluation.flags)}")


def _scores(evaluation: Evaluation, catalogue: Mapping[str, Metric]) -> None:
    values: dict[str, float | str | None] = {**evaluation.scores, **evaluation.categories}
    order = {name: place for place, name in enumerate(catalogue)}
    missing: defaultdict[str, list[str]] = defaultdict(list)
    _line("\nScores", "bold underline")
    for name in sorted(values, key=lambda each: order.get(each, len(order))):
        value = values[name]
        if value is None:
            missing[evaluation.reasons.get(name, "no reason is given")].append(name)
        else:
            _score(name, value, evaluation, catalogue.get(name))
    if missing:
        _line("\nNot computed", "bold underline")
    for reason, names in missing.items():
        _line(f"  {shown(reason)}:")
        _indented(", ".join(map(shown, names)), "dim")


def _score(name: str, value: float | str, evaluation: Evaluation, metric: Metric | None) -> None:
    """One score with its meaning, and what it rests on."""
    line = Text(f"  {shown(name)}  ", "bold")
    line.append(_value(value, metric), "default")
    if metric is not None:
        line.append(f"  {metric.unit}, {_DIRECTION[metric.better]}", "dim")
    out.print(line, soft_wrap=True)
    if metric is not None:
        _indented(metric.meaning, "dim")
    if name in evaluation.explanations:
        _indented(f"the judge: {shown(evaluation.explanations[name], _REASON)}")
    for piece in evaluation.evidence.get(name, ()):
        _indented(f"- {shown(piece, _REASON)}")


def _value(value: float | str, metric: Metric | None) -> str:
    if isinstance(value, str):
        return shown(value)
    if metric is not None and metric.unit == "boolean":
        return "yes" if value else "no"
    return f"{value:,.6g}"


def _routing(story: Story, evaluation: Evaluation) -> None:
    _line("\nJudge", "bold underline")
    if not evaluation.decision.suites:
        _line("  no judge was set up, or none of its suites was on")
    for each in evaluation.decision.suites:
        because = f", because of {', '.join(map(shown, each.because))}" if each.because else ""
        _line(f"  {shown(each.suite)}: {each.status.replace('_', ' ')}; probability {each.probability:g}{because}")
    judge = evaluation.judge
    if judge is not None:
        tokens = f"{judge.input_tokens:,} input and {judge.output_tokens:,} output tokens"
        cached = ", all from the cache" if judge.cached else ""
        _line(f"  {shown(judge.model)}, {tokens}, ${judge.cost_usd:,.6f}{cached}; {shown(judge.prompt_version)}")
    for wait in story.pending:
        since = f" since {wait.since.isoformat()}" if wait.since else ""
        until = f", not before {wait.not_before.isoformat()}" if wait.not_before else ""
        why = f": {shown(wait.why, _REASON)}" if wait.why else ""
        tried = f", given up {wait.attempts} times" if wait.attempts else ""
        _line(f"  waits in {wait.topic}{since}{until}{tried}{why}")


def _windows(story: Story, windows: WindowSettings) -> None:
    _line("\nWindows", "bold underline")
    if not story.windows:
        _line("  none: its time is at the end of the calendar")
        return
    for each in story.windows:
        _line(f"  {each.window}  {each.start.isoformat()} to {each.end.isoformat()}")
    labels = ", ".join(f"{name}={shown(value) or '(none)'}" for name, value in story.windows[0].dimensions.items())
    room = f"{windows.max_series} label sets before it, or {windows.new_series_per_hour} new ones within an hour"
    _line(f"  counted under {labels}, unless {room} left no room")


def _letter(each: Letter) -> None:
    said = each.details
    _line(f"\nDead letter {_place(each.record)}", "bold underline")
    refused = f"refused {_time(each.record.timestamp_ms)} by {shown(each.service)}"
    _line(f"  {refused} as {said.error_class}: {shown(said.message)}")
    _line(f"  read at {_read_at(said)}")


def _read_at(said: DeadLetter) -> str:
    return position(said.source_topic, said.source_partition, said.source_offset, said.source_index)


def _redriven(kept: StoredRecord) -> DeadLetter | None:
    """What a record of the redrive topic says of the dead letter that it was."""
    try:
        return DeadLetter.from_headers(kept.headers)
    except ValueError:
        return None


def _place(kept: StoredRecord) -> str:
    return f"{kept.topic}/{kept.partition}/{kept.offset}"


def _time(epoch_ms: int | None) -> str:
    """A record's own time, which may be any number."""
    try:
        return "at a time unknown" if epoch_ms is None else datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return f"{epoch_ms} ms"


def _line(text: str, style: str = "") -> None:
    out.print(Text(text, style), soft_wrap=True)


def _indented(text: str, style: str = "") -> None:
    out.print(Padding(Text(text, style), (0, 0, 0, 6)))


@contextmanager
def _progress() -> Iterator[Watch]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:

        def watch(what: str, total: int) -> Moved:
            task = progress.add_task(shown(what), total=total)
            return lambda steps: progress.advance(task, steps)

        yield watch
