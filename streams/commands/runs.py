"""`ragweir runs`: lists, shows and deletes replays."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer
from rich.table import Table

from ragweir.errors import PermanentError
from ragweir.schemas.codec.json import encode
from ragweir.streams.analysis.replay.runs import StoredRun, delete_run, find_run, prefix_of, stored_runs
from ragweir.streams.commands.app import app, err, out, settings
from ragweir.streams.commands.options import Yes, check_can_confirm, confirm
from ragweir.streams.runtime.text.masking import masked
from ragweir.streams.runtime.text.terminal import printable, printable_json
from ragweir.streams.settings import Settings

commands = typer.Typer(help="List, show or delete replays.", no_args_is_help=True)
app.add_typer(commands, name="runs")

RunId = Annotated[str, typer.Argument(help="Id of the replay.")]


@commands.command(name="list")
def list_runs() -> None:
    """List the replays: start, phase, the events that each one reads, and its judge."""
    table = Table("run", "began", "phase", "what", "judge", "catalogue")
    for run in stored_runs(settings()):
        request = run.asked
        read = ", ".join(archive.path for archive in run.files) or run.topic
        bounds = (
            ("like", request.like),
            ("from", request.since),
            ("to", request.until),
            ("only", " and ".join(request.only)),
        )
        what = " ".join([read, *(f"{word} {value}" for word, value in bounds if value)])
        judge = request.judge if request.budget_usd is None else f"${request.budget_usd:,.2f}"
        began = f"{run.began_at:%Y-%m-%d %H:%M}"
        table.add_row(run.run_id, began, run.phase, printable(what, None), judge, printable(run.catalogue_version))
    out.print(table)


@commands.command()
def show(run_id: RunId) -> None:
    """Show a replay as JSON: the offsets or files that it reads, its settings, and how far it has come."""
    effective = settings()
    found = _found(effective, run_id)
    record = orjson.loads(encode(found.run))
    record["settings"] = masked(record["settings"])  # An earlier release may have stored secrets.
    record["loaded"] = found.loaded.model_dump() if found.run.files else None
    record["topics"] = f"{prefix_of(effective, run_id)}*"
    typer.echo(printable_json(orjson.dumps(record, option=orjson.OPT_INDENT_2)))


@commands.command()
def delete(run_id: RunId, yes: Yes = False) -> None:
    """Delete a replay: its topics with all results, and its consumer groups. Live topics are not touched.

    The command asks for confirmation; `--yes` is required where standard input is no terminal. Exit status 1 when it is
    denied.
    """
    check_can_confirm(yes=yes)
    effective = settings()
    _found(effective, run_id)
    confirm(f"Delete all topics {prefix_of(effective, run_id)}*?", yes=yes)
    err.say(f"deleted {', '.join(delete_run(effective, run_id))}")


def _found(effective: Settings, run_id: str) -> StoredRun:
    found = find_run(effective, run_id)
    if found is None:
        raise PermanentError(f"there is no run {run_id}; `ragweir runs list` lists them")
    return found
