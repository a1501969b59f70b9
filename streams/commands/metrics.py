"""`ragweir metrics`: shows the catalogue of metrics, and one metric in full."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text
from typer.core import TyperGroup
from typing_extensions import override

from ragweir.metrics import packs
from ragweir.metrics.metric import Metric
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.commands.app import app, out, settings
from ragweir.streams.commands.check_metrics import check
from ragweir.streams.commands.screens.scores import DIRECTIONS
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import MetricSettings
from ragweir.streams.settings.imports import METRICS, PACKS, available

_COST = {
    "free": "computed for every event",
    "local": "computed by a local model, on the events that routing selects for its suite",
    "llm": "computed by the judge, on the events that routing selects for its suite",
}


class _Group(TyperGroup):
    """The commands; the name of a metric in place of a command shows that metric."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["show", *args]
        return super().parse_args(ctx, args)


commands = typer.Typer(cls=_Group, invoke_without_command=True)
app.add_typer(commands, name="metrics")
commands.command("check")(check)


@commands.callback()
def metrics(context: typer.Context) -> None:
    """Show the catalogue of metrics; `ragweir metrics NAME` shows one in full.

    Own metrics and packs are loaded by `metrics.modules` and `metrics.packs` in the settings. Those that installed
    packages offer are listed at the end, and not imported.
    """
    if context.invoked_subcommand is not None:
        return
    effective = settings()
    unloaded = {
        metric.name for name in packs.SHIPPED.keys() - set(effective.metrics.packs) for metric in packs.SHIPPED[name]
    }
    _list([metric for name, metric in known_catalogue(effective).metrics.items() if name not in unloaded])
    _offer(effective.metrics)


@commands.command()
def show(name: Annotated[str, typer.Argument(help="Name of the metric.")]) -> None:
    """Show one metric in full: unit, bounds, direction, needs and definition."""
    effective = settings()
    catalogue = known_catalogue(effective).metrics
    if name not in catalogue:
        raise typer.BadParameter(f"there is no metric {name!r}{nearest_hint(name, catalogue)}")
    metric = catalogue[name]
    facts = f"{metric.group}, {metric.unit}, {metric.range}, {DIRECTIONS[metric.better]}, {metric.cost}"
    out.print(Text.assemble((name, "bold"), f"  {facts}"))
    if metric.aliases:
        out.print(f"also called {', '.join(metric.aliases)}")
    needs = ", ".join(metric.needs) or "only the required fields"
    out.print(f"needs {needs}; {printable(metric.source)}")
    pack = next((pack for pack, own in packs.SHIPPED.items() if metric in own), None)
    if pack is not None and pack not in effective.metrics.packs:
        out.say(f'of the question pack {pack}, which is not loaded: set metrics.packs = ["{pack}"]\n')
    else:
        out.print(f"{_COST[metric.cost]}\n")
    for line in metric.text.splitlines():
        out.print(Text(printable(line, None)))


def _list(every: list[Metric]) -> None:
    """Print two lines a metric, which fit on any terminal."""
    group = None
    for metric in every:
        if metric.group != group:
            group = metric.group
            out.print(Text(f"\n{group}", "bold underline"))
        needs = f"; needs {', '.join(metric.needs)}" if metric.needs else ""
        source = printable(metric.source)
        facts = f"{metric.unit}, {metric.range}, {DIRECTIONS[metric.better]}, {metric.cost}{needs}; {source}"
        out.print(Text.assemble((metric.name, "bold"), "  ", (facts, "dim")))
        out.print(Padding(Text(printable(metric.meaning)), (0, 0, 0, 4)))


def _offer(given: MetricSettings) -> None:
    """Print what could be loaded and is not."""
    shipped = [f"{name}  ships with ragweir" for name in packs.SHIPPED if name not in given.packs]
    for setting, group, loaded, others in (
        ("metrics.modules", METRICS, given.modules, []),
        ("metrics.packs", PACKS, given.packs, shipped),
    ):
        offered = [
            f"{name}  of {entry.dist.name} {entry.dist.version}" if entry.dist else name
            for name, entry in sorted(available(group).items())
            if name not in loaded
        ]
        if lines := [*others, *offered]:
            out.print(Text(f"\nAvailable, not loaded: name them in {setting}", "bold underline"))
            for line in lines:
                out.print(Text(printable(line)))
