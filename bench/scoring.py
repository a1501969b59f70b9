"""Cost of one event without Kafka, with texts counted in Python and by the kernel, and the part of each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter

from rich.table import Table

from bench.countings import countings, note
from bench.interactions import interactions
from bench.timing import microseconds
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.counts import NAMES
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.view import Counting, TextLimits, View
from ragweir.schemas.codec.json import decode
from ragweir.schemas.interaction import Interaction
from ragweir.streams.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.evaluate.routing import Router
from ragweir.streams.records import Record
from ragweir.streams.settings import RoutingSettings

EVENTS = 100
_PASSES = 20
_COSTLIEST = 12
_LIMITS = TextLimits()


def counted(view: View) -> View:
    """Return the view with everything counted that metrics read."""
    counts = view.counts
    for name in NAMES:
        getattr(counts, name)
    return view


def steps(counting: Counting) -> Mapping[str, float]:
    """Return the microseconds that each step of an event takes with a way of counting."""
    values = list(interactions(EVENTS))
    events = [decode(value) for value in values]
    every = tuple(Catalogue(everything()).free.values())
    catalogue = Catalogue(every)
    router = Router(RoutingSettings(), catalogue, tuple(suites()))
    agent, routing = (
        EvaluateAgent(EvaluateConfig(catalogue, counting=counting, router=each, duplicate_horizon=10_000))
        for each in (None, router)
    )
    records = [Record("t", 0, number, None, value, None) for number, value in enumerate(values)]
    without_text = Catalogue([metric for metric in every if not counts_texts(metric.name, events, counting)])

    def cost(work: Callable[[], object]) -> float:
        return microseconds(work, EVENTS)

    def score(chosen: Catalogue) -> float:
        return cost(lambda: [chosen.score(View(event, _LIMITS, counting)) for event in events])

    def handle(each: EvaluateAgent) -> float:
        return cost(lambda: (each.handle(records), each.on_abort()))  # Else its next round has duplicates only.

    decoding = cost(lambda: list(map(decode, values)))
    counting_all = cost(lambda: [counted(View(event, _LIMITS, counting)) for event in events])
    textless, full = score(without_text), score(catalogue)
    whole = handle(agent)
    return {
        "decode": decoding,
        "count in the texts": counting_all,
        f"score by the {len(without_text.free)} metrics without texts": textless,
        f"the formulas of the other {len(every) - len(without_text.free)}": full - counting_all - textless,
        f"score by all {len(every)} metrics, counting included": full,
        "evaluation, duplicates, encoding, headers": whole - decoding - full,
        "the whole agent": whole,
        "the whole agent, routing by the default rules": handle(routing),
    }


def counts_texts(name: str, events: list[Interaction], counting: Counting) -> bool:
    """Return true if a metric reads the counts of one of these events."""
    asked = False

    def asks(view: View) -> object:
        nonlocal asked
        asked = True
        return counting(view)

    alone = Catalogue([metric for metric in everything() if metric.name == name])
    for event in events[:10]:
        alone.score(View(event, _LIMITS, asks))  # type: ignore[arg-type]
    return asked


def table() -> Table:
    """Return one row per step, with the factor between the ways of counting."""
    ways = {name: steps(counting) for name, counting in countings().items()}
    size = sum(map(len, interactions(EVENTS))) / EVENTS
    title = f"One event of {size:,.0f} bytes, CPU time, best of many rounds"
    result = Table(title=title, title_justify="left", caption=note(), caption_justify="left")
    for name in ("step", *(f"µs per event, {name}" for name in ways), "factor"):
        result.add_column(name, justify="left" if name == "step" else "right")
    first, *_ = ways.values()
    for step in first:
        costs = [each[step] for each in ways.values()]
        result.add_row(step, *(f"{cost:.1f}" for cost in costs), f"{costs[0] / costs[-1]:.1f}" if costs[1:] else "")
    return result


def costliest() -> Table:
    """Return the metrics whose formulas cost most once all is counted; shared work counts for the first."""
    ways = {name: _by_metric(counting) for name, counting in countings().items()}
    last = list(ways.values())[-1]
    title = f"The {_COSTLIEST} costliest formulas, without counting; work that several share counts for the first"
    result = Table(title=title, title_justify="left", caption=note(), caption_justify="left")
    for name in ("metric", *(f"µs per event, {name}" for name in ways)):
        result.add_column(name, justify="left" if name == "metric" else "right")
    ordered = sorted(last, key=lambda name: -last[name])
    for name in ordered[:_COSTLIEST]:
        result.add_row(name, *(f"{each[name]:.1f}" for each in ways.values()))
    rest = (sum(each[name] for name in ordered[_COSTLIEST:]) for each in ways.values())
    result.add_row(f"the other {len(ordered) - _COSTLIEST}", *(f"{each:.1f}" for each in rest))
    return result


def _by_metric(counting: Counting) -> dict[str, float]:
    """Return the microseconds of each metric, in the order of the catalogue."""
    events = [decode(value) for value in interactions(EVENTS)]
    catalogue = [metric for metric in Catalogue(everything()).free.values() if metric.question is None]
    best = {metric.name: [float("inf")] * EVENTS for metric in catalogue}
    for _ in range(_PASSES):
        for number, event in enumerate(events):
            view = counted(View(event, _LIMITS, counting))
            for metric in catalogue:
                # The minimum of the wall clock, since reading the CPU time takes longer than most metrics.
                began = perf_counter()
                if all(getattr(event, need) is not None for need in metric.needs):
                    metric.compute(view)
                best[metric.name][number] = min(best[metric.name][number], perf_counter() - began)
    return {name: sum(seconds) / EVENTS * 1e6 for name, seconds in best.items()}
