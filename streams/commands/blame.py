"""`ragweir blame`: which document, version, tool or other value carries the excess of bad answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from ragweir.streams.analysis.blame.answer_scope import BlameScope, blame_scope
from ragweir.streams.analysis.blame.blame_page import page
from ragweir.streams.analysis.blame.blame_report import REST
from ragweir.streams.analysis.blame.blaming import blame_criterion, blame_rows, new_codes
from ragweir.streams.analysis.blame.facet_rows import FacetRows, read_facet_rows
from ragweir.streams.analysis.blame.silences import Silences
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.commands.app import FAILURE, app, err, out, settings
from ragweir.streams.commands.inputs import check_distinct
from ragweir.streams.commands.options import MapFile
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.reports import write
from ragweir.streams.commands.screens.blame_tables import BlameScreen
from ragweir.streams.commands.stopping import Stop
from ragweir.streams.commands.wanted_events import kept_of
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.terminal import printable, printable_json
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings.time_arguments import time_argument


@app.command()
def blame(
    metric: Annotated[
        str,
        typer.Argument(
            metavar="SLO|METRIC", help="Metric by which answers are bad, or SLO, whose dimensions they have."
        ),
    ],
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            show_default=False,
            help="File of evaluations, as `ragweir score --out` writes it.",
        ),
    ],
    events: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="File or folder of the interactions that were scored: their chunks, tools and texts are values too.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Threshold between bad and good. Default: that of the first SLO or question on the metric, else half "
            "of its bounds."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="File of earlier evaluations: a value is compared with itself in this file. Default: with the rest.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Start of the answers: RFC 3339 time, or age such as 24h or 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="End of the answers, written as `--from` is.")] = None,
    fail_on: Annotated[
        int | None,
        typer.Option(min=1, help="Number of bad answers beyond the expected ones from which a cause is a failure."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="File for a report with examples side by side, HTML without scripts.")
    ] = None,
    map_file: MapFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which values carry the excess of bad answers: documents, versions, tenants, labels, tools and others.

    `ragweir blame unsupported_risk evaluations.jsonl --events events.jsonl`

    Each value with at least 20 answers is compared with the rest of the same application, version and hour. It is a
    cause if it has more bad answers than chance gives, at a false discovery rate of 5 % over all values. A session
    counts once for a value, and so does a question. Causes are ranked by their bad answers beyond the expected ones. A
    value that is no worse without the answers of a cause is not named beside it; one that is bad only where another
    cause is present is named within it. A cause is worse than the rest; that it changed is shown by `--against`, where
    it is worse than before.

    A cause of `[[blame.silenced]]` is shown with its reason until its end, and is no failure. `--from` and `--to` limit
    the file, not that of `--against`. With `--events`, answers to the same words without a `question_id` are answers to
    one question.

    `--fail-on N` makes the exit status 1 if a cause has N bad answers or more beyond the expected ones, and if there is
    too little data. Usage errors have exit status 2.
    """
    effective, now_is = settings(input={"map": map_file}), machine.now()
    check_distinct(file, against, html)
    asked = blame_criterion(metric, threshold, effective, known_catalogue(effective).metrics)
    codes, stop = new_codes(effective), Stop()
    has_map = map_file is not None
    start, end = (
        time_argument(each, flag, now_is) if each else None for each, flag in ((since, "--from"), (until, "--to"))
    )
    with Bars() as bars:

        def read(evaluations: Path, scope: BlameScope) -> FacetRows:
            with bars.shown(f"Reading {evaluations.name}", evaluations.stat().st_size) as moved:
                return read_facet_rows(evaluations, asked, codes, moved, scope)

        now = read(file, blame_scope(metric, effective, start, end))
        before = None if against is None else read(against, blame_scope(metric, effective))
    for rows in filter(None, (now, before)):
        if events is not None:
            kept_of(effective, events, rows.rows, stop, rows.add_event, has_map=has_map)
    silences = Silences(effective.blame.silenced, now_is)
    report = blame_rows(asked, now, codes, before, REST if against is None else str(against), silences)
    texts: dict[str, EventTexts] = {}
    if events is not None and report.causes and (html or not as_json):
        ids = {each for cause in report.causes for each in (*cause.bad_examples, *cause.good_examples)}
        texts = kept_of(effective, events, ids, stop, EventTexts.of, has_map=has_map)
    if html:
        write(html, page(report, texts).encode(errors="replace"))
    if as_json:
        data = orjson.dumps(report.data(), option=orjson.OPT_UTC_Z | orjson.OPT_INDENT_2)
        typer.echo(printable_json(data))
    else:
        BlameScreen(out, report, texts).show()
    failures = report.failures(fail_on) if fail_on is not None else []
    for failure in failures:
        err.say(f"failed: {printable(failure, None)}", "red")
    if failures:
        raise typer.Exit(FAILURE)
