"""`ragweir replay`: history once more, by any settings, beside the live system and without touching it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from ragweir.errors import PermanentError
from ragweir.schemas.run import RUN_ID, JudgeMode, Loaded, Phase, ReplayRequest
from ragweir.schemas.window import Window
from ragweir.streams.backfill.openmetrics import OpenMetrics
from ragweir.streams.backfill.output_formats import JsonLines, OutputFormat, write
from ragweir.streams.backfill.windows import UnusedReason, windows
from ragweir.streams.cli.app import STOPPED, app, err, out, settings, shared_flags
from ragweir.streams.cli.worker_exit import as_worker
from ragweir.streams.kafka.reader import Moved, offset_range, read
from ragweir.streams.replay.forecast import ReplayEstimate, estimate
from ragweir.streams.replay.request import check_resumable, create_run
from ragweir.streams.replay.runner import PhaseProgress, ReplayRunner, run_worker
from ragweir.streams.replay.runs import StoredRun, find_run, prefix_of, run_settings
from ragweir.streams.settings import Settings
from ragweir.streams.supervisor import own_command, same_command, stop_flag

_CANARY = "--canary"
_LAGS = 6
"""Partitions whose lag is shown, the longest first."""
_PHASES: Mapping[Phase, str] = {
    "loading": "loading files",
    "evaluating": "evaluating",
    "judging": "judging",
    "summing": "summing up",
}


@app.command()
def replay(
    run_id: Annotated[str, typer.Option(help="Names the run and its topics; the same id goes on with the same run.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(exists=True, dir_okay=False, help="Archives, JSON lines or Parquet, in place of a topic."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--from", help="An offset, a time (RFC 3339) or a duration before now (24h); else the beginning."),
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Likewise; else the end as it is at the start.")] = None,
    topic: Annotated[str | None, typer.Option(help="Another topic than the live input; it is only read.")] = None,
    map: Annotated[Path | None, typer.Option(help="The map for a foreign shape.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="A condition on application, tenant, labels.NAME, time, a score or a category, such as tenant=acme, "
            "context_support<0.5 or time>2026-11-01; repeatable, all must hold."
        ),
    ] = None,
    judge: Annotated[
        str, typer.Option(help="never; cached-only: from judge.cache_file, calling nobody; budget: within --budget.")
    ] = "never",
    budget: Annotated[
        float | None, typer.Option(min=0, help="Dollars that the whole run may cost, beside the live budget.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes that evaluate.")] = 1,
    rate: Annotated[
        float | None, typer.Option(min=1, help="Interactions a second at most, so that live traffic is not starved.")
    ] = None,
    windows_file: Annotated[
        Path | None, typer.Option("--windows", help="Where the run's windows go at its end, as JSON lines.")
    ] = None,
    openmetrics: Annotated[
        Path | None, typer.Option(help="Likewise, for `promtool tsdb create-blocks-from openmetrics`.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what there is, how long it takes and what the judge may cost.")
    ] = False,
    slot: Annotated[int | None, typer.Option(hidden=True, help="Be this one of its workers.")] = None,
    canary: Annotated[
        bool, typer.Option(_CANARY, hidden=True, help="Try the records that come on standard input.")
    ] = False,
) -> None:
    """Evaluate history once more, by the present settings or those of `--config`, without touching anything live.

    What is read is fixed at the start: from Kafka the interactions and what was redriven, or the files. Results go to
    topics of the run, `rag.run.RUN_ID.evaluations`, `.windows`, `.dead-letter` and so on, each exactly once. Stopped or
    killed, the same command goes on where it was; other settings under the same id are refused. Then `ragweir compare
    live RUN_ID` shows what changed.

    Without `--judge`, nobody judges. A run's `--budget` is its own: what judging live may cost is not touched by it.
    """
    if not re.fullmatch(RUN_ID, run_id) or run_id == "live":
        raise typer.BadParameter(f"--run-id {run_id!r}: up to 60 letters, digits, _ and -, and not `live`")
    effective = settings(input={"map": map})
    if topic not in (None, effective.input_topic) and map is None:  # The settings' map is for the live input.
        effective = effective.model_copy(update={"input": effective.input.model_copy(update={"map": None})})
    if slot is not None:
        own = None if canary else same_command(_CANARY)
        as_worker(partial(run_worker, effective, run_id, workers, rate, slot, stop_flag(), own))
        return
    if windows_file and openmetrics and windows_file.resolve() == openmetrics.resolve():
        raise typer.BadParameter("--windows and --openmetrics are two files")
    asked, archives = _asked(topic, since, until, only, judge, budget, files), files or []
    found = find_run(effective, run_id)
    if found is None:
        found = StoredRun(create_run(effective, run_id, asked, archives), Loaded())
    else:
        check_resumable(effective, found, asked, archives)
    if dry_run:
        _tell(estimate(run_settings(effective, found.run), found.run), found, workers, rate)
        return
    flags = ["--run-id", run_id, "--workers", str(workers)]
    flags += ["--topic", topic] if topic else []
    flags += ["--map", str(map)] if map else []
    flags += ["--rate", str(rate)] if rate else []
    if not _run(effective, found, workers, flags):
        err.print(f"stopped; the same command goes on with the run {run_id}", soft_wrap=True)
        raise typer.Exit(STOPPED)
    _finish(effective, run_id, windows_file, openmetrics)


def _asked(
    topic: str | None,
    since: str | None,
    until: str | None,
    only: Iterable[str] | None,
    judge: str,
    budget: float | None,
    files: Iterable[Path] | None,
) -> ReplayRequest:
    modes: dict[str, JudgeMode] = {"never": "never", "cached-only": "cached-only", "budget": "budget"}
    if judge not in modes:
        raise typer.BadParameter(f"--judge {judge!r} is none of never, cached-only and budget")
    if (judge == "budget") != (budget is not None):
        raise typer.BadParameter("--judge budget and --budget DOLLARS go together")
    if files and (topic or since or until):
        raise typer.BadParameter(
            "files are read whole: --topic, --from and --to are for topics; --only 'time>…' is not"
        )
    return ReplayRequest(
        topic=topic, since=since, until=until, only=tuple(only or ()), judge=modes[judge], budget_usd=budget
    )


def _run(effective: Settings, found: StoredRun, workers: int, flags: list[str]) -> bool:
    """Go on with a run under a bar; gives whether it is complete."""

    def command(_: Phase, slot: int) -> list[str]:
        return own_command(*shared_flags(), "replay", *flags, "--slot", str(slot))

    with _bar() as bar:
        task = bar.add_task("starting", total=None, said="")
        phase = ""

        def show(progress: PhaseProgress) -> None:
            nonlocal phase
            if progress.phase != phase:
                phase = progress.phase
                bar.reset(task, description=_PHASES[progress.phase], said="")
            bar.update(task, total=progress.total, completed=progress.done, said=_said(progress, bar.tasks[0].speed))

        return ReplayRunner(effective, found.run, command, workers, show, stop_flag(), quiet=err.is_terminal)()


def _bar() -> Progress:
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    said = TextColumn("{task.fields[said]}", markup=False)
    return Progress(*columns, said, console=err, transient=True, disable=not err.is_terminal)


def _said(progress: PhaseProgress, speed: float | None) -> str:
    """Rate and lag, for the bar.

    >>> _said(PhaseProgress("evaluating", 30, {("t", 0): 7, ("t", 1): 0, ("u", 0): 20}), 12.3)
    '12/s; lag u/0 20, t/0 7'
    """
    if progress.problem:
        return f"waiting: {progress.problem}"
    longest = sorted(((left, place) for place, left in progress.lag.items() if left), reverse=True)
    lags = ", ".join(f"{topic}/{partition} {left:,}" for left, (topic, partition) in longest[:_LAGS])
    more = f" and {len(longest) - _LAGS} more" if len(longest) > _LAGS else ""
    return "; ".join(filter(None, (f"{speed:,.0f}/s" if speed else "", f"lag {lags}{more}" if lags else "")))


def _finish(effective: Settings, run_id: str, lines: Path | None, samples: Path | None) -> None:
    """Write the run's windows where they are wanted, and say what it came to."""
    found, imported = find_run(effective, run_id), OpenMetrics(run_id, effective)
    formats: dict[Path, OutputFormat] = {lines: JsonLines()} if lines else {}
    formats |= {samples: imported} if samples else {}
    events = 0
    left_out: Counter[UnusedReason] = Counter()
    base = effective.windows.sizes[0]

    def counted(each: Iterable[Window]) -> Iterator[Window]:
        nonlocal events
        for window in each:
            events += window.events if window.window == base else 0
            yield window

    with _bar() as bar:

        def watch(what: str, total: int) -> Moved:
            task = bar.add_task(f"reading {what}", total=total, said="")
            return lambda more: bar.advance(task, more)

        own = prefix_of(effective, run_id)
        buried = offset_range(effective, f"{own}dead-letter")
        dead = sum(1 for _ in read(effective, buried, watch("dead letters", len(buried))))
        whole = windows(effective, own, watch, left_out)
        try:
            number = write(counted(whole), formats)
        except OSError as error:
            raise PermanentError(f"the windows cannot be written: {error}") from None
    told = [f"the run {run_id} is complete: {events:,} events evaluated, {number:,} windows"]
    if dead:
        told.append(f"{dead:,} dead letters, and `ragweir --prefix {own} dead-letter show` tells why")
    if found is not None and found.loaded.left_out:
        told.append(f"{found.loaded.left_out:,} lines too large for Kafka left out")
    if imported.left_out:
        told.append(f"{imported.left_out:,} windows before 1970 or in the future are not for Prometheus")
    if left_out.total():
        told.append(f"{left_out.total():,} records of windows could not be read")
    err.print("; ".join(told), soft_wrap=True)


def _tell(found: ReplayEstimate, where: StoredRun, workers: int, rate: float | None) -> None:
    """Show what a run would do."""
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
    became = ", ".join(f"{found.outcomes[name]} {told}" for name, told in kinds.items() if found.outcomes[name])
    table.add_row(f"of a sample of {found.sampled}", became or "nothing")
    lasts = timedelta(seconds=round(3600 * found.hours(workers, rate)))
    ends = datetime.now(UTC) + lasts
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
