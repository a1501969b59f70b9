"""`ragweir metrics`: shows the catalogue of metrics."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from ragweir.metrics.metric import Metric
from ragweir.streams.cli.app import app, out, settings
from ragweir.streams.from_settings import known_catalogue
from ragweir.streams.screens.scores import DIRECTIONS

_COST = {
    "free": "computed for every event",
    "local": "computed by a local model, on the events that routing selects for its suite",
    "llm": "computed by the judge, on the events that routing selects for its suite",
}


@app.command()
def metrics(
    name: Annotated[
        str | None, typer.Argument(help="Name of the metric to show in full. Default: all, in brief.")
    ] = None,
) -> None:
    """Show the catalogue of metrics, or one metric in full: unit, bounds, direction, needs and definition."""
    catalogue = known_catalogue(settings()).metrics
    if name is None:
        _list(list(catalogue.values()))
        return
    if name not in catalogue:
        near = difflib.get_close_matches(name, catalogue, 3)
        hint = f"; near it: {', '.join(near)}" if near else ""
        raise typer.BadParameter(f"there is no metric {name!r}{hint}")
    metric = catalogue[name]
    facts = f"{metric.group}, {metric.unit}, {metric.range}, {DIRECTIONS[metric.better]}, {metric.cost}"
    out.print(Text.assemble((name, "bold"), f"  {facts}"))
    if metric.aliases:
        out.print(f"also called {', '.join(metric.aliases)}")
    needs = ", ".join(metric.needs) or "only the required fields"
    out.print(f"needs {needs}; {metric.source}")
    out.print(f"{_COST[metric.cost]}\n")
    out.print(metric.text)


def _list(every: list[Metric]) -> None:
    """Print two lines a metric, which fit on any terminal."""
    group = None
    for metric in every:
        if metric.group != group:
            group = metric.group
            out.print(Text(f"\n{group}", "bold underline"))
        needs = f"; needs {', '.join(metric.needs)}" if metric.needs else ""
        facts = f"{metric.unit}, {metric.range}, {DIRECTIONS[metric.better]}, {metric.cost}{needs}; {metric.source}"
        out.print(Text.assemble((metric.name, "bold"), "  ", (facts, "dim")))
        out.print(Padding(metric.meaning, (0, 0, 0, 4)))
