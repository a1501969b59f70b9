"""`ragweir score`: a JSONL file scored without a broker."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import orjson
import typer
from rich.progress import wrap_file

from metrics.totals import Totals
from schemas.codec import encode
from schemas.dead_letter import DeadLetter
from schemas.evaluation import Evaluation
from streams.agents.evaluate import EvaluateAgent
from streams.cli.app import FAILURE, app, err, settings
from streams.cli.summary import Summary
from streams.runtimes import files
from streams.service import evaluate_config
from streams.windowing import Windowing


@app.command()
def score(
    file: Annotated[Path, typer.Argument(help="JSON lines, one interaction each; - is standard input.")],
    map: Annotated[Path | None, typer.Option(help="The map for a foreign shape.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where evaluations go; standard output by default.")] = None,
    windows: Annotated[Path | None, typer.Option(help="Where windows of event time go, of all sizes.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what scores rest on, as `evidence`.")] = False,
) -> None:
    """Score a file of interactions, without a broker.

    Evaluations go to `--out` or standard output, as JSON lines. A terminal also shows a summary, and every line that
    could not be scored is named with its reason. `--windows` sums them up besides, as JSON lines: the same bytes
    whatever the order of the interactions. Exit status 1 when no line could be scored.
    """
    effective = settings(input={"map": map})
    config = evaluate_config(effective, file.name, explain=explain)
    agent = EvaluateAgent(config)
    summary = Summary()
    windowing = Windowing(effective.windows, Totals(config.catalogue))
    with ExitStack() as stack:
        source: BinaryIO = sys.stdin.buffer if str(file) == "-" else stack.enter_context(_open(file, "rb"))
        if err.is_terminal and source is not sys.stdin.buffer:
            size = file.stat().st_size
            source = stack.enter_context(wrap_file(source, size, description="Scoring", console=err, transient=True))
        sink: BinaryIO = stack.enter_context(_open(out, "wb")) if out else sys.stdout.buffer
        summed = stack.enter_context(_open(windows, "wb")) if windows else None
        for record, outcome in files.run(agent, source, file.name, effective.limits.max_event_bytes):
            for emission in outcome.emissions:
                if emission.topic == "evaluations" and emission.value is not None:
                    sink.write(emission.value + b"\n")
                    evaluation = orjson.loads(emission.value)
                    summary.add(evaluation)
                    if summed:
                        windowing.add(Evaluation.model_validate(evaluation))
                else:
                    summary.refused += 1
                    letter = DeadLetter.from_headers(emission.headers)
                    err.print(f"line {record.offset}: {letter.message}", markup=False, highlight=False, soft_wrap=True)
        if summed:
            summed.writelines(encode(window) + b"\n" for window in windowing.windows())
    if err.is_terminal:
        err.print(summary.table())
    err.print(summary.line(), highlight=False)
    if not summary.scored:
        raise typer.Exit(FAILURE)


def _open(file: Path, mode: Literal["rb", "wb"]) -> BinaryIO:
    try:
        return file.open(mode)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be opened: {error.strerror}") from None
