"""Throughput of the judge service on Kafka, on one core, with the simulated judge on another."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import structlog
from rich.progress import track
from rich.table import Table

from bench.interactions import interactions
from bench.kafka_loops import PARTITIONS, in_process, publish, topics
from ragweir.schemas.codec.json import decode, encode
from ragweir.schemas.evaluation import Decision, Evaluation, SuiteDecision
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.topics import TOPICS
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.playground.simulated.faults import Faults
from ragweir.streams.playground.simulated.server import simulated_judge
from ragweir.streams.runtime.kafka.client import Identity
from ragweir.streams.runtime.loop.kafka_runtime import KafkaRuntime
from ragweir.streams.runtime.serving.health import Health
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.settings import Settings, load

MODEL = "simulated-judge"
_JUDGE_CORE, _OTHER_CORE = 0, 1
_TIMEOUT_S = 120.0
_ROWS = ((0.0, 64, 6_000), (0.0, 200, 6_000), (1.0, 200, 4_000))
"""Latency of the judge in seconds, judge.concurrency, requests."""


def _settings(bootstrap: str, prefix: str, url: str, concurrency: int) -> Settings:
    judge: dict[str, Any] = {
        "base_url": url,
        "api_key": "none",
        "model": MODEL,
        "prices": {MODEL: {"input_usd": 0.1, "output_usd": 0.4}},
        "daily_budget_usd": 1_000,
        "concurrency": concurrency,
    }
    return load(None, {"kafka": {"bootstrap_servers": bootstrap}, "topics": {"prefix": prefix}, "judge": judge})


def _work(bootstrap: str, prefix: str, url: str, concurrency: int, requests: int, pipe: Any) -> None:
    """Run one slot until it has settled the requests; send their number, seconds and CPU seconds from the first on."""
    os.sched_setaffinity(0, {_JUDGE_CORE})
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    settings = _settings(bootstrap, prefix, url, concurrency)
    service, telemetry = SERVICES["judge"], telemetry_of("judge", 0)
    deadline = time.monotonic() + _TIMEOUT_S
    starts: list[tuple[float, ...]] = []

    def done() -> bool:
        settled = telemetry.registry.get_sample_value("ragweir_events_in_total") or 0
        now = settled, time.monotonic(), time.process_time()
        if settled and not starts:
            starts.append(now)
        if settled < requests and now[1] < deadline:
            return False
        pipe.send([end - start for end, start in zip(now, starts[0] if starts else now, strict=True)])
        return True

    own = settings.model_copy(update={"batch": service.batch(settings)})
    identity, agent = Identity("judge", 0, prefix), service.agent(settings, PARTITIONS)
    KafkaRuntime(own, identity, agent, service.inputs(settings), telemetry, Health(), done, service.assignor).run()
    os._exit(0)  # The connections of the pool need not be closed.


def _requests(count: int) -> Iterator[bytes]:
    decision = SuiteDecision(suite="rubric", status="selected", probability=1.0, because=("risk",))
    for number, value in enumerate(interactions(count)):
        event = decode(value)
        evaluation = Evaluation(
            event_id=f"event-{number}",
            event_time=datetime.now(UTC),
            decision=Decision(suites=(decision,)),
            catalogue_version="1",
        )
        contexts = tuple(context.text for context in event.contexts or ())
        yield encode(JudgeRequest(evaluation=evaluation, query=event.query, response=event.response, contexts=contexts))


def _measure(bootstrap: str, prefix: str, latency_s: float, concurrency: int, count: int) -> tuple[float, float]:
    """Return judgements per second, and CPU microseconds of each."""
    with (
        topics(bootstrap, *(prefix + name for name in TOPICS)),
        simulated_judge(faults=Faults(latency_ms=1_000 * latency_s)) as judge,
    ):
        publish(bootstrap, f"{prefix}judge.requests", _requests(count))
        settled, seconds, cpu_s = in_process(_work, bootstrap, prefix, judge.base_url, concurrency, count)
    if not settled:
        raise RuntimeError(f"nothing was judged within {_TIMEOUT_S:.0f} s")
    return settled / seconds, cpu_s / settled * 1e6


def table() -> Table:
    """Return one row per latency of the judge and number of requests in flight: one `rubric` call of 4.5 KB each."""
    columns = ("judge's latency", "in flight", "judged/s", "upper bound", "CPU µs each")
    result = Table(*columns, title="Judging, one worker on one core (simulated judge and broker on another)")
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {_OTHER_CORE})
    try:
        with local_kafka() as kafka:
            for number, (latency_s, concurrency, count) in enumerate(track(_ROWS, "Judging", transient=True)):
                rate, cpu_us = _measure(kafka.bootstrap, f"judge{number}.", latency_s, concurrency, count)
                bound = f"{concurrency / latency_s:,.0f}" if latency_s else "the core's"
                result.add_row(f"{latency_s:g} s", str(concurrency), f"{rate:,.0f}", bound, f"{cpu_us:,.0f}")
    finally:
        os.sched_setaffinity(0, cores)
    return result
