"""The exporter: what Prometheus reads of it, in both formats, whatever label values windows bring; and the service."""

import gzip
import math
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from unicodedata import category

import orjson
import pytest
from commands import COMMAND, environment, program
from confluent_kafka import Producer
from conftest import SharedBroker, create_topic
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from services import eventually

from ragweir.metrics.aggregation.cardinality import Labels
from ragweir.metrics.aggregation.estimate import Estimate, EstimatedMetric
from ragweir.metrics.aggregation.merger import ClosedWindow
from ragweir.metrics.aggregation.selection import Chance, Weights
from ragweir.metrics.aggregation.summary import Scheme, Summary
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.window import OVERFLOW, Progress, Window
from ragweir.streams.playground.local.node import free_port
from ragweir.streams.playground.local.prometheus import Programs, local_prometheus
from ragweir.streams.runtime.serving.health import Health, exposition, serve
from ragweir.streams.services.export.exposition import Exposition, label_names, quoted
from ragweir.streams.services.instruments import telemetry_of

RATIO = Scheme(0.0, 1.0, 1_000_000, 1_000_000)
SCORE = Scheme(None, None, 1_000_000, 1_000_000)
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
TEXT = "text/plain;version=0.0.4"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

HOSTILE = (
    "",
    " ",
    "\n",
    '"',
    "\\",
    '\\"\n\\n',
    "a\rb",
    "\x00",
    "a\x00b",
    "\x1b[31m",
    "\x85\u2028",
    "\ud800",
    "a\ud800b\udfff",
    "}",
    '",le="1"} 1\n# EOF\n',
    "x" * 10_000,
    "x" * 9_999 + "y",
    "\n" * 10_000,
    "🦆" * 5_000,
    OVERFLOW,
    "__name__",
)


def estimate(subject: EstimatedMetric, *judged: tuple[float, float]) -> Estimate:
    own = Estimate(subject)
    for score, probability in judged:
        own.add(score, probability)
    return own


def contents(events: int = 4) -> WindowAggregate:
    return WindowAggregate(
        events=events,
        metrics={
            "context_support": Summary.of([0.1, 0.2, 0.3, 0.9], RATIO),
            "retrieval_score_mean": Summary.of([-0.5, 0.25], SCORE),
            "refused": Summary.of([1.0, 0.0, 0.0, 0.0], RATIO),
        },
        categories={"recall_warning": {"HIT_RETRIEVAL_LIMIT": 3, "HIGH_THRESHOLD_FILTERING": 1}},
        decisions={"faithfulness": {"judged": 1, "not_selected": 3}},
        versions={"3", "4"},
    )


def judged() -> WindowAggregate:
    """Of 20 events all were judged by one suite, 4 of them by another, and 5 by a third."""
    own = WindowAggregate(events=20)
    own.metrics["judge_relevance"] = Summary.of([0.25, 0.75], RATIO)
    own.metrics["context_recall_llm"] = Summary.of([0.5, 1.0, 1.0, 1.0], RATIO)
    own.categories = {"answer_class": {"WRONG": 4, "CORRECT": 1}}
    own.decisions = {
        "rubric": {"selected": 2, "judged": 2},
        "context_recall": {"selected": 5, "judged": 4, "expired": 1, "not_selected": 15},
    }
    own.decisions["classification"] = {"selected": 5, "judged": 5}
    own.chances = {
        "rubric": Chance(selected=Weights.of(1.0, 2)),
        "context_recall": Chance(least=0.2, selected=Weights.of(1.0).plus(Weights.of(0.2, 4))),
        "classification": Chance(selected=Weights.of(1.0, 5)),
    }
    own.estimates = {
        "judge_relevance": estimate(EstimatedMetric("rubric"), (0.25, 1.0), (0.75, 1.0)),
        "context_recall_llm": estimate(EstimatedMetric("context_recall"), (0.5, 1.0), *[(1.0, 0.2)] * 3),
        "answer_class=WRONG": estimate(EstimatedMetric("classification"), *[(1.0, 1.0)] * 4, (0.0, 1.0)),
    }
    return own


def closed(*labels: Labels, size: str = "1m", end_s: int = 120) -> ClosedWindow:
    return ClosedWindow(size, end_s - 60, end_s, {each: contents() for each in labels})


def showing(*windows: ClosedWindow, dimensions: Iterable[str] = ("application",)) -> Exposition:
    shown = Exposition(list(dimensions), ["refused"])
    shown.show(windows)
    return shown


def samples(content: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in read_text(content.decode())
        for sample in family.samples
    }


def sample(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return f"ragweir_window_{name}", frozenset(labels.items())


def test_the_series_of_a_window() -> None:
    """One label set gives exactly these series, with these values and no timestamps."""
    own = {"window": "1m", "application": "a"}
    score, support = {"metric": "retrieval_score_mean", **own}, {"metric": "context_support", **own}
    warning = {"metric": "recall_warning", **own}
    found = samples(showing(closed(("a",))).content)
    quantiles = {key: value for key, value in found.items() if key[0] == "ragweir_window_quantile"}
    assert {key: value for key, value in found.items() if key not in quantiles} == {
        sample("events", **own): 4,
        sample("mean", **support): 0.375,
        sample("mean", **score): -0.125,
        sample("share", metric="refused", label="true", **own): 0.25,
        sample("share", label="HIT_RETRIEVAL_LIMIT", **warning): 0.75,
        sample("share", label="HIGH_THRESHOLD_FILTERING", **warning): 0.25,
        sample("decisions", suite="faithfulness", status="judged", **own): 1,
        sample("decisions", suite="faithfulness", status="not_selected", **own): 3,
        sample("catalogue_versions", **own): 2,
        sample("end_timestamp_seconds", window="1m"): 120,
    }
    assert quantiles == {
        sample("quantile", quantile="0.5", **support): 0.205,
        sample("quantile", quantile="0.9", **support): 0.305,
        sample("quantile", quantile="0.99", **support): 0.305,
        sample("quantile", quantile="0.5", **score): pytest.approx(-0.5, rel=0.01),
        sample("quantile", quantile="0.9", **score): pytest.approx(-0.5, rel=0.01),
        sample("quantile", quantile="0.99", **score): pytest.approx(-0.5, rel=0.01),
    }


def test_judged_metrics_show_their_estimates_and_no_plain_mean() -> None:
    """The weighted mean, its limits where there are any, what to know of it, and how many were judged."""
    shown = showing(ClosedWindow("1m", 0, 60, {("a",): judged()}))
    own = {"window": "1m", "application": "a"}
    relevance, recall = {"metric": "judge_relevance", **own}, {"metric": "context_recall_llm", **own}
    wrong = {"metric": "answer_class", "label": "WRONG", **own}
    assert {key: value for key, value in samples(shown.content).items() if key[0] != "ragweir_window_decisions"} == {
        sample("events", **own): 20,
        sample("judged", **relevance): 2,
        sample("judged", **recall): 4,
        sample("judged", **wrong): 4,
        sample("estimate", **relevance): 0.5,
        sample("estimate_low", **relevance): 0.5,
        sample("estimate_high", **relevance): 0.5,
        # The one that expired stands for five of 21: that is too much for a mean.
        sample("estimate_unanswered", **recall): pytest.approx(5 / 21, abs=1e-6),
        sample("estimate_flag", flag="too_few", **recall): 1,
        sample("estimate_flag", flag="unanswered", **recall): 1,
        sample("estimate_flag", flag="incomplete", **recall): 1,
        sample("estimate", **wrong): 0.8,
        sample("estimate_low", **wrong): 0.8,
        sample("estimate_high", **wrong): 0.8,
        sample("estimate_unanswered", **wrong): 0,
        sample("estimate_unanswered", **relevance): 0,
        sample("end_timestamp_seconds", window="1m"): 60,
    }


def test_a_newer_window_replaces_its_size_and_no_other() -> None:
    """Label sets that the newer window lacks leave; the other sizes stay as they are."""
    shown = showing(closed(("a",), ("b",)), closed(("a",), ("b",), size="5m", end_s=300))
    before = shown.content
    shown.show([closed(("b",), end_s=180)])
    found = samples(shown.content)
    assert sample("events", window="1m", application="a") not in found
    assert sample("events", window="5m", application="a") in found
    assert found[sample("end_timestamp_seconds", window="1m")] == 180
    assert found[sample("end_timestamp_seconds", window="5m")] == 300
    assert sample("events", window="1m", application="a") in samples(before), "a scrape under way keeps its bytes"


def test_nothing_closed_shows_nothing() -> None:
    """Before the first close there is not even a comment."""
    assert Exposition(["application"], []).content == b""


# Formats.


def served(shown: Exposition, accept: str) -> tuple[bytes, str]:
    return exposition(telemetry_of("export", 0).registry, shown.content, accept)


def test_both_formats_hold_the_same_series() -> None:
    """OpenMetrics and text differ in nothing that windows show, and each is what its content type says."""
    shown = showing(closed(("a",), ("b",)), closed(("a",), size="5m"))
    text, text_type = served(shown, TEXT)
    openmetrics, openmetrics_type = served(shown, OPENMETRICS)
    assert text_type.startswith("text/plain")
    assert openmetrics_type.startswith("application/openmetrics-text")
    assert openmetrics.endswith(b"# EOF\n")
    assert openmetrics.count(b"# EOF") == 1
    assert b"# EOF" not in text
    of_text = {key: samples(text)[key] for key in samples(shown.content)}
    families = list(read_openmetrics(openmetrics.decode()))
    of_openmetrics = {
        (each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples
    }
    assert of_text.items() <= of_openmetrics.items()
    assert len(of_text) > 20
    assert {family.type for family in families if family.name == "ragweir_window_quantile"} == {"unknown"}


def test_promtool_has_nothing_to_say(tools: Programs) -> None:
    """`promtool check metrics` takes the whole page without a word, hostile label values included."""
    windows = closed(*((value,) for value in HOSTILE)), ClosedWindow("5m", 0, 300, {("a",): judged()})
    page, _ = served(showing(*windows), TEXT)
    checked = subprocess.run([tools.promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_promtool_would_say_something(tools: Programs) -> None:
    """The check above can fail: a gauge with the label `quantile` is told."""
    page = showing(closed(("a",))).content.replace(
        b"# HELP ragweir_window_quantile", b"# TYPE ragweir_window_quantile gauge\n# HELP ragweir_window_quantile"
    )
    checked = subprocess.run([tools.promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    assert checked.returncode != 0


# Label values.


@given(st.text(st.characters(exclude_categories=[])) | st.sampled_from(HOSTILE))
def test_any_label_value_is_read_back(value: str) -> None:
    """One sample comes back, of at most 120 characters, none a control character; short seemly values unchanged."""
    families = list(read_openmetrics(f'# TYPE x gauge\nx{{label="{quoted(value)}"}} 1\n# EOF\n'))
    (read,) = [each.labels["label"] for family in families for each in family.samples]
    assert len(read) <= 120
    assert not any(category(character) in ("Cc", "Cs") for character in read.replace("\n", ""))
    if len(value) <= 120 and (value.isprintable() or value == "\n"):
        assert read == value


def test_distinct_label_values_stay_distinct() -> None:
    """Values that differ only where they are cut, or in what cannot be shown, are different series."""
    assert len({quoted(value) for value in HOSTILE}) == len(HOSTILE)
    assert len({quoted("x" * 200 + str(number)) for number in range(1_000)}) == 1_000
    assert len({quoted(chr(number)) for number in range(256)}) == 256


@given(st.lists(st.text(st.characters(exclude_categories=[]), min_size=1), unique=True, max_size=5))
def test_label_names_are_fit_and_distinct(names: list[str]) -> None:
    """Whatever the names of labels, Prometheus takes what comes of them, and no two are the same."""
    fit = label_names([f"labels.{name}" for name in names])
    assert len(set(fit)) == len(names)
    assert all(name.isascii() and name.isidentifier() for name in fit)


@pytest.mark.usefixtures("tools")
def test_a_real_prometheus_keeps_every_hostile_series() -> None:
    """Prometheus scrapes the page whole: as many series of events as there are label values."""
    shown = showing(closed(*((value,) for value in HOSTILE)))
    with (
        serve(
            telemetry_of("export", 0).registry, Health(not_ready=""), "127.0.0.1", 0, more=lambda: shown.content
        ) as port,
        local_prometheus({"ragweir-export": [f"127.0.0.1:{port}"]}, interval_ms=200) as prometheus,
    ):

        def scraped() -> list[str]:
            answer = prometheus.get("/api/v1/query", query="ragweir_window_events")
            return [each["metric"].get("application", "") for each in answer["data"]["result"]]

        eventually(lambda: bool(scraped()), "Prometheus has scraped")
        assert len(set(scraped())) == len(HOSTILE)
        up = prometheus.get("/api/v1/query", query='up{job="ragweir-export"}')["data"]["result"]
        assert [each["value"][1] for each in up] == ["1"]


# Serving.


def get(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def test_the_page_is_served_as_asked_for() -> None:
    """Format and compression follow the request; the bytes are those of the last close at that moment."""
    shown = showing(closed(("a",)))
    with serve(telemetry_of("export", 0).registry, Health(), "127.0.0.1", 0, more=lambda: shown.content) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        status, headers, text = get(url)
        assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        _, headers, squeezed = get(url, **{"Accept": OPENMETRICS, "Accept-Encoding": "gzip"})
        assert headers["Content-Encoding"] == "gzip"
        assert headers["Content-Type"].startswith("application/openmetrics-text")
        assert gzip.decompress(squeezed).endswith(b"# EOF\n")
        assert b'ragweir_window_events{window="1m",application="a"} 4\n' in text
        shown.show([closed(("b",))])
        _, _, text = get(url)
        assert b'application="b"' in text
        assert b'application="a"' not in text


# The service, on a real Kafka.


def at(second: int) -> datetime:
    return EPOCH + timedelta(seconds=second)


class Aggregated:
    """Writes windows and progress as the aggregate service does, in transactions."""

    def __init__(self, kafka: SharedBroker, prefix: str) -> None:
        self.topic = f"{prefix}windows"
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": prefix, "log_level": 0})
        self._producer.init_transactions(30)

    def window(self, partition: int, start: int, events: int, application: str = "a", part: int = 0) -> None:
        dimensions = {"application": application, "model": "m", "pipeline_version": "v1"}
        window = Window(
            window="1m",
            start=at(start),
            end=at(start + 60),
            dimensions=dimensions,
            partition=partition,
            part=part,
            revision=1,
            **WindowAggregate(events=events, metrics={"context_support": Summary.of([0.5], RATIO)}).fields(),
        )
        key = orjson.dumps([window.start, dimensions, partition, part], option=orjson.OPT_UTC_Z)
        self._write(partition, key, window)

    def progress(self, partition: int, watermark: int, *, idle: bool = False) -> None:
        own = Progress(partition=partition, next_offset=1, watermark=at(watermark), idle=idle)
        self._write(partition, orjson.dumps(["progress", partition]), own)

    def _write(self, partition: int, key: bytes, value: Window | Progress) -> None:
        data = orjson.dumps(value.model_dump(), option=orjson.OPT_UTC_Z)
        self._producer.produce(self.topic, data, key, partition)

    @contextmanager
    def transaction(self, *, commit: bool = True) -> Iterator[None]:
        self._producer.begin_transaction()
        yield
        (self._producer.commit_transaction if commit else self._producer.abort_transaction)(30)


@contextmanager
def exporter(kafka: SharedBroker, prefix: str) -> Iterator[str]:
    port = free_port()
    variables = {
        "RAGWEIR_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap,
        "RAGWEIR_TELEMETRY__PORT": str(port),
    }
    process = subprocess.Popen([*COMMAND, "--prefix", prefix, "export", "--slot", "0"], env=environment() | variables)
    try:
        yield f"http://127.0.0.1:{port + 200}"
    finally:
        process.terminate()
        assert process.wait(20) == 0


def page(url: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    try:
        return samples(get(f"{url}/metrics")[2])
    except OSError:
        return {}


def shown_events(url: str, window: str) -> dict[str, float]:
    found = {}
    for (name, labels), value in page(url).items():
        own = dict(labels)
        if name == "ragweir_window_events" and own["window"] == window:
            found[own["application"]] = value
    return found


@pytest.mark.heavy
def test_the_service_shows_what_has_closed(kafka: SharedBroker, prefix: str) -> None:
    """It merges committed parts of all partitions, waits for the laggard, and a restarted exporter shows the same."""
    create_topic(kafka.bootstrap, f"{prefix}windows", 3)
    aggregated = Aggregated(kafka, prefix)
    begin = int(time.time()) // 3600 * 3600 - 3600
    with aggregated.transaction():
        aggregated.window(0, begin, 5)
        aggregated.window(0, begin, 2, part=7)
        aggregated.window(1, begin, 1)
        aggregated.window(1, begin, 10)
        aggregated.window(2, begin, 3, "b")
        aggregated.window(0, begin + 60, 99)
        for partition in range(3):
            aggregated.progress(partition, begin + 90 if partition else begin + 89)
    with aggregated.transaction(commit=False):
        aggregated.window(0, begin, 1_000, part=8)
        aggregated.progress(0, begin + 7_200)
    with exporter(kafka, prefix) as url:
        eventually(lambda: get(f"{url}/readyz")[0] == 200 if page(url) else False, "the exporter is ready")
        assert shown_events(url, "1m") == {}, "partition 0 lags by a second"
        with aggregated.transaction():
            aggregated.progress(0, begin + 90)
        eventually(lambda: bool(shown_events(url, "1m")), "the first window closed")
        assert shown_events(url, "1m") == {"a": 17, "b": 3}
        with aggregated.transaction():
            aggregated.window(0, begin, 50)
            aggregated.window(1, begin + 120, 4)
            for partition in range(3):
                aggregated.progress(partition, begin + 3_630, idle=partition == 2)
        eventually(lambda: bool(shown_events(url, "1h")), "the hour closed")
        # The 50 events that partition 0 has more of the first minute came after it had closed.
        steady = {window: shown_events(url, window) for window in ("1m", "5m", "1h")}
        assert steady == {"1m": {"a": 4}, "5m": {"a": 165, "b": 3}, "1h": {"a": 165, "b": 3}}
        with aggregated.transaction():
            aggregated.window(2, begin, 7, "b")
        eventually(lambda: shown_events(url, "1h") == {"a": 165, "b": 7}, "what is shown is revised")
        found = page(url)
        assert found["ragweir_windows_revised_total", frozenset({("window", "1h")})] == 1
        assert found["ragweir_windows_shown_total", frozenset({("window", "1h")})] == 1
    with exporter(kafka, prefix) as url:
        eventually(lambda: bool(shown_events(url, "1h")), "the restarted exporter shows the hour")
        assert shown_events(url, "1m") == steady["1m"]
        assert shown_events(url, "1h") == {"a": 165, "b": 7}
        lag = [value for (name, _), value in page(url).items() if name == "ragweir_lag"]
        assert all(math.isfinite(value) for value in lag)


@pytest.mark.heavy
def test_without_the_topic_it_says_what_to_do(kafka: SharedBroker, prefix: str) -> None:
    """The exporter refuses to run without its topic, in one sentence."""
    own = environment(RAGWEIR_KAFKA__BOOTSTRAP_SERVERS=kafka.bootstrap)
    done = program(*COMMAND, "--prefix", prefix, "export", "--slot", "0", env=own)
    assert done.returncode == 2
    assert "ragweir topics create" in done.stderr
    assert "Traceback" not in done.stderr
