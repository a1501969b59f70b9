"""The history of windows in Prometheus: the blocks that promtool makes of it, and what a real server answers."""

import random
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from commands import program

from ragweir.metrics.aggregation.cardinality import Labels
from ragweir.metrics.aggregation.estimate import Estimate, EstimatedMetric
from ragweir.metrics.aggregation.merger import ClosedWindow
from ragweir.metrics.aggregation.selection import Chance, Weights
from ragweir.metrics.aggregation.summary import Scheme, Summary
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.window import Window
from ragweir.streams.analysis.backfill.openmetrics import OpenMetrics
from ragweir.streams.analysis.backfill.output_formats import write
from ragweir.streams.playground.local.prometheus import LocalServer, programs, run_server
from ragweir.streams.services.aggregate.merged_window import MergedWindow
from ragweir.streams.services.aggregate.windowing import of_all_sizes
from ragweir.streams.services.export.exposition import FAMILIES, Exposition, quoted
from ragweir.streams.settings import Settings, WindowSettings, load

RUN = 'a "run"\\1'
RATIO = Scheme(0.0, 1.0, 1_000_000, 1_000_000)
BEGIN = datetime(2026, 1, 1, 10, 41, tzinfo=UTC)
ESCAPED = ('say "hi"', "back\\slash\\", "two\nlines", '",le="1"} 1 1\n# EOF\n', "ü\u2028")
"""Label values that are shown as they are,"""
CUT = ("x" * 500, "x" * 499 + "y", "a\x00b")
"""and others, in which nothing is escaped: what is written is what Prometheus has."""

Series = dict[frozenset[tuple[str, str]], dict[float, float]]
"""By its labels: its values, by their times."""


def settings() -> Settings:
    return load(None, {"windows": {"sizes": ("1m", "5m"), "dimensions": ("application", "labels.region")}})


def contents(draw: random.Random) -> WindowAggregate:
    own = WindowAggregate(events=draw.randrange(1, 100), versions=set(draw.sample("12", draw.choice((1, 2)))))
    own.metrics = {
        "context_support": Summary.of([draw.random() for _ in range(5)], RATIO),
        "refusal": Summary.of([1.0, 0.0, draw.choice((0.0, 1.0))], RATIO),
    }
    own.categories = {"recall_warning": {"HIT_RETRIEVAL_LIMIT": draw.randrange(1, 9), "LOW": 1}}
    own.decisions = {"rubric": {"selected": 2, "judged": 2}}
    own.chances = {"rubric": Chance(selected=Weights.of(1.0, 2))}
    own.estimates = {"judge_relevance": Estimate(EstimatedMetric("rubric"))}
    for _ in range(2):
        own.estimates["judge_relevance"].add(draw.random(), 1.0)
    return own


def windows(minutes: range, *labels: Labels) -> list[MergedWindow]:
    draw = random.Random(1)
    bases = ((BEGIN + timedelta(minutes=each), {own: contents(draw) for own in labels}) for each in minutes)
    return list(of_all_sizes(bases, settings().windows))


def expected(found: list[MergedWindow]) -> Series:
    """What windows' own records say, without the code that shows them."""
    series: Series = {}

    def say(window: Window, name: str, value: float, **more: str) -> None:
        labels = {
            "__name__": f"ragweir_backfill_window_{name}",
            "run": RUN,
            "window": window.window,
            "application": shown(window.dimensions["application"]),
            "labels_region": shown(window.dimensions["labels.region"]),
            **more,
        }
        own = frozenset((name, label) for name, label in labels.items() if label)
        series.setdefault(own, {})[window.end.timestamp()] = value

    for merged in found:
        window = Window.model_validate_json(merged.encode())
        support, refusal = window.metrics["context_support"], window.metrics["refusal"]
        result = window.estimates["judge_relevance"].result
        assert result is not None
        assert isinstance(support.sum, float)
        assert isinstance(refusal.sum, float)
        say(window, "events", window.events)
        say(window, "mean", support.sum / support.count, metric="context_support")
        say(window, "share", refusal.sum / refusal.count, metric="refusal", label="true")
        warned = window.categories["recall_warning"]
        for label, count in warned.items():
            say(window, "share", count / sum(warned.values()), metric="recall_warning", label=label)
        for status, count in window.decisions["rubric"].items():
            say(window, "decisions", count, suite="rubric", status=status)
        say(window, "judged", window.estimates["judge_relevance"].count, metric="judge_relevance")
        for limit, value in (("", result.mean), ("_low", result.low), ("_high", result.high)):
            assert value is not None
            say(window, f"estimate{limit}", value, metric="judge_relevance")
        say(window, "estimate_unanswered", 0.0, metric="judge_relevance")
        say(window, "catalogue_versions", len(window.catalogue_versions))
    return series


def shown(value: str) -> str:
    """A label's value as Prometheus has it: short and seemly ones as they are."""
    return quoted(value) if value in CUT else value


def blocks(file: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return program(programs().promtool, "tsdb", "create-blocks-from", "openmetrics", file, folder)


def serving(folder: Path) -> Any:
    """A Prometheus on these blocks."""
    found = programs()
    keep = f"--storage.tsdb.path={folder}", "--storage.tsdb.retention.time=100y"
    return run_server("Prometheus", found.prometheus, found.home, {}, None, *keep)


def stored(prometheus: LocalServer, until: datetime) -> Series:
    """All that it holds of a day, at the times that it was given for."""
    query = '{__name__=~"ragweir.+"}[1d]'
    answer = prometheus.get("/api/v1/query", query=query, time=str(until.timestamp()))["data"]["result"]
    return {
        frozenset(each["metric"].items()): {time: float(value) for time, value in each["values"]} for each in answer
    }


@pytest.mark.slow
@pytest.mark.usefixtures("tools")
def test_prometheus_answers_what_windows_hold(tmp_path: Path) -> None:
    """Every series of every window is there with its value at its end, hostile label values included."""
    labels = (("a", "eu"), ("a", ""), *((value, "us") for value in (*ESCAPED, *CUT)))
    own = windows(range(0, 130, 13), *labels)
    file, folder = tmp_path / "windows.om", tmp_path / "data"
    assert write(own, {file: OpenMetrics(RUN, settings())}) == len(own)
    made = blocks(file, folder)
    assert made.returncode == 0, made.stderr
    last = own[-1].end
    with serving(folder) as prometheus:
        found = stored(prometheus, last)
        quantiles = {each: found.pop(each) for each in list(found) if "quantile" in dict(each)}
        wanted = expected(own)
        assert found.keys() == wanted.keys()
        for each, values in wanted.items():
            assert found[each] == pytest.approx(values), each
        assert len({each - {("quantile", dict(each)["quantile"])} for each in quantiles}) == 2 * len(labels)
        assert {len(values) for values in quantiles.values()} == {10}
        # As a graph asks: each window's value from its end on.
        for window in [each for each in own if each.size == "5m" and each.dimensions["application"] == 'say "hi"']:
            support = window.aggregate.metrics["context_support"]
            query = 'ragweir_backfill_window_mean{window="5m",application="say \\"hi\\""}'
            (answer,) = prometheus.get("/api/v1/query", query=query, time=str(window.end.timestamp() + 20))["data"][
                "result"
            ]
            assert float(answer["value"][1]) == pytest.approx(support.mean)


def lines(own: list[MergedWindow], form: OpenMetrics) -> list[str]:
    return b"".join(map(form.lines, own)).decode().splitlines()


def test_series_are_the_live_ones_under_other_names() -> None:
    """All families of the exporter, with its values and labels, `run` and a time besides; no live name is written."""
    (window,) = [each for each in windows(range(1), ("a", "eu")) if each.size == "1m"]
    live = Exposition(settings().windows.dimensions, ["refusal"])
    labels = "a", "eu"
    own = contents(random.Random(1))
    live.show([ClosedWindow("1m", 0, 60, {labels: own})])
    of_live = [line for line in live.content.decode().splitlines() if "#" not in line and "_end_timestamp" not in line]
    backfill = lines([window], OpenMetrics(RUN, settings()))
    run, end = f'run="{quoted(RUN)}",', f"{window.end.timestamp():.0f}"
    assert sorted(backfill) == sorted(
        re.sub(r"^ragweir_window", "ragweir_backfill_window", line).replace("window=", f"{run}window=", 1) + f" {end}"
        for line in of_live
    )
    assert {line.partition("{")[0] for line in of_live} == {each.name for each in FAMILIES} - {
        "ragweir_window_estimate_flag"
    }


@pytest.mark.slow
@pytest.mark.usefixtures("tools")
def test_times_without_a_place_are_left_out(tmp_path: Path) -> None:
    """Windows before 1970 and in the future are counted, not written; promtool takes a file without any."""
    form = OpenMetrics("r", settings(), now_s=BEGIN.timestamp())
    far, near = BEGIN + timedelta(days=3650), BEGIN + timedelta(minutes=2)
    old = datetime(1960, 1, 1, tzinfo=UTC)

    def at(*times: datetime) -> Iterator[MergedWindow]:
        chosen = WindowSettings(sizes=("1m",), dimensions=settings().windows.dimensions)
        return of_all_sizes(((each, {("a", "b"): WindowAggregate(1)}) for each in times), chosen)

    stamp = f"{(near + timedelta(minutes=1)).timestamp():.0f}"
    assert [line.rpartition(" ")[2] for line in lines(list(at(old, near, far)), form)] == [stamp]
    assert form.left_out == 2
    file = tmp_path / "file"
    write(at(old), {file: form})
    assert file.read_bytes() == b"# EOF\n"
    assert blocks(file, tmp_path).returncode == 0


def test_times_ascend() -> None:
    """promtool drops what does not ascend and says nothing, so it is an error here; ends together are none."""
    own = windows(range(9), ("a", "eu"), ("b", "eu"))
    stamps = [int(line.rpartition(" ")[2]) for line in lines(own, OpenMetrics("r", settings()))]
    assert stamps == sorted(stamps)
    with pytest.raises(ValueError, match="not in order"):
        lines(own[::-1], OpenMetrics("r", settings()))
