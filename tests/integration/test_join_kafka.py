"""Join on a real broker: what it writes is a function of the log of spans, through SIGKILLs and a second worker."""

import random
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer
from conftest import SharedBroker, create_topic, read_to_end
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData
from services import Service, Services, eventually, quick

from chaos.product_spans import PRODUCT
from chaos.reference import joined
from ragweir.schemas.assembly import HEADER_TIME, ClockMark, SourceMark
from ragweir.streams.runtime.kafka.client_messages import record_of
from ragweir.streams.settings import AssembleSettings
from ragweir.streams.traces.wire import heads

PARTITIONS = 2
START_MS = 1_700_000_000_000
Start = Callable[..., Service]


def span(trace: int, number: int, parent: int, kind: str, **texts: str) -> Span:
    """A span of OpenInference."""
    attributes = {"openinference.span.kind": kind, **{name.replace("_", "."): text for name, text in texts.items()}}
    return Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=parent.to_bytes(8, "big") if parent else b"",
        name=kind,
        start_time_unix_nano=(START_MS + number) * 1_000_000,
        end_time_unix_nano=(START_MS + number + 5) * 1_000_000,
        attributes=[KeyValue(key=name, value=AnyValue(string_value=text)) for name, text in attributes.items()],
    )


class Spans:
    """The topic `spans` under a prefix, with traces whose spans come one by one."""

    def __init__(self, bootstrap: str, prefix: str, max_interaction_bytes: int = 1024 * 1024) -> None:
        self.bootstrap, self.prefix, self.traces, self.time_s = bootstrap, prefix, 0, 0.0
        self.producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for name in ("spans", "assembly", "interactions", "dead-letter"):
            most = max_interaction_bytes if name == "interactions" else 1024 * 1024
            create_topic(bootstrap, prefix + name, PARTITIONS, {"max.message.bytes": str(most)})

    def write(self, number: int, rng: random.Random) -> None:
        """Write so many traces, a second apart, with marks, late spans, unreadable records and some without a root."""
        records: list[tuple[float, int, Any]] = []
        for trace in range(self.traces + 1, self.traces + number + 1):
            at = self.time_s + trace - self.traces
            texts = {"input_value": f"What is {trace}?", "output_value": f"It is {trace}."}
            root = span(trace, 1, rng.choice((0, 0, 0, 9)), "CHAIN", **texts)
            model = span(trace, 2, 1, "LLM", input_value="prompt", output_value=f"{trace}")
            records += [(at + rng.uniform(0, 5), trace, each) for each in rng.sample((root, model), 2)]
            if rng.random() < 0.1:
                records.append((at + rng.uniform(10, 100), trace, span(trace, 3, 1, "TOOL")))
        self.traces += number
        for at, trace, each in sorted(records, key=lambda record: record[0]):
            self.mark(at - 1)
            value = TracesData(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[each])])])
            raw = value.SerializeToString() if rng.random() < 0.98 else b"\xff"
            time_ms = START_MS + round(1000 * at)
            headers = [(HEADER_TIME, str(time_ms).encode())]
            key = f"{trace:032x}".encode()
            self.producer.produce(f"{self.prefix}spans", raw, key, trace % PARTITIONS, headers=headers)
        assert self.producer.flush(30) == 0

    def mark(self, time_s: float) -> None:
        """Write a mark to each partition."""
        self.time_s = max(self.time_s, time_s)
        newest = SourceMark(topic="otlp", partition=0, time_ms=START_MS + round(1000 * self.time_s), caught_up=True)
        value = ClockMark(sources={"otlp": 1}, marks=(newest,)).model_dump_json()
        for partition in range(PARTITIONS):
            self.producer.produce(f"{self.prefix}spans", value, None, partition)

    def end(self) -> None:
        """Write marks after which all traces are closed."""
        for _ in range(3):
            self.mark(self.time_s + 1000)
        assert self.producer.flush(30) == 0

    def expected(self) -> Counter[tuple[str, str]]:
        """Return the output of the reference for the log."""
        records = [record_of(message) for message in read_to_end(self.bootstrap, f"{self.prefix}spans")]
        own = ([record for record in records if record.partition == number] for number in range(PARTITIONS))
        found = (each for log in own for each in joined(log, AssembleSettings(), replace(PRODUCT, heads=heads)))
        return Counter((topic, key if topic == "dead-letter" else value.decode()) for topic, key, value in found)

    def written(self) -> Counter[tuple[str, str]]:
        """Return what is written so far."""
        found = Counter(
            ("interactions", message.value().decode())
            for message in read_to_end(self.bootstrap, f"{self.prefix}interactions")
        )
        for message in read_to_end(self.bootstrap, f"{self.prefix}dead-letter"):
            headers = dict(message.headers())
            names = "ragweir-error-class", "ragweir-source-offset"
            found["dead-letter", " ".join(headers[name].decode() for name in names)] += 1
        return found


@pytest.fixture
def start(services: Services) -> Start:
    """Start workers of join."""

    def start(spans: Spans, slot: int = 0) -> Service:
        variables = quick(spans.bootstrap, spans.prefix, input__format="otlp", batch__max_events=20)
        return services.start("join", "--slot", str(slot), variables=variables)

    return start


def test_killed_workers_write_what_the_reference_says(kafka: SharedBroker, prefix: str, start: Start) -> None:
    """Six workers are killed while they read, with traces open and transactions in flight; a second one comes and goes.

    Nothing is lost, doubled or torn, and unreadable records are dead letters, once each.
    """
    rng = random.Random(1)
    spans = Spans(kafka.bootstrap, prefix)
    for life in range(6):
        worker = start(spans)
        before = sum(spans.written().values())
        spans.write(60, rng)
        second = start(spans, 1) if life == 3 else None
        eventually(lambda before=before: sum(spans.written().values()) > before, "it writes")
        for each in (worker, second):
            if each is not None:
                each.send(signal.SIGKILL)
                each.ended()
    spans.end()
    expected = spans.expected()
    worker = start(spans)
    eventually(lambda: sum(spans.written().values()) >= sum(expected.values()), "all is written")
    assert worker.stop() == 0
    assert spans.written() == expected
    assert max(expected.values()) <= 2, "dead letters of two partitions may have one offset"
    assert sum(topic == "interactions" for topic, _ in expected) > 300
    assert sum(topic == "dead-letter" for topic, _ in expected) > 3


def test_telemetry_shows_open_traces_and_the_clock(kafka: SharedBroker, prefix: str, start: Start) -> None:
    spans = Spans(kafka.bootstrap, prefix)
    spans.write(30, random.Random(2))
    worker = start(spans)
    series = 'ragweir_assemble_open_traces{partition="0"}'
    eventually(lambda: worker.sample(series) > 0, "traces are open")
    assert worker.sample('ragweir_assemble_clock_timestamp_seconds{partition="0"}') > START_MS / 1000
    spans.end()
    eventually(lambda: worker.sample(series) == 0, "all are closed")

    def counted() -> float:
        return sum(worker.sample(f'ragweir_assemble_interactions_total{{content="{c}"}}') for c in ("full", "partial"))

    def interactions() -> int:
        return sum(topic == "interactions" for topic, _ in spans.written().elements())

    # Counts follow the commits, and what was closed last may wait for one.
    eventually(lambda: 0 < interactions() == counted(), "all that is written is counted")
    assert worker.sample("ragweir_assemble_late_spans_total") > 0


def test_an_interaction_that_kafka_rejects_is_a_dead_letter_and_all_others_are_written(
    kafka: SharedBroker, prefix: str, start: Start
) -> None:
    """The topic takes less than join assumes, and 40 traces are due at once: only the large one is not written."""
    spans = Spans(kafka.bootstrap, prefix, max_interaction_bytes=20_000)
    noise = random.Random(3).randbytes(40_000).hex()
    for trace in range(1, 41):
        output = noise if trace == 17 else f"It is {trace}."
        root = span(trace, 1, 0, "CHAIN", input_value=f"What is {trace}?", output_value=output)
        value = TracesData(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[root])])])
        headers = [(HEADER_TIME, str(START_MS).encode())]
        spans.producer.produce(f"{prefix}spans", value.SerializeToString(), f"{trace:032x}", 0, headers=headers)
    spans.end()
    worker = start(spans)
    eventually(lambda: spans.written().total() == 40, "all are settled")
    written = {message.key().decode() for message in read_to_end(kafka.bootstrap, f"{prefix}interactions")}
    assert written == {f"{trace:032x}:{1:016x}" for trace in range(1, 41) if trace != 17}
    assert [key for topic, key in spans.written() if topic == "dead-letter"] == ["refused 16"]
    assert worker.stop() == 0
