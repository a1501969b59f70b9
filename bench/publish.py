"""Cost of `ragweir.publish` to an application: in the caller's thread, in the publisher's own, at its start and end."""

from __future__ import annotations

import json
import resource
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import enumerate as threads

from confluent_kafka import Producer
from rich.table import Table

from bench.kafka_loops import topics
from ragweir.streams.clients.publish.publisher import Publisher
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.runtime.processes.child_python import python_command

_TOPIC = "bench.publish"
_ROUND = 200
_ROUNDS = 40
_PACED = 1_000
_PAUSE_S = 0.005
_SENT = 20_000
_OVERLOAD_S = 5.0
_SLOW = {"queue.buffering.max.messages": 100, "linger.ms": 200}
"""Properties with which at most 500 events a second can be sent, as to a broker that is far away or loaded."""
_TIMEOUT_S = 120.0
_CONTEXTS = [
    {"chunk_id": f"c{rank}", "document_id": f"d{rank}", "text": "territory 118 " * 73, "score": 0.5, "rank": rank}
    for rank in range(1, 6)
]
"""Five contexts of 1 KB."""
_IMPORT = "import sys, time; began = time.perf_counter(); {}; print((time.perf_counter() - began) * 1e3)"


def _answer() -> str:
    """Return the response of an application that takes no time."""
    return "The rate of territory 118 is 0.305%, according to the manual."


def _nothing() -> None:
    """Answer without telling anybody."""
    for _ in range(3):
        _answer()


def _by_hand(producer: Producer) -> None:
    """Answer, and publish by json and confluent-kafka in the caller's thread."""
    started = time.time()
    spans, response = [], ""
    for kind in ("retrieval", "llm", "tool"):
        began = time.time()
        response = _answer()
        spans.append({"kind": kind, "name": "m", "started_at": began, "ended_at": time.time()})
    event_id = str(uuid.uuid4())
    event = {
        "event_id": event_id,
        "query": "What is the rate?",
        "application": "bench",
        "response": response,
        "contexts": _CONTEXTS,
        "spans": spans,
        "usage": {"input_tokens": 812, "output_tokens": 96},
        "started_at": started,
        "ended_at": time.time(),
    }
    producer.produce(_TOPIC, json.dumps(event), event_id)
    producer.poll(0)


def _published(publisher: Publisher) -> None:
    """Answer, and publish by `ragweir.publish`."""
    with publisher.publish(query="What is the rate?", application="bench") as event:
        with event.retrieval("m"):
            _answer()
            event.contexts = _CONTEXTS
        with event.llm("m"):
            event.response = _answer()
        with event.tool("m"):
            _answer()
        event.usage(input_tokens=812, output_tokens=96)


def _cpu_us(work: Callable[[], None], rest: Callable[[], object]) -> float:
    """Return the CPU time of this thread per call, of the fastest round; `rest` runs after each round."""
    rounds = []
    for _ in range(_ROUNDS):
        began = time.thread_time()
        for _ in range(_ROUND):
            work()
        rounds.append(time.thread_time() - began)
        rest()
    return min(rounds) / _ROUND * 1e6


def _paced_us(work: Callable[[], None]) -> list[float]:
    """Return the sorted elapsed times of calls at 200 a second, as one thread of an application makes them."""
    elapsed = []
    for _ in range(_PACED):
        began = time.perf_counter()
        work()
        elapsed.append((time.perf_counter() - began) * 1e6)
        time.sleep(_PAUSE_S)
    return sorted(elapsed)


def callers() -> Table:
    """Return one row per way to publish."""
    title = "One interaction with 3 spans and 5 contexts of 1 KB, in the caller's thread"
    columns = ("way", "CPU µs", "x by hand", "elapsed µs at 200/s: p50", "p99", "most")
    result = Table(*columns, title=title)
    with local_kafka() as broker, topics(broker.bootstrap, _TOPIC):
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "compression.type": "lz4", "linger.ms": 5, "log_level": 0}
        )
        with Publisher(bootstrap_servers=broker.bootstrap, topic=_TOPIC) as publisher:
            _published(publisher)
            publisher.flush(_TIMEOUT_S)
            ways: dict[str, tuple[Callable[[], None], Callable[[], object]]] = {
                "nothing": (_nothing, lambda: None),
                "by hand: json.dumps and produce": (lambda: _by_hand(producer), lambda: producer.flush(_TIMEOUT_S)),
                "ragweir.publish": (lambda: _published(publisher), lambda: publisher.flush(_TIMEOUT_S)),
            }
            cpu = {name: _cpu_us(*each) for name, each in ways.items()}
            base = cpu["by hand: json.dumps and produce"]
            for name, (work, rest) in ways.items():
                elapsed = _paced_us(work)
                rest()
                quantiles = (elapsed[len(elapsed) // 2], elapsed[len(elapsed) * 99 // 100], elapsed[-1])
                cells = (f"{cpu[name]:.1f}", f"{cpu[name] / base:.2f}", *(f"{each:,.0f}" for each in quantiles))
                result.add_row(name, *cells)
            if any(publisher.stats.dropped.values()):
                raise RuntimeError(str(publisher.stats))
    return result


@contextmanager
def _publishing(client: Mapping[str, int], queue_events: int, queue_bytes: int) -> Iterator[Publisher]:
    with (
        local_kafka() as broker,
        topics(broker.bootstrap, _TOPIC),
        Publisher(
            bootstrap_servers=broker.bootstrap,
            topic=_TOPIC,
            client=client,
            queue_events=queue_events,
            queue_bytes=queue_bytes,
        ) as publisher,
    ):
        _published(publisher)
        publisher.flush(_TIMEOUT_S)
        yield publisher


def _thread_s() -> float:
    """Return the CPU time of the publisher's thread."""
    (ident,) = (thread.ident for thread in threads() if thread.name == "ragweir-publish" and thread.ident)
    return time.clock_gettime(time.pthread_getcpuclockid(ident))


def _import_ms(statement: str) -> float:
    line = python_command("-c", _IMPORT.format(statement))
    return min(float(subprocess.run(line, capture_output=True, text=True, check=True).stdout) for _ in range(3))


def behind() -> Table:
    """Return the cost of the publisher's own thread and of imports."""
    result = Table("what", "figure", title="The publisher's own thread, the same interactions")
    with _publishing({}, _SENT, _SENT * 64 * 1024) as publisher:
        for _ in range(_SENT):
            _published(publisher)
        left, cpu, began = publisher.stats.waiting, _thread_s(), time.perf_counter()
        if not publisher.flush(_TIMEOUT_S):
            raise TimeoutError("not all events were acknowledged")
        took = time.perf_counter() - began
        result.add_row("CPU µs per event", f"{(_thread_s() - cpu) / left * 1e6:.0f}")
        result.add_row("events/s to Kafka, the application idle", f"{left / took:,.0f}")
    imports = {
        "import ragweir.publish": "import ragweir; ragweir.publish",
        "imports on its own thread with the first event": "import ragweir.streams.clients.publish.sender",
        "import json, confluent_kafka": "import json, confluent_kafka",
    }
    for name, statement in imports.items():
        result.add_row(f"{name}, ms", f"{_import_ms(statement):.0f}")
    return result


def overload() -> Table:
    """Return what becomes of interactions that come faster than they can be sent."""
    title = f"Interactions without pause for {_OVERLOAD_S:.0f} s, to a broker that takes at most 500 a second"
    result = Table("what", "figure", title=title)
    with _publishing(_SLOW, 1_000, 64 * 1024 * 1024) as publisher:
        first = publisher.stats.published
        before, began, offered = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter(), 0
        cpu = time.thread_time()
        while time.perf_counter() - began < _OVERLOAD_S:
            _published(publisher)
            offered += 1
        cpu = time.thread_time() - cpu
        sent = publisher.stats.published - first
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if not publisher.flush(_TIMEOUT_S):
            raise TimeoutError("not all events were acknowledged")
        stats = publisher.stats
        result.add_row("offered", f"{offered:,}")
        result.add_row("acknowledged meanwhile", f"{sent:,}")
        result.add_row("offered for each one acknowledged", f"{offered / max(1, sent):.0f}")
        result.add_row("acknowledged in the end", f"{stats.published - first:,}")
        result.add_row("dropped and counted as queue_full", f"{stats.dropped['queue_full']:,}")
        result.add_row("of neither count", f"{offered - (stats.published - first) - sum(stats.dropped.values()):,}")
        result.add_row("CPU µs in the caller's thread, each", f"{cpu / offered * 1e6:.1f}")
        result.add_row("peak memory, grown by MiB (1,000 interactions may wait)", f"{grown / 1024:.0f}")
    return result
