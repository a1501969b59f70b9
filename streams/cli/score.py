"""`ragweir score`: a JSONL file scored, and judged if asked, without a broker."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, Self, TextIO

import orjson
import typer
from rich.progress import BarColumn, Progress, TextColumn

from ragweir.errors import PermanentError
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.schemas.codec.json import encode
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.aggregate.windowing import Windowing
from ragweir.streams.cli.app import FAILURE, STOPPED, app, err, settings
from ragweir.streams.cli.stopping import Stop
from ragweir.streams.cli.summary import EvaluationSummary, dollars
from ragweir.streams.evaluate.agent import EvaluateAgent
from ragweir.streams.from_settings import evaluate_config, judge_config
from ragweir.streams.judge.pool import LiveJudgePool
from ragweir.streams.judge.probe import error_message, probe, unpriced
from ragweir.streams.judge.protocol import JudgeError, RateLimited
from ragweir.streams.permissions import create
from ragweir.streams.records import Emission, Record
from ragweir.streams.runtimes import files
from ragweir.streams.runtimes.judged_files import JudgedFiles
from ragweir.streams.settings import Settings
from ragweir.streams.terminal import printable, printable_json


@app.command()
def score(
    file: Annotated[Path, typer.Argument(help="JSON lines, one interaction each; - is standard input.")],
    map: Annotated[Path | None, typer.Option(help="The map for a foreign shape.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where evaluations go; standard output by default.")] = None,
    windows: Annotated[Path | None, typer.Option(help="Where windows of event time go, of all sizes.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what scores rest on, as `evidence`.")] = False,
    judge: Annotated[
        bool, typer.Option("--judge", help="Have the events judged that routing selects; it costs.")
    ] = False,
) -> None:
    """Score a file of interactions, without a broker.

    Evaluations go to `--out` or standard output, as JSON lines. A terminal also shows a summary, and every line that
    could not be scored is named with its reason. `--windows` sums them up besides, as JSON lines: the same bytes
    whatever the order of the interactions. New files are readable by their owner alone. Exit status 1 when no line
    could be scored.

    With `--judge` the judged evaluations stand there too, each somewhere after the scored one of its event. The run has
    `judge.daily_budget_usd` to itself; events over it are counted and stay unjudged, which is no failure. An endpoint
    that cannot be used at the start is refused; one that fails later is waited for.

    Ctrl-C ends the run: what was read is finished, the output holds whole lines, and how far it came is told; the exit
    status is 130. A second one ends it at once.
    """
    effective = settings(input={"map": map})
    config = evaluate_config(effective, file.name, explain=explain)
    totals = Aggregator(config.catalogue)
    summary = EvaluationSummary(totals, judging=judge)
    _check_distinct(file, out, windows)
    stop, line, share = Stop(), 0, ""
    with ExitStack() as stack:
        stack.enter_context(_telling(file, out, windows))
        source = _standard(sys.stdin, "input") if str(file) == "-" else stack.enter_context(_open(file, "rb"))
        size = None if str(file) == "-" else os.fstat(source.fileno()).st_size or None
        judging = stack.enter_context(_judging(effective, stop)) if judge else None
        stack.enter_context(stop.listening())
        sink = stack.enter_context(_open(out, "wb")) if out else _standard(sys.stdout, "output")
        summed = stack.enter_context(_open(windows, "wb")) if windows else None
        bars = stack.enter_context(_Bars(size, summary, judging))
        writing = _Writing(sink, summary, Windowing(effective.windows, totals) if summed else None)
        ending = stop.ending(bars.reading(source))
        lines = files.run(EvaluateAgent(config), ending, file.name, effective.limits.max_event_bytes)
        for record, outcome in judging.run(lines) if judging else lines:
            line = record.offset if record else line
            summary.duplicates += outcome.counts["ragweir_duplicates_total",]
            summary.repaired.update(
                {
                    name: number
                    for (counter, *names), number in outcome.counts.items()
                    if counter == "ragweir_repaired_total"
                    for name in names
                }
            )
            for emission in outcome.emissions:
                writing.write(emission, record)
            bars.show()
        if summed and writing.windowing:
            summed.writelines(encode(window) + b"\n" for window in writing.windowing.windows())
        sink.flush()
        if size:
            share = f", {source.tell() / size:.0%} of {file}"
    if judging:
        summary.spent, summary.at_most = judging.spent, judging.reserved
        summary.unpriced = unpriced(effective.judge)
    if err.is_terminal:
        err.print(summary.table())
    err.print(summary.line(), soft_wrap=True)
    if stop.cut or (judging and judging.stopping):
        told = (
            f"stopped after line {line:,}{share}: {out or 'the output'} is incomplete, and each of its lines is whole"
        )
        err.print(told, soft_wrap=True)
        raise typer.Exit(STOPPED)
    if not summary.scored:
        raise typer.Exit(FAILURE)


def _check_distinct(source: Path, *written: Path | None) -> None:
    """See that nothing is written over what is read, or over what is written beside it.

    Raises:
        typer.BadParameter: if two paths are one file.
    """
    paths = [path.resolve() for path in (source, *written) if path and path != Path(os.devnull)]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise typer.BadParameter(f"{twice} is named twice, and what is written would replace what stands there")


@contextmanager
def _telling(source: Path, *written: Path | None) -> Iterator[None]:
    """Name the files where reading or writing fails, such as on a full disk.

    Raises:
        PermanentError: in the place of an OSError.
    """
    try:
        yield
    except OSError as error:
        # A reader that has enough is no error, and an error that names its file needs no other name.
        if isinstance(error, BrokenPipeError) or error.filename is not None:
            raise
        out = " and ".join(str(path) for path in written if path) or "standard output"
        raise PermanentError(f"reading {source} or writing {out} failed: {error.strerror}") from None


def _standard(stream: TextIO | None, name: str) -> BinaryIO:
    """Standard input or output, which whoever starts the command may have closed."""
    if stream is None:
        raise typer.BadParameter(f"standard {name} is closed")
    return stream.buffer


def _open(file: Path, mode: Literal["rb", "wb"]) -> BinaryIO:
    try:
        return create(file) if mode == "wb" else file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be opened: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class _Writing:
    """What becomes of what agents emit."""

    sink: BinaryIO
    summary: EvaluationSummary
    windowing: Windowing | None

    def write(self, emission: Emission, line: Record | None) -> None:
        """Write an evaluation, name a line that could not be scored, count what is deferred."""
        if emission.topic == "evaluations" and emission.value is not None:
            self.sink.write((printable_json(emission.value) if self.sink.isatty() else emission.value) + b"\n")
            evaluation = Evaluation.model_validate(orjson.loads(emission.value))
            self.summary.add(evaluation)
            if self.windowing:
                self.windowing.add(evaluation)
        elif emission.topic == "dead-letter":
            self.summary.refused += 1
            letter = DeadLetter.from_headers(emission.headers)
            index = f", index {letter.source_index}" if letter.source_index else ""
            place = "a request to the judge" if line is None else f"line {line.offset}{index}"
            err.print(f"{place}: {printable(letter.message, None)}", soft_wrap=True)
        elif emission.topic == "judge.deferred":
            self.summary.deferred += 1


@contextmanager
def _judging(effective: Settings, stop: Stop) -> Iterator[JudgedFiles]:
    """What judges, once the endpoint has shown that it can be used.

    Raises:
        PermanentError: if it cannot.
        ConfigurationError: if there is none, or its settings are wrong.
    """
    config = judge_config(effective, 1)
    spent = 0
    if not config.judge.cached_only:
        try:
            spent = probe(config.judge).cost
        except RateLimited:
            pass  # It is well and wants to be left alone; that is waited for.
        except JudgeError as error:
            raise PermanentError(error_message(config.judge, error)) from None
    with closing(LiveJudgePool(config.judge)) as pool:
        yield JudgedFiles(config, pool, lambda: stop.asked, spent)


class _Bars:
    """What a terminal shows while a run is under way; elsewhere nothing.

    Args:
        size: of what is read, in bytes; None if it is not known.
        summary: of the run.
        judging: what judges, if anything does.
    """

    def __init__(self, size: int | None, summary: EvaluationSummary, judging: JudgedFiles | None) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}", markup=False)
        self._progress = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
        self._size = size
        self._scoring = self._progress.add_task("Scoring", total=size, said="")
        self._summary, self._judging, self._began = summary, judging, time.monotonic()
        self._judged = self._progress.add_task("Judging", total=None, said="") if judging else None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def reading(self, source: BinaryIO) -> BinaryIO:
        """The same file, whose reading is shown where its end is known."""
        if self._size is None:
            return source
        return self._progress.wrap_file(source, self._size, task_id=self._scoring)

    def show(self) -> None:
        """Show how far judging is."""
        if self._judging is None or self._judged is None:
            return
        summary, judging = self._summary, self._judging
        rate = summary.settled / (time.monotonic() - self._began)
        said = f"{summary.settled} of {summary.selected}, {dollars(judging.spent)}, {rate:,.1f}/s"
        said += f"; waiting: {judging.waits}" if judging.waits else ""
        self._progress.update(self._judged, total=summary.selected, completed=summary.settled, said=said)
