"""The e-detector of shifts: its definition by brute force, its promise, and figures that others have published."""

from collections.abc import Sequence
from itertools import product
from math import exp, log, log1p

import numpy as np
import pytest
from scipy import stats

from ragweir.metrics.shift.baseline import FEWEST_DAYS, HOURS, Baseline, Sums, baseline, t_quantile
from ragweir.metrics.shift.detector import RATES, ShiftDetector, ShiftEvidence, one_a_year


def sums_of(windows: Sequence[Sequence[float]]) -> Sums:
    return Sums(
        np.array([float(len(values)) for values in windows]),
        np.array([float(sum(values)) for values in windows]),
        np.array([float(sum(value * value for value in values)) for values in windows]),
    )


def level(mean: float, tolerance: float) -> Baseline:
    """A baseline with the same mean at all hours."""
    return Baseline(mean, (mean,) * HOURS, tolerance, 14)


def found_in(sums: Sums, known: Baseline) -> ShiftEvidence:
    return ShiftDetector(known).extend(sums, np.zeros(len(sums.counts), dtype=np.int64))


def factor(value: float, rate: float, limit: float, centre: float) -> float:
    """The e-value of one value, as the paper has it."""
    psi = -log1p(-rate) - rate
    return exp(rate * (value - limit) - psi * (value - centre) ** 2)


def summed_over_first_windows(
    windows: Sequence[Sequence[float]], hours: Sequence[int], known: Baseline
) -> tuple[float, float]:
    """Both M at the end by the definition: each first window has its own product, of each value's factor."""
    found = []
    for mirrored in (False, True):
        means = [1 - mean if mirrored else mean for mean in known.means]
        unit = max(means)
        total = 0.0
        for rate in RATES.tolist():
            for first in range(len(windows)):
                together = 1.0
                for values, hour in zip(windows[first:], hours[first:], strict=True):
                    for value in values:
                        own = (1 - value if mirrored else value) / unit
                        limit = (means[hour] + known.tolerance) / unit
                        together *= factor(own, rate, limit, means[hour] / unit)
                total += together / len(RATES)
        found.append(total)
    return found[0], found[1]


@pytest.mark.parametrize("seed", range(4))
def test_m_is_the_sum_over_all_first_windows_averaged_over_the_rates(seed: int) -> None:
    chance = np.random.default_rng(seed)
    windows = [chance.beta(2 + seed, 2, int(number)).tolist() for number in chance.integers(1, 9, 12)]
    hours = chance.integers(0, HOURS, 12)
    known = Baseline(0.5, tuple(chance.uniform(0.4, 0.6, HOURS).tolist()), 0.03, 14)
    found = ShiftDetector(known).extend(sums_of(windows), hours)
    up, down = summed_over_first_windows(windows, hours.tolist(), known)
    assert [exp(found.log_up[-1]), exp(found.log_down[-1])] == pytest.approx([up, down], rel=1e-9)
    assert exp(found.log_both[-1]) == pytest.approx((up + down) / 2, rel=1e-9)


@pytest.mark.parametrize("mean", [0.02, 0.3, 0.9])
def test_an_e_value_has_an_expectation_of_at_most_one(mean: float) -> None:
    """Of all values with a mean of at most the limit, those on two points are the extremes."""
    known = level(mean, 0.04)
    limit = mean + known.tolerance
    points = [*np.linspace(0, limit, 8).tolist(), *np.linspace(limit, 1, 8).tolist()]
    grown = {point: exp(found_in(sums_of([[point]]), known).log_up[0]) for point in points}
    worst = 0.0
    for low, high in product(points[:8], points[8:]):
        share = (limit - low) / (high - low) if high > low else 0.0
        worst = max(worst, (1 - share) * grown[low] + share * grown[high])
    assert 0.9 < worst <= 1 + 1e-12


@pytest.mark.parametrize(("low", "weights"), [(0.2, (1.0, 0.1)), (0.5, (1.0, 0.05)), (0.2, (0.1, 1.0))])
def test_weights_that_depend_on_the_value_keep_the_expectation(low: float, weights: tuple[float, float]) -> None:
    """Events of weight w are selected with the probability 0.05 / w, as by rules that prefer high or low values."""
    known = level(0.5, 0.2)
    share = (0.7 - low) / (1 - low)  # The mean is the limit.
    expected = 0.0
    for value, part, weight in ((low, 1 - share, weights[0]), (1.0, share, weights[1])):
        sums = Sums(*(np.array([weight * value**power]) for power in range(3)))
        selected = 0.05 / weight
        expected += part * (selected * exp(found_in(sums, known).log_up[0]) + 1 - selected)
    assert 0.998 < expected <= 1 + 1e-12


@pytest.mark.slow
def test_without_a_shift_m_is_at_most_the_number_of_windows_on_average() -> None:
    """That is what bounds false alarms: a threshold c is reached after c windows or more on average."""
    chance = np.random.default_rng(35)
    windows, known = 40, level(0.3, 0.0)
    ends = []
    for _ in range(1500):
        hits = chance.binomial(5, 0.3, windows).astype(float)
        found = found_in(Sums(np.full(windows, 5.0), hits, hits), known)
        ends.append(exp(found.log_both[-1]))
    error = float(np.std(ends)) / len(ends) ** 0.5
    assert windows * 0.8 < np.mean(ends) < windows + 3 * error


def test_windows_without_events_change_nothing() -> None:
    chance = np.random.default_rng(1)
    full = [chance.random(3).tolist() for _ in range(20)]
    gaps = [values for each in full for values in ([], each, [])]
    known = level(0.5, 0.01)
    with_gaps, without = found_in(sums_of(gaps), known), found_in(sums_of(full), known)
    assert with_gaps.log_both.tolist() == without.log_both.tolist()
    assert with_gaps.windows.tolist() == [3 * place + 1 for place in range(20)]
    nothing = ShiftDetector(known)
    assert len(nothing.extend(sums_of([[], []]), np.zeros(2, dtype=np.int64)).log_both) == 0
    assert (nothing.first, nothing.relative(100)) == (0, 0)


def test_windows_may_come_in_any_number_of_calls() -> None:
    chance = np.random.default_rng(4)
    counts = chance.poisson(3, 60).astype(float)
    hits = chance.binomial(counts.astype(int), np.repeat([0.4, 0.6], 30)).astype(float)
    sums, hours = Sums(counts, hits, hits), np.arange(60) // 30
    at_once, detector = ShiftDetector(level(0.4, 0.02)), ShiftDetector(level(0.4, 0.02))
    whole = at_once.extend(sums, hours)
    parts = []
    for start, end in ((0, 1), (1, 25), (25, 25), (25, 58), (58, 60)):
        own = Sums(*(each[start:end] for each in sums)), hours[start:end]
        ahead = detector.copy()
        parts.append(ahead.extend(*own))
        detector.extend(*own)
        assert (detector.first, detector.relative(100)) == (ahead.first, ahead.relative(100))
    assert np.concatenate([part.log_both for part in parts]).tolist() == whole.log_both.tolist()
    assert detector.first == at_once.first
    assert detector.relative(100) == whole.relative(100)[-1]


@pytest.mark.parametrize(("after", "sign"), [(0.45, 1), (0.15, -1)])
def test_a_shift_has_its_sign_and_its_moment(after: float, sign: int) -> None:
    chance = np.random.default_rng(7)
    before_s = 300
    windows = [chance.binomial(1, 0.3 if t < before_s else after, 60).astype(float).tolist() for t in range(400)]
    detector = ShiftDetector(level(0.3, 0.05))
    shown = detector.extend(sums_of(windows), np.zeros(400, dtype=np.int64)).relative(one_a_year(60, series=38))
    assert np.abs(shown[:before_s]).max() < 0.7
    assert int(np.argmax(shown * sign >= 1)) in range(before_s + 1, before_s + 60)
    assert abs(detector.first - before_s) <= 3


def r_uniform(seed: int, number: int) -> np.ndarray:
    """The numbers of R's `set.seed(seed); runif(number)`: a Mersenne twister that a linear generator seeds."""
    state = seed
    for _ in range(50):
        state = (69069 * state + 1) % 2**32
    words = []
    for _ in range(625):
        state = (69069 * state + 1) % 2**32
        words.append(state)
    twister = np.random.MT19937()
    twister.state = {"bit_generator": "MT19937", "state": {"key": np.array(words[1:], dtype=np.uint32), "pos": 624}}
    return twister.random_raw(number).astype(np.float64) * 2.3283064365386963e-10


def test_the_published_example_of_edetect_alarms_as_early() -> None:
    """R's edetect 0.1.0, README: 60 values of 0.3 to 0.7, 60 of 0.5 to 0.9, centre 0.5, ARL 370: an alarm at t = 71.

    It bets on larger shifts of narrower values than those of scores; this one alarms nine values later.
    """
    numbers = r_uniform(1, 120)
    assert numbers[:3].round(7).tolist() == [0.2655087, 0.3721239, 0.5728534]  # As R prints them.
    values = np.concatenate([0.3 + 0.4 * numbers[:60], 0.5 + 0.4 * numbers[60:]])
    found = found_in(sums_of([[value] for value in values.tolist()]), level(0.5, 0.0))
    alarms = np.flatnonzero(found.log_up >= log(370)) + 1
    assert 60 < alarms[0] <= 80


@pytest.mark.parametrize("freedom", [13, 20, 29])
@pytest.mark.parametrize("tail", [1 / 730, 1 / (730 * 38), 1 / (730 * 4000)])
def test_quantiles_of_students_distribution_are_those_of_scipy(tail: float, freedom: int) -> None:
    assert t_quantile(tail, freedom) == pytest.approx(stats.t.isf(tail, freedom), rel=1e-4)


def days_of(means: Sequence[float], count: float = 50.0, deviation: float = 0.1) -> Sums:
    rows = np.repeat(means, HOURS).reshape(-1, HOURS)
    return Sums(np.full(rows.shape, count), count * rows, count * (rows**2 + deviation**2))


def test_the_tolerance_is_that_of_one_more_day_or_a_fifth_of_the_deviation() -> None:
    means = np.random.default_rng(2).normal(0.7, 0.02, 20)
    found = baseline(days_of(means.tolist()), series=10)
    assert found is not None
    expected = stats.t.isf(1 / 7300, 19) * np.std(means, ddof=1) * (1 + 1 / 20) ** 0.5
    assert found.tolerance == pytest.approx(expected, rel=1e-4)
    steady = baseline(days_of([0.7] * 14), series=10)
    assert steady is not None
    assert steady.tolerance == pytest.approx(0.02)


def test_fewer_days_than_fourteen_are_no_baseline() -> None:
    days = days_of([0.5] * FEWEST_DAYS)
    assert baseline(days, series=1) is not None
    days.counts[3] = days.totals[3] = days.squares[3] = 0
    assert baseline(days, series=1) is None


def test_each_hour_has_its_own_mean_unless_it_has_few_events() -> None:
    days = days_of([0.5] * 14)
    days.totals[:, 7] = 0.8 * days.counts[:, 7]
    days.counts[:, 8] = 1.0
    days.totals[:, 8] = 0.9
    found = baseline(days, series=1)
    assert found is not None
    assert found.means[7] == pytest.approx(0.8, abs=0.04)
    assert found.means[8] == pytest.approx(0.5, abs=0.07)
    assert found.means[0] == pytest.approx(0.5, abs=0.01)


def test_a_named_baseline_gives_the_mean_and_may_take_the_variation_of_other_days() -> None:
    means = np.random.default_rng(3).normal(0.7, 0.02, 14)
    days = days_of(means.tolist())
    found = baseline(days, 10, days_of([0.9, 0.92]))
    assert found is not None
    assert (round(found.mean, 6), found.days) == (0.91, 2)
    apart = np.std(means, ddof=1)
    assert found.tolerance == pytest.approx(stats.t.isf(1 / 7300, 13) * apart * 1.5**0.5, rel=1e-4)
    assert baseline(days_of(means.tolist()[:5]), 10, days_of([0.9, 0.92])) is None
    assert baseline(days, 10, days_of([0.9] * 3, count=0.0)) is None


def test_a_daily_pattern_is_no_shift() -> None:
    """The same world with one mean for all hours has an alarm."""
    chance = np.random.default_rng(11)
    minutes = np.arange(7 * 1440)
    hours = minutes // 60 % HOURS
    share = 0.5 + 0.15 * np.sin(2 * np.pi * minutes / 1440)
    days = []
    for _ in range(14):
        hits = chance.binomial(20, share[:1440]).reshape(HOURS, 60).sum(axis=1).astype(float)
        days.append((np.full(HOURS, 1200.0), hits, hits))
    known = baseline(Sums(*(np.array(part) for part in zip(*days, strict=True))), series=38)
    assert known is not None
    hits = chance.binomial(20, share).astype(float)
    sums = Sums(np.full(len(minutes), 20.0), hits, hits)
    threshold = one_a_year(60, series=38)
    assert np.abs(ShiftDetector(known).extend(sums, hours).relative(threshold)).max() < 0.5
    assert np.abs(ShiftDetector(level(known.mean, known.tolerance)).extend(sums, hours).relative(threshold)).max() > 1


def test_psi_is_the_one_of_the_empirical_bernstein_inequality() -> None:
    """It is the least for which the factor stays below 1 + l(y - m) down to y - m = -1, where both are equal."""
    for rate in RATES.tolist():
        assert factor(0.0, rate, 1.0, 1.0) == pytest.approx(1 - rate)
        assert all(factor(y, rate, 0.5, 0.5) <= 1 + rate * (y - 0.5) + 1e-15 for y in np.linspace(0, 1, 101))
