"""The judge service on Kafka against the simulated judge, on one core; and what its outage means to evaluate."""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import structlog
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.progress import track
from rich.table import Table

from bench.interactions import interactions
from ragweir.schemas.codec.json import decode, encode
from ragweir.schemas.evaluation import Decision, Evaluation, SuiteDecision
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.topics import TOPICS
from ragweir.streams.kafka.client import Identity
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.playground.simulated.faults import Faults
from ragweir.streams.playground.simulated.server import simulated_judge
from ragweir.streams.runtimes.kafka import KafkaRuntime
from ragweir.streams.service import SERVICES
from ragweir.streams.serving.health import Health
from ragweir.streams.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings, load

PARTITIONS = 8
MODEL = "simulated-judge"
_JUDGE_CORE, _OTHER_CORE = 0, 1
_PATIENCE_S = 120.0
ROWS = ((0.0, 64, 6_000), (0.0, 200, 6_000), (1.0, 200, 4_000))
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


def _serve_judge(pipe: Any, faults: Faults) -> None:
    """A process with the simulated judge, until the pipe is closed."""
    with simulated_judge(faults=faults) as judge:
        pipe.send(judge.base_url)
        try:
            while True:
                judge.set_faults(**pipe.recv())
        except EOFError:
            return


@contextmanager
def _judge(faults: Faults) -> Iterator[tuple[str, Any]]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_serve_judge, args=(theirs, faults), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv(), ours
    finally:
        ours.close()
        process.terminate()
        process.join()


def _work(service: str, settings: Settings, topic: str, events: int, core: int, results: Any) -> None:
    """One slot of a service until it has settled so many events of its first topic; gives seconds, CPU seconds."""
    os.sched_setaffinity(0, {core})
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    made = SERVICES[service]
    agent = made.agent(settings, PARTITIONS)
    telemetry = Telemetry(service, 0)
    began: list[tuple[float, float]] = []
    deadline = time.monotonic() + _PATIENCE_S

    def done() -> bool:
        settled = telemetry.registry.get_sample_value("ragweir_events_in_total") or 0
        if settled and not began:
            began.append((time.monotonic(), time.process_time()))
            first.append(settled)
        if settled >= events or time.monotonic() > deadline:
            start = began[0] if began else (deadline, 0.0)
            counted = settled - (first[0] if first else 0)
            results.put((counted, time.monotonic() - start[0], time.process_time() - start[1]))
            return True
        return False

    first: list[float] = []
    own = settings.model_copy(update={"batch": made.batch(settings)})
    identity = Identity(service, 0, settings.topics.prefix)
    inputs = [topic, *made.inputs(settings)[1:]]
    KafkaRuntime(own, identity, agent, inputs, telemetry, Health(), done, made.assignor).run()
    results.close()
    results.join_thread()
    os._exit(0)  # The pool's connections need no farewell.


def _measured(service: str, settings: Settings, topic: str, events: int, core: int) -> tuple[float, float]:
    """Events a second, and CPU microseconds an event, from the first commit on."""
    results: Any = multiprocessing.Queue()
    process = multiprocessing.Process(target=_work, args=(service, settings, topic, events, core, results))
    process.start()
    counted, seconds, cpu = results.get(timeout=2 * _PATIENCE_S)
    process.join()
    return counted / seconds, cpu / max(1, counted) * 1e6


def _requests(count: int) -> list[bytes]:
    decided = SuiteDecision(suite="rubric", status="selected", probability=1.0, because=("risk",))
    values = []
    for number, value in enumerate(interactions(count)):
        event = decode(value)
        evaluation = Evaluation(
            event_id=f"event-{number}",
            event_time=datetime.now(UTC),
            decision=Decision(suites=(decided,)),
            catalogue_version="1",
        )
        contexts = tuple(context.text for context in event.contexts or ())
        asked = JudgeRequest(evaluation=evaluation, query=event.query, response=event.response, contexts=contexts)
        values.append(encode(asked))
    return values


def _topics(bootstrap: str, prefix: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(prefix + name, PARTITIONS, 1) for name in TOPICS]).values():
        future.result(30)


def _produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.kbytes": 512 * 1024})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(60)


def throughput_table() -> Table:
    """Judgements a second by the judge's latency and the events in flight: one `rubric` call each, of 4.5 KB."""
    table = Table(title="Judging, one worker on one core (simulated judge and broker on another)")
    for column in ("judge's latency", "in flight", "judged/s", "the most there could be", "CPU µs each"):
        table.add_column(column, justify="right")
    os.sched_setaffinity(0, {_OTHER_CORE})
    try:
        with local_kafka() as kafka:
            for row, (latency, concurrency, count) in enumerate(track(ROWS, "Judging", transient=True)):
                prefix = f"judge{row}."
                _topics(kafka.bootstrap, prefix)
                _produce(kafka.bootstrap, f"{prefix}judge.requests", _requests(count))
                with _judge(Faults(latency_ms=1_000 * latency)) as (url, _):
                    settings = _settings(kafka.bootstrap, prefix, url, concurrency)
                    rate, cpu = _measured("judge", settings, f"{prefix}judge.requests", count, _JUDGE_CORE)
                most = f"{concurrency / latency:,.0f}" if latency else "the core's"
                table.add_row(f"{latency:g} s", str(concurrency), f"{rate:,.0f}", most, f"{cpu:,.0f}")
    finally:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    return table


def outage_table(events: int = 6_000) -> Table:
    """What the judge's troubles mean to evaluate, on a core of its own: nothing is shared but the broker."""
    table = Table(title="Evaluating with routing, one worker on a core of its own, by what the judge does")
    for column in ("judge", "events/s", "ratio"):
        table.add_column(column, justify="right")
    troubles: dict[str, dict[str, float] | None] = {
        "no judge service": None,
        "well": {},
        "503 to every call": {"503": 1.0},
        "429 to every call": {"429-bare": 1.0},
        "no answer at all": {"hang": 1.0},
    }
    base = 0.0
    os.sched_setaffinity(0, {_OTHER_CORE})
    try:
        with local_kafka() as kafka:
            values = list(interactions(events))
            for row, (name, shares) in enumerate(track(troubles.items(), "Outages", transient=True)):
                prefix = f"outage{row}."
                _topics(kafka.bootstrap, prefix)
                _produce(kafka.bootstrap, f"{prefix}interactions", values)
                with _judge(Faults(shares=shares or {})) as (url, _):
                    settings = _settings(kafka.bootstrap, prefix, url, 16)
                    floors = settings.routing.model_copy(update={"floors": {"rubric": 0.5}})
                    settings = settings.model_copy(update={"routing": floors})
                    judging = None
                    if shares is not None:
                        results: Any = multiprocessing.Queue()
                        judging = multiprocessing.Process(
                            target=_work,
                            args=("judge", settings, f"{prefix}judge.requests", 10**9, _OTHER_CORE, results),
                            daemon=True,
                        )
                        judging.start()
                    rate, _ = _measured("evaluate", settings, f"{prefix}interactions", events, _JUDGE_CORE)
                    if judging is not None:
                        judging.kill()
                        judging.join()
                base = base or rate
                table.add_row(name, f"{rate:,.0f}", f"{rate / base:.2f}")
    finally:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    return table


if __name__ == "__main__":
    from rich.console import Console

    for made in (throughput_table, outage_table):
        Console(width=120).print(made())
