"""Intervals of events in clusters: how often they contain the mean, and that they are what their formulas say."""

from itertools import product

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics.aggregation.clusters import Floats, Ints, clustered, components
from ragweir.metrics.aggregation.paired_differences import Difference, differences

ROUNDS = 600
ERROR = 3 * (0.95 * 0.05 / ROUNDS) ** 0.5
"""Three binomial standard errors."""


def one(change: Floats, clusters: Ints | None) -> Difference:
    """The difference of all pairs."""
    cells = np.zeros(len(change), dtype=np.int64)
    return differences(np.zeros_like(change), change, cells, np.ones((1, 1), dtype=bool), clusters)[0]


def drawn(kind: str, chance: np.random.Generator) -> tuple[Ints, Floats, float]:
    """The sizes of clusters, their means, and the true mean of events."""
    if kind == "equal":
        return np.full(20, 5), chance.normal(0.1, 1, 20), 0.1
    if kind == "few":
        return np.full(6, 8), chance.normal(0.1, 1, 6), 0.1
    if kind == "pareto":
        return np.ceil(chance.pareto(1.5, 100) + 0.01).astype(np.int64), chance.normal(0.1, 1, 100), 0.1
    sizes = chance.geometric(0.2, 50)
    if kind == "grows":  # With sizes of mean 5 and mean square 45.
        return sizes, chance.normal(0, 1, 50) + 0.1 * sizes, 0.1 * 45 / 5
    return sizes, chance.normal(0.1, 1, 50), 0.1


def coverage(kind: str) -> tuple[float, float]:
    """The shares of intervals with and without regard to clusters that contain the mean."""
    chance = np.random.default_rng(3)
    hits = np.zeros(2)
    met = 0
    for _ in range(ROUNDS):
        sizes, means, true = drawn(kind, chance)
        clusters = np.repeat(np.arange(len(sizes)), sizes)
        change = np.repeat(means, sizes) + chance.normal(0, 1, len(clusters))
        found, naive = one(change, clusters), one(change, None)
        if found.low is None or found.high is None or naive.low is None or naive.high is None:
            continue
        met += 1
        hits += (found.low <= true <= found.high, naive.low <= true <= naive.high)
    assert met > ROUNDS / 2
    return hits[0] / met, hits[1] / met


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["equal", "few", "different", "pareto"])
def test_intervals_of_clusters_cover_the_mean(kind: str) -> None:
    """Those that take events for independent are far off."""
    share, naive = coverage(kind)
    assert 0.95 - ERROR <= share <= 0.985
    assert naive < 0.85


@pytest.mark.slow
def test_intervals_cover_less_where_the_change_grows_with_the_cluster() -> None:
    """The limit that the docs state: some 92 % with 50 clusters."""
    share, naive = coverage("grows")
    assert share >= 0.89
    assert naive < 0.85


def test_false_discoveries_of_clusters_are_rare() -> None:
    """Without a change, 5 % of p-values are at most 0.05; those of independent events would be half."""
    chance = np.random.default_rng(4)
    clusters = np.repeat(np.arange(20), 10)
    p = [one(np.repeat(chance.normal(0, 1, 20), 10), clusters).p for _ in range(ROUNDS)]
    assert np.mean([each is not None and each <= 0.05 for each in p]) == pytest.approx(0.05, abs=ERROR)


def test_few_clusters_have_the_exact_p_value() -> None:
    chance = np.random.default_rng(5)
    sums = chance.normal(0.5, 1, 7)
    change, clusters = np.repeat(sums / 3, 3), np.repeat(np.arange(7), 3)
    every = np.array([abs(np.dot(signs, sums)) for signs in product((-1, 1), repeat=7)])
    assert one(change, clusters).p == np.mean(every >= abs(sums.sum()) * (1 - 1e-9))
    assert one(change[:15], clusters[:15]).p is None


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-9, 9)), min_size=2, max_size=30))
def test_the_error_is_the_jackknifes(events: list[tuple[int, float]]) -> None:
    clusters, change = (np.array(each) for each in zip(*events, strict=True))
    found = clustered(change, clusters)
    own = np.unique(clusters)
    if len(own) > 1:
        without = np.array([change[clusters != each].mean() for each in own])
        expected = ((len(own) - 1) / len(own) * ((without - change.mean()) ** 2).sum()) ** 0.5
        assert found.error == pytest.approx(expected, abs=1e-9)
    sizes = np.array([(clusters == each).sum() for each in own])
    assert (found.count, found.effective) == (len(own), pytest.approx(sizes.sum() ** 2 / (sizes**2).sum()))


def test_the_interval_is_students_over_clusters_and_never_narrower_than_of_independent_events() -> None:
    sums = np.arange(8.0)
    found, clusters = one(np.repeat(sums, 4), np.repeat(np.arange(8), 4)), sums
    expected = scipy.stats.t.interval(0.95, 7, clusters.mean(), scipy.stats.sem(clusters))
    assert (found.low, found.high) == pytest.approx(expected, abs=2e-3)
    change = np.array([1.0, -1.0] * 20)
    steady, alone = one(change, np.repeat(np.arange(20), 2)), one(change, None)
    assert (steady.low, steady.high) == (alone.low, alone.high)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=25))
def test_components_are_the_closure_of_shared_keys(keys: list[tuple[int, int]]) -> None:
    first, second = (np.array(each) for each in zip(*keys, strict=True))
    groups: list[set[object]] = []
    for place, (one_key, other_key) in enumerate(keys):
        own: set[object] = {place, *([f"a{one_key}"] if one_key else []), *([f"b{other_key}"] if other_key else [])}
        groups, touched = [each for each in groups if not each & own], [each for each in groups if each & own]
        groups.append(own.union(*touched))
    found = components(first, second).tolist()
    for one_place, other_place in product(range(len(keys)), repeat=2):
        is_same = any({one_place, other_place} <= group for group in groups)
        assert (found[one_place] == found[other_place]) == is_same
    assert sorted(set(found)) == list(range(len(groups)))


@pytest.mark.slow
def test_a_long_chain_of_keys_is_one_cluster() -> None:
    places = np.arange(200_000)
    assert not components(places // 2 + 1, (places + 1) // 2 + 1).any()
