"""The series of shifts, from the records of windows: what is tested, when, and against what."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any

import pytest

from ragweir.errors import ConfigurationError
from ragweir.metrics.aggregation.estimate import Estimate, EstimatedMetric
from ragweir.metrics.aggregation.selection import Chance, Weights
from ragweir.metrics.aggregation.summary import Scheme, Summary
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.shift.history import BASELINE_DAYS, DAY_S, TESTED_DAYS
from ragweir.schemas.codec.json import encode
from ragweir.schemas.window import OVERFLOW, Progress, Window
from ragweir.schemas.window_key import ProgressKey, WindowKey, encode_window_key
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.export.service import PROJECTIONS
from ragweir.streams.services.export.shift_series import FAMILIES, ShiftSeries
from ragweir.streams.settings import Settings, ShiftSettings, WindowSettings

BEGIN = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
DAYS = BASELINE_DAYS + TESTED_DAYS
END = BEGIN + DAYS * DAY_S + 12 * 3600
HOURLY = WindowSettings(sizes=("1h",))
METRIC = "context_support"
RATIO = Scheme(0.0, 1.0, 1_000_000, 1_000_000)
LIVE = "rag.windows"
CATALOGUE = Catalogue(everything())


@cache
def summary(mean: float, events: int) -> Summary:
    """Half of the values are .1 below the mean, half .1 above."""
    return Summary.of([mean - 0.1, mean + 0.1] * (events // 2), RATIO)


def window(
    start_s: int,
    contents: WindowAggregate,
    *,
    application: str = "bot",
    version: str = "v1",
    partition: int = 0,
    part: int = 0,
    topic: str = LIVE,
    written_s: float | None = None,
) -> Record:
    start = datetime.fromtimestamp(start_s, UTC)
    dimensions = {"application": application, "model": "m", "pipeline_version": version}
    own = Window(
        window="1h",
        start=start,
        end=datetime.fromtimestamp(start_s + 3600, UTC),
        dimensions=dimensions,
        partition=partition,
        part=part,
        **contents.fields(),
    )
    key = encode_window_key(WindowKey(start, dimensions, partition, part))
    written_ms = round(1000 * (start_s + 3600 if written_s is None else written_s))
    return Record(topic, partition, 0, key, encode(own), written_ms)


def plain(start_s: int, mean: float, events: int = 100, **more: Any) -> Record:
    return window(start_s, WindowAggregate(events=events, metrics={METRIC: summary(round(mean, 6), events)}), **more)


def hours(until_s: int = END, since_s: int = BEGIN) -> range:
    return range(since_s, until_s, 3600)


def day_mean(start_s: int) -> float:
    """The mean varies from day to day by .01."""
    return 0.7 + 0.01 * Random(start_s // DAY_S).choice((-1, 0, 1))


def steady(**more: Any) -> Iterator[Record]:
    for start in hours():
        for partition in (0, 1):
            yield plain(start, day_mean(start), partition=partition, **more)


def shifted(at_s: int, mean: float, **more: Any) -> list[Record]:
    return [
        plain(start, mean if start >= at_s else day_mean(start), partition=partition, **more)
        for start in hours()
        for partition in (0, 1)
    ]


def series(settings: ShiftSettings | None = None, windows: WindowSettings = HOURLY) -> ShiftSeries:
    return ShiftSeries(windows, settings or ShiftSettings(), CATALOGUE)


def shown(records: Iterable[Record], until_s: int = END, own: ShiftSeries | None = None) -> dict[str, float]:
    """The samples of the metric, by name and application."""
    made = own or series()
    for record in records:
        assert made.take(record)
    made.show(until_s)
    return samples(made)


def samples(made: ShiftSeries) -> dict[str, float]:
    found = {}
    for line in made.content.decode().splitlines():
        if match := re.fullmatch(r'ragweir_window_(\w+)\{metric="(\w+)",application="(\w+)"\} (\S+)', line):
            name, metric, application, value = match.groups()
            found[name if (metric, application) == (METRIC, "bot") else f"{name} {metric} {application}"] = float(value)
    return found


@pytest.mark.slow
def test_a_steady_metric_has_its_baseline_and_no_shift() -> None:
    found = shown(steady())
    assert found["shift_baseline"] == pytest.approx(0.7, abs=0.01)
    assert 0.02 < found["shift_tolerance"] < 0.07
    assert found["shift_baseline_days"] == BASELINE_DAYS
    assert abs(found["shift"]) < 0.5
    assert "shift_start_timestamp_seconds" not in found


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "sign"), [(0.82, 1), (0.58, -1)])
def test_a_shift_has_its_sign_and_its_begin(mean: float, sign: int) -> None:
    at = END - 30 * 3600
    found = shown(shifted(at, mean))
    assert found["shift"] * sign >= 1
    assert found["shift_start_timestamp_seconds"] == at
    assert found["shift_baseline"] == pytest.approx(0.7, abs=0.01)


@pytest.mark.slow
def test_a_mean_that_stays_where_it_is_is_the_new_baseline_after_some_weeks() -> None:
    records = shifted(BEGIN + 2 * DAY_S, 0.82)
    assert abs(shown(records)["shift"]) < 0.5


@pytest.mark.slow
def test_without_two_weeks_nothing_is_tested_and_that_is_shown() -> None:
    late = BEGIN + (BASELINE_DAYS - 13) * DAY_S
    found = shown(record for record in shifted(END - DAY_S, 0.5) if record.timestamp_ms / 1000 > late + 3600)  # type: ignore[operator]
    assert found == {"shift_baseline_days": 0}


@pytest.mark.slow
def test_a_restart_gives_the_same_values_as_an_exporter_that_ran_all_the_time() -> None:
    """The order of partitions, and when windows were shown, make no difference to a bit."""
    records = shifted(END - 20 * 3600, 0.62)
    running = series()
    for record in records:
        running.take(record)
        running.show(record.timestamp_ms / 1000 - 1)  # type: ignore[operator]
    running.show(END)
    restarted = series()
    for partition in (1, 0):
        for record in records:
            if record.partition == partition:
                restarted.take(record)
    restarted.show(END)
    assert running.content == restarted.content
    assert samples(restarted)["shift"] <= -1


@pytest.mark.slow
@pytest.mark.parametrize("hours_ago", [2, 30, 24 * (TESTED_DAYS + 3)])
def test_late_events_count_where_they_belong(hours_ago: int) -> None:
    """As a revision or as parts of their own, of tested days or the baseline: as if they had been there in time."""
    at = END - hours_ago * 3600
    late = plain(at, 0.1, 400, part=7, written_s=END)
    expected, found = series(), series()
    for record in shifted(END - 20 * 3600, 0.6):
        expected.take(record)
        if hours_ago == 2 and record.timestamp_ms == 1000 * (at + 3600):
            found.take(plain(at, 0.3, 20, partition=record.partition))  # An earlier revision.
        else:
            found.take(record)
    expected.take(late)
    expected.show(END)
    found.show(END - 3600)
    found.take(late)
    if hours_ago == 2:
        for partition in (0, 1):
            found.take(plain(at, 0.6, partition=partition, written_s=END))
    found.show(END)
    assert found.content == expected.content
    assert samples(found)["shift"] <= -1


@pytest.mark.slow
def test_a_window_counts_once_it_is_closed() -> None:
    records = list(steady())
    until = END - 5 * 3600
    made = series()
    for record in records:
        made.take(record)
    made.show(until)
    closed = made.content
    for start in hours(END, until):
        made.take(plain(start, 0.1, 1000, part=9, written_s=start + 3600))
    again = series()
    for record in records:
        if record.timestamp_ms / 1000 <= until:  # type: ignore[operator]
            again.take(record)
    again.show(until)
    assert again.content == closed
    made.show(END)
    assert samples(made)["shift"] <= -1


def judged(risky_share: float, mean: float) -> WindowAggregate:
    """Of 400 events a rule selects the risky ones, which are bad; the floor selects a tenth of the others."""
    risky = round(400 * risky_share)
    drawn = (400 - risky) // 10
    own = WindowAggregate(events=400)
    sums = Estimate(EstimatedMetric("rubric"))
    for _ in range(risky):
        sums.add(0.2, 1.0)
    # The mean over all events is as asked.
    for number in range(drawn):
        sums.add((400 * mean - 0.2 * risky) / (400 - risky) + (0.1 if number % 2 else -0.1), 0.1)
    chance = Chance(0.1, 0, Weights.of(1.0, risky).plus(Weights.of(0.1, drawn)))
    own.estimates, own.chances = {"judge_faithfulness": sums}, {"rubric": chance}
    own.decisions = {"rubric": {"judged": risky + drawn, "selected": risky + drawn}}
    own.metrics = {"judge_faithfulness": Summary.of([0.2] * risky + [0.8] * drawn, RATIO)}
    return own


@pytest.mark.slow
@pytest.mark.parametrize(("share", "mean", "alarms"), [(0.2, 0.7, False), (0.05, 0.45, True)])
def test_a_judged_metric_counts_by_the_random_floor(share: float, mean: float, alarms: bool) -> None:
    """Four times as many risky answers that are judged are no shift of the mean of all; a worse mean is one."""
    at = END - 36 * 3600
    records = [window(start, judged(share if start >= at else 0.05, mean if start >= at else 0.7)) for start in hours()]
    found = shown(records)
    value = found["shift judge_faithfulness bot"]
    assert value <= -1 if alarms else abs(value) < 0.5
    assert found["shift_baseline judge_faithfulness bot"] == pytest.approx(0.7, abs=0.02)


def test_applications_above_the_limit_are_counted_and_overflow_is_none() -> None:
    made = series(ShiftSettings(max_applications=2))
    for name in ("a", "b", "c", "d", "c", OVERFLOW):
        assert made.take(plain(BEGIN, 0.7, application=name))
    assert made.left_out == 2
    made.show(BEGIN + DAY_S)
    assert set(re.findall(r'application="(\w+)"', made.content.decode())) == {"a", "b"}


@pytest.mark.slow
def test_without_the_dimension_all_events_are_one_application() -> None:
    made = series(windows=WindowSettings(sizes=("1h",), dimensions=("model",)))
    for record in steady():
        made.take(record)
    made.show(END)
    assert re.search(r'ragweir_window_shift\{metric="context_support"\} ', made.content.decode())


def test_the_future_other_sizes_tombstones_and_progress_change_nothing() -> None:
    made = series()
    ahead = plain(END + DAY_S, 0.1, written_s=END)
    five = plain(BEGIN, 0.1)
    assert made.take(ahead)
    assert made.take(five._replace(value=(five.value or b"").replace(b'"window":"1h"', b'"window":"5m"')))
    assert made.take(five._replace(value=None))
    progress = Progress(partition=0, next_offset=1, watermark=None, idle=False)
    assert made.take(five._replace(key=encode_window_key(ProgressKey(0)), value=encode(progress)))
    for key, value in ((b"{", five.value), (five.key, b"{"), (None, five.value)):
        assert not made.take(five._replace(key=key, value=value))
    made.show(END)
    assert made.content == b""


NAMED: Mapping[str, ShiftSettings] = {
    "version": ShiftSettings(baseline_version="v2"),
    "time": ShiftSettings(
        baseline_since=datetime.fromtimestamp(BEGIN - 4 * DAY_S, UTC),
        baseline_until=datetime.fromtimestamp(BEGIN - 2 * DAY_S, UTC),
    ),
    "run": ShiftSettings(baseline_run="R"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", NAMED)
def test_a_baseline_by_name_gives_the_mean(kind: str) -> None:
    """Two days of the run, version or time have .85 instead of .7: all days of .7 have shifted from these."""
    of_kind = {"version": {"version": "v2"}, "run": {"topic": "rag.run.R.windows"}}.get(kind, {})
    records = [plain(start, 0.85, **of_kind) for start in hours(BEGIN - 2 * DAY_S, BEGIN - 4 * DAY_S)]
    found = shown([*records, *steady()], own=series(NAMED[kind]))
    assert found["shift_baseline"] == pytest.approx(0.85, abs=0.02)
    assert found["shift_baseline_days"] == 2
    assert found["shift"] <= -1


def test_the_events_of_a_run_are_not_tested() -> None:
    made = series(NAMED["run"])
    assert made.run_topic == "run.R.windows"
    for start in hours():
        made.take(plain(start, 0.7, topic="rag.run.R.windows"))
    made.show(END)
    assert made.content == b""


@pytest.mark.slow
def test_memory_is_bounded_by_days_and_by_what_may_be_revised() -> None:
    made = series()
    for start in hours(BEGIN + 60 * DAY_S):
        made.take(plain(start, 0.7))
    (history,) = made._histories.values()
    assert len(history._days) == TESTED_DAYS + 2
    assert len(history._hours._days) == BASELINE_DAYS + TESTED_DAYS + 1
    (parts,) = (each.parts for each in made._revisable.values())
    assert len(parts) <= 6


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"baseline_since": "2026-01-01T00:00:00Z"}, "set together"),
        ({"baseline_since": "2026-01-02T00:00:00Z", "baseline_until": "2026-01-01T00:00:00Z"}, "before baseline_until"),
        ({"baseline_run": "r", "baseline_version": "v"}, "all but one"),
    ],
)
def test_baselines_that_contradict_each_other_are_an_error(given: dict[str, str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        ShiftSettings.model_validate(given)


def test_a_version_needs_windows_by_version() -> None:
    with pytest.raises(ConfigurationError, match="pipeline_version"):
        series(NAMED["version"], WindowSettings(dimensions=("application",)))


def test_the_exporter_serves_the_series_and_reads_what_it_needs() -> None:
    settings = Settings(windows=HOURLY, shift=NAMED["run"])
    exporter = PROJECTIONS["export"].projection(settings)
    assert exporter.topics == ("windows", "run.R.windows")
    assert exporter.since_s > (DAYS + 1) * DAY_S
    assert exporter.resume("rag.run.R.windows", "id")[3] == 0
    assert exporter.resume(LIVE, "id") == {}
    off = PROJECTIONS["export"].projection(Settings(windows=HOURLY, shift=ShiftSettings(enabled=False)))
    assert off.since_s < DAY_S
    assert off.topics == ("windows",)


@pytest.mark.slow
def test_the_exporter_shows_the_shift_and_no_old_window() -> None:
    exporter = PROJECTIONS["export"].projection(Settings(windows=HOURLY))
    exporter.open()
    for record in shifted(END - 20 * 3600, 0.6):
        exporter.take(record)
    watermark = datetime.fromtimestamp(END + 3600, UTC)
    progress = Progress(partition=0, next_offset=1, watermark=watermark, idle=False)
    exporter.take(Record(LIVE, 0, 0, encode_window_key(ProgressKey(0)), encode(progress), END * 1000))
    exporter.take(Record(LIVE, 0, 0, b"{", b"{", BEGIN * 1000))
    exporter.flush(END + 3600, caught_up=False)
    assert b"ragweir_window_shift" not in exporter.exposition()
    exporter.flush(END + 3600, caught_up=True)
    text = exporter.exposition().decode()
    assert [name for name in re.findall(r"# TYPE (\w+) gauge", text) if "shift" in name] == [
        each.name for each in FAMILIES
    ]
    assert "ragweir_window_events{" not in text
    counts = exporter.drain_metrics().counts
    assert counts["ragweir_window_records_total", "unreadable"] == 1


@pytest.mark.slow
def test_values_are_scaled_by_their_bounds() -> None:
    """A share and its percentage have the same shift, and each its own baseline."""
    percent = "factual_accuracy_percentage"
    scheme = Scheme(0.0, 100.0, 1_000_000, 1_000_000)
    records = []
    for start in hours():
        mean = round(day_mean(start), 6) if start < END - DAY_S else 0.5
        estimate = Estimate(EstimatedMetric("factual", 0.0, 100.0))
        for value in (mean - 0.1, mean + 0.1):
            for _ in range(50):
                estimate.add(100 * value, 1.0)
        contents = WindowAggregate(events=100, estimates={percent: estimate}, chances={"factual": Chance()})
        contents.metrics[percent] = Summary.of([1.0], scheme)
        records.append(window(start, contents))
    found = shown(records)
    assert found[f"shift_baseline {percent} bot"] == pytest.approx(70, abs=1)
    assert found[f"shift {percent} bot"] <= -1
