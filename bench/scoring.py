"""Cost of one event without Kafka: decode, score (each group alone, then all), encode, route to the judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter

from rich.table import Table

from bench.interactions import interactions
from bench.timing import microseconds
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.metric import Metric
from ragweir.metrics.view import View
from ragweir.schemas.codec.json import decode, encode
from ragweir.schemas.interaction import Interaction
from ragweir.streams.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.evaluate.routing import Router
from ragweir.streams.records import Record
from ragweir.streams.settings import RoutingSettings

EVENTS = 100
_PASSES = 20
_COSTLIEST = 12


def tokenised(view: View) -> View:
    """Return the view with every text tokenised as far as nearly all metrics need it."""
    for text in (view.query, view.response, *view.contexts, *view.expected):
        _ = text.tokens, text.stems
    return view


def scorer(events: Sequence[Interaction], metrics: Iterable[Metric]) -> Callable[[], object]:
    """Return a function that scores the events by some metrics, tokenising included."""
    catalogue = Catalogue(metrics)
    return lambda: [catalogue.score(View(event)) for event in events]


def table() -> Table:
    """Return one row per step."""
    values = list(interactions(EVENTS))
    events = [decode(value) for value in values]
    every = tuple(Catalogue(everything()).free.values())
    catalogue = Catalogue(every)
    router = Router(RoutingSettings(), catalogue, tuple(suites()))
    agent, routing = (EvaluateAgent(EvaluateConfig(catalogue, router=each)) for each in (None, router))
    records = [Record("t", 0, number, None, value, None) for number, value in enumerate(values)]
    evaluations = [each[0] for record in records for each in agent.evaluate(record) if isinstance(each, tuple)]

    def cost(work: Callable[[], object]) -> float:
        return microseconds(work, EVENTS)

    tokenising = cost(lambda: [tokenised(View(event)) for event in events])
    alone = {
        group: cost(scorer(events, (metric for metric in every if metric.group == group)))
        for group in dict.fromkeys(metric.group for metric in every)
    }
    rows = {
        "decode": cost(lambda: list(map(decode, values))),
        "tokenise every text": tokenising,
        **{f"score by {group} alone, tokenising included": each for group, each in alone.items()},
        "sum of the groups alone": sum(alone.values()),
        f"score by all {len(every)} metrics, tokenising included": (full := cost(scorer(events, every))),
        "of that, scoring": full - tokenising,
        "encode": cost(lambda: list(map(encode, evaluations))),
        "the whole agent: decode, score, encode": cost(lambda: agent.handle(records)),
        "the whole agent, routing by the default rules": cost(lambda: routing.handle(records)),
    }
    size = sum(map(len, values)) / EVENTS
    title = f"One event of {size:,.0f} bytes, CPU time, best of many rounds; each group tokenises what it reads"
    result = Table("step", "µs per event", "events/s on one core", title=title, title_justify="left")
    for name, each in rows.items():
        result.add_row(name, f"{each:.0f}", f"{1e6 / each:,.0f}")
    return result


def costliest() -> Table:
    """Return the metrics that cost most on tokenised texts; work that several share counts for the first of them."""
    events = [decode(value) for value in interactions(EVENTS)]
    catalogue = [metric for metric in Catalogue(everything()).free.values() if metric.question is None]
    best = {metric.name: [float("inf")] * EVENTS for metric in catalogue}
    for _ in range(_PASSES):
        for number, event in enumerate(events):
            view = tokenised(View(event))
            for metric in catalogue:
                # The minimum of the wall clock, since reading the CPU time takes longer than most metrics.
                began = perf_counter()
                if all(getattr(event, need) is not None for need in metric.needs):
                    metric.compute(view)
                best[metric.name][number] = min(best[metric.name][number], perf_counter() - began)
    ordered = sorted(((name, sum(seconds)) for name, seconds in best.items()), key=lambda item: -item[1])
    title = f"The {_COSTLIEST} costliest metrics, without tokenising; work that several share counts for the first"
    result = Table("metric", "µs per event", title=title, title_justify="left")
    for name, seconds in ordered[:_COSTLIEST]:
        result.add_row(name, f"{seconds / EVENTS * 1e6:.1f}")
    rest = sum(seconds for _, seconds in ordered[_COSTLIEST:])
    result.add_row(f"the other {len(ordered) - _COSTLIEST}", f"{rest / EVENTS * 1e6:.1f}")
    return result
