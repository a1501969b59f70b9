"""The series of the judge's anchors, from the topic's records."""

import math
import re
from collections.abc import Iterable

import numpy as np
import pytest

from ragweir.metrics.people.anchors import Hits, drift_test
from ragweir.schemas.codec.json import encode
from ragweir.schemas.judging import AnchorResult
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.export.anchor_series import FAMILIES, AnchorSeries
from ragweir.streams.services.export.service import PROJECTIONS
from ragweir.streams.settings import Settings, from_groups

ANCHORS = 30
BAD = 20
"""Anchors 0 to 19 are bad, the others good."""


def result(anchor: int, day: int, run: int, hit: bool | None, *, baseline: bool, anchors: str = "7f") -> bytes:
    bad = anchor < BAD
    return encode(
        AnchorResult(
            anchors=anchors,
            anchor=f"a{anchor:02}",
            day=f"2026-11-{day:02}",
            run=run,
            baseline=baseline,
            bad=bad,
            metric="judge_faithfulness",
            threshold=0.5,
            value=None if hit is None else 0.25,
            judged_bad=None if hit is None else hit is bad,
            model='m"1',
            suite_version="3",
        )
    )


def taken(series: AnchorSeries, records: Iterable[bytes]) -> AnchorSeries:
    for each in records:
        series.take(each)
    return series


def baseline(chance: np.random.Generator) -> list[bytes]:
    """Ten runs over five days, in which a fifth of the verdicts miss."""
    return [
        result(anchor, 1 + run // 2, run % 2, bool(chance.random() < 0.8), baseline=True)
        for run in range(10)
        for anchor in range(ANCHORS)
    ]


def day(number: int, hits: dict[int, int], runs: int = 3) -> list[bytes]:
    """Three runs of each anchor, of which `hits` says how many are hits; the others are all."""
    return [
        result(anchor, number, run, run < hits.get(anchor, runs), baseline=False)
        for run in range(runs)
        for anchor in range(ANCHORS)
    ]


def shown(series: AnchorSeries, today: str = "2026-11-30") -> dict[str, float]:
    text = series.rendered(today).decode()
    assert all(f"# TYPE {name} gauge" in text for name in re.findall(r"^(\w+)\{", text, re.MULTILINE))
    sample = r'^ragweir_judge_anchor_(\w+)\{model="m\\"1",suite_version="3"(?:,measure="(\w+)")?\} (\S+)$'
    return {
        f"{name} {measure}".strip(): float(value) for name, measure, value in re.findall(sample, text, re.MULTILINE)
    }


def test_the_last_whole_day_is_compared_with_the_baseline() -> None:
    chance = np.random.default_rng(1)
    first = baseline(chance)
    series = taken(AnchorSeries(), [*first, *day(6, {0: 1, 25: 0}), *day(7, dict.fromkeys(range(BAD), 1))])
    found = shown(series)
    assert (found["sensitivity"], found["specificity"]) == (1 / 3, 1.0)
    assert found["sensitivity"] < found["sensitivity_low"]
    assert found["specificity_low"] < 1.0
    assert (found["drift sensitivity"], found["drift specificity"]) == (-1, 0)
    assert found["known_days"] == 0
    results = [AnchorResult.model_validate_json(each) for each in first]
    counts = [
        Hits(sum(r.judged_bad == r.bad for r in results if r.anchor == f"a{anchor:02}"), 10) for anchor in range(BAD)
    ]
    expected = drift_test(counts, [Hits(1, 3)] * BAD)
    assert expected is not None
    assert (found["sensitivity_low"], found["sensitivity_high"]) == (expected.low, expected.high)


def test_a_day_is_shown_once_it_has_all_results_or_is_over() -> None:
    series = taken(AnchorSeries(), [*baseline(np.random.default_rng(2)), *day(6, {})[:-1]])
    assert shown(series, "2026-11-06").keys() == {"noise"}
    assert shown(series, "2026-11-07")["sensitivity"] == 1.0
    series.take(result(ANCHORS - 1, 6, 2, None, baseline=False))
    assert shown(series, "2026-11-06")["specificity"] == 1.0


def test_runs_without_a_value_are_no_misses() -> None:
    missing = [result(anchor, 6, run, None, baseline=False) for run in range(3) for anchor in range(BAD, ANCHORS)]
    bad_ones = [result(anchor, 6, run, hit=True, baseline=False) for run in range(3) for anchor in range(BAD)]
    found = shown(taken(AnchorSeries(), [*baseline(np.random.default_rng(3)), *missing, *bad_ones]))
    assert found["sensitivity"] == 1.0
    assert "specificity" not in found


@pytest.mark.slow
def test_the_variance_of_thirty_days_is_in_the_limits() -> None:
    chance = np.random.default_rng(4)
    series = taken(AnchorSeries(), baseline(chance))
    lows = []
    for number in range(6, 40):
        hits = {anchor: int(chance.binomial(3, 0.7 if number % 2 else 0.9)) for anchor in range(ANCHORS)}
        for record in day(6, hits):
            dated = AnchorResult.model_validate_json(record).model_copy(update={"day": f"2026-12-{number - 5:02}"})
            if number > 36:
                dated = dated.model_copy(update={"day": f"2027-01-{number - 36:02}"})
            series.take(encode(dated))
        found = shown(series, "2027-02-01")
        lows.append((found["known_days"], found["sensitivity_low"]))
    assert [known for known, _ in lows] == [0] * 30 + [30, 31, 32, 33]
    assert lows[30][1] < min(low for known, low in lows if not known) - 0.05


def test_other_anchors_take_the_place_of_the_last_ones() -> None:
    series = taken(AnchorSeries(), [*baseline(np.random.default_rng(5)), *day(6, {})])
    assert "sensitivity" in shown(series)
    series.take(result(0, 7, 0, hit=True, baseline=True, anchors="80"))
    assert shown(series) == {}
    series.take(result(0, 7, 1, hit=False, baseline=True, anchors="80"))
    assert shown(series) == {"noise": 1.0}


def test_what_is_no_result_is_counted() -> None:
    series = taken(AnchorSeries(), [b"{}", b"", b"[]"])
    series.take(None)
    assert series.unreadable == 3
    assert series.rendered("2026-11-30") == b""


@pytest.mark.parametrize("given", [False, True])
def test_the_exporter_reads_the_topic_if_there_are_anchors(given: bool) -> None:
    judge = {"base_url": "http://127.0.0.1:9/v1", "prices": {}, "anchor_file": "anchors.jsonl"} if given else {}
    settings = from_groups({"judge": judge}) if given else Settings()
    exporter = PROJECTIONS["export"].projection(settings)
    assert exporter.topics == (("windows", "judge.anchors") if given else ("windows",))
    assert exporter.resume("rag.windows", "1") == {}
    assert exporter.resume("rag.judge.anchors", "2") == ({0: 0} if given else {})
    for number, value in enumerate([*baseline(np.random.default_rng(6)), *day(6, {})]):
        if given:
            exporter.take(Record("rag.judge.anchors", 0, number, None, value, 0))
    exporter.flush(1_796_000_000.0, caught_up=True)
    names = {each.name for each in FAMILIES}
    lines = exporter.exposition().decode().splitlines()
    found = {line.partition("{")[0] for line in lines if not line.startswith("#")}
    assert found & names == (names if given else set())
    assert all(math.isfinite(float(line.rpartition(" ")[2])) for line in lines if not line.startswith("#"))
