"""`ragweir judge`: judges selected events; `ragweir judge try` judges some answers of a file and shows the verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from ragweir.metrics.judged.suites import suites
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.commands.app import FAILURE, STOPPED, app, err, out, settings
from ragweir.streams.commands.endpoint_judging import judging_of
from ragweir.streams.commands.inputs import read_inputs, total_size
from ragweir.streams.commands.options import MapFile, Workers
from ragweir.streams.commands.progress import Bars, FileProgress
from ragweir.streams.commands.scored_files import ScoredFiles
from ragweir.streams.commands.screens.evaluation_summary import judge_outcome
from ragweir.streams.commands.screens.judged_answers import spending, verdicts
from ragweir.streams.commands.services import Slot, run_service
from ragweir.streams.commands.stopping import Stop
from ragweir.streams.runtime.records import Outcome, Record
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import Settings
from ragweir.streams.settings.routing import SHARED_SUITE

commands = typer.Typer()
app.add_typer(commands, name="judge")


@commands.callback(invoke_without_command=True)
def judge(
    context: typer.Context,
    workers: Workers = 1,
    slot: Slot = None,
    slots: Annotated[
        int | None, typer.Option(min=1, help="Number of workers on all machines, which share the rate limits.")
    ] = None,
) -> None:
    """Judge the selected events by an OpenAI-compatible endpoint, within its rate limits and the budget.

    Reads the requests of evaluate, and writes judged evaluations. Events over the day's budget wait for the next day;
    while the endpoint is down, all wait. `ragweir simulate-judge` is an endpoint for tests. Workers, ports and stopping
    are those of `evaluate`, with ports from telemetry.port + 300.
    """
    if context.invoked_subcommand is not None:
        return
    effective = settings()
    effective = settings(judge={"slots": slots or max(workers, effective.judge.slots)})
    run_service("judge", effective, workers, slot, ["--slots", str(effective.judge.slots)])


@commands.command("try")
def try_answers(
    file: Annotated[Path, typer.Argument(help="File of interactions, or a folder of such files; - is standard input.")],
    map_file: MapFile = None,
    number: Annotated[int, typer.Option("--events", min=1, max=1_000, help="Number of answers to judge.")] = 10,
    suite: Annotated[
        list[str] | None,
        typer.Option(help=f"Suite that judges them. Repeatable. Default: {SHARED_SUITE}."),
    ] = None,
) -> None:
    """Judge the first answers of a file, and show each with the judge's verdicts, reasons and cost.

    No broker is needed, and nothing is written. All answers are judged, whichever routing would select. The run may
    cost `judge.daily_budget_usd`. Exit status 1 when no answer was judged.
    """
    effective = _selecting_all(settings(input={"map": map_file}), suite or [SHARED_SUITE])
    stop, tried, judged = Stop(), dict[str, JudgeRequest](), list[Evaluation]()
    with ExitStack() as stack:
        inputs = read_inputs(file)
        first = stack.enter_context(inputs[0].open())
        judging = stack.enter_context(judging_of(effective, stop))
        stack.enter_context(stop.listening())
        progress = FileProgress(stack.enter_context(Bars()), "Reading", total_size(inputs))
        config = evaluate_config(effective, file.name, is_file=True)
        lines = ScoredFiles(inputs, config, stop, progress, file, effective, has_map=map_file is not None).run(first)
        for _, outcome in judging.run(_first_selected(lines, number, tried)):
            for emission in outcome.emissions:
                if emission.topic == "evaluations" and emission.value is not None:
                    evaluation = Evaluation.model_validate_json(emission.value)
                    if evaluation.stage == "judged":
                        judged.append(evaluation)
                        for line in verdicts(len(judged), tried[evaluation.event_id], evaluation):
                            out.say(line)
    err.say(spending(tried, judged, judging.spent, effective))
    if stop.asked:
        raise typer.Exit(STOPPED)
    if not any(judge_outcome(evaluation) == "judged" for evaluation in judged):
        raise typer.Exit(FAILURE)


def _first_selected(
    lines: Iterator[tuple[Record, Outcome]], number: int, tried: dict[str, JudgeRequest]
) -> Iterator[tuple[Record, Outcome]]:
    """Yield lines until so many events are selected, whose requests are kept by their ids."""
    for record, outcome in lines:
        for emission in outcome.emissions:
            if emission.topic == "judge.requests" and emission.value is not None:
                request = JudgeRequest.model_validate_json(emission.value)
                tried[request.evaluation.event_id] = request
        yield record, outcome
        if len(tried) >= number:
            return


def _selecting_all(effective: Settings, names: list[str]) -> Settings:
    """Return the settings with floors that select each event for some suites.

    Raises:
        typer.BadParameter: if there is no such suite.
    """
    if unknown := [name for name in names if name not in suites()]:
        raise typer.BadParameter(f"there is no suite {unknown[0]}; there are {', '.join(suites())}")
    routing = effective.routing.model_copy(update={"rules": (), "floors": dict.fromkeys(names, 1.0)})
    return effective.model_copy(update={"routing": routing})
