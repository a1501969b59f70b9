"""Wrong clocks and hostile label values, from evaluations to what Prometheus is shown, without Kafka and with it."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from conftest import SharedBroker, create_topic, produce
from prometheus_client.parser import text_string_to_metric_families
from services import Service, Services, eventually, quick

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.merger import WindowMerger
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.window import OVERFLOW
from ragweir.streams.analysis.checks.context import CheckContext
from ragweir.streams.analysis.checks.events import labels
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.aggregate.agent import AggregateAgent, AggregateConfig
from ragweir.streams.services.export.exposition import Exposition
from ragweir.streams.services.shared.dimensions import admission_limits
from ragweir.streams.settings import WindowSettings, load

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
TOTALS = Aggregator(Catalogue(everything()))
REAL = ("claims", "search", "support")
METRICS = ("context_support", "bigram_support", "unsupported_risk", "total_latency_ms", "input_tokens")


def evaluation(at: datetime, application: str) -> bytes:
    scores = dict.fromkeys(METRICS, 0.5)
    data = {"event_id": "1", "event_time": at, "application": application, "scores": scores, "catalogue_version": "1"}
    return orjson.dumps(data)


class Pipeline:
    """Aggregate and export in one process: evaluations in, the exposition out, by a clock of its own."""

    def __init__(self, **windows: Any) -> None:
        settings = WindowSettings(**windows)
        self.agent = AggregateAgent(AggregateConfig(TOTALS, settings))
        self.agent.on_assigned(Assignment(("rag.evaluations", 0), None, 0))
        limits = admission_limits(settings)
        self.closing = WindowMerger(settings.sizes, settings.dimensions, TOTALS.decoder(), settings.grace_s, limits)
        self.exposition = Exposition(settings.dimensions, [])
        self.offset = 0
        self.counts: Counter[str] = Counter()
        self.series: set[str] = set()
        """Every series of windows that a scrape has seen."""
        self.events: dict[str, dict[str, int]] = {}
        """Of the windows that are shown: events by size and application."""

    def send(self, now: datetime, *values: bytes) -> None:
        """One commit of records that are written now, and what export makes of it."""
        stamp_ms = round(now.timestamp() * 1000)
        records = [
            Record("evaluations", 0, self.offset + each, None, value, stamp_ms) for each, value in enumerate(values)
        ]
        self.offset += len(records)
        outcome = self.agent.handle(records)
        outcome.extend(self.agent.tick(now.timestamp(), (), 1))
        self.agent.on_commit()
        self.counts += Counter({name[0]: number for name, number in outcome.counts.items()})
        for each in outcome.emissions:
            self.closing.take(each.key, each.value, now.timestamp())
        closed = self.closing.advance(now.timestamp())
        self.exposition.show(closed.values())
        for size, window in closed.items():
            self.events[size] = {labels[0]: contents.events for labels, contents in window.sets.items()}
        if closed:
            lines = self.exposition.content.decode().splitlines()
            self.series |= {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}


# A clock that is fast.


def test_one_fast_clock_hides_nobody() -> None:
    """Nine applications are on time, the tenth four minutes ahead: all ten are shown, with all their events."""
    pipeline = Pipeline()
    honest = [f"honest-{number}" for number in range(9)]
    for second in range(800):
        now = NOON + timedelta(seconds=second)
        values = [evaluation(now - timedelta(milliseconds=300), name) for name in honest]
        pipeline.send(now, *values, evaluation(now + timedelta(minutes=4), "fast"))
    assert pipeline.counts["ragweir_late_events_total"] == 0
    assert pipeline.events["1m"] == dict.fromkeys((*honest, "fast"), 60)
    assert pipeline.events["5m"] == dict.fromkeys((*honest, "fast"), 300)


# A backlog.


@pytest.mark.parametrize("seed", range(3))
def test_what_a_backlog_shows_is_complete_in_the_end(seed: int) -> None:
    """All records are stamped now and their event times come in any order: no timestamp bounds a watermark."""
    pipeline, draw = Pipeline(), random.Random(seed)
    moments = [
        (NOON + timedelta(seconds=second, minutes=4 * (name == "ahead")), name)
        for second in range(0, 7_200, 6)
        for name in (*REAL, "ahead")
    ]
    draw.shuffle(moments)
    now = NOON + timedelta(days=1)
    for first in range(0, len(moments), 100):
        now += timedelta(seconds=1)
        pipeline.send(now, *(evaluation(at, name) for at, name in moments[first : first + 100]))
    now += timedelta(seconds=20)
    pipeline.send(now, evaluation(NOON + timedelta(hours=2, minutes=1), "ahead"))
    wanted: dict[str, Counter[str]] = {}
    for size, minutes, end in (("1m", 1, 122), ("5m", 5, 120), ("1h", 60, 120)):
        start = NOON + timedelta(minutes=end - minutes)
        wanted[size] = Counter(name for at, name in moments if start <= at < start + timedelta(minutes=minutes))
    assert pipeline.counts["ragweir_late_events_total"] > 1_000
    assert pipeline.events == wanted


# Label sets.


def test_new_label_sets_neither_hide_the_known_nor_flood_prometheus() -> None:
    """Three applications come first, then 200 new ones begin every minute for ten minutes, ahead of the three."""
    pipeline = Pipeline()
    for minute in range(12):
        now = NOON + timedelta(minutes=minute)
        attack = [evaluation(now, f"attack-{minute}-{each}") for each in range(200 if minute else 0)]
        pipeline.send(now + timedelta(seconds=1), *attack, *(evaluation(now, name) for name in REAL))
        if "1m" in pipeline.events:
            assert {name: pipeline.events["1m"][name] for name in REAL} == dict.fromkeys(REAL, 1)
    assert pipeline.events["1m"] == {**dict.fromkeys(REAL, 1), OVERFLOW: 200}
    assert pipeline.counts["ragweir_window_overflow_total"] == 11 * 200 - 100
    applications = {line.partition('application="')[2].partition('"')[0] for line in pipeline.series}
    assert len(applications - {""}) <= 100 + len(REAL) + 1
    per_set = len([line for line in pipeline.series if 'application="claims"' in line])
    assert len(pipeline.series) <= per_set * 105


# The services, on a real Kafka.


class Deployed:
    """Topics of two partitions, and `ragweir aggregate` and `ragweir export` over them."""

    def __init__(self, bootstrap: str, prefix: str, services: Services) -> None:
        self.bootstrap, self.prefix, self.services = bootstrap, prefix, services
        create_topic(bootstrap, f"{prefix}evaluations", 2)
        create_topic(bootstrap, f"{prefix}windows", 2, {"cleanup.policy": "compact,delete"})
        create_topic(bootstrap, f"{prefix}dead-letter")

    def start(self, name: str, **windows: Any) -> Service:
        own = {"commit_ms": 100, "dimensions": ["application"], **windows}
        return self.services.start(name, "--slot", "0", variables=quick(self.bootstrap, self.prefix, windows=own))

    def publish(self, *values: bytes) -> None:
        for partition in (0, 1):
            produce(self.bootstrap, f"{self.prefix}evaluations", values[partition::2], partition=partition)


def shown(export: Service) -> dict[str, tuple[float, dict[str, int]]]:
    """Of the windows that are shown, by size: their ends, and events by application."""
    ends: dict[str, float] = {}
    events: dict[str, dict[str, int]] = {}
    for family in text_string_to_metric_families(export.asked("/metrics")[1]):
        for sample in family.samples:
            if sample.name == "ragweir_window_end_timestamp_seconds":
                ends[sample.labels["window"]] = sample.value
            elif sample.name == "ragweir_window_events":
                events.setdefault(sample.labels["window"], {})[sample.labels["application"]] = int(sample.value)
    return {size: (end, events[size]) for size, end in ends.items()}


@pytest.mark.heavy
def test_live_traffic_with_one_fast_clock(kafka: SharedBroker, prefix: str, services: Services) -> None:
    """Nine applications are shown with every event of every window, beside one whose clock is four minutes ahead."""
    pipeline = Deployed(kafka.bootstrap, prefix, services)
    sizes = {"sizes": ["5s", "30s"], "grace_s": 2, "disorder_s": 1, "idle_s": 5}
    aggregate, export = pipeline.start("aggregate", **sizes), pipeline.start("export", **sizes)
    honest = [f"honest-{number}" for number in range(9)]
    eventually(lambda: aggregate.logged("partitions assigned") and export.asked("/readyz")[0] == 200, "they are ready")
    published: dict[float, Counter[str]] = {}
    seen: dict[float, dict[str, int]] = {}

    def passed() -> bool:
        for _ in range(3):
            now = datetime.now(UTC)
            end = now.timestamp() // 5 * 5 + 5
            published.setdefault(end, Counter()).update(honest)
            fast = evaluation(now + timedelta(minutes=4), "fast")
            pipeline.publish(*(evaluation(now, name) for name in honest), fast)
        seen.update([shown(export).get("5s", (0.0, {}))])
        return len(seen.keys() & published.keys()) > 4

    eventually(passed, "four windows have closed")
    complete = sorted(seen.keys() & published.keys())[1:-1]
    assert {end: {name: seen[end].get(name, 0) for name in honest} for end in complete} == {
        end: dict(published[end]) for end in complete
    }
    assert aggregate.sample("ragweir_late_events_total") == 0


@pytest.mark.heavy
def test_a_backlog_in_any_order(kafka: SharedBroker, prefix: str, services: Services) -> None:
    """Three hours of events in any order, all records written now: the windows shown in the end are complete."""
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=4)
    moments = [(begin + timedelta(seconds=second), name) for second in range(0, 3 * 3600, 10) for name in REAL]
    random.Random(1).shuffle(moments)
    pipeline, windows = Deployed(kafka.bootstrap, prefix, services), {"grace_s": 2, "idle_s": 2}
    export, aggregate = pipeline.start("export", **windows), pipeline.start("aggregate", **windows)
    values = [evaluation(at, name) for at, name in moments]
    end = (begin + timedelta(hours=3)).timestamp()
    pipeline.publish(*values[: len(values) // 2])
    eventually(lambda: shown(export).get("1h", (0.0, {}))[0] == end, "the last hour is shown, with half of its events")
    pipeline.publish(*values[len(values) // 2 :])
    wanted = {size: (end, dict.fromkeys(REAL, minutes * 6)) for size, minutes in (("1m", 1), ("5m", 5), ("1h", 60))}
    eventually(lambda: shown(export) == wanted, "all is shown")
    assert aggregate.sample("ragweir_late_events_total") > 1_000
    assert export.sample('ragweir_windows_revised_total{window="1h"}') > 0


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "the first 200 label sets of application, model, pipeline_version apart, whoever sends them"),
        ({"model": ["m"], "pipeline_version": ["v"]}, "label sets of application apart"),
        ({"application": ["a"], "model": ["m"], "pipeline_version": ["v"]}, "only listed values"),
    ],
    ids=["none", "some", "all"],
)
def test_doctor_recommends_a_list_of_values(values: dict[str, list[str]], told: str) -> None:
    """Dimensions whose values are not listed are named, with the setting that lists them."""
    found = labels(CheckContext(load(None, {"windows": {"values": values}})))
    assert told in found
    assert ("windows.values" in found) == (told != "only listed values")
