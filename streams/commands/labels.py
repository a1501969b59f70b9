"""`ragweir labels`: draws answers, asks people about them, and reports how far a metric agrees with them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import orjson
import typer

from ragweir.metrics.criterion import Criterion, criterion
from ragweir.metrics.people.planning import ASSUMED
from ragweir.streams.analysis.labels.agreement_page import page
from ragweir.streams.analysis.labels.criteria import criteria, question_named
from ragweir.streams.analysis.labels.drawing import draw as draw_answers
from ragweir.streams.analysis.labels.drawing import labels_for_width
from ragweir.streams.analysis.labels.evaluated import read_evaluated
from ragweir.streams.analysis.labels.on_topics import DrawWriter, labels_now, undrawn
from ragweir.streams.analysis.labels.report import report as report_on
from ragweir.streams.analysis.labels.store import written
from ragweir.streams.commands.app import app, err, out, settings, shared_flags
from ragweir.streams.commands.labels_import import LabelsFile, export, import_, withdraw
from ragweir.streams.commands.labels_rate import rate
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.reports import write
from ragweir.streams.commands.screens.agreement_table import agreement_tables
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.terminal import printable, printable_json
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import Settings
from ragweir.streams.settings.labels import Question

commands = typer.Typer(help="Label answers, and see how far the scores agree with people.", no_args_is_help=True)
app.add_typer(commands, name="labels")

_COUNT = 100
"""Number of answers of a draw, unless more is said."""
Evaluations = Annotated[
    Path | None,
    typer.Argument(
        exists=True,
        dir_okay=False,
        show_default=False,
        help="File of evaluations, as `ragweir score --out` writes it. Default: the topic of evaluations.",
    ),
]
AskedQuestion = Annotated[
    str | None, typer.Option(help="Name of a question of labels.questions. Default: the first, `supported` as shipped.")
]


@commands.callback()
def labels() -> None:
    """Label answers, and see how far the scores agree with people.

    `draw` chooses answers of a file of evaluations, `rate` asks about them in the terminal, `import` takes labels of
    other tools, and `report` says how far a metric agrees with the labels. `export` writes labels as a table, and
    `withdraw` takes them back.
    """


commands.command("import")(import_)
commands.command("export")(export)
commands.command("withdraw")(withdraw)


@commands.command()
def draw(
    file: Evaluations = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", help="File for the queue: the draw, and one line for each answer. Required with a file."),
    ] = None,
    question: AskedQuestion = None,
    count: Annotated[
        int | None, typer.Option(min=1, max=100_000, help=f"Number of answers to draw. Default: {_COUNT}.")
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=1,
            help="Draw as many answers as make the 95 % limits of the rate of bad answers this close, in place of "
            f"--count. Assumed is that people call {ASSUMED.flagged:.0%} of the answers bad that the metric calls bad, "
            f"and {ASSUMED.passed:.0%} of the others.",
        ),
    ] = None,
    application: Annotated[str | None, typer.Option(help="Application of the events. Default: all.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="Metric by whose verdicts answers are drawn. Default: that of the question.")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Threshold of --metric. Default: 0.5.")] = None,
    double: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the answers that a second person is asked about, too.")
    ] = 0.0,
) -> None:
    """Draw answers to be labelled: half from those that the metric calls bad, half from those that it calls good.

    The draw records with what probability each answer was chosen, so that the labels stand for all events, judged or
    not. The queue is in random order: if rating ends early, the answers that were rated are a fair part. The events of
    the file are those of one range of time; labels of several draws are combined if their ranges do not overlap.

    Without a file the evaluations of the last `labels.range` are read from their topic, from the end of the last draw
    of the question and application on, and the draw and its answers are written to `labels.draws`.
    """
    if width is not None and count is not None:
        raise typer.BadParameter("--width chooses the number of answers; leave out --count")
    effective = settings()
    asked = _question(effective, question)
    chosen = _criteria(effective, asked, metric, threshold)
    if file is not None and to is None:
        raise typer.BadParameter("--out is required with a file of evaluations")
    now, writer, notes = machine.now(), None, list[str]()
    with Bars() as bars:
        if file is not None:
            with bars.shown(f"Reading {file.name}", file.stat().st_size) as moved:
                evaluated = read_evaluated(file, chosen, effective.windows.dimensions, moved)
        else:
            writer = DrawWriter(effective)  # Before the draws are read, as it ends any that is under way.
            evaluated, notes = undrawn(effective, chosen, asked.name, application, now, bars.shown)
    place = next((each for each in range(len(chosen)) if evaluated.has_values(each)), 0)
    if width is not None:
        count = labels_for_width(evaluated, place, application, width)
        notes.append(
            f"{count:,} labels make the limits of the rate of bad answers about {width:g} wide, if people call "
            f"{ASSUMED.flagged:.0%} of the answers bad that {chosen[place].metric} calls bad, and {ASSUMED.passed:.0%} "
            "of the others"
        )
    drawn = draw_answers(evaluated, place, asked.name, count or _COUNT, application, double, machine.randomness, now)
    if writer is not None:
        writer.write(drawn)
    if to is not None:
        write(to, written([drawn.draw, *drawn.answers]))
    for note in (*notes, *drawn.notes):
        err.say(note)
    made = drawn.draw
    err.say(
        f"drew {len(drawn.answers):,} of {made.events:,} events by {made.metric}: {made.bad.drawn:,} of "
        f"{made.bad.judged.count:,} bad ones, {made.good.drawn:,} of {made.good.judged.count:,} good ones"
    )
    line = ["rate", "--question", asked.name]
    if to is not None:
        line = ["rate", str(to), "--events", "EVENTS", "--out", "labels.jsonl"]
    err.say(f"next: {shlex.join(['ragweir', *shared_flags(), 'labels', *line])}")


commands.command("rate")(rate)


@commands.command()
def report(
    file: LabelsFile = None,
    evaluations: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="File of the evaluations of the events. Default: the scores that drawn labels carry.",
        ),
    ] = None,
    question: Annotated[str | None, typer.Option(help="Name of a question. Default: all of the settings.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric to report in place of those of the questions.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Threshold of --metric. Default: 0.5.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: Annotated[Path | None, typer.Option(help="File for a report with a plot, HTML without scripts.")] = None,
) -> None:
    """Report how far metrics agree with people: sensitivity, specificity, precision, kappa, rate of bad answers.

    Each number has 95 % limits. TPR is the share of the answers that people call bad that the metric calls bad, TNR the
    share of those that they call good that it calls good. Of drawn answers the numbers speak of all events in the range
    of the draw; of imported ones of the labelled answers alone. Answers about which people disagree or cannot tell
    widen the limits.
    """
    effective = settings()
    asked = effective.labels.questions if question is None else (_question(effective, question),)
    chosen = [(each, _criteria(effective, each, metric, threshold)) for each in asked]
    with Bars() as bars:
        given = labels_now(effective, file, bars.shown)
        evaluated = None
        if evaluations is not None:
            every = [found for _, own in chosen for found in own]
            with bars.shown(f"Reading {evaluations.name}", evaluations.stat().st_size) as moved:
                evaluated = read_evaluated(evaluations, every, effective.windows.dimensions, moved)
    found = report_on(given, chosen, evaluated)
    if html:
        write(html, page(found).encode(errors="replace"))
    if as_json:
        data = orjson.dumps(found.data(), option=orjson.OPT_UTC_Z | orjson.OPT_INDENT_2)
        typer.echo(printable_json(data))
        return
    for table in agreement_tables(found):
        out.print(table)
    for note in found.notes:
        out.say(printable(note, None))


def _question(effective: Settings, name: str | None) -> Question:
    return effective.labels.questions[0] if name is None else question_named(effective.labels, name)


def _criteria(effective: Settings, asked: Question, metric: str | None, threshold: float | None) -> list[Criterion]:
    if threshold is not None and metric is None:
        raise typer.BadParameter("--threshold is for --metric; the settings have the threshold of a question's metric")
    catalogue = known_catalogue(effective).metrics
    found = criteria(asked, catalogue)
    if metric is None:
        return found
    own = next((each for each in found if each.metric == metric), None) or criterion(metric, 0.5, catalogue)
    return [own if threshold is None else replace(own, threshold=threshold)]
