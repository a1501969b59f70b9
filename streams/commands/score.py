"""`ragweir score`: scores files, and judges the selected events on request, without a broker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, BinaryIO

import orjson
import typer

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.schemas.codec.intake import TIME_DEFAULTED
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation_record import read_evaluation
from ragweir.streams.analysis.score.processes import ScoringProcesses
from ragweir.streams.commands.app import FAILURE, STOPPED, app, err, settings
from ragweir.streams.commands.endpoint_judging import judging_of
from ragweir.streams.commands.inputs import STANDARD_INPUT, check_distinct, read_inputs, total_size
from ragweir.streams.commands.options import DefaultTime, MapFile
from ragweir.streams.commands.progress import Bars, FileProgress
from ragweir.streams.commands.rejections import Rejections
from ragweir.streams.commands.scored_files import ScoredFiles, check_times, no_time
from ragweir.streams.commands.screens.evaluation_summary import EvaluationSummary
from ragweir.streams.commands.stopping import Stop
from ragweir.streams.commands.worst import WorstAnswers
from ragweir.streams.files.formats import Format
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Emission, Outcome, Record
from ragweir.streams.runtime.text.terminal import dollars, printable, printable_json
from ragweir.streams.services.aggregate.windowing import Windowing
from ragweir.streams.services.evaluate.agent import EvaluateConfig
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.judge.judged_files import JudgedFiles
from ragweir.streams.services.judge.probe import unpriced
from ragweir.streams.services.shared.from_settings import is_ready, read_map
from ragweir.streams.services.shared.routing_rows import RowSource, RowTable
from ragweir.streams.services.shared.row_file import read_row_file
from ragweir.streams.settings import Settings
from ragweir.streams.settings.permissions import create, create_later
from ragweir.streams.settings.time_arguments import default_time_argument


@app.command()
def score(
    file: Annotated[
        Path,
        typer.Argument(help="File of interactions, or a folder of such files, read by name; - is standard input."),
    ],
    map_file: MapFile = None,
    out: Annotated[
        Path | None, typer.Option(help="File for the evaluations, as JSON lines. Default: standard output.")
    ] = None,
    windows: Annotated[Path | None, typer.Option(help="File for the windows of all sizes, as JSON lines.")] = None,
    rejected: Annotated[
        Path | None, typer.Option(help="File for the events that could not be scored, with the reasons, as JSON lines.")
    ] = None,
    default_time: DefaultTime = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Add the evidence of the scores to each evaluation.")
    ] = False,
    judge: Annotated[
        bool, typer.Option("--judge", help="Judge the events that routing selects, at cost, by judge.base_url.")
    ] = False,
    control: Annotated[
        Path | None,
        typer.Option(help="File of routing rows, as `ragweir routing plan --export FILE` writes them, to select by."),
    ] = None,
    opens: Annotated[
        bool, typer.Option("--open", help="Show the scored answers on pages afterwards, as `ragweir console` does.")
    ] = False,
    workers: Annotated[
        int,
        typer.Option(min=1, max=256, help="Number of processes that score; 1 scores in the process of the command."),
    ] = 1,
) -> None:
    """Score files of interactions or OpenTelemetry traces, without a broker.

    JSON lines, JSON arrays, CSV, TSV and Parquet are read, also compressed by gzip or Zstandard and in UTF-16; the
    format is recognised by the content. The header row of CSV names the fields, and its empty cells are absent.

    Export requests of traces and log records (OTLP) are read in protobuf and JSON, as a Collector's file or kafka
    exporter writes them. The spans of all files are put together by trace, and the interactions of each trace are
    scored; the share of traces that give a full interaction is reported, with the line to change for the others.

    Evaluations are written to `--out` or standard output, as JSON lines; if nothing is scored, the files of `--out` and
    `--windows` keep what they hold. The first three events that could not be
    scored are reported as they come, and all of them by reason at the end, with the lines of a map that would read
    them. A terminal shows a summary. New files are readable by their owner alone. Exit status 1 when no event could be
    scored, or a file could not be read to its end.

    The three answers with the highest unsupported_risk are named at the end, on standard error, without refusals and
    empty answers: each with its row, its id unless a map makes it, its question, the words of the answer that are in no
    passage, and the passage nearest to the sentence with most of them. With `--out` the command that shows the first of
    them follows.

    Events without a time get `--default-time`, or the time when their file was changed, and the flag time_defaulted.
    `--windows` writes aggregates by event time, whose bytes do not depend on the order of the interactions; it needs
    events with times, or `--default-time`.

    If there is a judge, each evaluation has the decision which suites judge its event. `--control` makes it with the
    rows of a file, as evaluate does with those of the topic `control`; without it the shipped row holds.

    `--open` prints the address of pages with the answers, their evidence and a place to label them. No browser is
    started, since other users of the machine would see the token of the address in the list of processes.

    `--workers` scores large files on several cores, with the same output in the same order. Each process takes a second
    to start, and outputs come in groups of 64 events. Traces are put together and scored by one process.

    With `--judge` a judged evaluation follows the scored one of each selected event, not always immediately. The whole
    run may cost `judge.daily_budget_usd`; events over the budget are counted and not judged, which is no failure. An
    endpoint that cannot be used at the start is an error; later failures are retried until they end.

    Ctrl-C stops reading: events that were read are finished, the output holds whole lines, and the place of the last
    event is reported; the exit status is 130. A second Ctrl-C ends the process immediately.
    """
    effective = settings(input={"map": map_file})
    check_distinct(file, out, windows, rejected, control)
    if opens and out is None:
        raise typer.BadParameter("--open shows the file of --out, which is not named")
    config = _config(effective, file.name, default_time, control, explain=explain)
    inputs = read_inputs(file)
    if windows and config.default_time is None:
        check_times(inputs, config)
    aggregator, stop = Aggregator(config.catalogue), Stop()
    summary = EvaluationSummary(aggregator, judging=judge)
    map_ = effective.input.map
    rejections = Rejections(read_map(map_) if map_ else None, is_ready(map_))
    with ExitStack() as stack:
        stack.enter_context(_naming_files(file, out, windows, rejected))
        first = stack.enter_context(inputs[0].open())
        judging = stack.enter_context(judging_of(effective, stop)) if judge else None
        stack.enter_context(stop.listening())
        sink = stack.enter_context(_open(out, create_later)) if out else _standard_output()
        windows_sink = stack.enter_context(_open(windows, create_later)) if windows else None
        rejected_sink = stack.enter_context(_open(rejected, create)) if rejected else None
        bars = stack.enter_context(Bars())
        progress = FileProgress(bars, "Scoring", total_size(inputs))
        processes = stack.enter_context(closing(ScoringProcesses(workers))) if workers > 1 else None
        scored = ScoredFiles(inputs, config, stop, progress, file, effective, processes, map_file is not None)
        worst = WorstAnswers(scored, hashed_ids=rejections.mapping is not None and rejections.mapping.hashes_ids)
        windowing = Windowing(effective.windows, aggregator) if windows_sink else None
        writer = _ScoreWriter(scored, summary, worst, rejections, sink, rejected_sink, windowing)
        lines = scored.run(first)
        for record, outcome in _shown(judging, lines, summary, bars) if judging else lines:
            writer.write(record, outcome)
        if windows_sink and windowing:
            windows_sink.writelines(window.encode() + b"\n" for window in windowing.windows())
        sink.flush()
    if judging:
        summary.spent, summary.at_most = judging.spent, judging.reserved
        summary.unpriced = unpriced(effective.judge)
    if scored.problems and not summary.scored and not rejections.count:
        raise PermanentError(scored.problems[0])
    rejections.report()
    _report(scored, summary, config.default_time, worst.lines(map_file, out))
    _require_whole(scored, summary, writer, out, stopped=stop.cut or bool(judging and judging.stopping))
    if opens and out is not None:
        _open_pages(effective, out, file)


def _require_whole(
    scored: ScoredFiles, summary: EvaluationSummary, writer: _ScoreWriter, out: Path | None, *, stopped: bool
) -> None:
    """End the command if not all was scored.

    Raises:
        typer.Exit: if it was stopped, or nothing was scored.
        PermanentError: if a file could not be read to its end.
    """
    if stopped:
        size = total_size(scored.inputs)
        share = f", {scored.progress.bytes / size:.0%} of {scored.path}" if size else ""
        where = f"after {writer.last_place}{share}"
        err.say(f"stopped {where}: {out or 'the output'} is incomplete; each of its lines is whole")
        raise typer.Exit(STOPPED)
    if scored.problems:
        more = f"; and {len(scored.problems) - 1:,} more files" if len(scored.problems) > 1 else ""
        raise PermanentError(f"{scored.problems[0]}{more}; all before it is scored")
    if not summary.scored:
        raise typer.Exit(FAILURE)


def _open_pages(effective: Settings, out: Path, file: Path) -> None:
    from ragweir.streams.commands.console import show_files  # noqa: PLC0415 - not for other runs

    show_files(effective, [out], None if file == STANDARD_INPUT else file)


def _report(
    scored: ScoredFiles, summary: EvaluationSummary, default_time: datetime | None, worst: Iterable[str]
) -> None:
    """Print the summary, and that which was not read as usual."""
    if err.is_terminal:
        err.print(summary.table())
        for remark in summary.remarks():
            err.say(remark)
    if len(scored.inputs) > 1:
        formats = ", ".join(f"{form} {number:,}" for form, number in scored.formats.most_common())
        err.say(f"read {len(scored.inputs):,} files: {formats}")
    elif scored.present != Format():
        err.say(f"read as {scored.present}")
    if scored.traces.traces:
        for line in scored.traces.lines():
            err.say(line)
    if defaulted := summary.repaired[TIME_DEFAULTED]:
        time = f"--default-time, {default_time.isoformat()}" if default_time else "that of their file"
        err.say(f"{defaulted:,} without a time got {time}")
    for metric, number in summary.failed.most_common():
        err.say(f"{printable(metric, None)} failed on {number:,} of {summary.scored:,} events and is null there")
    for line in worst:
        err.say(line)
    err.say(summary.line())


def _shown(
    judging: JudgedFiles, lines: Iterable[tuple[Record, Outcome]], summary: EvaluationSummary, bars: Bars
) -> Iterator[tuple[Record | None, Outcome]]:
    """Judge events, and show the progress of the judge."""
    judged, began_s = bars.add("Judging"), machine.monotonic()
    for line in judging.run(lines):
        yield line
        rate = summary.settled / (machine.monotonic() - began_s)
        detail = f"{summary.settled} of {summary.selected}, {dollars(judging.spent)}, {rate:,.1f}/s"
        detail += f"; waiting: {judging.waits}" if judging.waits else ""
        bars.update(judged, total=summary.selected, completed=summary.settled, detail=detail)


def _config(
    effective: Settings, name: str, default_time: str | None, control: Path | None, *, explain: bool
) -> EvaluateConfig:
    """Return the configuration of evaluate for a file, with the routing rows of another.

    Raises:
        ConfigurationError: if a setting is wrong, the rows cannot be read, or no event is selected by rows.
    """
    config = evaluate_config(effective, name, explain=explain, is_file=True)
    if default_time is not None:
        config = replace(config, default_time=default_time_argument(default_time))
    if control is None:
        return config
    if config.router is None or not config.router.uses_rows:
        raise ConfigurationError(
            "--control has no effect: rows select events for the suite rubric if it is on, there is a judge "
            "(judge.base_url), and routing.share is above 0, which rules or floors of your own for rubric switch off"
        )
    table = RowTable()
    table.hold(read_row_file(control))
    return replace(config, rows=RowSource(table.rows()))


@contextmanager
def _naming_files(source: Path, *written: Path | None) -> Iterator[None]:
    """Turn an OSError that names no file, such as that of a full disk, into one that does.

    Raises:
        PermanentError: in place of the OSError.
    """
    try:
        yield
    except OSError as error:
        # A closed pipe is no error.
        if isinstance(error, BrokenPipeError) or error.filename is not None:
            raise
        out = " and ".join(str(path) for path in written if path) or "standard output"
        raise PermanentError(f"reading {source} or writing {out} failed: {error.strerror}") from None


def _standard_output() -> BinaryIO:
    if sys.stdout is None:
        raise typer.BadParameter("standard output is closed")
    return sys.stdout.buffer


def _open(file: Path, opened: Callable[[Path], BinaryIO]) -> BinaryIO:
    try:
        return opened(file)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be opened: {error.strerror}") from None


@dataclass(slots=True)
class _ScoreWriter:
    """Writes what the agents emit, and counts it."""

    scored: ScoredFiles
    summary: EvaluationSummary
    worst: WorstAnswers
    rejections: Rejections
    sink: BinaryIO
    rejected_sink: BinaryIO | None
    windowing: Windowing | None
    last_place: str = "line 0"
    """Place of the last event that was read."""

    def write(self, record: Record | None, outcome: Outcome) -> None:
        """Write the outcome of an event, or, without one, of the judge."""
        summary = self.summary
        if record is not None:
            self.last_place = self.scored.place(record, number_format=",")
            self.rejections.on_event(record.value)
        summary.duplicates += outcome.counts["ragweir_duplicates_total",]
        summary.skipped += outcome.counts["ragweir_filtered_total",]
        for (counter, *names), number in outcome.counts.items():
            if counter == "ragweir_repaired_total":
                summary.repaired.update(dict.fromkeys(names, number))
            elif counter == "ragweir_metric_errors_total":
                summary.failed.update(dict.fromkeys(names, number))
        for emission in outcome.emissions:
            if emission.topic == "evaluations" and emission.value is not None:
                self._write_evaluation(emission.value, record)
            elif emission.topic == "dead-letter":
                self._write_rejected(emission, record)
            elif emission.topic == "judge.deferred":
                summary.deferred += 1

    def _write_evaluation(self, value: bytes, record: Record | None) -> None:
        evaluation = read_evaluation(value, len(value))
        if evaluation is None:
            raise ValueError("the agents write evaluations")
        if self.windowing:
            if TIME_DEFAULTED in evaluation.flags and self.scored.config.default_time is None:
                raise no_time(self.last_place)
            self.windowing.add(evaluation)
        self.sink.write((printable_json(value) if self.sink.isatty() else value) + b"\n")
        self.summary.add(evaluation)
        if record is not None:
            self.worst.add(evaluation, record)

    def _write_rejected(self, emission: Emission, record: Record | None) -> None:
        self.summary.rejected += 1
        letter = DeadLetter.from_headers(emission.headers)
        place = self.scored.place(record, letter.source_index) if record else "a request to the judge"
        self.rejections.add(place, letter.message, emission.value)
        if self.rejected_sink:
            details = letter.model_dump(exclude_none=True)
            details["value"] = (emission.value or b"").decode(errors="replace")
            self.rejected_sink.write(orjson.dumps(details) + b"\n")
