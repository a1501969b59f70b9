"""`ragweir score`: scores a JSONL file, and judges the selected events on request, without a broker."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, TextIO

import orjson
import typer

from ragweir.errors import PermanentError
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.schemas.codec.json import encode
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.aggregate.windowing import Windowing
from ragweir.streams.cli.app import FAILURE, STOPPED, app, err, settings
from ragweir.streams.cli.options import MapFile
from ragweir.streams.cli.progress import Bars
from ragweir.streams.cli.stopping import Stop
from ragweir.streams.evaluate.agent import EvaluateAgent
from ragweir.streams.from_settings import evaluate_config, judge_config
from ragweir.streams.judge.pool import LiveJudgePool
from ragweir.streams.judge.probe import error_message, probe, unpriced
from ragweir.streams.judge.protocol import JudgeError, RateLimited
from ragweir.streams.permissions import create
from ragweir.streams.records import Emission, Record
from ragweir.streams.runtimes import files
from ragweir.streams.runtimes.judged_files import JudgedFiles
from ragweir.streams.screens.summary import EvaluationSummary, dollars
from ragweir.streams.settings import Settings
from ragweir.streams.sources.lines import read_lines
from ragweir.streams.terminal import printable, printable_json


@app.command()
def score(
    file: Annotated[Path, typer.Argument(help="File of interactions, one JSON object a line; - is standard input.")],
    map_file: MapFile = None,
    out: Annotated[
        Path | None, typer.Option(help="File for the evaluations, as JSON lines. Default: standard output.")
    ] = None,
    windows: Annotated[Path | None, typer.Option(help="File for the windows of all sizes, as JSON lines.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Add the evidence of the scores to each evaluation.")
    ] = False,
    judge: Annotated[
        bool, typer.Option("--judge", help="Judge the events that routing selects, at cost, by judge.base_url.")
    ] = False,
) -> None:
    """Score a file of interactions, without a broker.

    Evaluations are written to `--out` or standard output, as JSON lines. Each line that could not be scored is reported
    with the reason, and a terminal shows a summary. `--windows` writes aggregates by event time, whose bytes do not
    depend on the order of the interactions. New files are readable by their owner alone. Exit status 1 when no line
    could be scored.

    With `--judge` a judged evaluation follows the scored one of each selected event, not always immediately. The whole
    run may cost `judge.daily_budget_usd`; events over the budget are counted and not judged, which is no failure. An
    endpoint that cannot be used at the start is an error; later failures are retried until they end.

    Ctrl-C stops reading: lines that were read are finished, the output holds whole lines, and the last line is
    reported; the exit status is 130. A second Ctrl-C ends the process immediately.
    """
    effective = settings(input={"map": map_file})
    config = evaluate_config(effective, file.name, explain=explain, is_file=True)
    totals = Aggregator(config.catalogue)
    summary = EvaluationSummary(totals, judging=judge)
    _check_distinct(file, out, windows)
    stop, line, share = Stop(), 0, ""
    with ExitStack() as stack:
        stack.enter_context(_naming_files(file, out, windows))
        source = _standard(sys.stdin, "input") if str(file) == "-" else stack.enter_context(_open(file, "rb"))
        size = None if str(file) == "-" else os.fstat(source.fileno()).st_size or None
        judging = stack.enter_context(_judging(effective, stop)) if judge else None
        stack.enter_context(stop.listening())
        sink = stack.enter_context(_open(out, "wb")) if out else _standard(sys.stdout, "output")
        windows_sink = stack.enter_context(_open(windows, "wb")) if windows else None
        bars = stack.enter_context(Bars())
        scoring, judged = bars.add("Scoring", size), bars.add("Judging") if judging else None
        writer = _Writer(sink, summary, Windowing(effective.windows, totals) if windows_sink else None)
        ending = stop.ending(bars.wrap_file(source, size, task_id=scoring) if size else source)
        began = time.monotonic()
        events = read_lines(ending, effective.limits.max_event_bytes, file.name)
        lines = files.run(EvaluateAgent(config), events, file.name)
        for record, outcome in judging.run(lines) if judging else lines:
            line = record.offset if record else line
            summary.duplicates += outcome.counts["ragweir_duplicates_total",]
            summary.skipped += outcome.counts["ragweir_filtered_total",]
            summary.repaired.update(
                {
                    name: number
                    for (counter, *names), number in outcome.counts.items()
                    if counter == "ragweir_repaired_total"
                    for name in names
                }
            )
            for emission in outcome.emissions:
                writer.write(emission, record)
            if judging and judged is not None:
                rate = summary.settled / (time.monotonic() - began)
                detail = f"{summary.settled} of {summary.selected}, {dollars(judging.spent)}, {rate:,.1f}/s"
                detail += f"; waiting: {judging.waits}" if judging.waits else ""
                bars.update(judged, total=summary.selected, completed=summary.settled, detail=detail)
        if windows_sink and writer.windowing:
            windows_sink.writelines(encode(window) + b"\n" for window in writer.windowing.windows())
        sink.flush()
        if size:
            share = f", {source.tell() / size:.0%} of {file}"
    if judging:
        summary.spent, summary.at_most = judging.spent, judging.reserved
        summary.unpriced = unpriced(effective.judge)
    if err.is_terminal:
        err.print(summary.table())
    err.say(summary.line())
    if stop.cut or (judging and judging.stopping):
        err.say(f"stopped after line {line:,}{share}: {out or 'the output'} is incomplete; each of its lines is whole")
        raise typer.Exit(STOPPED)
    if not summary.scored:
        raise typer.Exit(FAILURE)


def _check_distinct(source: Path, *written: Path | None) -> None:
    """Check that no file is both read and written, or written twice.

    Raises:
        typer.BadParameter: if two paths are the same file.
    """
    paths = [path.resolve() for path in (source, *written) if path and path != Path(os.devnull)]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise typer.BadParameter(f"{twice} is named twice, and would be overwritten")


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


def _standard(stream: TextIO | None, name: str) -> BinaryIO:
    """Return the bytes of standard input or output, which may be closed."""
    if stream is None:
        raise typer.BadParameter(f"standard {name} is closed")
    return stream.buffer


def _open(file: Path, mode: Literal["rb", "wb"]) -> BinaryIO:
    try:
        return create(file) if mode == "wb" else file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be opened: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes what the agents emit."""

    sink: BinaryIO
    summary: EvaluationSummary
    windowing: Windowing | None

    def write(self, emission: Emission, line: Record | None) -> None:
        """Write an evaluation, report a line that could not be scored, count a deferred event."""
        if emission.topic == "evaluations" and emission.value is not None:
            self.sink.write((printable_json(emission.value) if self.sink.isatty() else emission.value) + b"\n")
            evaluation = Evaluation.model_validate(orjson.loads(emission.value))
            self.summary.add(evaluation)
            if self.windowing:
                self.windowing.add(evaluation)
        elif emission.topic == "dead-letter":
            self.summary.rejected += 1
            letter = DeadLetter.from_headers(emission.headers)
            index = f", index {letter.source_index}" if letter.source_index else ""
            place = "a request to the judge" if line is None else f"line {line.offset}{index}"
            err.say(f"{place}: {printable(letter.message, None)}")
        elif emission.topic == "judge.deferred":
            self.summary.deferred += 1


@contextmanager
def _judging(effective: Settings, stop: Stop) -> Iterator[JudgedFiles]:
    """Probe the judge's endpoint, and judge for the length of a `with` block.

    Raises:
        PermanentError: if the endpoint cannot be used.
        ConfigurationError: if there is none, or its settings are wrong.
    """
    config = judge_config(effective, 1)
    spent = 0
    if not config.judge.cached_only:
        try:
            spent = probe(config.judge).cost
        except RateLimited:
            pass  # The calls of the run wait until the limit permits them.
        except JudgeError as error:
            raise PermanentError(error_message(config.judge, error)) from None
    with closing(LiveJudgePool(config.judge)) as pool:
        yield JudgedFiles(config, pool, lambda: stop.asked, spent)
