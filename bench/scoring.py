"""Cost of one event without Kafka, with texts counted in Python and by the kernel, and the part of each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter

from rich.table import Table

from bench.interactions import interactions
from bench.timing import side_by_side
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.counts import NAMES, Counts
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.view import Counting, TextLimits, View, reference
from ragweir.schemas.codec.json import decode
from ragweir.streams.runtime.kernel_choice import kernel_choice
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.settings import KernelSettings, RoutingSettings

EVENTS = 100
_PASSES = 20
_COSTLIEST = 12
_LIMITS = TextLimits()


def countings() -> Mapping[str, Counting]:
    """Return the ways of counting texts by name: Python's, and the kernel's where it is installed."""
    chosen = kernel_choice(KernelSettings())
    return {"Python": reference, **({"kernel": chosen.counting} if chosen.version else {})}


def _note() -> str:
    """Return which kernel is measured, or why none is."""
    chosen = kernel_choice(KernelSettings())
    return f"Kernel {chosen.version}." if chosen.version else f"Without the kernel: {chosen.reason}."


def counted(view: View) -> View:
    """Return the view with everything counted that metrics read."""
    counts = view.counts
    for name in NAMES:
        getattr(counts, name)
    return view


def _works(counting: Counting, textless: Catalogue) -> dict[str, Callable[[], object]]:
    """Return the works that are measured with one way of counting, on the same events."""
    values = list(interactions(EVENTS))
    events = [decode(value) for value in values]
    records = [Record("t", 0, number, None, value, None) for number, value in enumerate(values)]
    catalogue = Catalogue(everything())
    router = Router(RoutingSettings(), catalogue, tuple(suites()))
    agent, routing = (
        EvaluateAgent(EvaluateConfig(catalogue, counting=counting, router=each, duplicate_horizon=10_000))
        for each in (None, router)
    )

    def score(chosen: Catalogue) -> Callable[[], object]:
        return lambda: [chosen.score(View(event, _LIMITS, counting)) for event in events]

    def handle(each: EvaluateAgent) -> Callable[[], object]:
        return lambda: (each.handle(records), each.on_abort())  # Else the next round has duplicates only.

    return {
        "decode": lambda: list(map(decode, values)),
        "count": lambda: [counted(View(event, _LIMITS, counting)) for event in events],
        "textless": score(textless),
        "score": score(catalogue),
        "agent": handle(agent),
        "routing": handle(routing),
    }


def steps() -> Mapping[str, Mapping[str, float]]:
    """Return the microseconds that each step of an event takes, by the way of counting."""
    ways = countings()
    every = tuple(Catalogue(everything()).free.values())
    textless = Catalogue([metric for metric in every if not counts_texts(metric.name)])
    works = {way: _works(counting, textless) for way, counting in ways.items()}
    parts = next(iter(works.values()))
    found = {part: side_by_side({way: each[part] for way, each in works.items()}, EVENTS) for part in parts}

    def less(whole: str, *parts: str) -> dict[str, float]:
        return {way: found[whole][way] - sum(found[part][way] for part in parts) for way in ways}

    return {
        "decode": found["decode"],
        "count in the texts": found["count"],
        f"score by the {len(textless.free)} metrics without texts": found["textless"],
        f"the formulas of the other {len(every) - len(textless.free)}": less("score", "count", "textless"),
        f"score by all {len(every)} metrics, counting included": found["score"],
        "evaluation, duplicates, encoding, headers": less("agent", "decode", "score"),
        "the whole agent": found["agent"],
        "the whole agent, routing by the default rules": found["routing"],
    }


def counts_texts(name: str) -> bool:
    """Return true if a metric reads the counts of one of the events."""
    asked = False

    def asks(view: View) -> Counts:
        nonlocal asked
        asked = True
        return reference(view)

    alone = Catalogue([metric for metric in everything() if metric.name == name])
    for value in interactions(10):
        alone.score(View(decode(value), _LIMITS, asks))
    return asked


def table() -> Table:
    """Return one row per step, with the factor between the ways of counting."""
    size = sum(map(len, interactions(EVENTS))) / EVENTS
    title = f"One event of {size:,.0f} bytes, CPU time, best of many rounds"
    # In Python a formula counts only what it asks for.
    caption = f"{_note()} A difference below 0: counting alone counts more than the formulas ask for."
    columns = ("step", *(f"µs per event, {name}" for name in countings()), "factor")
    result = Table(*columns, title=title, caption=caption)
    for step, by_way in steps().items():
        costs = list(by_way.values())
        result.add_row(step, *(f"{cost:.1f}" for cost in costs), f"{costs[0] / costs[-1]:.1f}" if costs[1:] else "")
    return result


def costliest() -> Table:
    """Return the metrics whose formulas cost most once all is counted; shared work counts for the first."""
    ways = {name: _by_metric(counting) for name, counting in countings().items()}
    last = list(ways.values())[-1]
    title = f"The {_COSTLIEST} costliest formulas, without counting; work that several share counts for the first"
    result = Table("metric", *(f"µs per event, {name}" for name in ways), title=title, caption=_note())
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
