"""`ragweir blame`: which document, version, tool or other value carries the excess of bad answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import orjson
import typer

from ragweir.streams.analysis.blame.answer_scope import BlameScope, blame_scope
from ragweir.streams.analysis.blame.blame_page import page
from ragweir.streams.analysis.blame.blame_report import REST, BlameReport
from ragweir.streams.analysis.blame.blaming import blame_criterion, blame_rows, new_codes
from ragweir.streams.analysis.blame.facet_rows import FacetRows, read_facet_rows
from ragweir.streams.analysis.blame.from_topic import DocumentsTopic, TopicQuestion
from ragweir.streams.analysis.blame.original_events import OriginalEvents
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
from ragweir.streams.runtime.kafka.record_fetcher import RecordFetcher
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.terminal import printable, printable_json
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import Settings
from ragweir.streams.settings.time_arguments import time_argument

_DAY = timedelta(hours=24)


@app.command()
def blame(
    metric: Annotated[
        str | None,
        typer.Argument(
            metavar="SLO|METRIC",
            show_default=False,
            help="Metric by which answers are bad, or SLO, whose dimensions they have. Default: the first SLO.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Argument(
            exists=True,
            dir_okay=False,
            show_default=False,
            help="File of evaluations, as `ragweir score --out` writes it. Default: the topic `documents`.",
        ),
    ] = None,
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
        str | None,
        typer.Option(
            help="File of earlier evaluations, or without FILE the start of the time before `--from`: a value is "
            "compared with itself there. Default: with the rest.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Start of the answers: RFC 3339 time, or age such as 24h or 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="End of the answers, written as `--from` is.")] = None,
    run_id: Annotated[str | None, typer.Option(help="Replay whose rows are read in place of live ones.")] = None,
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

    `ragweir blame grounded --from 24h`, or `ragweir blame unsupported_risk evaluations.jsonl --events events.jsonl`

    Without FILE the rows of the topic `documents` are read, which evaluate and judge write with `blame.enabled`: by
    default those of the last 24 hours. They have verdicts on the metrics of `[[slo]]` and `[[labels.questions]]`.

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
    start, end = (
        time_argument(each, flag, now_is) if each else None for each, flag in ((since, "--from"), (until, "--to"))
    )
    wants_texts = html is not None or not as_json
    if file is None:
        if events is not None:
            raise typer.BadParameter("--events belongs to FILE; without it Kafka has the events")
        earlier = time_argument(against, "--against", now_is) if against else None
        asked = TopicQuestion(metric, start or now_is - _DAY, end or now_is, earlier, threshold, run_id)
        report, texts = _of_topic(effective, asked, now_is)
    else:
        if run_id is not None or metric is None:
            raise typer.BadParameter("--run-id reads Kafka, and a FILE is read without it")
        check_distinct(file, reference := _file(against), html)
        files = _Files(file, reference, events, has_map=map_file is not None)
        scope = blame_scope(metric, effective, start, end)
        report, texts = files.blamed(effective, metric, threshold, scope, now_is, wants_texts=wants_texts)
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


def _file(against: str | None) -> Path | None:
    """Return the file of `--against`.

    Raises:
        BadParameter: if it is none.
    """
    if against is None:
        return None
    if not Path(against).is_file():
        raise typer.BadParameter(f"File '{against}' does not exist.", param_hint="'--against'")
    return Path(against)


@dataclass(frozen=True, slots=True)
class _Files:
    """The files that are read."""

    file: Path
    against: Path | None
    events: Path | None
    has_map: bool

    def blamed(
        self,
        effective: Settings,
        metric: str,
        threshold: float | None,
        scope: BlameScope,
        now_is: datetime,
        *,
        wants_texts: bool,
    ) -> tuple[BlameReport, Mapping[str, EventTexts]]:
        """Return the causes, with the texts of examples."""
        asked = blame_criterion(metric, threshold, effective, known_catalogue(effective).metrics)
        codes, stop, against = new_codes(effective), Stop(), self.against
        with Bars() as bars:

            def read(evaluations: Path, own: BlameScope) -> FacetRows:
                with bars.shown(f"Reading {evaluations.name}", evaluations.stat().st_size) as moved:
                    return read_facet_rows(evaluations, asked, codes, moved, own)

            now = read(self.file, scope)
            before = None if against is None else read(against, blame_scope(metric, effective))
        for rows in filter(None, (now, before)):
            if self.events is not None:
                kept_of(effective, self.events, rows.rows, stop, rows.add_event, has_map=self.has_map)
        silences = Silences(effective.blame.silenced, now_is)
        report = blame_rows(asked, now, codes, before, REST if against is None else str(against), silences)
        if self.events is None or not report.causes or not wants_texts:
            return report, {}
        ids = {each for cause in report.causes for each in (*cause.bad_examples, *cause.good_examples)}
        return report, kept_of(effective, self.events, ids, stop, EventTexts.of, has_map=self.has_map)


def _of_topic(
    effective: Settings, asked: TopicQuestion, now_is: datetime
) -> tuple[BlameReport, Mapping[str, EventTexts]]:
    """Return the causes in the topic `documents`, with the texts of examples."""
    with Bars(lines=True) as bars, closing(RecordFetcher(effective)) as fetcher:
        originals = OriginalEvents(effective, fetcher)
        report = DocumentsTopic(effective, asked).report(bars.shown, originals, now_is)
    events = [each for each in originals.found.values() if each is not None]
    return report, {each.event_id: texts for each in events if (texts := EventTexts.of(each)) is not None}
