"""Telemetry: one table for all instruments, three paths that tell the truth, and counts that equal what was written."""

import ast
import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import ROOT, evaluating, ragweir, settled
from conftest import create_topic, produce, read_to_end
from poison import GOOD, POISON, event
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from metrics.catalogue import Catalogue, everything
from metrics.metric import Metric
from metrics.view import View
from schemas.times import parse_time
from streams.agents.agent import Record
from streams.agents.evaluate import EvaluateAgent, EvaluateConfig
from streams.local.kafka import LocalKafka
from streams.serving.health import STALLED_S, Health, serve
from streams.serving.telemetry import TABLE, Telemetry


def named_in(*folders: Path) -> set[str]:
    """The instruments' names that stand as strings in the sources of folders, but for the table itself."""
    found = set()
    for source in (source for folder in folders for source in folder.rglob("*.py")):
        if source.name != "telemetry.py":
            constants = (node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Constant))
            found |= {str(node.value) for node in constants if re.fullmatch(r"ragweir_[a-z_]+", str(node.value))}
    return found


def test_the_table_is_complete_and_nothing_in_it_is_idle() -> None:
    """Every instrument that agents and runtimes name stands in the table, and every line of the table is used."""
    table = {line.name for line in TABLE}
    assert len(table) == len(TABLE)
    assert named_in(ROOT / "streams" / "agents", ROOT / "streams" / "runtimes") <= table
    assert table - named_in(ROOT / "streams") <= {"ragweir_build_info"}, "set where it is declared"
    for line in TABLE:
        assert line.help
        assert (line.kind == "counter") == line.name.endswith("_total")


def test_whatever_an_agent_counts_can_be_counted() -> None:
    """The counts that the evaluate agent gives fit the instruments, label for label, of all kinds of record."""

    def broken(_: View) -> float:
        raise ZeroDivisionError

    metric = Metric(broken, "test", "count", "neither", (), "a test", name="broken")
    agent = EvaluateAgent(EvaluateConfig(Catalogue([*everything(), metric])))
    odd = event(event_id="odd", spans=[{"kind": "AGENT"}] * 2, expected=["a"] * 33)
    values = [event(), odd, *(poison.value for poison in POISON)]
    at = int(parse_time(GOOD["ended_at"]).timestamp() * 1_000)
    records = [Record("t", 0, offset, None, value, at + 1_000 * offset) for offset, value in enumerate(values)]
    telemetry = Telemetry("evaluate", 0)
    for outcome in (agent.handle(records), agent.refuse(records[0], "too large")):
        telemetry.add(outcome.counts)
        telemetry.show(outcome.levels)
    sample = telemetry.registry.get_sample_value
    assert sample("ragweir_events_in_total") == len(values) + 1
    assert sample("ragweir_evaluations_total", {"stage": "scored"}) == 2
    for flag in ("unknown_span_kind", "cut:expected"):
        assert sample("ragweir_repaired_total", {"flag": flag}) == 1
    for statistic, seconds in (("min", 0), ("max", 1)):
        assert sample("ragweir_event_time_distance_seconds", {"statistic": statistic}) == seconds
    assert sample("ragweir_dead_letters_total", {"error_class": "refused"}) == 1
    assert sample("ragweir_metric_errors_total", {"metric": "broken"}) == 2


def test_what_the_table_does_not_hold_cannot_be_counted() -> None:
    """A misspelt instrument, or a label too many, is an error where it is used."""
    telemetry = Telemetry("evaluate", 0)
    with pytest.raises(KeyError):
        telemetry.count("ragweir_event_in_total", 1)
    with pytest.raises(ValueError, match="label"):
        telemetry.count("ragweir_evaluations_total", 1, "scored", "twice")


def test_what_is_forgotten_is_gone() -> None:
    """The lag of a partition that went elsewhere leaves the exposition, and forgetting it twice is no error."""
    telemetry = Telemetry("evaluate", 0)
    telemetry.set("ragweir_lag", 5, "t", "0")
    for _ in range(2):
        telemetry.forget("ragweir_lag", "t", "0")
    assert telemetry.registry.get_sample_value("ragweir_lag", {"topic": "t", "partition": "0"}) is None


@contextmanager
def serving(health: Health, registry: CollectorRegistry) -> Iterator[Callable[[str], tuple[int, str]]]:
    """The server for the length of a block; gives a function that asks it."""
    with serve(registry, health, "127.0.0.1", 0) as port:

        def ask(path: str) -> tuple[int, str]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
                    return response.status, response.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        yield ask


def test_the_paths_tell_the_truth() -> None:
    """/metrics is Prometheus text, /readyz says why not, /healthz whether the loop comes round."""
    health, telemetry = Health(), Telemetry("evaluate", 3)
    with serving(health, telemetry.registry) as ask:
        status, text = ask("/metrics")
        families = {family.name: family for family in text_string_to_metric_families(text)}
        assert status == 200
        assert {line.name.removesuffix("_total") for line in TABLE} <= families.keys()
        (info,) = families["ragweir_build_info"].samples
        assert (info.value, info.labels["service"], info.labels["slot"]) == (1, "evaluate", "3")
        assert ask("/readyz") == (503, "starting\n")
        health.not_ready = ""
        assert ask("/readyz") == (200, "ok\n")
        assert ask("/healthz") == (200, "ok\n")
        health.beat -= STALLED_S + 1
        assert ask("/healthz") == (503, "the loop has stalled\n")
        health.alive()
        assert ask("/healthz") == (200, "ok\n")
        assert ask("/nothing")[0] == 404


def test_a_reader_that_says_nothing_keeps_nobody_waiting() -> None:
    """A connection that asks nothing does not keep others from their answers."""
    health = Health(not_ready="")
    with (
        serve(CollectorRegistry(), health, "127.0.0.1", 0) as port,
        socket.create_connection(("127.0.0.1", port)),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as response,
    ):
        assert response.status == 200


def test_the_server_is_gone_after_its_block() -> None:
    """The port is free again, and no thread is left."""
    before = threading.active_count()
    with serve(CollectorRegistry(), Health(), "127.0.0.1", 0) as port:
        pass
    assert threading.active_count() == before
    with serve(CollectorRegistry(), Health(), "127.0.0.1", port) as again:
        assert again == port


def test_a_taken_port_is_one_sentence(kafka: LocalKafka, prefix: str) -> None:
    """A worker whose telemetry port is taken says which, and ends so that it is not restarted."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix)
        done = ragweir(*shared, "evaluate", "--slot", "0", RAGWEIR_TELEMETRY__PORT=str(port))
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert f"the telemetry port {port} cannot be opened (Address already in use); set telemetry.port" in line


def test_counts_equal_what_was_written(kafka: LocalKafka, prefix: str, tmp_path: Path) -> None:
    """After a backlog of good events and poison the counters equal the records of the output topics."""
    for name in ("interactions", "redrive", "evaluations", "dead-letter"):
        create_topic(kafka.bootstrap, prefix + name, 1, {"max.message.bytes": "3000000"})
    values = [poison.value for poison in POISON] + [event(event_id=f"event-{number}") for number in range(100)]
    produce(kafka.bootstrap, f"{prefix}interactions", values)
    with evaluating(kafka.bootstrap, prefix, tmp_path, RAGWEIR_BATCH__MAX_EVENTS="50") as service:
        settled(kafka.bootstrap, f"{prefix}evaluate", {(f"{prefix}interactions", 0): len(values)})
        letters = read_to_end(kafka.bootstrap, f"{prefix}dead-letter")
        classes = [dict(each.headers())["ragweir-error-class"].decode() for each in letters]
        assert service.asked("/readyz") == (200, "ok\n")
        # The counts follow the commit, so they may still be on their way.
        while service.sample("ragweir_events_in_total") < len(values):
            assert service.process.poll() is None
        assert service.sample("ragweir_events_in_total") == len(values)
        evaluations = read_to_end(kafka.bootstrap, f"{prefix}evaluations")
        assert service.sample('ragweir_evaluations_total{stage="scored"}') == len(evaluations) == 100
        for kind in set(classes):
            assert service.sample(f'ragweir_dead_letters_total{{error_class="{kind}"}}') == classes.count(kind)
        assert service.sample('ragweir_transactions_total{outcome="committed"}') >= len(values) / 50
        assert service.sample('ragweir_transactions_total{outcome="aborted"}') == 0
        assert service.sample("ragweir_broker_up") == 1
        assert service.sample("ragweir_assigned_partitions") == 2
