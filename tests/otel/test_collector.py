"""A real Collector between real applications, Kafka and ragweir, in both directions: `make test-otel`."""

import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT
from confluent_kafka import Message
from conftest import SharedBroker, create_topic, produce, read_to_end, values
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from services import Services, eventually, quick

from ragweir.streams.playground.local.node import free_ports
from tools.otel.collector import collector
from tools.otel.endpoint import made_up_model
from tools.otel.environments import python

DEPLOY = ROOT / "deploy" / "otel"
RECIPE, STOCK = DEPLOY / "traces-to-kafka.yaml", Path(__file__).with_name("stock.yaml")
APPLICATIONS = ("langchain", "llamaindex", "haystack")
PARTITIONS = 3
DOCUMENTS = {
    "water": "Water damage carries an excess of $604 per event. Slow leaks are not covered.",
    "glass": "Glass breakage carries an excess of $75. Mirrors count as glass.",
    "fence": "Storm damage to fences is covered up to $1,200. Trees are excluded.",
    "bicycle": "A stolen bicycle is paid at its new price for three years.",
    "garage": "The garage is covered if it is locked at night.",
    "travel": "Luggage is covered abroad for ninety days a year.",
}
QUESTIONS = {
    "What is the excess for water damage?": "The excess for water damage is $604 per event.",
    "Is glass breakage of mirrors covered?": "Yes, mirrors count as glass; the excess is $75.",
    "Up to what sum is storm damage to fences covered?": "Up to $1,200.",
    'What is paid for a "stolen" bicycle?': "Its new price, for three years.",
    "Für how long is luggage covered abroad?": "Ninety days a year, 90 €.",
}
"""The questions with the made-up model's answers."""


@contextmanager
def ingress(kafka: SharedBroker, prefix: str, folder: Path, config: Path = RECIPE) -> Iterator[str]:
    """A Collector that writes to Kafka; gives its address for OTLP over HTTP."""
    port, grpc = free_ports(2)
    variables = {
        "OTLP_HTTP": f"127.0.0.1:{port}",
        "OTLP_GRPC": f"127.0.0.1:{grpc}",
        "KAFKA": kafka.bootstrap,
        "TRACES_TOPIC": create_topic(kafka.bootstrap, f"{prefix}otlp_spans", PARTITIONS),
        "LOGS_TOPIC": create_topic(kafka.bootstrap, f"{prefix}otlp_logs", PARTITIONS),
    }
    with collector(config, folder, variables):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def egress(kafka: SharedBroker, topic: str, folder: Path) -> Iterator[Path]:
    """A Collector that reads evaluations; gives the file that its debug exporter writes."""
    variables = {"KAFKA": kafka.bootstrap, "EVALUATIONS_TOPIC": topic, "GROUP": f"{topic}.collector"}
    with collector(DEPLOY / "evaluations-from-kafka.yaml", folder, variables) as output:
        yield output


def printed(output: Path) -> list[dict[str, str]]:
    """The log records that a debug exporter has printed: their attributes, ids and event names."""
    records = []
    for block in output.read_text(encoding="utf-8").split("LogRecord #")[1:]:
        found = dict(re.findall(r"^     -> ([\w.]+): \w+\((.*)\)$", block, re.MULTILINE))
        records.append(found | dict(re.findall(r"^(Trace ID|Span ID|EventName): (.*)$", block, re.MULTILINE)))
    return records


def ask(name: str, address: str, model: str, questions: list[str]) -> list[dict[str, Any]]:
    """Run an application; gives the answers and contexts that it had itself."""
    own = {
        "PYTHONPATH": str(ROOT),
        "OTEL_EXPORTER_OTLP_ENDPOINT": address,
        "OTEL_SERVICE_NAME": name,
        "OPENAI_BASE_URL": model,
        "OPENAI_API_KEY": "sk-test",
        "HAYSTACK_TELEMETRY_ENABLED": "False",
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
    }
    done = subprocess.run(
        [python(name), "-m", f"tools.otel.applications.{name}"],
        input=json.dumps({"documents": DOCUMENTS, "questions": questions}),
        cwd="/",
        env=own,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def settings(kafka: SharedBroker, prefix: str, **more: Any) -> dict[str, str]:
    output = {"include_text": True, "otlp": {}}
    return quick(kafka.bootstrap, prefix, topics__partitions=PARTITIONS, output=output, **more)


def spans(messages: list[Message]) -> dict[bytes, list[tuple[bytes, int]]]:
    """The spans of messages by trace id, with the keys and partitions of their messages."""
    found: defaultdict[bytes, list[tuple[bytes, int]]] = defaultdict(list)
    for message in messages:
        for resource in ExportTraceServiceRequest.FromString(message.value() or b"").resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    found[span.trace_id].append((message.key() or b"", message.partition() or 0))
    return found


@pytest.fixture(scope="module")
def asked(kafka: SharedBroker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The answers of three live applications, each span of which the Collector has written to Kafka."""
    with (
        ingress(kafka, "asked.", tmp_path_factory.mktemp("collector")) as address,
        made_up_model(QUESTIONS) as model,
    ):
        answers = {name: ask(name, address, model, list(QUESTIONS)) for name in APPLICATIONS}
        wanted = len(APPLICATIONS) * len(QUESTIONS)
        eventually(
            lambda: len(spans(read_to_end(kafka.bootstrap, "asked.otlp_spans"))) >= wanted, "all traces are in Kafka"
        )
    return answers


def test_each_trace_is_in_one_partition_under_its_id(kafka: SharedBroker, asked: dict[str, Any]) -> None:
    """The Collector's messages are export requests in protobuf, keyed by the trace id in hex."""
    found = spans(read_to_end(kafka.bootstrap, "asked.otlp_spans"))
    assert len(found) == len(asked) * len(QUESTIONS)
    for trace_id, places in found.items():
        assert {key for key, _ in places} == {trace_id.hex().encode()}
        assert len({partition for _, partition in places}) == 1
    print({name: len(answers) for name, answers in asked.items()}, sum(map(len, found.values())), "spans")


def test_a_batch_that_is_too_large_for_a_message_is_divided(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Forty spans of 60 KB in one request would be dropped by the exporter's defaults; all of them are in Kafka."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(40):
        span = scope.spans.add(trace_id=bytes(15) + b"\x01", span_id=number.to_bytes(8, "big", signed=False), name="s")
        span.attributes.add(key="text").value.string_value = f"{number:05}" * 12_000
    with ingress(kafka, prefix, tmp_path) as address:
        post(address, "traces", request.SerializeToString())
        eventually(
            lambda: sum(map(len, spans(read_to_end(kafka.bootstrap, f"{prefix}otlp_spans")).values())) == 40,
            "all spans are in Kafka",
        )
    assert all(len(each.value() or b"") <= 1_000_000 for each in read_to_end(kafka.bootstrap, f"{prefix}otlp_spans"))


def post(address: str, signal: str, body: bytes) -> None:
    given = urllib.request.Request(f"{address}/v1/{signal}", body, {"Content-Type": "application/x-protobuf"})
    with urllib.request.urlopen(given, timeout=30) as response:
        assert response.status == 200


def test_log_records_reach_their_topic_by_trace(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Conventions that put texts into log records need them beside the spans of their trace."""
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    traces = [bytes(15) + bytes([number + 1]) for number in range(6)]
    for number in range(30):
        scope.log_records.add(trace_id=traces[number % 6], span_id=bytes(7) + b"\x01", event_name="gen_ai.choice")
    with ingress(kafka, prefix, tmp_path) as address:
        post(address, "logs", request.SerializeToString())
        messages = eventually(lambda: read_to_end(kafka.bootstrap, f"{prefix}otlp_logs"), "they are in Kafka")
        eventually(lambda: len(read_to_end(kafka.bootstrap, f"{prefix}otlp_logs")) >= 6, "all are in Kafka")
        messages = read_to_end(kafka.bootstrap, f"{prefix}otlp_logs")
    assert Counter(each.key() for each in messages) == Counter(trace.hex().encode() for trace in traces)


def test_evaluations_reach_a_collectors_exporter_once(
    kafka: SharedBroker, prefix: str, tmp_path: Path, services: Services
) -> None:
    """Interactions that were published by hand are evaluated, and each default metric is printed with its ids."""
    for name in ("interactions", "redrive", "evaluations", "dead-letter", "otlp.evaluations"):
        create_topic(kafka.bootstrap, prefix + name, PARTITIONS)
    events = [
        {
            "event_id": f"e{number}",
            "application": "by-hand",
            "query": question,
            "response": answer,
            "contexts": [{"text": text} for text in DOCUMENTS.values()],
            "trace_id": f"{number + 1:032x}",
            "span_id": f"{number + 1:016x}",
        }
        for number, (question, answer) in enumerate(QUESTIONS.items())
    ]
    produce(kafka.bootstrap, f"{prefix}interactions", [json.dumps(each).encode() for each in events])
    services.start("evaluate", "--slot", "0", variables=settings(kafka, prefix))
    with egress(kafka, f"{prefix}otlp.evaluations", tmp_path) as output:
        wanted = 4 * len(events)
        eventually(lambda: len(printed(output)) >= wanted, "all results are printed")
        time.sleep(1)
        records = printed(output)
    evaluations = values(kafka.bootstrap, f"{prefix}evaluations")
    expected = {
        (each["trace_id"], each["span_id"], name): each["scores"][name]
        for each in evaluations
        for name in ("unsupported_risk", "context_support", "query_context_coverage", "refusal")
    }
    assert {each["EventName"] for each in records} == {"gen_ai.evaluation.result"}
    assert len({each["log.record.uid"] for each in records}) == len(records) == wanted
    assert {
        (each["Trace ID"], each["Span ID"], each["gen_ai.evaluation.name"]): float(
            each["gen_ai.evaluation.score.value"]
        )
        for each in records
    } == pytest.approx(expected)


@pytest.mark.parametrize(
    ("config", "names"), [(RECIPE, APPLICATIONS), (STOCK, ("langchain",))], ids=["recipe", "stock"]
)
def test_applications_are_evaluated_and_their_results_come_back(
    kafka: SharedBroker, prefix: str, tmp_path: Path, services: Services, config: Path, names: tuple[str, ...]
) -> None:
    """Applications, Collector, Kafka, assemble, evaluate, Kafka, Collector: each question once, with its own texts."""
    for name in ("interactions", "redrive", "spans", "assembly", "evaluations", "dead-letter", "otlp.evaluations"):
        create_topic(kafka.bootstrap, prefix + name, PARTITIONS)
    with ExitStack() as stack:
        address = stack.enter_context(ingress(kafka, prefix, tmp_path, config))
        model = stack.enter_context(made_up_model(QUESTIONS))
        output = stack.enter_context(egress(kafka, f"{prefix}otlp.evaluations", tmp_path))
        traces = {
            "input__format": "otlp",
            "input__topic": f"{prefix}otlp_spans",
            "assemble__topics": [f"{prefix}otlp_logs"],
            "assemble__settle_s": 2,
            "assemble__patience_s": 5,
        }
        variables = settings(kafka, prefix, **traces)
        services.start("assemble", "--key-workers", "1", "--join-workers", "1", variables=variables)
        services.start("evaluate", "--workers", "1", variables=variables)
        asked = {name: ask(name, address, model, list(QUESTIONS)) for name in names}
        wanted = len(names) * len(QUESTIONS)

        def evaluations() -> list[dict[str, Any]]:
            return values(kafka.bootstrap, f"{prefix}evaluations")

        eventually(lambda: len(evaluations()) >= wanted, "every question is evaluated")
        eventually(lambda: len(printed(output)) >= 4 * wanted, "every result is printed")
        time.sleep(1)
        records, found = printed(output), evaluations()
    assert len(found) == wanted
    dead = read_to_end(kafka.bootstrap, f"{prefix}dead-letter")
    assert not dead, [each.headers() for each in dead]
    for name, answers in asked.items():
        texts = [each["text"] for each in found if each["application"] == name]
        given = [
            {"query": each["question"], "response": each["answer"], "contexts": each["contexts"]} for each in answers
        ]
        assert sorted(texts, key=str) == sorted(given, key=str), name
    traces_in = spans(read_to_end(kafka.bootstrap, f"{prefix}otlp_spans"))
    assert {each["trace_id"] for each in found} == {trace_id.hex() for trace_id in traces_in}
    keyed = {bool(key) for places in traces_in.values() for key, _ in places}
    assert keyed == {config == RECIPE}
    assert len({each["log.record.uid"] for each in records}) == len(records)
    assert Counter(each["Trace ID"] for each in records) == {each["trace_id"]: 4 for each in found}
    assert {each["ragweir.event_id"] for each in records} == {each["event_id"] for each in found}
    assert all(each["Span ID"] for each in records)
