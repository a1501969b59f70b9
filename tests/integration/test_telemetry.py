"""Telemetry: one table for all instruments, three paths that tell the truth, and counts that equal what was written."""

import ast
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from commands import ROOT, evaluating, ragweir, settled
from conftest import SharedBroker, create_topic, produce, read_to_end
from poison import GOOD, POISON, event
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from services import ask

from ragweir.errors import ErrorClass
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.metric import Metric
from ragweir.metrics.view import View
from ragweir.schemas.codec.intake import REPAIRS
from ragweir.schemas.times import parse_time
from ragweir.schemas.window import Fate
from ragweir.streams.runtime.records import Measurements, Record
from ragweir.streams.runtime.serving.health import STALLED_SECONDS, Health, serve
from ragweir.streams.runtime.serving.telemetry import Telemetry
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.export.service import PROJECTIONS
from ragweir.streams.services.instruments import BY_SERVICE, TABLE, telemetry_of
from ragweir.streams.services.judge import client
from ragweir.streams.services.judge.protocol import (
    CallRejected,
    EndpointFailed,
    EndpointUnusable,
    OptionUnsupported,
    RateLimited,
)
from ragweir.streams.services.judge.results import RequestOutcome
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.settings import Settings


def named_in(*folders: Path) -> set[str]:
    """The instruments' names that stand as strings in the sources of folders, but for the table itself."""
    found = set()
    for source in (source for folder in folders for source in folder.rglob("*.py")):
        if source.name != "instruments.py":
            constants = (node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Constant))
            found |= {str(node.value) for node in constants if re.fullmatch(r"ragweir_[a-z_]+", str(node.value))}
    return found


def test_the_table_is_complete_and_nothing_in_it_is_idle() -> None:
    """Every instrument that agents and runtimes name stands in the table, and every line of the table is used."""
    table = {line.name for line in TABLE}
    assert len(table) == len(TABLE)
    used = named_in(*(ROOT / "streams" / name for name in ("runtime", "services")))
    projected = ("ragweir_window_", "ragweir_judge_anchor")  # Not counted: the projection of their topics has them.
    assert {name for name in used - table if not name.startswith(projected)} == set()
    assert table - named_in(ROOT / "streams") <= {"ragweir_build_info"}, "set where it is declared"
    for line in TABLE:
        assert line.help
        assert (line.kind == "counter") == line.name.endswith("_total")


def test_the_table_imports_no_service() -> None:
    """A worker's start makes its telemetry without the code of other services: the table imports their lines alone."""
    shown = "import sys, ragweir.streams.services.instruments; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stdout.split()
    rooms = "ragweir.streams.services."
    own = {name.removeprefix(rooms) for name in names if name.startswith(rooms)}
    modules = {name for name in own if not (ROOT / "streams" / "services" / name.replace(".", "/")).is_dir()}
    assert {name.rpartition(".")[2] for name in modules} == {"instruments"}
    assert len(modules) > len(SERVICES)


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
    telemetry = telemetry_of("evaluate", 0)
    for outcome in (agent.handle(records), agent.dead_letter(records[0], "too large")):
        telemetry.add(Measurements(outcome.counts, outcome.levels))
    sample = telemetry.registry.get_sample_value
    assert sample("ragweir_events_in_total") == len(values) + 1
    assert sample("ragweir_evaluations_total", {"stage": "scored"}) == 2
    for flag in ("unknown_span_kind", "cut:expected"):
        assert sample("ragweir_repaired_total", {"flag": flag}) == 1
    for statistic, seconds in (("min", 0), ("max", 1)):
        assert sample("ragweir_event_time_distance_seconds", {"statistic": statistic}) == seconds
    assert sample("ragweir_dead_letters_total", {"error_class": "refused"}) == 1
    assert sample("ragweir_metric_errors_total", {"metric": "broken"}) == 2


def labelled(telemetry: Telemetry) -> dict[str, set[tuple[str, ...]]]:
    """The label values of each counter that a service shows, in the order of its labels."""
    names = {line.name: line.labels for line in TABLE if line.kind == "counter" and line.labels}
    found: dict[str, set[tuple[str, ...]]] = {}
    for family in telemetry.registry.collect():
        for sample in family.samples:
            if sample.name in names:
                values = tuple(sample.labels[label] for label in names[sample.name])
                found.setdefault(sample.name, set()).add(values)
    return found


def started(service: str, **settings: Any) -> Telemetry:
    """The telemetry of a service or a projection as it starts."""
    made = Settings.model_validate(settings)
    return telemetry_of(service, 0, {**SERVICES, **PROJECTIONS}[service].known(made))


def words(folder: str, call: str, place: int) -> set[str]:
    """The constants that stand in one place of the calls of a name, in the sources of a folder."""
    calls = (
        node
        for source in (ROOT / "streams" / folder).rglob("*.py")
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == call
    )
    given = (node.args[place] for node in calls if len(node.args) > place)
    return {each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def test_counters_exist_from_the_start_for_all_that_is_known() -> None:
    """Each service begins with a 0 for every combination of labels that it can count, and has none of the others'."""
    slo = {"name": "quick", "metric": "total_latency_ms", "at_most": 3_000, "objective": 0.99}
    judge = {"base_url": "http://127.0.0.1:1/v1"}
    evaluate = started("evaluate", judge=judge, metrics={"off": ["ragas", "retrieval"]})
    found = labelled(evaluate)
    catalogue = Catalogue(everything(), ["ragas", "retrieval"])
    assert found == {
        "ragweir_evaluations_total": {("scored",)},
        "ragweir_dead_letters_total": {(each,) for each in get_args(ErrorClass)},
        "ragweir_repaired_total": {(each,) for each in REPAIRS},
        "ragweir_metric_errors_total": {(each,) for each in catalogue.free},
        "ragweir_routed_total": set(
            product(
                ("rubric", "context_recall", "factual", "classification", "semantic"),
                ("selected", "not_selected", "failed"),
            )
        ),
        "ragweir_routing_rows_ignored_total": {("unreadable",), ("late",)},
        "ragweir_transactions_total": {("committed",), ("aborted",)},
    }
    assert all(
        sample.value == 0
        for family in evaluate.registry.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    )
    assert "ragweir_routed_total" not in labelled(started("evaluate")), "there is no judge"
    aggregate = started("aggregate", slo=[slo])
    assert labelled(aggregate) == {
        "ragweir_evaluations_summed_total": {("header",), ("json",)},
        "ragweir_slo_events_total": {("quick", "good"), ("quick", "bad")},
        "ragweir_dead_letters_total": {(each,) for each in get_args(ErrorClass)},
        "ragweir_transactions_total": {("committed",), ("aborted",)},
    }
    assert aggregate.registry.get_sample_value("ragweir_slo_objective", {"slo": "quick"}) == 0.99
    assert labelled(started("judge")).keys() == {
        "ragweir_evaluations_total",
        "ragweir_dead_letters_total",
        "ragweir_judge_requests_total",
        "ragweir_judge_calls_total",
        "ragweir_judge_tokens_total",
        "ragweir_transactions_total",
    }
    assert labelled(started("export", windows={"sizes": ["1m", "5m"]})) == {
        "ragweir_window_records_total": {(each,) for each in get_args(Fate)},
        "ragweir_windows_shown_total": {("1m",), ("5m",)},
        "ragweir_windows_revised_total": {("1m",), ("5m",)},
        "ragweir_label_sets_folded_total": {("1m",), ("5m",)},
    }


def test_every_counter_with_labels_is_born_at_0() -> None:
    """Only of partitions and of names of feedback nobody knows beforehand which they are."""
    late = {line.name for line in TABLE if line.kind == "counter" and line.labels and not line.values}
    assert late == {"ragweir_events_missed_total", "ragweir_feedback_total"}
    for line in TABLE:
        assert len(line.values) in {0, len(line.labels)}, line.name


def test_the_known_outcomes_of_judging_are_those_that_occur() -> None:
    """What becomes of requests and calls is read from the sources: a new outcome has to be added to the table."""
    found = labelled(started("judge"))
    assert found["ragweir_judge_requests_total"] == {(each,) for each in get_args(RequestOutcome)}
    troubles = {each.__name__ for each in (EndpointFailed, RateLimited, EndpointUnusable, CallRejected)}
    calls = {"ok", "broken_off", "cached", OptionUnsupported("length").outcome}
    calls |= {outcome for trouble in troubles for outcome in words("services/judge", trouble, 0)}
    calls |= {outcome for *_, outcome, _ in client._MEANINGS}
    assert found["ragweir_judge_calls_total"] == {(each,) for each in calls}


def test_what_the_table_does_not_hold_cannot_be_counted() -> None:
    """A misspelt instrument, or a label too many, is an error where it is used."""
    telemetry = telemetry_of("evaluate", 0)
    with pytest.raises(KeyError):
        telemetry.count("ragweir_event_in_total", 1)
    with pytest.raises(ValueError, match="label"):
        telemetry.count("ragweir_evaluations_total", 1, "scored", "twice")


def test_what_is_forgotten_is_gone() -> None:
    """The lag of a partition that went elsewhere leaves the exposition, and forgetting it twice is no error."""
    telemetry = telemetry_of("evaluate", 0)
    telemetry.set("ragweir_lag", 5, "t", "0")
    for _ in range(2):
        telemetry.remove("ragweir_lag", "t", "0")
    assert telemetry.registry.get_sample_value("ragweir_lag", {"topic": "t", "partition": "0"}) is None


def test_measurements_are_added_set_removed_and_observed() -> None:
    """Counts add up, levels replace each other, None removes a sample, and observations reach their histogram."""
    telemetry = telemetry_of("evaluate", 0)
    dead, lag = ("ragweir_dead_letters_total", "fatal"), ("ragweir_lag", "t", "0")
    telemetry.add(Measurements({dead: 2}, {lag: 5}, [(("ragweir_batch_events",), 7)]))
    telemetry.add(Measurements({dead: 1}, {lag: 3}, [(("ragweir_batch_events",), 8)]))
    sample = telemetry.registry.get_sample_value
    assert sample("ragweir_dead_letters_total", {"error_class": "fatal"}) == 3
    assert sample("ragweir_lag", {"topic": "t", "partition": "0"}) == 3
    assert (sample("ragweir_batch_events_count"), sample("ragweir_batch_events_sum")) == (2, 15)
    telemetry.add(Measurements(levels={lag: None}))
    assert sample("ragweir_lag", {"topic": "t", "partition": "0"}) is None


def test_the_paths_tell_the_truth() -> None:
    """/metrics is Prometheus text, /readyz says why not, /healthz whether the loop comes round."""
    health, telemetry = Health(), telemetry_of("evaluate", 3)
    with serve(telemetry.registry, health, "127.0.0.1", 0) as port:
        asked = partial(ask, f"http://127.0.0.1:{port}")
        status, text = asked("/metrics")
        families = {family.name: family for family in text_string_to_metric_families(text)}
        assert status == 200
        own = {line.name.removesuffix("_total") for line in BY_SERVICE["evaluate"]}
        assert own == {name for name in families if not name.endswith("_created")}
        (info,) = families["ragweir_build_info"].samples
        assert (info.value, info.labels["service"], info.labels["slot"]) == (1, "evaluate", "3")
        assert asked("/readyz") == (503, "starting\n")
        health.not_ready = ""
        assert asked("/readyz") == (200, "ok\n")
        assert asked("/healthz") == (200, "ok\n")
        health.last_alive_s -= STALLED_SECONDS + 1
        assert asked("/healthz") == (503, "the loop has stalled\n")
        health.alive()
        assert asked("/healthz") == (200, "ok\n")
        assert asked("/nothing")[0] == 404


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


def test_a_taken_port_is_one_sentence(kafka: SharedBroker, prefix: str) -> None:
    """A worker whose telemetry port is taken says which, and ends so that it is not restarted."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix)
        done = ragweir(*shared, "evaluate", "--slot", "0", RAGWEIR_TELEMETRY__PORT=str(port))
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert f"the telemetry port {port} cannot be opened (Address already in use); set telemetry.port" in line


@pytest.mark.heavy
def test_counts_and_the_log_equal_what_was_written(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """After a backlog of good events and poison the counters equal the records of the output topics.

    The log has the first dead letter of each class, and its counts add up to all of them.
    """
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
    firsts = {each["error_class"]: each for each in service.logged("first dead letter of its class")}
    assert len(service.logged("first dead letter of its class")) == len(firsts) == len(set(classes))
    for kind, line in firsts.items():
        headers = dict(letters[classes.index(kind)].headers())
        assert (line["topic"], line["partition"]) == (f"{prefix}interactions", 0)
        assert str(line["offset"]) == headers["ragweir-source-offset"].decode()
        assert line["message"] == headers["ragweir-message"].decode()
    counts = Counter[str]()
    for line in service.logged("dead letters"):
        counts[line["error_class"]] += line["count"]
    assert counts == Counter(classes)
