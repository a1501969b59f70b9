"""The statistics of causes, against other people's implementations, enumeration, and traffic with known causes."""

from dataclasses import asdict, replace
from fractions import Fraction
from itertools import combinations, product
from math import comb, exp

import numpy as np
import pytest
import scipy

from bench.blame import RIGHT, found_in, named, servings_of
from bench.served_documents import ServedTraffic, TrafficKind, served
from ragweir.metrics.cause import comparisons
from ragweir.metrics.cause.cause import Cause
from ragweir.metrics.cause.causes import causes
from ragweir.metrics.cause.comparisons import all_values
from ragweir.metrics.cause.exact_tail import StratumCounts, log_factorials, log_upper_tail, upper_tail
from ragweir.metrics.cause.multiplicity import adjusted
from ragweir.metrics.cause.risk_difference import risk_difference
from ragweir.metrics.cause.servings import NONE, Servings, paired
from ragweir.metrics.cause.weighted_evidence import SIGNIFICANT, WeightedEvidence

SMALL = TrafficKind(events=4_000, documents=300, servings=120)


def enumerated(strata: list[tuple[int, int, int, int]]) -> Fraction:
    """The tail by all choices of which events of each stratum are bad."""
    observed, total, above = sum(each[1] for each in strata), 1, 0
    for n, x, m, y in strata:
        total *= comb(n + m, x + y)
    choices = [
        [sum(place < n for place in chosen) for chosen in combinations(range(n + m), x + y)] for n, x, m, y in strata
    ]
    for each in product(*choices):
        above += sum(each) >= observed
    return Fraction(above, total)


@pytest.mark.parametrize("seed", range(12))
def test_the_tail_is_that_of_all_choices(seed: int) -> None:
    chance = np.random.default_rng(seed)
    strata = []
    for _ in range(3):
        n, m = (int(each) for each in chance.integers(1, 4, 2))
        strata.append((n, int(chance.integers(0, n + 1)), m, int(chance.integers(0, m + 1))))
    assert upper_tail(strata) == pytest.approx(float(enumerated(strata)), rel=1e-12)


@pytest.mark.parametrize(("n", "x", "m", "y"), [(60, 40, 940, 45), (1, 1, 3, 0), (200, 0, 50, 9), (30, 30, 5, 5)])
def test_the_tail_of_one_stratum_is_scipys(n: int, x: int, m: int, y: int) -> None:
    assert upper_tail([(n, x, m, y)]) == pytest.approx(scipy.stats.hypergeom.sf(x - 1, n + m, x + y, n), rel=1e-9)


def test_a_tail_below_every_float_keeps_its_logarithm() -> None:
    counts = StratumCounts(*(np.array([each]) for each in (1_000, 900, 9_000, 400)))
    expected = scipy.stats.hypergeom.logsf(899, 10_000, 1_300, 1_000)
    assert expected < -1_900
    assert log_upper_tail(counts, log_factorials(10_000)) == pytest.approx(expected, rel=1e-9)


def test_adjusted_probabilities_are_scipys() -> None:
    p = np.random.default_rng(1).uniform(0, 0.01, 40)
    assert adjusted(np.log(p), 40) == pytest.approx(scipy.stats.false_discovery_control(p, method="by"), rel=1e-9)
    padded = scipy.stats.false_discovery_control(np.append(p, np.ones(160)), method="by")[:40]
    assert adjusted(np.log(p), 200) == pytest.approx(padded, rel=1e-9)


@pytest.mark.parametrize(("n", "m", "strata"), [(1, 4, 100), (50, 200, 3)])
def test_95_of_100_intervals_hold_the_difference(n: int, m: int, strata: int) -> None:
    """Also in strata with one event that carries the value, where the variance of Greenland and Robins is 0."""
    chance, inside, runs = np.random.default_rng(3), 0, 1_000
    for _ in range(runs):
        base = chance.uniform(0.05, 0.3, strata)
        x, y = chance.binomial(n, base + 0.3), chance.binomial(m, base)
        difference, error = risk_difference(StratumCounts(np.full(strata, n), x, np.full(strata, m), y))
        inside += abs(difference - 0.3) < 1.96 * error
    assert 0.93 < inside / runs < 0.97


@pytest.mark.slow
def test_sessions_that_are_counted_by_answers_find_causes_where_there_are_none() -> None:
    """A session counts once: of ten runs without a cause none finds any, and most do if each answer counts."""
    runs = [served(SMALL, "nothing", np.random.default_rng([seed, 7])) for seed in range(10)]
    assert sum(bool(found_in(each).causes) for each in runs) == 0
    assert sum(bool(found_in(each, with_sessions=False).causes) for each in runs) >= 5


def test_a_question_counts_once_as_a_session_does() -> None:
    runs = [servings_of(served(SMALL, "nothing", np.random.default_rng([seed, 7]))) for seed in range(5)]
    for rows in runs:
        asked = replace(rows, session=rows.question, question=rows.session)
        assert causes(asked, [frozenset([1]), frozenset()]).causes == []


@pytest.mark.parametrize("plant", [*RIGHT])
def test_planted_causes_are_named_and_nothing_else(plant: str) -> None:
    kind = TrafficKind(events=8_000, documents=400, servings=300)
    for seed in range(2):
        assert named(served(kind, plant, np.random.default_rng([seed, 11]))) == RIGHT[plant]


@pytest.mark.slow
def test_many_causes_are_named_beside_each_other() -> None:
    """Thirty of 60 documents are bad, and nearly all events have one of them: each that is significant is named."""
    chance, events = np.random.default_rng(1), 12_000
    documents = chance.integers(0, 60, (events, 5))
    risk = 1 - 0.95 * np.prod(np.where(documents < 30, 0.8, 1.0), axis=1)
    rows = Servings.ordered(
        chance.random(events) < risk, np.ones(events, bool), np.arange(events) % 12, np.full(events, NONE),
        np.full(events, NONE), np.arange(events).astype(np.uint64),
        paired(np.repeat(np.arange(events), 5), documents.ravel()), np.zeros(60, np.int64), np.arange(12)[None, :],
    )  # fmt: skip
    found = causes(rows, [frozenset()])
    assert len(found.causes) == found.significant >= 25
    assert all(each.values[0] < 30 for each in found.causes)


def test_the_answer_does_not_depend_on_the_order_of_the_events() -> None:
    traffic = served(SMALL, "document", np.random.default_rng(5))
    order = np.random.default_rng(6).permutation(len(traffic.bad))
    shuffled = ServedTraffic(**{name: column[order] for name, column in asdict(traffic).items()})
    rows = servings_of(traffic)
    fixed = [frozenset([1]), frozenset[int]()]
    assert causes(rows, fixed) == causes(servings_of(shuffled), fixed)
    assert causes(rows, fixed).causes[0].values == [0]


@pytest.mark.parametrize("has_reference", [False, True])
def test_the_counts_do_not_depend_on_how_many_are_made_at_once(
    has_reference: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = servings_of(served(SMALL, "document", np.random.default_rng(5)))
    if has_reference:
        rows = replace(rows, present=rows.given % 2 == 0)
    whole = all_values(rows, 20, has_reference=has_reference)
    monkeypatch.setattr(comparisons, "_BATCH", 300)
    parts = all_values(rows, 20, has_reference=has_reference)
    assert len(whole.values) > 50
    for one, other in zip(whole.counts, parts.counts, strict=True):
        assert one.tolist() == other.tolist()
    for name in ("values", "starts", "servings", "servings_bad", "excess"):
        assert getattr(whole, name).tolist() == getattr(parts, name).tolist()


def flat(bad: list[bool], values: list[int], present: list[bool] | None = None) -> Servings:
    """Events of one stratum, each with one value."""
    events = len(bad)
    facet = np.zeros(max(values, default=0) + 1, np.int64)
    return Servings.ordered(
        np.array(bad, bool), np.array(present or [True] * events, bool), np.zeros(events, np.int64),
        np.full(events, NONE), np.full(events, NONE), np.arange(events).astype(np.uint64),
        paired(np.arange(events), np.array(values, np.int64)), facet, np.zeros((1, 1), np.int64),
    )  # fmt: skip


@pytest.mark.parametrize("bad", [[], [True] * 100, [True] * 19, [False] * 30])
def test_without_a_difference_there_is_no_cause(bad: list[bool]) -> None:
    found = causes(flat(bad, [n % 2 for n in range(len(bad))]), [frozenset()])
    assert found.causes == []
    assert not found.enough


def test_a_value_that_all_events_carry_is_compared_with_nothing() -> None:
    found = causes(flat([True, False] * 50, [0] * 100), [frozenset()])
    assert (found.causes, found.tested, found.enough) == ([], 1, False)


def test_events_without_a_bad_one_are_enough_to_say_so() -> None:
    found = causes(flat([False] * 200, [n % 2 for n in range(200)]), [frozenset()])
    assert (found.causes, found.enough) == ([], True)


def evidence_by_hand(rows: Servings, value: int, expected: float, named: list[int]) -> float:
    """The likelihood ratio of a value by a loop over the events, each with the weight 1/(1 + k)."""
    sets = [{*rows.events_of(each).tolist()} for each in named]
    weight = {n: 1 / (1 + sum(n in each for each in sets)) for n in range(len(rows.bad))}
    share = (sum(weight[n] for n in weight if rows.bad[n]) / sum(weight.values())) / rows.bad.mean()
    own = rows.events_of(value).tolist()
    size, bad = sum(weight[n] for n in own), sum(weight[n] for n in own if rows.bad[n])
    mean = size * expected * share
    return float(bad * np.log(bad / mean) + (size - bad) * np.log((size - bad) / (size - mean))) if bad > mean else 0.0


def test_the_next_finding_has_the_most_evidence_in_events_that_no_cause_carries() -> None:
    """Value 1 has more evidence than value 2, but nearly all of it is in events of value 0."""
    carried = {0: range(100), 1: range(20, 105), 2: range(200, 250)}
    bad = [n < 80 or 200 <= n < 240 or n % 20 == 0 for n in range(1_000)]
    rows = flat(bad, [3] * 1_000)
    own_rows = np.concatenate([[*own] for own in carried.values()]).astype(np.int32)
    rows = replace(rows, row=own_rows, starts=np.cumsum([0, *map(len, carried.values()), 0]))
    findings = []
    for value, own in carried.items():
        found = sum(bad[n] for n in own)
        findings.append(Cause([value], len(own), found, found - 0.05 * len(own), 0.5, 0.4, 0.6, 0.0, -50.0))
    evidence = WeightedEvidence(rows, findings)
    first = evidence.next()
    assert first == (0, pytest.approx(evidence_by_hand(rows, 0, 0.05, [])))
    assert evidence_by_hand(rows, 1, 0.05, []) > evidence_by_hand(rows, 2, 0.05, [])
    evidence.cover(np.array(carried[0]))
    assert evidence.next() == (2, pytest.approx(evidence_by_hand(rows, 2, 0.05, [0])))
    assert evidence.next() == (1, pytest.approx(evidence_by_hand(rows, 1, 0.05, [0])))
    assert evidence.next() is None


def test_a_finding_whose_events_causes_carry_many_times_ends_the_covering() -> None:
    rows = flat([n % 2 == 0 for n in range(40)] + [n % 20 == 0 for n in range(400)], [0] * 40 + [1] * 400)
    finding = Cause([0], 40, 20, 18.0, 0.45, 0.3, 0.6, 0.0, -20.0)
    for covered, ends in ((0, False), (60, True)):
        evidence = WeightedEvidence(rows, [finding])
        for _ in range(covered):
            evidence.cover(np.arange(40))
        found = evidence.next()
        assert found is not None
        assert (found[1] < SIGNIFICANT) == ends


def test_with_a_reference_a_value_is_compared_with_itself_before() -> None:
    """Value 0 was always bad, value 1 became bad: against the past the second alone is a cause."""
    now = [True] * 50 + [True] * 50 + [False] * 300
    before = [True] * 50 + [False] * 50 + [False] * 300
    values = ([0] * 50 + [1] * 50 + [2] * 300) * 2
    rows = flat(now + before, values, [True] * 400 + [False] * 400)
    found = causes(rows, [frozenset()], has_reference=True)
    assert [(each.values, each.servings, round(each.excess_bad)) for each in found.causes] == [([1], 50, 50)]
    alone = causes(flat(now, values[:400]), [frozenset()])
    assert sorted(each.values for each in alone.causes) == [[0], [1]]
    assert exp(found.causes[0].log_p) < 1e-20
