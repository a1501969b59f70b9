"""The two courses that a run can take: interactions through evaluate to export, and traces through key and join.

A course is everything in which the runs differ; `chaos.run` has what they share.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from chaos import money
from chaos.broker import Cluster
from chaos.checker import Checker
from chaos.control import PLANNERS, QUICK_ROWS, RISK, ROUTING, SHORT_TRANSACTIONS, Control
from chaos.document_rows import ROWS
from chaos.events import Generator
from chaos.feedback import FEEDBACK, FeedbackFaults, feedback_settings
from chaos.feedback_checker import FeedbackChecker
from chaos.feedback_events import FeedbackSender
from chaos.fleet import COMMAND, MUTANT, Fleet, judge_settings
from chaos.options import Options, Traces
from chaos.oracle import Oracle
from chaos.product_spans import PRODUCT
from chaos.rows import RowChecker
from chaos.schedule import SERVICES
from chaos.soak import SETTINGS
from chaos.trace_checker import TraceChecker
from chaos.trace_events import TraceGenerator
from chaos.trace_sources import TraceSources
from chaos.workload import Workload
from ragweir.metrics.catalogue import everything
from ragweir.schemas.topics import TOPICS
from ragweir.streams.playground.simulated.server import SimulatedJudge
from ragweir.streams.runtime.kafka.configurations import give_broker_time
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.settings import AssembleSettings, Settings

_REFRESH: Mapping[str, int] = MappingProxyType({"topic.metadata.refresh.interval.ms": 10_000})
"""Lets clients find added partitions within 10 s instead of 5 minutes."""
COSTLY = sorted({metric.group for metric in everything()} - {"performance", "rubric"})
"""Groups of metrics that are off unless all metrics are on."""
_JUDGE: Mapping[str, object] = MappingProxyType(
    {
        "judge__breaker_wait_s": 0.5,
        "judge__timeout_s": 3,
        "judge__attempts": 2,
        "judge__retry_delay_s": 2,
        "judge__retries": 100,
        "routing__rules": [
            {"name": "asked", "on": "expected", "present": True, "suites": ["rubric"], "probability": 1.0}
        ],
        "routing__floors": {},
    }
)
"""Settings by which exactly the events with an expected answer are judged."""
_LONG_TRANSACTIONS: Mapping[str, int] = MappingProxyType({"batch__max_events": 50, "commit__interval_ms": 2_500})
"""Settings by which a transaction has several batches even at the rates of a run."""
_SCRAPE_S = 0.5


@dataclass(frozen=True, slots=True)
class Course:
    """All in which runs differ."""

    workers: Mapping[str, int]
    """Numbers of slots, by service."""
    aims: Sequence[str]
    """The services that faults are aimed at, in turn."""
    settings: Mapping[str, object]
    client: Mapping[str, int]
    """Properties of the services' clients."""
    command: tuple[str, ...]
    """The command of a slot, before the command line of the service."""
    workload: Workload | TraceSources
    dues: Iterable[float]
    """Times at which records are due, in seconds since the start."""
    position: Callable[[], int]
    """Returns how many of the options' `events` are sent."""
    checker: Checker | TraceChecker
    pauses: bool
    """True if sending pauses while outputs are far behind, or a fault is due and the one before is not over."""
    before: Callable[[], object] = lambda: None
    """Runs before the services start."""
    beside: Sequence[Callable[[threading.Event], object]] = ()
    """Run besides, until the run is over."""
    recreate_control: Callable[[], object] | None = None
    feedback: FeedbackFaults | None = None
    sources: TraceSources | None = None
    backlog: float = 0.0
    """Share of the records that are sent before the services start."""


def course_of(
    options: Options, admin: Settings, brokers: Cluster, judge: SimulatedJudge, fleet: Fleet, folder: Path
) -> Course:
    """Return the course of a run, and create its topics with settings of an administrator.

    Files that services need are written to the folder.
    """
    if options.traces is not None:
        return _over_traces(options, options.traces, admin, brokers)
    return _over_interactions(options, admin, brokers, judge, fleet, folder)


def _over_traces(options: Options, traces: Traces, admin: Settings, brokers: Cluster) -> Course:
    create_topics(admin)
    generator = TraceGenerator(
        options.seed,
        traces.mix,
        options.events,
        options.rate,
        traces.settle_s,
        (1.2 * traces.settle_s, 0.8 * traces.patience_s),
        (round(traces.backlog * options.events), traces.backlog_s),
    )
    sources = TraceSources(brokers.direct, options.prefix, traces.sources, generator, traces.backlog_s)
    times = {"settle_s": traces.settle_s, "patience_s": traces.patience_s, "deadline_s": traces.deadline_s}
    settings = AssembleSettings.model_validate(times)
    return Course(
        workers=options.workers,
        aims=("key", "join", "join"),
        settings={
            "input__format": "otlp",
            "input__topic": sources.topic,
            "assemble__topics": [sources.keyed],
            **{f"assemble__{name}": value for name, value in times.items()},
        },
        client={},
        command=(*MUTANT, options.mutant) if options.mutant else COMMAND,
        workload=sources,
        dues=sources.dues(),
        position=lambda: generator.spans,
        checker=TraceChecker(brokers.direct, options.prefix, options.partitions, generator.truth, settings, PRODUCT),
        pauses=False,
        before=sources.write_backlog,
        sources=sources,
        backlog=traces.backlog,
    )


def _over_interactions(
    options: Options, admin: Settings, brokers: Cluster, judge: SimulatedJudge, fleet: Fleet, folder: Path
) -> Course:
    prefix, begin_ms = options.prefix, time.time() * 1_000
    create_control = partial(create_topics, admin, [TOPICS["control"]])
    control = Control(brokers.direct, f"{prefix}control", options.seed, create_control)
    if options.rows:
        # Of the hours before the run, so that their writer's clock has to stamp them.
        create_topics(admin, [replace(TOPICS["control"], config=())])
        control.send_history(begin_ms)
        give_broker_time(brokers.admin(), control.topic)
    create_topics(admin)
    generator = Generator(options.seed, options.mix, options.events, options.partitions)
    sender = FeedbackSender(
        brokers.direct, f"{prefix}feedback", options.seed, options.partitions, lambda: generator.number, options.events
    )
    checker = Checker(
        brokers.direct,
        prefix,
        options.partitions,
        Oracle(options.horizon),
        options.workers,
        None if options.budget_usd is None else round(options.budget_usd * 1_000_000),
        RowChecker(begin_ms) if options.rows else None,
        lambda: money.bills(judge.calls()["calls"]),
        FeedbackChecker(lambda: sender.total) if options.feedback else None,
        documents=not options.soak,
    )
    workload = Workload(brokers.direct, f"{prefix}interactions", generator, checker, partial(create_topics, admin))
    store = folder / "answers"

    def scrape(over: threading.Event) -> None:
        while not over.wait(_SCRAPE_S):
            for slot in fleet.of("evaluate"):
                checker.scraped(f"{slot.name} {slot.pid}", slot.samples())

    usual = (*MUTANT, options.mutant) if options.mutant else COMMAND
    return Course(
        workers={
            **options.workers,
            "planner": len(PLANNERS) * options.rows,
            **dict.fromkeys(FEEDBACK, int(options.feedback)),
        },
        aims=FEEDBACK * options.feedback + SERVICES + PLANNERS * options.rows,
        settings={
            **judge_settings(judge.base_url, **{**_JUDGE, **(ROUTING if options.rows else {})}),
            "judge__daily_budget_usd": "none" if options.budget_usd is None else options.budget_usd,
            "metrics__off": [] if options.all_metrics else sorted({*COSTLY} - ({RISK} if options.rows else set())),
            "windows__commit_ms": 300 if options.quick else 1_000,
            "input__duplicate_horizon": options.horizon,
            "judge__slots": options.workers.get("judge", 1),
            **(SETTINGS if options.soak else {**_LONG_TRANSACTIONS, **ROWS}),
            **(feedback_settings(store, folder / "anchors.jsonl") if options.feedback else {}),
        },
        client={
            **(_REFRESH if options.numbers.get("growths") else {}),
            **(SHORT_TRANSACTIONS if options.rows else {}),
        },
        command=(*QUICK_ROWS, options.mutant or "-") if options.rows or options.feedback else usual,
        workload=workload,
        dues=(number / options.rate for number in range(1, options.events + 1)),
        position=lambda: workload.sent,
        checker=checker,
        pauses=True,
        beside=(scrape, *((control.send_late,) * options.rows), *((sender.run,) * options.feedback)),
        recreate_control=partial(control.recreate, checker.other_rows) if options.rows else None,
        feedback=FeedbackFaults(brokers, prefix, sender, checker, store) if options.feedback else None,
    )
