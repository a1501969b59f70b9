"""Summaries: exact, the same in whatever order they are merged, and the same from a record as before."""

import math
from collections.abc import Sequence

import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import convert

from ragweir.metrics.aggregation.column_sums import add_values
from ragweir.metrics.aggregation.estimate import Estimate, EstimatedMetric
from ragweir.metrics.aggregation.selection import NO_EVENTS, Chance, Weights
from ragweir.metrics.aggregation.summary import (
    ACCURACY,
    DEFAULT_SCHEME,
    LINEAR_BINS,
    Scheme,
    Summary,
    from_record,
    to_record,
)
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate, merged
from ragweir.schemas.window_record import SummaryRecord

RATIO = Scheme(0.0, 1.0, 1_000_000, 1_000_000)
PERCENT = Scheme(0.0, 100.0, 1_000_000, 1_000_000)
MILLISECONDS = Scheme(None, None, 1_000, 1)
SCHEMES = {"ratio": RATIO, "percent": PERCENT, "ms": MILLISECONDS, "cost": DEFAULT_SCHEME, "other": DEFAULT_SCHEME}

ABSURD = (0.0, -0.0, 1e300, -1e300, 1e-300, -1e-300, 1.7e308, -1.7e308, 1e155, 9_007_199_254_740_993.0, -5.5, 0.29)
ANYTHING = st.sampled_from(ABSURD) | st.floats(allow_nan=False, allow_infinity=False)
UNIT = st.floats(0, 1)
VALUES = st.lists(ANYTHING, max_size=12)
ROWS = st.lists(st.tuples(st.integers(0, 4), st.lists(ANYTHING | st.none(), min_size=5, max_size=5)), min_size=1)
SUMMARIES = st.builds(Summary.of, VALUES, st.just(DEFAULT_SCHEME))


def together(*parts: Summary) -> Summary:
    """Merged from nothing, in this order."""
    total = Summary(parts[0].scheme)
    for part in parts:
        total.merge(part)
    return total


def stored(summary: Summary) -> Summary:
    """By way of a record's bytes."""
    data = orjson.dumps(to_record(summary), option=orjson.OPT_NON_STR_KEYS)
    return from_record(convert(orjson.loads(data), SummaryRecord, str_keys=True), summary.scheme)


@given(SUMMARIES)
def test_quantiles_in_one_pass_are_those_one_by_one(summary: Summary) -> None:
    """Ascending shares give the quantile of each."""
    shares = (0.0, 0.1, 0.5, 0.5, 0.9, 0.99, 1.0)
    found = [value for share in shares if (value := summary.quantile(share)) is not None]
    assert summary.quantiles(shares) == found


def rank(values: Sequence[float], share: float) -> float:
    """The value that a quantile speaks of."""
    return sorted(values)[math.floor(share * (len(values) - 1))]


@pytest.mark.slow
@given(ROWS)
@example([(0, [1e300] * 5), (1, [-1e300, 0.5, None, 1e-300, -0.0]), (0, [0.1] * 5)])
def test_a_tally_is_the_summary_of_each_group(rows: list[tuple[int, list[float | None]]]) -> None:
    """Summing up many events at once comes to what summing up each group's values does, absurd values among them."""
    groups = np.array([group for group, _ in rows], dtype=np.int64)
    values = np.array([values for _, values in rows], dtype=np.float64)
    before = {name: Summary.of([0.5, 2.0], scheme) for name, scheme in SCHEMES.items() if name != "ms"}
    tallied = [{name: each.copy() for name, each in before.items()} for _ in range(int(groups.max()) + 1)]
    add_values(tallied, SCHEMES, values, groups)
    for group, summaries in enumerate(tallied):
        own = [values for other, values in rows if other == group]
        expected = {name: each.copy() for name, each in before.items()}
        for column, (name, scheme) in enumerate(SCHEMES.items()):
            if values := [value for row in own if (value := row[column]) is not None]:
                expected.setdefault(name, Summary(scheme)).merge(Summary.of(values, scheme))
        assert summaries == expected


@given(SUMMARIES, SUMMARIES, SUMMARIES)
def test_merging_has_no_order_and_an_identity(one: Summary, two: Summary, three: Summary) -> None:
    """Merging is associative and commutative, and the empty summary changes nothing."""
    assert together(one, two) == together(two, one)
    assert together(together(one, two), three) == together(one, together(two, three))
    assert together(one, Summary(DEFAULT_SCHEME)) == one == together(Summary(DEFAULT_SCHEME), one)


@given(VALUES, VALUES)
def test_merging_is_summing_all_up(one: list[float], two: list[float]) -> None:
    """Two summaries merged are the summary of all their values."""
    assert together(Summary.of(one, MILLISECONDS), Summary.of(two, MILLISECONDS)) == Summary.of(one + two, MILLISECONDS)


@pytest.mark.parametrize("other", [PERCENT, MILLISECONDS, DEFAULT_SCHEME, Scheme(0.0, 1.0, 1_000, 1_000)])
def test_summaries_of_different_schemes_do_not_merge(other: Scheme) -> None:
    """Bounds, bins and scales have to be the same."""
    with pytest.raises(ValueError, match="cannot be merged"):
        Summary.of([0.5], RATIO).merge(Summary.of([0.5], other))
    if other.name != RATIO.name:
        with pytest.raises(ValueError, match="cannot be read"):
            from_record(convert(to_record(Summary.of([0.5], other)), SummaryRecord, str_keys=True), RATIO)


@pytest.mark.heavy
@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=list(SCHEMES))
@given(values=VALUES)
def test_a_record_says_all_of_a_summary(scheme: Scheme, values: list[float]) -> None:
    """Written and read again, a summary is what it was."""
    summary = Summary.of(values, scheme)
    assert stored(summary) == summary


@given(st.integers(-(2**60), 2**60), st.sampled_from(list(SCHEMES.values())))
@example(2**51 - 1, RATIO)
@example(4_503_599_626_370_497, RATIO)
@example(4_503_599_626_370_511, MILLISECONDS)
@example(4_294_967_296_000_001, RATIO)
@example(2**53 + 1, RATIO)
@example(-(10**30) - 1, MILLISECONDS)
def test_every_sum_is_stored_to_its_last_digit(total: int, scheme: Scheme) -> None:
    """Sums come back from records exactly, those too that a JSON number could not hold."""
    summary = Summary(scheme, 1, total, abs(total), 0.0, 0.0, {0: 1})
    assert stored(summary) == summary


@given(st.lists(st.integers(-(10**17), 10**17), min_size=1))
def test_huge_sums_are_exact(values: list[int]) -> None:
    """No value is lost in a sum far beyond 2**53."""
    numbers = [float(value) for value in values]
    assert Summary.of(numbers, Scheme(None, None, 1, 1)).total == sum(map(int, numbers))
    assert Summary.of([1e300] * 3, DEFAULT_SCHEME).total == round(1e300 * 1e6) * 3
    assert Summary.of([1.7e308] * 2, DEFAULT_SCHEME).total == int(1.7e308) * 2 * 1_000_000
    assert Summary.of([1.7e308] * 2, DEFAULT_SCHEME).mean == 1.7e308


@given(st.lists(UNIT, min_size=1, max_size=60), UNIT)
@example([0.29], 0.5)
def test_a_quantile_of_a_bounded_metric_is_off_by_a_bin_at_most(values: list[float], share: float) -> None:
    """Bins are equal over the bounds."""
    found = Summary.of(values, RATIO).quantile(share)
    assert found is not None
    assert abs(found - rank(values, share)) <= 1 / LINEAR_BINS + 1e-6


@given(st.lists(ANYTHING, min_size=1, max_size=60), UNIT)
def test_a_quantile_of_an_unbounded_metric_is_off_by_1_percent_at_most(values: list[float], share: float) -> None:
    """Bins are logarithmic; what is nearer to 0 than a billionth is 0."""
    found, exact = Summary.of(values, DEFAULT_SCHEME).quantile(share), rank(values, share)
    assert found is not None
    assert abs(found - exact) <= ACCURACY * abs(exact) * (1 + 1e-9) + 1e-9


SELECTED = st.builds(Weights.of, st.floats(0.01, 1), st.integers(1, 9)) | st.just(NO_EVENTS)
JUDGED = st.lists(st.tuples(UNIT, st.floats(0.001, 1)), max_size=5)


def estimate(judged: list[tuple[float, float]]) -> Estimate:
    own = Estimate(EstimatedMetric("a"))
    for score, probability in judged:
        own.add(score, probability)
    return own


def contents() -> st.SearchStrategy[WindowAggregate]:
    """Contents of all kinds."""
    counts = st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.sampled_from("xyz"), st.integers(1, 9)))
    metrics = st.dictionaries(st.sampled_from(["m", "n"]), SUMMARIES)
    chances = st.dictionaries(st.sampled_from("ab"), st.builds(Chance, st.floats(0.01, 1), st.integers(0, 9), SELECTED))
    estimates = st.dictionaries(st.sampled_from(["m", "c=x"]), st.builds(estimate, JUDGED))
    return st.builds(
        WindowAggregate,
        st.integers(0, 9),
        st.integers(0, 9),
        metrics,
        counts,
        counts,
        st.sets(st.just("1")),
        chances,
        estimates,
    )


@pytest.mark.heavy
@given(contents(), contents(), contents())
def test_contents_merge_in_any_order_and_stay_as_they_are(
    one: WindowAggregate, two: WindowAggregate, three: WindowAggregate
) -> None:
    """What holds for summaries holds for windows; what is merged is not changed by it."""
    before = [orjson.dumps(each.fields(), option=orjson.OPT_NON_STR_KEYS) for each in (one, two, three)]
    total = merged((one, two, three))
    assert (
        total == merged((three, one, two)) == merged((merged((one, two)), three)) == merged((one, merged((two, three))))
    )
    assert merged((one, WindowAggregate())) == one == merged((WindowAggregate(), one))
    total.merge(two)
    assert [orjson.dumps(each.fields(), option=orjson.OPT_NON_STR_KEYS) for each in (one, two, three)] == before
