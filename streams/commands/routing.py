"""`ragweir routing plan`: makes routing rows from past windows, and shows what the judge's money buys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from ragweir.schemas.codec.json import encode
from ragweir.streams.commands.app import app, out, settings
from ragweir.streams.commands.options import Every, interval
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.reports import JsonFile, write, write_json
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.planner import service
from ragweir.streams.services.planner.control import effective_rows
from ragweir.streams.services.planner.row_plan import FEWEST, Planned
from ragweir.streams.services.planner.share_estimate import AUROC, ShareEstimate, estimate_share
from ragweir.streams.settings import Settings

commands = typer.Typer(help="Plan which events the judge reads.", no_args_is_help=True)
app.add_typer(commands, name="routing")

FACTORS = (0.5, 1.0, 2.0)
"""The multiples of the money that the report compares."""
_SHOWN = 20
"""The most applications in the table."""


@commands.callback()
def routing() -> None:
    """Plan which events the judge reads."""


@commands.command()
def plan(
    apply: Annotated[
        bool, typer.Option("--apply", help="Append the rows to the topic `control`, from which evaluate reads them.")
    ] = False,
    every: Every = "1d",
    auroc: Annotated[
        float,
        typer.Option(
            min=0.5,
            max=0.999,
            help="Probability that a bad answer has a higher unsupported_risk than a good one, for the expected finds.",
        ),
    ] = AUROC,
    export: Annotated[
        Path | None, typer.Option(help="File for all rows that evaluate selects by, as JSON lines.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Plan a routing row for each application from the windows of the last seven closed days.

    A row selects the share `routing.share` of an application's events: the riskiest ones, and the part
    `routing.floor_share` of them at random. An application with fewer than 500 events keeps the row that it has. The
    report shows what this share buys, and half and twice of it: events, dollars, the expected width of intervals, and
    the expected share of the bad answers that the judge reads. Only `--apply` writes, and a row that is equal to the
    present one is not written again; `ragweir up` does it once a day if there is a judge.
    """
    length = interval(every)
    effective = settings()
    with Bars() as bars:
        made = service.plan_once(effective, length, service.now, bars.watch, applied=apply)
    _report(effective, made, auroc, applied=apply)
    if export:
        write(export, b"".join(encode(row) + b"\n" for row in effective_rows(effective)))
    if json_file:
        write_json(
            json_file, orjson.dumps(_json(effective, made, auroc), option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z)
        )


def estimates(effective: Settings, made: service.Round, planned: Planned, auroc: float) -> list[ShareEstimate]:
    """Return what half, the planned and twice the money buys for an application."""
    return [
        estimate_share(
            planned.traffic,
            made.period.days,
            min(1.0, factor * made.share),
            effective.routing.floor_share,
            made.cost and made.cost.usd,
            effective.windows.sizes,
            auroc,
        )
        for factor in FACTORS
    ]


def _json(effective: Settings, made: service.Round, auroc: float) -> dict[str, Any]:
    return {
        "start": made.period.start,
        "end": made.period.end,
        "share": made.share,
        "floor_share": effective.routing.floor_share,
        "cost_usd": made.cost and made.cost.usd,
        "auroc": auroc,
        "applications": [
            {
                "application": each.application,
                "events": each.traffic.events,
                "bad": each.traffic.bad,
                "state": each.state,
                "row": each.row and each.row.model_dump(),
                "outlook": [found._asdict() for found in estimates(effective, made, each, auroc)],
            }
            for each in made.planned
        ],
    }


def _report(effective: Settings, made: service.Round, auroc: float, *, applied: bool) -> None:
    out.say(f"Windows from {made.period.start:%Y-%m-%d %H:%M} to {made.period.end:%Y-%m-%d %H:%M} UTC.")
    if not made.planned:
        out.say("They hold no events, so the shipped row holds for all applications.")
        return
    sizes = [*effective.windows.sizes, "1d"]
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("application", overflow="fold")
    for column in ("events/day", "share", "judged/day", "dollars/day", "finds", *(f"width {size}" for size in sizes)):
        table.add_column(column, justify="right")
    for each in made.planned[:_SHOWN]:
        name = "(none)" if each.application is None else printable(each.application)
        for number, found in enumerate(estimates(effective, made, each, auroc)):
            per_day = f"{each.traffic.events / made.period.days:,.0f}"
            table.add_row(*((name, per_day) if not number else ("", "")), *_cells(found, sizes))
    out.print(table)
    if len(made.planned) > _SHOWN:
        out.say(f"and {len(made.planned) - _SHOWN} more; --json has them all.")
    for line in _sources(effective, made, auroc):
        out.say(line)
    for each in made.planned:
        if each.state == "new" and each.row is not None:
            name = "events without application" if each.application is None else printable(each.application)
            done = "Appended" if applied else "With --apply"
            out.say(f"{done}: {name} from {each.row.effective_at:%Y-%m-%d %H:%M} UTC, above bin {each.row.bin}.")


def _cells(found: ShareEstimate, sizes: Sequence[str]) -> list[str]:
    usd = "" if found.usd_per_day is None else f"{found.usd_per_day:,.2f}"
    widths = [found.widths[size] for size in sizes]
    shown = ["too few" if width is None else f"{width:.2f}" for width in widths]
    return [f"{found.share:.1%}", f"{found.judged_per_day:,.0f}", usd, f"{found.finds:.0%}", *shown]


def _sources(effective: Settings, made: service.Round, auroc: float) -> list[str]:
    """Return what the numbers rest on."""
    few = sum(each.state == "few_events" for each in made.planned)
    cost = "The ledger has no judged event of these days, so no cost is known."
    if made.cost is not None:
        cost = f"Cost: {made.cost.usd:.6f} dollars an event, by the ledger of {made.cost.events:,} judged events."
    unknown = sum(each.traffic.bad is None for each in made.planned)
    bad = "Bad answers: by the judge's estimate of judge_faithfulness"
    finds = (
        f"Finds: expected if a bad answer has a higher unsupported_risk than a good one in {auroc:.0%} of pairs, an "
        "assumption (--auroc); answers that people labelled gave .67 to .91."
    )
    lines = [
        cost,
        finds,
        f"{bad}; 0.2 is assumed for {unknown} applications that it has not read." if unknown else f"{bad}.",
        "Widths: of the 95 % interval of the judge's mean score; it says nothing about the judge's own errors.",
    ]
    if few:
        lines.append(f"{few} applications have fewer than {FEWEST} events and keep the row that they have.")
    if effective.routing.share_from_budget and effective.judge.daily_budget_usd is not None and made.cost is None:
        lines.append("routing.share holds until the cost of an event is known (routing.share_from_budget).")
    return lines
