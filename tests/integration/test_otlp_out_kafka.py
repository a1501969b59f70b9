"""Evaluations as OpenTelemetry log records on a real Kafka: committed with their evaluations, exactly once."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterable

import pytest
from commands import ragweir
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, create_topic, produce, read_to_end
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from services import Services, end_all, eventually, quick

from ragweir.streams.playground.simulated.server import simulated_judge

PARTITIONS = 2
EVENTS = 200
TOPICS = ("redrive", "evaluations", "dead-letter", "judge.requests", "judge.retry", "judge.deferred", "judge.ledger")
METRICS = ["context_support", "judge_relevance"]


def ids(messages: Iterable[Message]) -> Counter[str]:
    """The stable ids of records."""
    return Counter(dict(each.headers() or [])["ce_id"].decode() for each in messages)


def scores(messages: Iterable[Message]) -> dict[str, dict[str, float]]:
    """The scores of requests by event and metric, each of which occurs once."""
    found: dict[str, dict[str, float]] = {}
    for message in messages:
        for resource in ExportLogsServiceRequest.FromString(message.value() or b"").resource_logs:
            for record in resource.scope_logs[0].log_records:
                values = {each.key: each.value for each in record.attributes}
                name = values["gen_ai.evaluation.name"].string_value
                event = found.setdefault(values["ragweir.event_id"].string_value, {})
                assert name not in event
                event[name] = values["gen_ai.evaluation.score.value"].double_value
    return found


def events(count: int) -> list[bytes]:
    given = {"query": "How far is the sea?", "contexts": [{"text": "The town lies 12 miles from the sea."}]}
    return [
        json.dumps(
            {
                "event_id": f"e{number}",
                "trace_id": f"{number + 1:032x}",
                "span_id": f"{number + 1:016x}",
                "response": f"It is {number % 20} miles.",
                **given,
            }
        ).encode()
        for number in range(count)
    ]


@pytest.mark.heavy
def test_results_are_committed_with_their_evaluations_and_replays_write_none(
    kafka: SharedBroker, prefix: str, services: Services
) -> None:
    """Workers of evaluate and judge are killed: each evaluation has one request, in a topic of another name."""
    topic = create_topic(kafka.bootstrap, f"{prefix}theirs", 3)
    source = create_topic(kafka.bootstrap, f"{prefix}interactions", PARTITIONS)
    for name in TOPICS:
        create_topic(kafka.bootstrap, prefix + name, PARTITIONS)

    def read(name: str) -> list[Message]:
        return read_to_end(kafka.bootstrap, prefix + name)

    with simulated_judge() as judge:
        variables = quick(
            kafka.bootstrap,
            prefix,
            topics__partitions=PARTITIONS,
            batch__max_events=20,
            output__otlp={"topic": topic, "metrics": METRICS},
            judge__base_url=judge.base_url,
            judge__model="simulated-judge",
            judge__prices={"simulated-judge": {"input_usd": 1.0, "output_usd": 4.0}},
            judge__daily_budget_usd=50,
            judge__concurrency=8,
            routing__rules=[{"name": "all", "on": "query_context_coverage", "present": True, "suites": ["rubric"]}],
        )
        for name in ("evaluate", "judge"):
            services.start(name, "--workers", "1", variables=variables)
        for number, service in enumerate(services):
            before = len(read("evaluations"))
            produce(kafka.bootstrap, source, events(EVENTS)[EVENTS // 2 * number :][: EVENTS // 2])
            eventually(lambda before=before: len(read("evaluations")) > before, "work goes on")
            os.kill(service.pid(0), signal.SIGKILL)
        eventually(lambda: len(read("evaluations")) == 2 * EVENTS, "all are scored and judged")
        end_all(services)
        evaluations, requests = read("evaluations"), read("theirs")
        assert ids(requests) == ids(evaluations)
        assert ids(requests) == Counter(f"e{n}:{stage}" for n in range(EVENTS) for stage in ("scored", "judged"))
        judged = [each for each in map(json.loads, (each.value() for each in evaluations)) if each["stage"] == "judged"]
        assert scores(requests) == {
            each["event_id"]: {name: each["scores"][name] for name in METRICS} for each in judged
        }
        places: dict[bytes | None, set[int | None]] = {}
        for each in requests:
            places.setdefault(each.key(), set()).add(each.partition())
        assert places.keys() == {f"{number + 1:032x}".encode() for number in range(EVENTS)}
        assert {len(each) for each in places.values()} == {1}, "a trace's results are in one partition"

        replay = ["replay", "--judge", "budget", "--budget", "50", "--run-id"]
        assert ragweir(*replay, "without", **variables).returncode == 0
        assert ids(read("theirs")) == ids(requests)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        assert f"{prefix}run.without.evaluations" in admin.list_topics(timeout=10).topics
        assert f"{prefix}run.without.otlp.evaluations" not in admin.list_topics(timeout=10).topics
        asked = {"RAGWEIR_OUTPUT__OTLP": json.dumps({"topic": topic, "metrics": METRICS, "replays": True})}
        done = ragweir(*replay, "with", **{**variables, **asked})
        assert done.returncode == 0, done.stderr.decode()
        again = read("run.with.otlp.evaluations")
        assert ids(read("theirs")) == ids(requests)
        assert ids(again) == Counter(f"with:{each}" for each in ids(requests))
        assert scores(again) == scores(requests)
