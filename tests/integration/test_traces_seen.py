"""Reports of `tap`, `doctor`, `explain` and `publish` on OpenTelemetry traces, on a real broker."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import ROOT, ragweir, told
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined] # It does export them.
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from conftest import SharedBroker, create_topic, produce, read_to_end, trim
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragweir.schemas.codec.json import encode
from ragweir.streams.analysis.traces.collection import assemble_trace
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.join.join_clock import JoinClock
from ragweir.streams.services.join.ledger import ClosedTrace, LedgerWriter, Position
from ragweir.streams.settings import AssembleSettings, Settings
from ragweir.streams.traces.wire import slices

RECORDED = ROOT / "tests" / "streams" / "traces" / "otlp"
OPEN, HIDDEN = RECORDED / "langchain-openinference", RECORDED / "langchain-openinference-nocontent"
OTLP = {"RAGWEIR_INPUT__FORMAT": "otlp"}


def run(kafka: SharedBroker, prefix: str, *words: str | Path, status: int = 0, **variables: str) -> str:
    """Return the output of a command on a wide terminal."""
    done = ragweir("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, *words, COLUMNS="1000", **variables)
    assert done.returncode == status, done.stderr.decode() + done.stdout.decode()
    return done.stdout.decode()


def divided(request: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each span of a request in a request of its own, with its span id."""
    for resource in ExportTraceServiceRequest.FromString(request).resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                part = ExportTraceServiceRequest()
                within = part.resource_spans.add(resource=resource.resource).scope_spans.add(scope=scope.scope)
                within.spans.append(span)
                yield span.span_id, part.SerializeToString()


def put(kafka: SharedBroker, topic: str, key: bytes | None, value: bytes, **more: Any) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    producer.produce(topic, value, key, **more)
    assert producer.flush(30) == 0


# tap.


@pytest.mark.heavy
@pytest.mark.parametrize("form", ["pb", "json"])
def test_tap_tells_shares_reasons_and_the_exporters_defaults(kafka: SharedBroker, prefix: str, form: str) -> None:
    """Traces are spread over partitions without a key, as by the exporter's default, in either form."""
    topic = create_topic(kafka.bootstrap, f"{prefix}otlp", 3)
    for number, (_, part) in enumerate(divided((OPEN / "rag.otlp.pb").read_bytes())):
        produce(kafka.bootstrap, topic, [part], partition=number % 3)
    produce(kafka.bootstrap, topic, [(HIDDEN / f"rag.otlp.{form}").read_bytes()], partition=0)
    produce(kafka.bootstrap, topic, [b"{}", b'{"no": "request"}', None], partition=1)
    text = run(kafka, prefix, "tap", topic)
    assert "2 traces gave 2 interactions; 1 trace (50%) gave full ones" in text
    assert "redacted: The instrumentation hides content: set `OPENINFERENCE_HIDE_INPUTS=false`" in text
    assert "1 of 2 traces are spread over several partitions" in text
    assert "records have no key" in text
    assert "`partition_traces_by_id: true`" in text
    assert "openinference.instrumentation.langchain 0.1.80 (2)" in text
    assert "1 of them are no export request of traces or logs:" in text
    assert "context_support" in text
    assert f'  [input]\n  format = "otlp"\n  topic = "{topic}"' in text
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    groups = [each.group_id for each in admin.list_consumer_groups().result(30).valid]
    assert not [group for group in groups if prefix in group]


def test_tap_warns_of_records_near_the_exporters_limit_and_knows_trace_keys(kafka: SharedBroker, prefix: str) -> None:
    """A record keyed by its trace id needs no advice on keys; larger batches would have been dropped."""
    topic = create_topic(kafka.bootstrap, f"{prefix}otlp")
    request = ExportTraceServiceRequest.FromString((OPEN / "rag.otlp.pb").read_bytes())
    request.resource_spans[0].resource.attributes.add(key="padding").value.string_value = "x" * 800_000
    value = request.SerializeToString()
    put(kafka, topic, slices(value)[0].trace_id.encode(), value)
    text = run(kafka, prefix, "tap", topic)
    assert "1 records have 750,000 bytes or more" in text
    assert "`producer.max_message_bytes`" in text
    assert "no key" not in text


@pytest.mark.heavy
def test_tap_leaves_out_traces_that_may_go_on(kafka: SharedBroker, prefix: str) -> None:
    """A trace whose newest record is younger than settle_s is not counted as lacking spans."""
    topic = create_topic(kafka.bootstrap, f"{prefix}otlp")
    now_ms = int(1_000 * time.time())
    for folder, time_ms in ((OPEN, now_ms - 3_600_000), (HIDDEN, now_ms)):
        put(kafka, topic, None, (folder / "rag.otlp.pb").read_bytes(), timestamp=time_ms)
    text = run(kafka, prefix, "tap", topic, RAGWEIR_ASSEMBLE__SETTLE_S="60", RAGWEIR_ASSEMBLE__PATIENCE_S="60")
    assert "1 trace gave 1 interaction; 1 trace (100%) gave full ones" in text
    assert "1 traces at the edges of the sample, which may lack spans, are not counted." in text


# doctor.


def verdicts(text: str) -> dict[str, str]:
    """The verdict and the text of each check."""
    checks = [line for line in text.splitlines() if line.startswith(("ok ", "warn ", "wrong "))]
    return {line.split()[1].rstrip(":"): f"{line.split()[0]} {line.partition(': ')[2]}" for line in checks}


def alter(kafka: SharedBroker, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


@pytest.mark.heavy
def test_doctor_checks_the_newest_traces_their_topics_and_the_times_of_assembly(
    kafka: SharedBroker, prefix: str
) -> None:
    """Each fault that would lose or divide traces is said with the setting to change."""
    topic = create_topic(kafka.bootstrap, f"{prefix}otlp", 2)
    run(kafka, prefix, "topics", "create")
    variables = OTLP | {"RAGWEIR_INPUT__TOPIC": topic}
    found = verdicts(run(kafka, prefix, "doctor", **variables))
    assert found["traces"] == "ok the source topics hold no records yet"
    assert found["trace_topics"].startswith(f"ok {topic}; {prefix}key has not started, {prefix}join has not started")
    assert found["assembly"] == "ok a trace is open for at most 660 s, and its spans are kept for 24.0 h"

    old_ms = int(1_000 * time.time()) - 60_000
    for value in ((OPEN / "rag.otlp.pb").read_bytes(), (HIDDEN / "rag.otlp.json").read_bytes()):
        put(kafka, topic, None, value, timestamp=old_ms)
    found = verdicts(run(kafka, prefix, "doctor", **variables))
    assert found["traces"].startswith("ok 2 traces gave 2 interactions; 1 trace (50%) gave full ones")
    assert "redacted: " in found["traces"]

    produce(kafka.bootstrap, topic, [b'{"event_id": "own"}'])
    alter(kafka, f"{prefix}spans", "retention.ms", "1000000")
    found = verdicts(run(kafka, prefix, "doctor", **variables, RAGWEIR_ASSEMBLE__SETTLE_S="2"))
    assert found["traces"].startswith("warn ")
    assert "1 records are no export request" in found["traces"]
    assert found["assembly"].startswith("warn assemble.settle_s is 2: SDKs export every 5 s")
    assert f"set retention.ms=1320000 of {prefix}spans" in found["assembly"]

    alter(kafka, f"{prefix}spans", "retention.ms", "600000")
    found = verdicts(run(kafka, prefix, "doctor", status=1, **variables))
    assert found["assembly"].startswith(
        f"wrong {prefix}spans keeps records for 600 s and a trace may stay open for 660"
    )

    alter(kafka, f"{prefix}spans", "retention.ms", "90000000")
    alter(kafka, f"{prefix}spans", "max.message.bytes", "100000")
    found = verdicts(run(kafka, prefix, "doctor", status=1, **variables))
    assert found["assembly"].startswith(f"wrong {prefix}assembly keeps records for a shorter time than {prefix}spans")
    assert found["trace_topics"].startswith(f"warn {topic} may hold records of 1,048,588 bytes")

    ahead_ms = int(1_000 * time.time()) + 3_600_000
    put(kafka, topic, None, (OPEN / "rag.otlp.pb").read_bytes(), timestamp=ahead_ms)
    assert "ahead of this machine" in verdicts(run(kafka, prefix, "doctor", status=1, **variables))["traces"]
    missing = verdicts(run(kafka, prefix, "doctor", status=1, **OTLP, RAGWEIR_INPUT__TOPIC=f"{prefix}missing"))
    assert missing["trace_topics"].startswith(f"wrong there is no topic {prefix}missing: create it, or set input.topic")


@pytest.mark.heavy
def test_doctor_needs_no_topics_of_assemble_without_traces(kafka: SharedBroker, prefix: str) -> None:
    """Who publishes interactions need not create them, and sees no check of traces."""
    run(kafka, prefix, "topics", "create")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for future in admin.delete_topics([f"{prefix}spans", f"{prefix}assembly"]).values():
        future.result(30)
    found = verdicts(run(kafka, prefix, "doctor"))
    assert found["topics"].startswith("ok ")
    assert "traces" not in found


# explain.


def told_by(kafka: SharedBroker, prefix: str, event_id: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(run(kafka, prefix, "explain", event_id, "--json"))
    return found


@pytest.mark.heavy
def test_explain_shows_the_tree_of_a_trace_and_the_use_of_each_span(kafka: SharedBroker, prefix: str) -> None:
    """A repeated span is counted once, a late one is named and without effect, and a cut or failed one says so."""
    for name in ("interactions", "evaluations", "spans", "assembly"):
        create_topic(kafka.bootstrap, prefix + name, 3)
    request = (OPEN / "rag.otlp.pb").read_bytes()
    parts = dict(divided(request))
    trace_id = slices(request)[0].trace_id
    (interaction,) = assemble_trace(trace_id, [request], AssembleSettings()).interactions
    leaf = next(span.id for span in interaction.spans or () if span.kind == "retrieval" and span.id)
    for part in (*parts.values(), parts[bytes.fromhex(leaf)]):
        put(kafka, f"{prefix}spans", trace_id.encode(), part)
    put(kafka, f"{prefix}spans", b"f" * 32, request)  # Another trace, and a mark of the clock.
    produce(kafka.bootstrap, f"{prefix}spans", [b'{"sources": {}, "marks": []}'] * 2)

    key, value = interaction.event_id.encode(), encode(interaction)
    put(kafka, f"{prefix}interactions", key, value)
    (stored,) = read_to_end(kafka.bootstrap, f"{prefix}interactions")
    place = stored.topic(), stored.partition(), stored.offset()
    agent = EvaluateAgent(evaluate_config(Settings(), place[0]))
    outcome = agent.handle([Record(*place, key, value, None)])
    put(kafka, f"{prefix}evaluations", key, outcome.emissions[0].value or b"")

    assert "join has not closed it" in run(kafka, prefix, "explain", interaction.event_id)
    written = [each for each in read_to_end(kafka.bootstrap, f"{prefix}spans") if each.key() == trace_id.encode()]
    late_from, partition = max(each.offset() or 0 for each in written) + 1, written[0].partition() or 0
    closings = [ClosedTrace(bytes.fromhex(trace_id), late_from), ClosedTrace(b"o" * 16, late_from)]
    ledger = LedgerWriter(0)
    entry = ledger.entry(Position(late_from, late_from, 0, JoinClock(), 1, 0), closings)
    produce(kafka.bootstrap, f"{prefix}assembly", [b"{}", entry, b"junk", None], partition=partition)

    late = ExportTraceServiceRequest.FromString(next(iter(parts.values())))
    span = late.resource_spans[0].scope_spans[0].spans[0]
    span.span_id, span.name, span.parent_span_id = b"lateness", "\x1b[2J[red]too late", bytes.fromhex(leaf)
    span.dropped_attributes_count = 3
    span.status.code, span.status.message = 2, "broke"
    put(kafka, f"{prefix}spans", trace_id.encode(), late.SerializeToString())

    found = told_by(kafka, prefix, interaction.event_id)["trace"]
    assert found["interactions"] == [interaction.event_id]
    assert (found["records"], found["whole"], found["deleted"], found["closed"]) == (len(parts) + 2, True, False, True)
    spans = {each["id"]: each for each in found["spans"]}
    assert len(spans) == len(parts) + 1
    assert (spans[leaf]["kind"], spans[leaf]["copies"]) == ("retrieval", 2)
    root = found["spans"][0]
    assert (root["use"], root["depth"], root["offset_ms"]) == ("root", 0, 0)
    last = spans[b"lateness".hex()]
    assert (last["use"], last["depth"], last["error"]) == ("late", spans[leaf]["depth"] + 1, "broke")
    assert all(each["use"] != "late" for each in found["spans"] if each is not last)

    text = run(kafka, prefix, "explain", interaction.event_id)
    assert f"{trace_id}: {len(parts) + 1} spans, 0 log records, in {len(parts) + 2} records, 1 interaction" in text
    assert "1 late span: read after the trace was closed, which is final, and without effect" in text
    assert "error: broke; 3 attributes cut by the SDK" in text
    assert "came 2 times" in text
    assert "\x1b" not in text
    assert "context_support" in text


@pytest.mark.heavy
def test_explain_says_that_retention_has_deleted_the_spans(kafka: SharedBroker, prefix: str) -> None:
    """The evaluation is shown all the same; spans that were not searched are told apart from deleted ones."""
    for name in ("interactions", "evaluations", "spans"):
        create_topic(kafka.bootstrap, prefix + name)
    request = (OPEN / "rag.otlp.pb").read_bytes()
    trace_id = slices(request)[0].trace_id
    (interaction,) = assemble_trace(trace_id, [request], AssembleSettings()).interactions
    key = interaction.event_id.encode()
    outcome = EvaluateAgent(evaluate_config(Settings(), "t")).handle(
        [Record("t", 0, 0, key, encode(interaction), None)]
    )
    put(kafka, f"{prefix}evaluations", key, outcome.emissions[0].value or b"")
    put(kafka, f"{prefix}spans", trace_id.encode(), request)
    produce(kafka.bootstrap, f"{prefix}spans", [b"{}"] * 3)
    # A trace id alone shows a trace, and an id without spans is not found.
    assert f"{trace_id}: " in run(kafka, prefix, "explain", trace_id)
    assert not run(kafka, prefix, "explain", "0" * 32 + ":" + "1" * 16, status=1)
    hidden = run(kafka, prefix, "explain", interaction.event_id, "--newest", "2")
    assert "its spans are not among the searched records" in hidden
    trim(kafka.bootstrap, f"{prefix}spans", [0], 2)
    text = run(kafka, prefix, "explain", interaction.event_id)
    assert "its spans are deleted, as the retention of the topic has passed" in text
    assert told_by(kafka, prefix, interaction.event_id)["trace"]["deleted"]


# publish.


def test_publish_sends_the_interactions_of_traces(kafka: SharedBroker, prefix: str) -> None:
    """In ragweir's own JSON, keyed by their ids; a map is a usage error."""
    topic = create_topic(kafka.bootstrap, f"{prefix}interactions")
    file = OPEN / "rag.otlp.pb"
    done = ragweir("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "publish", file)
    assert done.returncode == 0, done.stderr
    assert done.stderr.decode().splitlines()[-1] == f"1 published to {topic}"
    (message,) = read_to_end(kafka.bootstrap, topic)
    sent = orjson.loads(message.value() or b"")
    assert sent["event_id"].encode() == message.key()
    assert sent["assembly"]["dialect"] == "openinference"
    assert len(sent["contexts"]) > 1
    done = ragweir("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "publish", file, "--map", "ragas")
    assert done.returncode == 2
    assert "without a map" in told(done)
