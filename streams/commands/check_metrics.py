"""`ragweir metrics check`: checks own metrics by the laws of the shipped ones, and shows their cost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import orjson
import typer
from rich.table import Table
from rich.text import Text

from ragweir.metrics import packs
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.laws.check import Check, Counterexample, Report, TooLong, every_event
from ragweir.metrics.laws.work import cost_us
from ragweir.metrics.metric import Metric
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.commands.app import FAILURE, out, settings
from ragweir.streams.commands.progress import Bars
from ragweir.streams.runtime.kernel_choice import kernel_choice
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.shared.from_settings import known_catalogue

_LIMIT_S = 5.0
"""Time limit of the work on one event."""
_SHOWN_CHARACTERS = 1_000
"""Maximum number of characters that are shown of an event."""


def check(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of metrics. Default: all that do not ship with ragweir.")
    ] = None,
) -> None:
    """Check own metrics by the laws that the shipped ones keep, and show their cost.

    A metric is computed for thousands of events: ordinary ones, events with every kind of value in every field, texts
    in many scripts, and texts made to be costly. It has to give a value within its bounds or a null with a reason, the
    same value for the same event, whatever is computed before it, and the same for any order of the contexts unless it
    says `order_free=False`. It must not raise, change the event, or take more than linear time. A law that is broken is
    shown with a small event that breaks it.

    The cost is the CPU time of one ordinary event in microseconds, without tokenising, which all metrics share. The
    exit status is 1 if a law is broken.
    """
    chosen = _chosen(names or [])
    shipped = [metric for metric in everything() if metric.cost == "free"]
    others = [metric for metric in shipped if metric not in chosen]
    with Bars() as bars:
        tick = bars.watch("Checking", sum(1 for _ in every_event()))
        report = Check(chosen, others, _limited, kernel_choice(settings().kernel).counting).run(tick)
    _show(report, chosen, shipped)
    for counterexample in report.broken:
        _explain(counterexample)
    if report.broken:
        raise typer.Exit(FAILURE)


def _chosen(names: Sequence[str]) -> list[Metric]:
    """Return the metrics that are checked.

    Raises:
        typer.BadParameter: if there is none, or a name is not one of a free metric.
    """
    known = known_catalogue(settings())
    own = known.metrics.keys() - {metric.name for metric in everything(packs.SHIPPED)}
    for name in names:
        if name not in known.metrics:
            near = nearest_hint(name, known.free)
            raise typer.BadParameter(f"there is no metric {name!r}{near}; `ragweir metrics` lists all")
        if name not in known.free:
            raise typer.BadParameter(f"{name!r} is computed by a suite, and only metrics of cost free are checked")
    chosen = [metric for name, metric in known.free.items() if name in (names or own)]
    if not chosen:
        raise typer.BadParameter(
            'no own metric is loaded: name its module, such as metrics.modules = ["my_metrics"], or metrics to check'
        )
    return chosen


@contextmanager
def _limited() -> Iterator[None]:
    """Raise TooLong in the block once it takes longer than the limit; on Windows never."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(_signal: int, _frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, _LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _show(report: Report, metrics: Sequence[Metric], shipped: Sequence[Metric]) -> None:
    whole = cost_us(Catalogue(shipped))
    slow = {each.breach.metric for each in report.broken}
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("metric", no_wrap=True)
    for heading in ("with a value", "µs per event", "of the shipped"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("laws")
    for metric in metrics:
        own = cost_us(Catalogue([metric]), metric.question) if metric.name not in slow else None
        cost = ("", "") if own is None else (f"{own:,.1f}", f"{100 * own / whole:.1f} %")
        laws = Text("broken", "red") if metric.name in slow else Text("kept", "green")
        computed = report.computed[metric.name]
        table.add_row(metric.name, f"{computed:,} events", *cost, laws)
    table.add_row(f"the {len(shipped)} shipped metrics", "", f"{whole:,.1f}", "", "")
    out.print(f"{report.events:,} events were scored.\n")
    out.print(table)
    for metric in metrics:
        if not report.computed[metric.name] and metric.name not in slow:
            out.say(f"\n{metric.name} has no value on any event of the corpus: its values are not checked", "yellow")


def _explain(counterexample: Counterexample) -> None:
    breach = counterexample.breach
    out.print(Text.assemble("\n", (breach.metric, "bold"), f" breaks the law: {breach.law}"))
    out.print(Text(f"  {printable(breach.why, _SHOWN_CHARACTERS)}"))
    if counterexample.event is not None:
        out.print(Text("  for the event", "dim"))
        event = orjson.dumps(counterexample.event).decode()
        out.print(Text(f"  {printable(event, _SHOWN_CHARACTERS)}"), soft_wrap=True)
