"""`ragweir runs`: the replays that there are."""

from __future__ import annotations

import sys
from typing import Annotated

import orjson
import typer
from rich.table import Table

from ragweir.errors import PermanentError
from ragweir.schemas.codec.json import encode
from ragweir.streams.cli.app import FAILURE, app, err, out, settings
from ragweir.streams.masking import masked
from ragweir.streams.replay.runs import delete_run, find_run, prefix_of, stored_runs
from ragweir.streams.terminal import printable, printable_json

commands = typer.Typer(help="List, show or delete replays.", no_args_is_help=True)
app.add_typer(commands, name="runs")

RunId = Annotated[str, typer.Argument(help="The run's id.")]


@commands.command(name="list")
def list_runs() -> None:
    """List the runs: when each began, how far it is, and what it was asked for."""
    table = Table("run", "began", "phase", "what", "judge", "catalogue")
    for run in stored_runs(settings()):
        asked = run.asked
        read = ", ".join(archive.path for archive in run.files) or run.topic
        bounds = (("from", asked.since), ("to", asked.until), ("only", " and ".join(asked.only)))
        what = " ".join([read, *(f"{word} {value}" for word, value in bounds if value)])
        judge = asked.judge if asked.budget_usd is None else f"${asked.budget_usd:,.2f}"
        began = f"{run.began_at:%Y-%m-%d %H:%M}"
        table.add_row(run.run_id, began, run.phase, printable(what, None), judge, printable(run.catalogue_version))
    out.print(table)


@commands.command()
def show(run_id: RunId) -> None:
    """Show a run's record: what it reads, up to where, and by which settings."""
    effective = settings()
    found = find_run(effective, run_id)
    if found is None:
        raise PermanentError(f"there is no run {run_id}; `ragweir runs list` tells which there are")
    record = orjson.loads(encode(found.run))
    record["settings"] = masked(record["settings"])  # An earlier release may have kept some.
    record["loaded"] = found.loaded.model_dump() if found.run.files else None
    record["topics"] = f"{prefix_of(effective, run_id)}*"
    typer.echo(printable_json(orjson.dumps(record, option=orjson.OPT_INDENT_2)))


@commands.command()
def delete(
    run_id: RunId,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking first.")] = False,
) -> None:
    """Delete a run's topics, all its results among them, and its groups. Nothing live is touched.

    Asks first. Without a terminal nobody can answer, and `--yes` is required. Exit status 1 when the answer is no.
    """
    if not yes and not (sys.stdin and sys.stdin.isatty()):
        raise typer.BadParameter("--yes is required where standard input is no terminal, since nobody can be asked")
    effective = settings()
    if find_run(effective, run_id) is None:
        raise PermanentError(f"there is no run {run_id}; `ragweir runs list` tells which there are")
    if not yes and not typer.confirm(f"Delete all topics {prefix_of(effective, run_id)}*?", err=True):
        raise typer.Exit(FAILURE)
    names = delete_run(effective, run_id)
    err.print(f"deleted {', '.join(names)}", soft_wrap=True)
