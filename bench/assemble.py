"""Cost of assembling interactions from traces: CPU by step, memory of open traces, and the delay on a local broker."""

from __future__ import annotations

import json
import os
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import quantiles

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from rich.table import Table

from bench.interactions import interactions
from bench.timing import microseconds
from ragweir.schemas.assembly import HEADER_SOURCE, HEADER_TIME, ClockMark, SourceMark
from ragweir.schemas.codec.json import decode, encode
from ragweir.streams.playground.demo.services import environment
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.playground.traces import otlp_requests, trace_ids
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.kafka.client import build, connected_admin, reader_properties
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.runtime.processes.supervisor import own_command
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.join.agent import JoinAgent
from ragweir.streams.settings import AssembleSettings, Settings, load
from ragweir.streams.traces.interactions import assemble
from ragweir.streams.traces.wire import heads, read, slices

TRACES = 200
RATE, SECONDS = 100, 30
"""Traces per second, and seconds, of the delay."""
BEGAN_MS = 1_764_000_000_000
PREFIX, SOURCE = "bench.", "bench-otlp"
PARTITIONS = 4
_START_S = 60.0


def requests(count: int) -> list[list[bytes]]:
    """Return the export requests of traces with five contexts of 480 characters, about 4.5 KB each as an event."""
    return [otlp_requests(decode(value), seed=number) for number, value in enumerate(interactions(count))]


def _spans(request: bytes) -> int:
    return sum(1 for _ in heads(request))


def _span_records(traces: Sequence[Sequence[bytes]]) -> list[Record]:
    """Return the records of `spans` that key writes for these traces, a millisecond apart."""
    parts = [part for trace in traces for request in trace for part in slices(request)]
    return [
        Record(
            f"{PREFIX}spans",
            0,
            offset,
            part.trace_id.encode(),
            part.value,
            BEGAN_MS,
            ((HEADER_TIME, str(BEGAN_MS + offset).encode()), (HEADER_SOURCE, f"{SOURCE}/0/{offset}".encode())),
        )
        for offset, part in enumerate(parts)
    ]


def _mark(offset: int, time_ms: int) -> Record:
    mark = ClockMark(
        sources={SOURCE: 1}, marks=(SourceMark(topic=SOURCE, partition=0, time_ms=time_ms, caught_up=True),)
    )
    return Record(f"{PREFIX}spans", 0, offset, None, mark.model_dump_json().encode(), BEGAN_MS)


def _join() -> JoinAgent:
    agent = JoinAgent(AssembleSettings(max_held_bytes=2**33, max_behind_bytes=2**33), 1024 * 1024)
    agent.on_assigned(Assignment((f"{PREFIX}spans", 0), None, 0, partitions=1))
    return agent


def _joined(records: Sequence[Record]) -> int:
    """Join the traces of all records; return the number of interactions."""
    agent, end = _join(), len(records)
    outcomes = [agent.handle([_mark(end, BEGAN_MS - 1)]), agent.handle(records)]
    outcomes.append(agent.handle([_mark(end + 1, BEGAN_MS + 3_600_000), _mark(end + 2, BEGAN_MS + 3_600_001)]))
    outcomes.append(agent.tick(BEGAN_MS / 1_000 + 3_600, (), 10**9))
    agent.on_commit()
    return sum(each.topic == "interactions" for outcome in outcomes for each in outcome.emissions)


def cpu() -> Table:
    """Return one row per step: CPU per span and per interaction, and as a multiple of parsing the protobuf alone."""
    traces = requests(TRACES)
    whole = [request for trace in traces for request in trace]
    texts = [json.dumps(MessageToDict(ExportTraceServiceRequest.FromString(each))).encode() for each in whole]
    records = _span_records(traces)
    spans = sum(map(_spans, whole))
    every = [[span for request in trace for span in read(request)[0]] for trace in traces]
    made = [assemble(each).made[0].interaction for each in every]
    if (count := _joined(records)) != TRACES:
        raise RuntimeError(f"join made {count} interactions of {TRACES} traces")

    def cost(work: Callable[[], object]) -> float:
        return microseconds(work, TRACES)

    parse = cost(lambda: [ExportTraceServiceRequest.FromString(each) for each in whole])
    rows = {
        "parse the export requests, protobuf alone": parse,
        "parse the same in JSON, alone": cost(lambda: [json.loads(each) for each in texts]),
        "key: divide by trace": cost(lambda: [slices(each) for each in whole]),
        "join: heads of spans": cost(lambda: [list(heads(each)) for each in whole]),
        "join: read spans": cost(lambda: [read(each) for each in whole]),
        "join: make interactions of read spans": cost(lambda: [assemble(each) for each in every]),
        "join: encode": cost(lambda: [encode(each) for each in made]),
        "join: the whole agent, from records to interactions": cost(lambda: _joined(records)),
    }
    size = sum(map(len, whole)) / TRACES
    title = (
        f"Traces of {spans / TRACES:.1f} spans and {size:,.0f} bytes in {len(whole) / TRACES:.1f} requests, CPU time"
    )
    result = Table("step", "µs per interaction", "µs per span", "times the parse", title=title)
    for name, each in rows.items():
        result.add_row(name, f"{each:.0f}", f"{each * TRACES / spans:.1f}", f"{each / parse:.1f}")
    return result


def memory() -> Table:
    """Return the memory of open traces by their number."""
    result = Table(
        "open traces", "KB per trace", "KB per span", "bytes of wire per span", title="Memory of open traces in join",
    )  # fmt: skip
    for count in (500, 2_000):
        traces = requests(count)
        records = _span_records(traces)
        spans = sum(_spans(request) for trace in traces for request in trace)
        wire = sum(len(record.value or b"") for record in records)
        agent = _join()
        tracemalloc.start()
        # The values are copied, as a runtime's batch is forgotten once it is handled.
        for record in records:
            agent.handle([_copy(record)])
            agent.tick(BEGAN_MS / 1_000, (), 1_000)
            agent.on_commit()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        result.add_row(f"{count:,}", f"{held / count / 1024:.1f}", f"{held / spans / 1024:.2f}", f"{wire / spans:,.0f}")
    return result


def _copy(record: Record) -> Record:
    value = bytes(bytearray(record.value or b""))
    return Record(record.topic, 0, record.offset, record.key, value, record.timestamp_ms, record.headers)


def delay() -> Table:
    """Return the delay from the last span of a trace to its interaction, by the time at which the broker had them."""
    with local_kafka() as broker, ExitStack() as stack:
        settings = traced(broker.bootstrap)
        _create(settings)
        for name in ("key", "join"):
            stack.enter_context(service(settings, name))
        # The first traces wait until the services are ready.
        _sent(settings, RATE, "first")
        _interactions(settings, RATE)
        arrived = _sent(settings, RATE * SECONDS, "measured")
        made = _interactions(settings, RATE * (SECONDS + 1))
    settle_s = settings.assemble.settle_s
    late = sorted((made[trace] - at) / 1_000 for trace, at in arrived.items() if trace in made)
    result = Table(
        *("traces/s", "interactions", "p50 s", "p99 s", "most s", f"p99 beyond settle_s of {settle_s:g} s"),
        title="From a trace's last span to its interaction, by the broker's clock; all on the same cores",
    )
    cuts = quantiles(late, n=100)
    values = (f"{each:.2f}" for each in (cuts[49], cuts[98], late[-1], cuts[98] - settle_s))
    result.add_row(f"{RATE}", f"{len(late):,} of {len(arrived):,}", *values)
    return result


def traced(bootstrap: str) -> Settings:
    """Return settings by which key and join read traces."""
    return load(
        None,
        {
            "kafka": {"bootstrap_servers": bootstrap},
            "topics": {"prefix": PREFIX, "partitions": PARTITIONS},
            "input": {"format": "otlp", "topic": SOURCE},
            "telemetry": {"port": 0},
        },
    )


def _create(settings: Settings) -> None:
    """Create the topics; the brokers set the times of the source and of the interactions."""
    create_topics(settings)
    config = {"message.timestamp.type": "LogAppendTime"}
    admin, _ = connected_admin(settings)
    resource = ConfigResource(
        ResourceType.TOPIC,
        f"{PREFIX}interactions",
        incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()
        ],
    )
    futures = [
        *admin.create_topics([NewTopic(SOURCE, PARTITIONS, 1, config=config)]).values(),
        *admin.incremental_alter_configs([resource]).values(),
    ]
    for future in futures:
        future.result(_START_S)


@contextmanager
def service(settings: Settings, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run one worker for the length of a `with` block, which gets its process."""
    process = subprocess.Popen(
        own_command(name, "--slot", "0"),
        env=os.environ | environment(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _sent(settings: Settings, count: int, name: str) -> dict[str, int]:
    """Send traces at a steady rate, each request on its own; return the time at which the last of each arrived."""
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers, "linger.ms": 5, "log_level": 0})
    arrived: dict[str, int] = {}

    def delivered(trace: str) -> Callable[[KafkaError | None, Message], None]:
        def keep(_: KafkaError | None, message: Message) -> None:
            arrived[trace] = max(arrived.get(trace, 0), message.timestamp()[1])

        return keep

    due = time.monotonic()
    for number, value in enumerate(interactions(count)):
        asked = decode(value).model_copy(update={"event_id": f"{name}-{number}"})
        trace, _ = trace_ids(asked)
        for request in otlp_requests(asked):
            producer.produce(SOURCE, request, on_delivery=delivered(trace))
        due += 1 / RATE
        producer.poll(max(0.0, due - time.monotonic()))
        time.sleep(max(0.0, due - time.monotonic()))
    producer.flush(_START_S)
    return arrived


def _interactions(settings: Settings, count: int) -> dict[str, int]:
    """Return the times at which the interactions arrived, by trace."""
    consumer = build(Consumer, reader_properties(settings) | {"isolation.level": "read_committed"})
    consumer.assign([TopicPartition(f"{PREFIX}interactions", partition, 0) for partition in range(PARTITIONS)])
    made: dict[str, int] = {}
    until = time.monotonic() + _START_S
    while len(made) < count and time.monotonic() < until:
        for message in consumer.consume(1_000, 0.2):
            if message.error() is None:
                made[(message.key() or b"").decode().partition(":")[0]] = message.timestamp()[1]
    consumer.close()
    return made
