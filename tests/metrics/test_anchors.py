"""The test of anchors: exact probabilities, and what is left out."""

from collections.abc import Sequence
from itertools import product
from math import comb

import numpy as np
import pytest

from bench.repeated_judge import RepeatedJudge, RepeatedKind
from ragweir.metrics.people.anchors import ALPHA, ENOUGH_DAYS, DriftTest, Hits, day_variance, drift_test, noise


def enumerated(baseline: Sequence[Hits], day: Sequence[Hits]) -> dict[int, float]:
    """The chance of each number of hits on the day, by all ways to choose each anchor's runs of the day."""
    kinds = []
    for b, d in zip(baseline, day, strict=True):
        hits, runs = b.hits + d.hits, b.runs + d.runs
        ways = {x: comb(hits, x) * comb(runs - hits, d.runs - x) / comb(runs, d.runs) for x in range(d.runs + 1)}
        kinds.append(ways)
    found: dict[int, float] = {}
    for chosen in product(*(each.items() for each in kinds)):
        total = sum(x for x, _ in chosen)
        found[total] = found.get(total, 0.0) + float(np.prod([p for _, p in chosen]))
    return found


def result_of(baseline: Sequence[Hits], day: Sequence[Hits], *more: object) -> DriftTest:
    found = drift_test(baseline, day, *more)  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(6))
def test_the_limits_are_those_of_all_ways_to_choose_the_days_runs(seed: int) -> None:
    """Beyond each limit the chance is at most 1/1460, and with the limit itself it is more."""
    chance = np.random.default_rng(seed)
    baseline = [Hits(int(chance.integers(3, 11)), 10) for _ in range(6)]
    day = [Hits(int(chance.integers(0, runs + 1)), int(runs)) for runs in chance.integers(1, 4, 6)]
    exact, found = enumerated(baseline, day), result_of(baseline, day)
    runs = sum(each.runs for each in day)
    low, high = round(found.low * runs), round(found.high * runs)
    assert sum(p for x, p in exact.items() if x < low) <= ALPHA < sum(p for x, p in exact.items() if x <= low)
    assert sum(p for x, p in exact.items() if x > high) <= ALPHA < sum(p for x, p in exact.items() if x >= high)
    assert found.expected * runs == pytest.approx(sum(x * p for x, p in exact.items()))


def test_three_hundred_runs_have_no_rounding_error_at_the_limits() -> None:
    """Against a convolution of one anchor after the other."""
    baseline = [Hits(hits % 6 + 5, 10) for hits in range(100)]
    day = [Hits(2, 3)] * 100
    chances = np.ones(1)
    for b, d in zip(baseline, day, strict=True):
        hits, runs = b.hits + d.hits, b.runs + d.runs
        chances = np.convolve(chances, [comb(hits, x) * comb(runs - hits, 3 - x) / comb(runs, 3) for x in range(4)])
    low = int(np.searchsorted(np.cumsum(chances), ALPHA, side="right"))
    assert result_of(baseline, day).low == low / 300


def test_an_anchor_without_runs_on_one_side_takes_no_part() -> None:
    baseline, day = [Hits(9, 10), Hits(0, 0), Hits(10, 10)], [Hits(1, 1), Hits(0, 3), Hits(0, 0)]
    assert result_of(baseline, day) == result_of(baseline[:1], day[:1])
    assert drift_test(baseline[1:], day[1:]) is None
    assert drift_test([], []) is None


def test_both_directions_are_drift() -> None:
    baseline = [Hits(5, 10)] * 60
    assert [result_of(baseline, [Hits(hits, 3)] * 60).drift for hits in (0, 3)] == [-1, 1]
    certain = [Hits(10, 10)] * 60
    assert result_of(certain, [Hits(3, 3)] * 60).drift == 0
    assert result_of(certain, [Hits(2, 3)] * 10 + [Hits(3, 3)] * 50).drift == -1


def test_a_variance_from_day_to_day_widens_the_limits_once_thirty_days_show_it() -> None:
    """A judge whose days differ by a sixth: the same day is drift before and none after."""
    judge = RepeatedJudge(RepeatedKind(0.1, 0.8), np.random.default_rng(4))
    baseline = [Hits(int(x), 10) for x in sum(judge.day(2) for _ in range(5))]
    days = [[Hits(int(x), 3) for x in judge.day(3)] for _ in range(ENOUGH_DAYS)]
    drifted = [day for day in days if result_of(baseline, day).drift]
    assert len(drifted) > 3
    assert result_of(baseline, drifted[0], days[:-1], 5).days == 0
    assert [result_of(baseline, day, days, 5).drift for day in drifted] == [0] * len(drifted)
    assert result_of(baseline, drifted[0], days, 5).days == ENOUGH_DAYS
    assert result_of(baseline, drifted[0], days, 1).low < result_of(baseline, drifted[0], days, 5).low
    assert result_of(baseline, [Hits(0, 3)] * 100, days, 5).drift == -1


@pytest.mark.slow
def test_the_variance_is_that_of_the_days_beyond_that_of_the_runs() -> None:
    chance = np.random.default_rng(8)
    level = np.clip(0.8 + 0.05 * chance.standard_normal(2400), 0, 1)
    days = [[Hits(int(x), 3) for x in chance.binomial(3, p, 100)] for p in level]
    found = [day_variance(days[start : start + 60]) for start in range(0, 2400, 60)]
    assert np.mean([each for each in found if each is not None]) == pytest.approx(0.05**2, rel=0.15)
    steady = [
        day_variance([[Hits(int(x), 3) for x in chance.binomial(3, 0.8, 100)] for _ in range(60)]) for _ in range(40)
    ]
    assert np.mean([each for each in steady if each is not None]) < 0.01**2
    assert day_variance(days[: ENOUGH_DAYS - 1]) is None
    assert day_variance([[Hits(0, 0)]] * 99) is None


def test_a_step_is_no_variance_from_day_to_day() -> None:
    """A judge that drifted once is found again if it drifts back."""
    days = [[Hits(3, 3)] * 95 + [Hits(0, 3)] * 5] * 30 + [[Hits(3, 3)] * 75 + [Hits(0, 3)] * 25] * 30
    assert (day_variance(days) or 0) == pytest.approx(0.2**2 / 59 / 2)


@pytest.mark.parametrize(
    ("anchors", "expected"), [([], None), ([Hits(1, 1)], None), ([Hits(1, 2)], 1.0), ([Hits(3, 3)], 0.0)]
)
def test_noise_is_the_share_of_pairs_of_runs_that_differ(anchors: list[Hits], expected: float | None) -> None:
    assert noise(anchors) == expected


@pytest.mark.slow
def test_a_judge_that_does_not_drift_alarms_at_most_once_a_year_and_a_drop_is_found() -> None:
    """A seeded part of `bench/anchors.py`, at the noise that the design names."""
    chance, alarms, caught = np.random.default_rng(33), 0, 0
    for _ in range(60):
        judge = RepeatedJudge(RepeatedKind(0.08), chance)
        baseline = [Hits(int(x), 10) for x in judge.day(10)]
        alarms += sum(result_of(baseline, [Hits(int(x), 3) for x in judge.day(3)]).drift != 0 for _ in range(30))
        judge.worse(0.1, sudden=False)
        caught += result_of(baseline, [Hits(int(x), 3) for x in judge.day(3)]).drift < 0
    assert alarms <= 60 * 30 * 2 * ALPHA + 3
    assert caught >= 0.9 * 60
