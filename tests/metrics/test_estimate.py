"""Estimates: exact sums, intervals that cover as often as they say, and none where too little was judged."""

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from math import sqrt
from typing import Any

import orjson
import pytest
import scipy
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import convert

from bench.coverage import PROMISED, KindEstimates, escalation, kinds, measure
from bench.simulated_windows import Kind, estimate_of
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.estimate import (
    Estimate,
    EstimatedMetric,
    estimate_name,
    from_record,
    parse_estimate_name,
    to_record,
)
from ragweir.metrics.aggregation.interval import beta_quantile
from ragweir.metrics.aggregation.selection import NO_EVENTS, Chance, Weights, from_sums, to_sums
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate, merged
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.evaluation import Decision, Evaluation, SuiteDecision
from ragweir.schemas.packed_scores import row_of
from ragweir.schemas.window import EstimateResult
from ragweir.schemas.window_record import EstimateRecord, SelectionRecord

RUBRIC = EstimatedMetric("rubric", 0.0, 1.0)
RAGAS = EstimatedMetric("ragas", 0.0, 100.0)
PROBABILITIES = st.sampled_from((1.0, 0.02, 1 / 3, 1e-300, 5e-324, 0.9999999)) | st.floats(0, 1, exclude_min=True)
SCORES = st.sampled_from((0.0, 1.0, 0.1, 1e300, -1e300)) | st.floats(-1, 2)
JUDGED = st.lists(st.tuples(SCORES, PROBABILITIES), max_size=8)


def estimate(judged: Sequence[tuple[float, float]], subject: EstimatedMetric = RUBRIC) -> Estimate:
    own = Estimate(subject)
    for score, probability in judged:
        own.add(score, probability)
    return own


def together(*parts: Estimate) -> Estimate:
    whole = Estimate(parts[0].subject)
    for part in parts:
        whole.merge(part)
    return whole


def result(
    judged: Sequence[tuple[float, float]], not_selected: int = 0, subject: EstimatedMetric = RUBRIC, **more: Any
) -> EstimateResult:
    """Of a window in which all that was selected was judged, unless more is said."""
    decisions = {"selected": len(judged), "judged": len(judged), "not_selected": not_selected}
    least = min((probability for _, probability in judged), default=1.0)
    own = estimate(judged, subject)
    selected = own.answered.plus(more.get("missing", NO_EVENTS))
    chance = Chance(more.get("least", least), more.get("none", 0), selected)
    return own.result(decisions | {"selected": selected.count} | more.get("decisions", {}), chance)


# Sums.


@given(JUDGED, JUDGED, JUDGED)
def test_merging_has_no_order_and_an_identity(
    one: list[tuple[float, float]], two: list[tuple[float, float]], three: list[tuple[float, float]]
) -> None:
    """Merging is associative and commutative, the empty estimate changes nothing, and it is as summing all up."""
    a, b, c = estimate(one), estimate(two), estimate(three)
    assert together(a, b) == together(b, a)
    assert together(together(a, b), c) == together(a, together(b, c))
    assert together(a, Estimate(RUBRIC)) == a == together(Estimate(RUBRIC), a)
    assert together(a, b, c) == estimate([*three, *one, *two])


@given(JUDGED)
@example([(1.0, 1e-6)] * 8)
def test_a_record_says_all_of_an_estimate(judged: list[tuple[float, float]]) -> None:
    """Written and read again it is what it was, to the last millionth."""
    for subject in (RUBRIC, RAGAS):
        own = estimate([(score * subject.high, probability) for score, probability in judged], subject)
        record = convert(orjson.loads(orjson.dumps(to_record(own, None))), EstimateRecord)
        assert from_record(record, subject.low, subject.high) == own


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0.001, 1)), min_size=1, max_size=40))
def test_sums_are_those_of_exact_arithmetic(judged: list[tuple[int, float]]) -> None:
    """Each event's part is off by the rounding of its 1/p to a millionth, and nothing adds to that."""
    own = estimate([(units / 10**6, probability) for units, probability in judged])
    weights = [1 / Fraction(probability) for _, probability in judged]
    scores = [Fraction(units, 10**6) for units, _ in judged]
    weighted = [weight * score for weight, score in zip(weights, scores, strict=True)]
    assert abs(Fraction(own.weight, 10**6) - sum(weights)) <= Fraction(len(judged), 10**6)
    assert abs(Fraction(own.weighted_sum, 10**6) - sum(weighted)) <= Fraction(2 * len(judged), 10**6)
    exact = sum((1 - 1 / weight) * (weight * score) ** 2 for weight, score in zip(weights, scores, strict=True))
    assert abs(Fraction(own.spread_squares, 10**6) - exact) <= Fraction(len(judged), 10**2)


@pytest.mark.parametrize("other", [EstimatedMetric("ragas"), EstimatedMetric("rubric", 0.0, 100.0)])
def test_estimates_of_different_things_do_not_merge(other: EstimatedMetric) -> None:
    """Suite and bounds have to be the same."""
    with pytest.raises(ValueError, match="cannot be merged"):
        Estimate(RUBRIC).merge(Estimate(other))


@pytest.mark.parametrize(
    "wrong", [{"drawn": 3}, {"weight": 2.0}, {"weight": 1.0}, {"spread": 0.0}, {"drawn": 0}], ids=str
)
def test_sums_that_no_events_have_are_refused(wrong: dict[str, float]) -> None:
    """So that nobody divides by them."""
    record = to_record(estimate([(0.5, 1.0), (0.5, 0.1)]), None)
    from_record(convert(record, EstimateRecord), 0.0, 1.0)
    with pytest.raises(ValueError, match="do not fit"):
        from_record(convert(record | wrong, EstimateRecord), 0.0, 1.0)


# When there is an interval.


CERTAIN, DRAWN = [(0.25, 1.0)] * 4, [(0.75, 0.1)] * 20
CASES: dict[str, tuple[EstimateResult, float | None, bool, tuple[str, ...]]] = {
    "everything was judged": (result(CERTAIN), 0.25, True, ()),
    "enough came from the floor": (result(DRAWN, 180), 0.75, True, ()),
    "all that were left to chance were drawn": (result([*CERTAIN, *DRAWN]), 0.666667, True, ()),
    "too few came from the floor": (result(DRAWN[:8], 72), 0.75, False, ("too_few",)),
    "none came from the floor": (result(CERTAIN, 20, least=0.1), None, False, ("too_few",)),
    "there is no floor": (result(CERTAIN, 20, none=20), 0.25, False, ("too_few", "partial")),
    "some had no chance": (result(DRAWN, 280, none=100), 0.75, True, ("partial",)),
    "one expired": (result(DRAWN, 179, missing=Weights.of(0.1)), 0.75, True, ("unanswered", "incomplete")),
    "one is of an earlier release": (
        result(DRAWN, 180, decisions={"selected": 21}),
        0.75,
        True,
        ("incomplete", "uncounted"),
    ),
    "all were selected and one failed": (
        result(CERTAIN, missing=Weights.of(1.0)),
        0.25,
        True,
        ("unanswered", "incomplete"),
    ),
    "the window's scored evaluations are missing": (
        result(CERTAIN, decisions={"selected": 0}),
        0.25,
        False,
        ("too_few", "incomplete", "uncounted"),
    ),
    "those of the least probability are not among them": (result(DRAWN, 500, least=0.001), 0.75, False, ("too_few",)),
    "no value": (result([], 20), None, False, ("too_few",)),
}


@pytest.mark.parametrize(("found", "mean", "shown", "flags"), CASES.values(), ids=CASES)
def test_an_interval_is_shown_where_one_can_be_known(
    found: EstimateResult, mean: float | None, *, shown: bool, flags: tuple[str, ...]
) -> None:
    """Flags say why there is none, and what it does not speak of."""
    assert (found.mean, found.flags) == (mean, flags)
    assert (found.low is not None, found.high is not None) == (shown, shown)


def test_what_was_all_judged_is_known() -> None:
    """The interval has no width where nothing was left to chance."""
    found = result([(0.2, 1.0), (0.9, 1.0)])
    assert (found.low, found.mean, found.high) == (0.55, 0.55, 0.55)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.001, 1)), min_size=1, max_size=40), st.floats(1e-6, 1))
def test_limits_enclose_the_mean_and_keep_to_the_bounds(judged: list[tuple[float, float]], least: float) -> None:
    """Whatever was judged, with whatever probabilities."""
    found = result(judged, 50, least=least)
    if found.low is not None and found.high is not None and found.mean is not None:
        assert 0 <= found.low <= found.mean + 1e-6
        assert found.mean - 1e-6 <= found.high <= 1


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 100), st.sampled_from((1.0, 0.05))), min_size=30, max_size=60))
def test_the_scale_does_not_matter(judged: list[tuple[int, float]]) -> None:
    """Percentages have a hundred times the limits of ratios."""
    ratio = result([(score / 100, probability) for score, probability in judged], 500)
    percent = result([(float(score), probability) for score, probability in judged], 500, RAGAS)
    assert (ratio.low is None, ratio.flags) == (percent.low is None, percent.flags)
    if ratio.low is not None and ratio.high is not None:
        assert percent.low == pytest.approx(100 * ratio.low, abs=2e-3)
        assert percent.high == pytest.approx(100 * ratio.high, abs=2e-3)


@pytest.mark.parametrize("ones", [0, 1, 7, 19, 20])
def test_of_zeros_and_ones_it_is_clopper_and_pearsons(ones: int) -> None:
    """With a floor alone and small, the limits are the exact ones of a proportion."""
    found = result([(1.0, 1e-6)] * ones + [(0.0, 1e-6)] * (20 - ones), 10**6)
    low = scipy.stats.beta.ppf(0.025, ones, 21 - ones) if ones else 0.0
    high = scipy.stats.beta.ppf(0.975, ones + 1, 20 - ones) if ones < 20 else 1.0
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


@given(st.floats(0.01, 1e4), st.floats(0.01, 1e4), st.sampled_from((0.025, 0.975)))
@example(0.001, 1e6, 0.975)
@example(1e6, 2e6, 0.025)
def test_the_beta_distribution_is_scipys(one: float, other: float, share: float) -> None:
    """Its quantiles are found to the ninth digit."""
    assert beta_quantile(share, one, other) == pytest.approx(scipy.stats.beta.ppf(share, one, other), abs=2e-9)


# Windows.


CATALOGUE = Catalogue(everything())
TOTALS = Aggregator(CATALOGUE)


def evaluation(stage: str = "scored", **fields: Any) -> Evaluation:
    return Evaluation.model_validate(
        {"event_id": "1", "event_time": 1, "stage": stage, "catalogue_version": "1"} | fields
    )


def decision(**suites: tuple[str, float]) -> Decision:
    return Decision(
        suites=tuple(
            SuiteDecision.model_validate({"suite": name, "status": status, "probability": probability})
            for name, (status, probability) in suites.items()
        )
    )


def window(*evaluations: Evaluation) -> WindowAggregate:
    """Summed up one by one and merged."""
    return merged(TOTALS.aggregate([row_of(each)], [0])[0] for each in evaluations)


def test_every_judged_metric_can_be_estimated() -> None:
    """All have bounds or labels, and no name could be mistaken for that of a label."""
    judged = [metric for metric in CATALOGUE.metrics.values() if metric.cost != "free"]
    assert len(judged) > 10
    assert [each.name for each in judged if None in each.bounds and not each.labels] == []
    assert [name for name in CATALOGUE.metrics if parse_estimate_name(name) != (name, "")] == []


def test_an_event_counts_once_though_it_is_evaluated_twice() -> None:
    """The judged evaluation repeats scores and decisions; it adds what was judged and what became of the selected."""
    free = {"context_support": 0.5}
    scored = evaluation(scores=free, decision=decision(rubric=("selected", 0.02), ragas=("not_selected", 0.1)))
    other = evaluation(scores=free, decision=decision(rubric=("not_selected", 0.02), ragas=("not_selected", 0.0)))
    judged = evaluation(
        "judged",
        scores=free | {"judge_relevance": 0.75, "judge_faithfulness": None},
        decision=decision(rubric=("judged", 0.02), ragas=("not_selected", 0.1)),
    )
    found = window(scored, other, judged)
    assert found.events == 2
    assert {name: summary.count for name, summary in found.metrics.items()} == {
        "context_support": 2,
        "judge_relevance": 1,
    }
    assert found.decisions == {
        "rubric": {"selected": 1, "not_selected": 1, "judged": 1},
        "ragas": {"not_selected": 2},
    }
    assert found.chances == {
        "rubric": Chance(0.02, 0, Weights.of(0.02)),
        "ragas": Chance(least=0.1, none=1),
    }
    # The null of `judge_faithfulness` is found missing among the selected.
    assert found.estimates == {"judge_relevance": estimate([(0.75, 0.02)]), "judge_faithfulness": estimate([])}
    assert found == merged([window(judged), window(other, scored)])
    assert found == TOTALS.aggregate([row_of(each) for each in (judged, scored, other)], [0] * 3)[0]


def test_labels_have_estimates_of_their_shares() -> None:
    """Each label that the catalogue names, those that no event has among them."""
    evaluations = [
        evaluation(
            "judged", categories={"answer_class": label}, decision=decision(classification=("judged", probability))
        )
        for label, probability in (("CORRECT", 1.0), ("WRONG", 0.5), ("CORRECT", 0.5), (None, 1.0), ("CORRECT", 1.0))
    ]
    found = window(*evaluations)
    assert found.categories == {"answer_class": {"CORRECT": 3, "WRONG": 1}}
    shares = {name: own.weighted_sum / own.weight for name, own in found.estimates.items()}
    assert shares == {
        estimate_name("answer_class", label): pytest.approx(share)
        for label, share in (("CORRECT", 4 / 6), ("WRONG", 2 / 6), ("DON'T KNOW", 0.0))
    }


def test_probabilities_count_in_place_of_verdicts() -> None:
    """The mean of a number and the probability of a label, while the window's sums and counts are those of verdicts."""
    suites = decision(classification=("judged", 0.5), ragas=("judged", 1.0))
    evaluations = [
        evaluation(
            "judged",
            scores={"ragas_faithfulness": 100.0, "ragas_context_recall": 50.0},
            categories={"answer_class": "CORRECT"},
            probabilities={
                "ragas_faithfulness": {"0": 0.09, "50": 0.42, "100": 0.49},
                "answer_class": {"CORRECT": 0.75, "WRONG": 0.25},
            },
            decision=suites,
        ),
        evaluation("judged", categories={"answer_class": "WRONG"}, decision=suites),
    ]
    found = window(*evaluations)
    assert found.estimates["ragas_faithfulness"] == estimate([(70.0, 1.0)], RAGAS)
    assert found.estimates["ragas_context_recall"] == estimate([(50.0, 1.0)], RAGAS)
    classes = EstimatedMetric("classification")
    for label, shares in {"CORRECT": (0.75, 0.0), "WRONG": (0.25, 1.0), "DON'T KNOW": (0.0, 0.0)}.items():
        assert found.estimates[f"answer_class={label}"] == estimate([(each, 0.5) for each in shares], classes)
    assert found.categories == {"answer_class": {"CORRECT": 1, "WRONG": 1}}
    assert found.metrics["ragas_faithfulness"].total == 100_000_000


@pytest.mark.parametrize("wrong", [{"CORRECT": 1.0}, {"0": 0.2}, {"nan": 1.0}, {"1e999": 1.0}])
def test_probabilities_that_are_none_are_not_used(wrong: dict[str, float]) -> None:
    """An evaluation of another writer may have any texts for numbers."""
    odd = evaluation(
        "judged",
        scores={"ragas_faithfulness": 50.0},
        probabilities={"ragas_faithfulness": wrong},
        decision=decision(ragas=("judged", 1.0)),
    )
    assert window(odd).estimates["ragas_faithfulness"] == estimate([(50.0, 1.0)], RAGAS)


@pytest.mark.parametrize("status", ["failed", "expired", "deferred"])
def test_what_failed_or_waits_is_counted_and_estimates_nothing(status: str) -> None:
    """It leaves the estimate incomplete."""
    selected = [evaluation(decision=decision(rubric=("selected", 1.0))) for _ in range(3)]
    done = [
        evaluation("judged", scores={"judge_relevance": 0.5}, decision=decision(rubric=("judged", 1.0)))
        for _ in range(2)
    ]
    missing = evaluation("judged", scores={"judge_relevance": 0.1}, decision=decision(rubric=(status, 1.0)))
    whole = window(*selected, *done, missing)
    assert whole.decisions == {"rubric": {"selected": 3, "judged": 2, status: 1}}
    found = whole.results()["judge_relevance"]
    assert (found.mean, found.unanswered, found.low, found.high) == (None, 0.333333, 0.333333, 0.666667)
    assert whole.results()["judge_relevance"].flags == ("unanswered", "incomplete")
    assert window(*selected[:2], *done).results()["judge_relevance"].flags == ()


# What comes of it, simulated.


def covers(outcome: KindEstimates, slack: float) -> bool:
    """Return whether the intervals of a kind of windows cover as often as is promised, but for chance."""
    shown = outcome.intervals.shown
    return not shown or outcome.intervals.coverage >= PROMISED - slack * sqrt(PROMISED * (1 - PROMISED) / shown)


@pytest.mark.heavy
def test_intervals_cover_what_they_say() -> None:
    """At least 93 % of the intervals of each kind of windows hold the mean, with failures and unusable answers."""
    outcomes = [measure(kind, 200, seed) for seed, kind in enumerate(kinds()) if seed % 7 == 0]
    assert [each.kind for each in outcomes if not covers(each, slack=4)] == []
    assert sum(each.intervals.covering for each in outcomes) >= 0.95 * sum(each.intervals.shown for each in outcomes)
    for each in outcomes:
        if each.kind.is_complete:
            assert abs(each.bias) <= 5 * each.bias_error + 0.2 / max(each.drawn, 1), each.kind
    assert any(each.intervals.shown == each.windows for each in outcomes)


@pytest.mark.long
def test_intervals_cover_what_they_say_in_full() -> None:
    """The same over 2,000 windows of every kind, up to the upper 99 % limit."""
    outcomes = [measure(kind, 2_000, seed) for seed, kind in enumerate(kinds())]
    assert [each.kind for each in outcomes if each.intervals.most < PROMISED] == []


@pytest.mark.slow
@pytest.mark.parametrize(("events", "before"), [(3_000, 0.9), (20_000, 0.75)])
def test_unusable_answers_are_allowed_for(events: int, before: float) -> None:
    """With more nulls on bad answers the interval covers; without the counts of selected events it does not."""
    found = measure(Kind("", escalation(0.2, 3, 0.05), events, 0.2, 0.005), 200, seed=1)
    assert found.before.coverage < before
    assert found.intervals.coverage >= PROMISED


def test_the_textbook_interval_would_not() -> None:
    """The check above can fail: the normal interval covers far less where bad scores are rare."""
    found = measure(Kind("", escalation(0.01, 20, 0.05), 1_000), 200, seed=1)
    assert found.textbook.coverage < 0.7
    assert found.intervals.coverage >= PROMISED


def test_simulated_sums_are_those_of_adding_each_event() -> None:
    """The simulation's numbers are the product's."""
    numbers = [(0.02, 3, 5), (1.0, 2, 7), (0.3, 0, 4)]
    one_by_one = [(score, p) for p, zeros, ones in numbers for score in [0.0] * zeros + [1.0] * ones]
    assert estimate_of([(Weights.of(p), zeros, ones) for p, zeros, ones in numbers]) == estimate(one_by_one)


# Unanswered and undefined events.


SELECTED = st.lists(st.tuples(st.one_of(st.none(), st.just("undefined"), SCORES), PROBABILITIES), max_size=12)


@given(SELECTED, st.integers(0, 9))
def test_what_is_missing_is_found_exactly(selected: list[tuple[float | str | None, float]], left_out: int) -> None:
    """The share of unanswered events is that of exact sums, and the limits are those of the worst and best values."""
    own = Estimate(RUBRIC)
    missing, every = NO_EVENTS, NO_EVENTS
    for value, probability in selected:
        every = every.plus(Weights.of(probability))
        if isinstance(value, float):
            own.add(value, probability)
        elif value is None:
            missing = missing.plus(Weights.of(probability))
        else:
            own.add_undefined(probability)
    decisions = {"selected": len(selected), "judged": own.count + own.undefined.count, "not_selected": left_out}
    least = min((probability for _, probability in selected), default=1.0)
    found = own.result(decisions, Chance(least, 0, every))
    total = own.weight + missing.weight
    assert found.unanswered == (round(missing.weight / total, 6) if total else 0)
    assert ("unanswered" in found.flags) == (missing.count > 0)
    assert "uncounted" not in found.flags
    if found.mean is not None and found.low is not None and found.high is not None:
        assert found.low - 1e-6 <= found.mean <= found.high + 1e-6
    if found.unanswered > 0.2:
        assert found.mean is None


@given(st.lists(PROBABILITIES, max_size=8), st.lists(PROBABILITIES, max_size=8))
def test_sums_over_selected_events_can_be_subtracted(one: list[float], other: list[float]) -> None:
    """The sums of some events without those of a part of them are those of the rest, and a record says all of them."""
    first, second = (reduce(Weights.plus, map(Weights.of, each), NO_EVENTS) for each in (one, other))
    assert first.plus(second) == second.plus(first)
    assert first.plus(second).minus(second) == first == first.plus(second).since(second)
    assert from_sums(convert(orjson.loads(orjson.dumps(to_sums(first))), SelectionRecord)) == first


@pytest.mark.parametrize("wrong", [{"drawn": 3}, {"weight": 2.0}, {"spread": 0.0}, {"drawn": 0}], ids=str)
def test_sums_over_selected_events_that_do_not_fit_are_refused(wrong: dict[str, float]) -> None:
    """They are no sums of events."""
    record = to_sums(Weights.of(1.0).plus(Weights.of(0.1)))
    with pytest.raises(ValueError, match="do not fit"):
        from_sums(convert(record | wrong, SelectionRecord))


def test_undefined_events_are_not_missing() -> None:
    """A metric that is not defined for an event lacks nothing there; another null of the same suite does."""
    events = [evaluation(decision=decision(rubric=("selected", 1.0))) for _ in range(10)]
    judgement = decision(rubric=("judged", 1.0))
    both = evaluation("judged", scores={"judge_relevance": 1.0, "judge_faithfulness": 0.5}, decision=judgement)
    scores = {"judge_relevance": 1.0, "judge_faithfulness": None}
    undefined = evaluation("judged", scores=scores, undefined=("judge_faithfulness",), decision=judgement)
    found = window(*events, *[both] * 8, *[undefined] * 2).results()["judge_faithfulness"]
    assert (found.mean, found.low, found.high, found.unanswered, found.flags) == (0.5, 0.5, 0.5, 0.0, ())
    unanswered = evaluation("judged", scores=scores, decision=judgement)
    found = window(*events, *[both] * 8, *[unanswered] * 2).results()["judge_faithfulness"]
    assert (found.mean, found.low, found.high, found.unanswered) == (0.5, 0.4, 0.6, 0.2)
    assert found.flags == ("unanswered",)


def test_the_chance_of_no_bad_score_is_allowed_for() -> None:
    """Where 100 drawn events are all perfect, the lower limit is what would be missed so once in forty times."""
    found = result([(1.0, 0.001)] * 100, 10**5)
    assert found.low is not None
    assert scipy.stats.binom.pmf(0, 100, 1 - found.low) == pytest.approx(0.025, rel=0.01)
    assert found.high == 1
