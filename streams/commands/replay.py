"""`ragweir replay`: evaluates past events again, by any settings, without changing anything live."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ragweir.errors import PermanentError
from ragweir.schemas.run import RUN_ID, JudgeMode, Loaded, Phase, ReplayRequest, Run
from ragweir.streams.analysis.backfill.openmetrics import OpenMetrics
from ragweir.streams.analysis.backfill.output_formats import JsonLines, OutputFormat, write
from ragweir.streams.analysis.backfill.windows import UnusedReason, windows
from ragweir.streams.analysis.replay.forecast import ReplayEstimate, estimate
from ragweir.streams.analysis.replay.request import check_resumable, create_run
from ragweir.streams.analysis.replay.runner import PhaseProgress, ReplayRunner, run_worker
from ragweir.streams.analysis.replay.runs import StoredRun, find_run, prefix_of, run_settings
from ragweir.streams.commands.app import STOPPED, app, err, out, settings, shared_flags
from ragweir.streams.commands.inputs import files_of
from ragweir.streams.commands.options import DefaultTime, MapFile, Workers
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.worker_exit import as_worker
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.processes.supervisor import own_command, same_command, stop_flag
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.aggregate.merged_window import MergedWindow
from ragweir.streams.settings import Settings

_CANARY = "--canary"
_MAX_LAGS = 6
"""Partitions whose lag is shown, those with the most first."""
_PHASES: Mapping[Phase, str] = {
    "loading": "loading files",
    "evaluating": "evaluating",
    "judging": "judging",
    "summing": "aggregating",
}


@app.command()
def replay(
    run_id: Annotated[str, typer.Option(help="Id of the replay, in its topics' names; an id that exists is resumed.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            exists=True,
            help="Files, or folders of files, to read in place of a topic: JSON, CSV or Parquet, also compressed.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--from", help="Start: offset, RFC 3339 time or age (24h). Default: the oldest record."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="End: offset, RFC 3339 time or age (24h). Default: the newest record.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Topic to read, which is not changed. Default: the live input topic.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Id of a replay whose topic and offsets, or files, are read again."),
    ] = None,
    map_file: MapFile = None,
    default_time: DefaultTime = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Condition on application, tenant, labels.NAME, time, a score or a category, which events must meet: "
            "tenant=acme, context_support<0.5, time>2026-11-01. Repeatable; all must hold."
        ),
    ] = None,
    judge: Annotated[
        str,
        typer.Option(
            help="`never`; `cached-only`: by answers in judge.cache_file, without calls; `budget`: at most --budget."
        ),
    ] = "never",
    budget: Annotated[
        float | None, typer.Option(min=0, help="Budget of the judge for the whole replay, in US dollars.")
    ] = None,
    workers: Workers = 1,
    rate: Annotated[
        float | None, typer.Option(min=1, help="Most events a second, to leave the broker to live traffic.")
    ] = None,
    windows_file: Annotated[
        Path | None, typer.Option("--windows", help="File for the windows, as JSON lines, written at the end.")
    ] = None,
    openmetrics: Annotated[
        Path | None, typer.Option(help="File for the windows, for `promtool tsdb create-blocks-from openmetrics`.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate events, duration and the judge's cost; evaluate nothing.")
    ] = False,
    slot: Annotated[int | None, typer.Option(hidden=True, help="Slot of a worker process of this replay.")] = None,
    canary: Annotated[
        bool,
        typer.Option(
            _CANARY, hidden=True, help="Evaluate the records on standard input, to find those that end a process."
        ),
    ] = False,
) -> None:
    """Evaluate past events again, by the present settings or those of `--config`, without changing anything live.

    The offsets to read are fixed when the replay is created: interactions and redriven records in Kafka, or whole
    files of any format that `ragweir score` reads; with a judge also the routing rows of the topic `control`, so that
    it selects the same events however often it is resumed. Events of files that have no time are rejected without
    `--default-time`. Results are written exactly once, to the replay's topics `rag.run.RUN_ID.evaluations`, `.windows`,
    `.dead-letter` and so on. A replay that was stopped or killed is resumed by the same command; other settings or
    arguments under the same id are an error. `ragweir compare live RUN_ID` shows the differences afterwards.

    `--like RUN` reads what another replay read, offset by offset, by the present settings, with the same routing rows;
    `--only` and the judge are those of this command. It is an error if a topic does not hold all of these records any
    more. With a judge, the replay's routing rows are compared with those of the live evaluations that Kafka holds, and
    the last line says how many events were selected by other rows, as after `control` was deleted.

    No event is judged without `--judge`. The budget of a replay is separate from the live one (judge.daily_budget_usd).
    """
    if not re.fullmatch(RUN_ID, run_id) or run_id == "live":
        raise typer.BadParameter(f"--run-id {run_id!r}: up to 60 letters, digits, _ and -, and not `live`")
    effective = settings(input={"map": map_file})
    model = None
    if like is not None:
        if files or topic or since or until or default_time:
            raise typer.BadParameter("--like is instead of files, --topic, --from, --to and --default-time")
        model = _model(effective, run_id, like)
        topic, default_time = model.asked.topic, model.asked.default_time
    if topic not in (None, effective.input_topic) and map_file is None:  # The settings' map is for the live input.
        effective = effective.model_copy(update={"input": effective.input.model_copy(update={"map": None})})
    if slot is not None:
        own = None if canary else same_command(_CANARY)
        as_worker(partial(run_worker, effective, run_id, workers, rate, slot, stop_flag(), own))
        return
    if windows_file and openmetrics and windows_file.resolve() == openmetrics.resolve():
        raise typer.BadParameter("--windows and --openmetrics are two files")
    archives = [file for path in files or () for file in files_of(path)]
    archives += [Path(archive.path) for archive in model.files] if model else []
    request = _request(topic, since, until, only, judge, budget, archives, default_time)
    request = request.model_copy(update={"like": like})
    found = find_run(effective, run_id)
    if found is None:
        found = StoredRun(create_run(effective, run_id, request, archives, model), Loaded())
    else:
        check_resumable(effective, found, request, archives)
    if dry_run:
        _show_estimate(estimate(run_settings(effective, found.run), found.run), found, workers, rate)
        return
    flags = ["--run-id", run_id, "--workers", str(workers)]
    flags += ["--topic", topic] if topic else []
    flags += ["--map", str(map_file)] if map_file else []
    flags += ["--rate", str(rate)] if rate else []
    if not _run(effective, found, workers, flags):
        err.say(f"stopped; the same command resumes the replay {run_id}")
        raise typer.Exit(STOPPED)
    _finish(effective, run_id, windows_file, openmetrics)


def _model(effective: Settings, run_id: str, like: str) -> Run:
    """Return the run that is read again; on a resumption this one, since the other may have been deleted.

    Raises:
        PermanentError: if there is no such run.
    """
    for own in (run_id, like):
        found = find_run(effective, own)
        if found is not None and like in {own, found.run.asked.like}:
            return found.run
    raise PermanentError(f"there is no run {like}; `ragweir runs list` lists them")


def _request(
    topic: str | None,
    since: str | None,
    until: str | None,
    only: Iterable[str] | None,
    judge: str,
    budget: float | None,
    files: Iterable[Path] | None,
    default_time: str | None,
) -> ReplayRequest:
    modes: dict[str, JudgeMode] = {"never": "never", "cached-only": "cached-only", "budget": "budget"}
    if judge not in modes:
        raise typer.BadParameter(f"--judge {judge!r}: it is never, cached-only or budget")
    if (judge == "budget") != (budget is not None):
        raise typer.BadParameter("--judge budget and --budget DOLLARS go together")
    if files and (topic or since or until):
        raise typer.BadParameter(
            "files are read whole: --topic, --from and --to are for topics; --only 'time>…' is not"
        )
    if default_time is not None and not files:
        raise typer.BadParameter("--default-time is for files: the records of a topic have timestamps")
    return ReplayRequest(
        topic=topic,
        since=since,
        until=until,
        only=tuple(only or ()),
        judge=modes[judge],
        budget_usd=budget,
        default_time=default_time,
    )


def _run(effective: Settings, found: StoredRun, workers: int, flags: list[str]) -> bool:
    """Create or resume a replay; return true if it is complete, false if it was stopped."""

    def command(_: Phase, slot: int) -> list[str]:
        return own_command(*shared_flags(), "replay", *flags, "--slot", str(slot))

    with Bars(lines=True) as bars:
        task = bars.add("starting")
        phase = ""

        def show(progress: PhaseProgress) -> None:
            nonlocal phase
            if progress.phase != phase:
                phase = progress.phase
                bars.reset(task, description=_PHASES[phase], detail="")
            detail = _rate_and_lag(progress, bars.tasks[0].speed)
            bars.update(task, total=progress.total, completed=progress.done, detail=detail)

        return ReplayRunner(effective, found.run, command, workers, show, stop_flag(), quiet=err.is_terminal)()


def _rate_and_lag(progress: PhaseProgress, speed: float | None) -> str:
    """Describe the rate and the lag of a phase.

    >>> _rate_and_lag(PhaseProgress("evaluating", 30, {("t", 0): 7, ("t", 1): 0, ("u", 0): 20}), 12.3)
    '12/s; lag u/0 20, t/0 7'
    """
    if progress.problem:
        return f"waiting: {progress.problem}"
    longest = sorted(((left, place) for place, left in progress.lag.items() if left), reverse=True)
    lags = ", ".join(f"{topic}/{partition} {left:,}" for left, (topic, partition) in longest[:_MAX_LAGS])
    more = f" and {len(longest) - _MAX_LAGS} more" if len(longest) > _MAX_LAGS else ""
    return "; ".join(filter(None, (f"{speed:,.0f}/s" if speed else "", f"lag {lags}{more}" if lags else "")))


def _finish(effective: Settings, run_id: str, lines: Path | None, samples: Path | None) -> None:
    """Write the files of windows, and print the numbers of the whole replay."""
    found, imported = find_run(effective, run_id), OpenMetrics(run_id, effective)
    formats: dict[Path, OutputFormat] = {lines: JsonLines()} if lines else {}
    formats |= {samples: imported} if samples else {}
    events = 0
    left_out: Counter[UnusedReason] = Counter()
    base = effective.windows.sizes[0]

    def counted(each: Iterable[MergedWindow]) -> Iterator[MergedWindow]:
        nonlocal events
        for window in each:
            events += window.aggregate.events if window.size == base else 0
            yield window

    with Bars(lines=True) as bars:
        own = prefix_of(effective, run_id)
        dead_letters = offset_range(effective, f"{own}dead-letter")
        dead = sum(1 for _ in read(effective, dead_letters, bars.watch("reading dead letters", len(dead_letters))))
        whole = windows(effective, own, bars.watch, left_out)
        try:
            number = write(counted(whole), formats)
        except OSError as error:
            raise PermanentError(f"the windows cannot be written: {error}") from None
    facts = [f"the replay {run_id} is complete: {events:,} events evaluated, {number:,} windows"]
    if dead:
        facts.append(f"{dead:,} dead letters, and `ragweir --prefix {own} dead-letter show` shows the reasons")
    if found is not None and found.loaded.left_out:
        facts.append(f"{found.loaded.left_out:,} lines too large for Kafka left out")
    if found is not None and (live := found.run.live_selection) is not None and live.otherwise:
        facts.append(
            f"{live.otherwise:,} of {live.compared:,} events with live evaluations were selected there by routing rows "
            f"that the replay does not have, the first {printable(live.first or '')}"
        )
    if imported.left_out:
        facts.append(f"{imported.left_out:,} windows before 1970 or in the future left out of the OpenMetrics file")
    if left_out.total():
        facts.append(f"{left_out.total():,} records of windows could not be read")
    err.say("; ".join(facts))


def _show_estimate(found: ReplayEstimate, where: StoredRun, workers: int, rate: float | None) -> None:
    """Print the estimate of a dry run."""
    table = Table(title=f"Dry run of {where.run.run_id}: nothing was changed", title_justify="left", show_header=False)
    records = f"{found.records:,}" if found.exact else f"at most {found.records:,}"
    table.add_row("to be read", f"{records} records")
    for extent in where.run.extents:
        if extent.end > extent.start:
            table.add_row(f"  {extent.topic}/{extent.partition}", f"offsets {extent.start:,} to {extent.end:,}")
    for archive in where.run.files:
        table.add_row("", archive.path)
    kinds = {
        "ragweir_evaluations_total": "evaluated",
        "ragweir_duplicates_total": "duplicates",
        "ragweir_filtered_total": "filtered out",
        "ragweir_dead_letters_total": "dead letters",
    }
    outcomes = ", ".join(f"{found.outcomes[name]} {kind}" for name, kind in kinds.items() if found.outcomes[name])
    table.add_row(f"of a sample of {found.sampled}", outcomes or "nothing")
    lasts = timedelta(seconds=round(3600 * found.hours(workers, rate)))
    ends = machine.now() + lasts
    table.add_row("evaluating takes about", f"{lasts} with {workers} workers, until {ends:%Y-%m-%d %H:%M} UTC")
    for bill in found.costs:
        cost = f"about {bill.events:,} events, at most {bill.calls:,} calls and ${bill.usd:,.2f}"
        table.add_row(f"judge, {bill.suite}", cost)
    if found.costs:
        budget = where.run.asked.budget_usd
        most = sum(bill.usd for bill in found.costs)
        cap = "nothing, from the cache alone" if budget is None else f"${min(most, budget):,.2f} within --budget"
        table.add_row("judge, at most", cap)
    out.print(table)
