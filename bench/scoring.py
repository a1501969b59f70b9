"""What one event costs without Kafka: decode, score (each group on its own, then all), encode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter

from rich.table import Table

from bench.interactions import interactions
from bench.timing import microseconds
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.metric import Metric
from ragweir.metrics.view import View
from ragweir.schemas.codec.json import decode, encode
from ragweir.schemas.interaction import Interaction
from ragweir.streams.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.records import Record

EVENTS = 100
_PASSES = 20
_COSTLIEST = 12


def tokenised(view: View) -> View:
    """The view with every text read as far as nearly all metrics need it."""
    for text in (view.query, view.response, *view.contexts, *view.expected):
        _ = text.tokens, text.stems
    return view


def scorer(events: Sequence[Interaction], metrics: Iterable[Metric]) -> Callable[[], object]:
    """The work of scoring the events by some metrics, from the untouched event on."""
    catalogue = Catalogue(metrics)
    return lambda: [catalogue.score(View(event)) for event in events]


def table() -> Table:
    """One row per step."""
    values = list(interactions(EVENTS))
    events = [decode(value) for value in values]
    every = tuple(Catalogue(everything()).free.values())
    agent = EvaluateAgent(EvaluateConfig(Catalogue(every)))
    records = [Record("t", 0, number, None, value, None) for number, value in enumerate(values)]
    evaluations = [found[0] for record in records for found in agent.evaluate(record)]

    def cost(work: Callable[[], object]) -> float:
        return microseconds(work, EVENTS)

    reading = cost(lambda: [tokenised(View(event)) for event in events])
    alone = {
        group: cost(scorer(events, (metric for metric in every if metric.group == group)))
        for group in dict.fromkeys(metric.group for metric in every)
    }
    rows = {
        "decode": cost(lambda: list(map(decode, values))),
        "tokenise every text": reading,
        **{f"score by {group} alone, from the event on": each for group, each in alone.items()},
        "sum of the groups alone": sum(alone.values()),
        f"score by all {len(every)} metrics, from the event on": (full := cost(scorer(events, every))),
        "of that beyond tokenising": full - reading,
        "encode": cost(lambda: list(map(encode, evaluations))),
        "the whole agent: decode, score, encode": cost(lambda: agent.handle(records)),
    }
    size = sum(map(len, values)) / EVENTS
    title = f"One event of {size:,.0f} bytes, CPU time, best of many rounds; each group tokenises what it reads"
    result = Table("step", "µs per event", "events/s on one core", title=title, title_justify="left")
    for name, each in rows.items():
        result.add_row(name, f"{each:.0f}", f"{1e6 / each:,.0f}")
    return result


def costliest() -> Table:
    """The metrics that cost most when all run on tokenised texts; what several share, the first of them pays for."""
    events = [decode(value) for value in interactions(EVENTS)]
    catalogue = [metric for metric in Catalogue(everything()).free.values() if metric.question is None]
    best = {metric.name: [float("inf")] * EVENTS for metric in catalogue}
    for _ in range(_PASSES):
        for number, event in enumerate(events):
            view = tokenised(View(event))
            for metric in catalogue:
                # Wall clock, as reading CPU time costs more than most metrics do: the best of each single call counts.
                began = perf_counter()
                if all(getattr(event, need) is not None for need in metric.needs):
                    metric.compute(view)
                best[metric.name][number] = min(best[metric.name][number], perf_counter() - began)
    ordered = sorted(((name, sum(seconds)) for name, seconds in best.items()), key=lambda item: -item[1])
    title = f"The {_COSTLIEST} costliest metrics, tokenising not included; what several share is charged to the first"
    result = Table("metric", "µs per event", title=title, title_justify="left")
    for name, seconds in ordered[:_COSTLIEST]:
        result.add_row(name, f"{seconds / EVENTS * 1e6:.1f}")
    rest = sum(seconds for _, seconds in ordered[_COSTLIEST:])
    result.add_row(f"the other {len(ordered) - _COSTLIEST}", f"{rest / EVENTS * 1e6:.1f}")
    return result
