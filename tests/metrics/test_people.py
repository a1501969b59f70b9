"""Draws with the chances that they record, and numbers of agreement that hold what they say."""

from collections.abc import Sequence
from math import sqrt
from random import Random

import numpy as np
import pytest
import scipy
from hypothesis import example, given
from hypothesis import strategies as st

from bench.labelled_windows import LabelledKind
from bench.people import PROMISED, kinds, measure
from ragweir.metrics.people.agreement import PeopleVerdict, agreement, kappa
from ragweir.metrics.people.planning import JudgedAnswers, halves, labels_needed
from ragweir.metrics.people.sampling import chances, systematic
from ragweir.metrics.people.shares import Limits, Observed, clopper_pearson, share

HALF = Limits(0.5, 0.5, 0.5, 1000)
CHANCES = st.sampled_from((1.0, 1e-6, 0.025)) | st.floats(1e-6, 1)
VERDICTS = st.lists(
    st.builds(PeopleVerdict, st.booleans(), st.sampled_from((True, False, None)), CHANCES), min_size=1, max_size=40
)


def verdicts(*counts: int, chance: float = 0.5) -> list[PeopleVerdict]:
    """Return answers by their number: flagged and bad, flagged and good, passed and bad, passed and good."""
    kinds_of = ((True, True), (True, False), (False, True), (False, False))
    return [PeopleVerdict(*own, chance) for own, number in zip(kinds_of, counts, strict=True) for _ in range(number)]


# Draws.


@pytest.mark.slow
def test_answers_are_drawn_as_often_as_their_chances_say() -> None:
    """Each answer is in as many of 4,000 draws as its chance says, within five standard deviations."""
    sizes = [1.0] * 20 + [3.0] * 10 + [7.5] * 5 + [400.0]
    expected = chances(sizes, 12)
    randomness, draws = Random(33), 2_000
    found = np.zeros(len(sizes))
    for _ in range(draws):
        taken = systematic(expected, randomness)
        assert len(taken) == len(set(taken)) == 12
        found[taken] += 1
    deviation = np.sqrt(expected * (1 - expected) / draws)
    assert found[-1] == draws
    assert np.all(np.abs(found / draws - expected) <= 5 * deviation)


def test_the_first_part_of_a_draw_is_a_fair_one() -> None:
    expected, randomness = chances([1.0] * 10 + [4.0] * 5, 6), Random(3)
    first = np.zeros(15)
    for _ in range(2_000):
        first[systematic(expected, randomness)[:3]] += 1
    assert np.all(np.abs(first / 2_000 - expected / 2) <= 5 * np.sqrt(expected / 2 / 2_000))


@given(st.lists(st.sampled_from((1.0, 40.0)) | st.floats(1e-6, 1e6), min_size=1, max_size=60), st.data())
def test_chances_have_the_sum_of_the_count(sizes: list[float], data: st.DataObject) -> None:
    """The sum is the count up to the number of answers, where all are certain, and larger sizes have larger chances."""
    count = data.draw(st.integers(1, len(sizes)))
    found = chances(sizes, count)
    assert found.sum() == pytest.approx(count)
    assert np.all((found > 0) & (found <= 1))
    assert np.all(np.diff(found[np.argsort(sizes)]) >= -1e-12)
    assert len(systematic(found, Random(1))) == count
    assert chances(sizes, len(sizes)).tolist() == [1.0] * len(sizes)


# Shares.


@pytest.mark.parametrize(("hits", "number"), [(0, 1), (0, 50), (3, 20), (20, 20), (500, 1_000)])
def test_equal_chances_have_exact_limits(hits: int, number: int) -> None:
    low = scipy.stats.beta.ppf(0.025, hits, number - hits + 1) if hits else 0.0
    high = scipy.stats.beta.ppf(0.975, hits + 1, number - hits) if hits < number else 1.0
    assert clopper_pearson(hits, number) == pytest.approx((low, high), abs=1e-8)
    found = share([Observed(place < hits, 0.3) for place in range(number)])
    assert found == pytest.approx((hits / number, low, high, number), abs=1e-8)


def test_unanswered_ones_widen_both_sides() -> None:
    """The lower limit takes them for good, the upper one for bad."""
    found = share([Observed(place < 3, 0.3) for place in range(20)] + [Observed(None, 0.3)] * 4)
    assert found == pytest.approx((3 / 20, clopper_pearson(3, 24)[0], clopper_pearson(7, 24)[1], 20))


@pytest.mark.parametrize("factor", [1.0, 0.5, 1e-3])
def test_a_factor_that_all_chances_share_changes_nothing(factor: float) -> None:
    """Answers that are certain up to a factor are not taken for all answers that there are."""
    answers = [Observed(place % 3 == 0, (1.0 if place < 20 else 0.5) * factor) for place in range(40)]
    found = share(answers)
    assert found == pytest.approx((21 / 60, 0.195, 0.526, 40), abs=0.02)


def test_few_answers_with_unequal_chances_have_limits_about_as_wide_as_those_with_equal_ones() -> None:
    equal, unequal = (share([Observed(place < 2, 0.1 + shift * place) for place in range(7)]) for shift in (0, 1e-4))
    assert equal == pytest.approx(unequal, abs=0.01)


# Agreement.


def test_numbers_are_those_of_the_table() -> None:
    """By hand: half the events are flagged, of which .8 are bad; of the others .1 are: rate .45, TPR .4 / .45."""
    found = agreement(verdicts(40, 10, 5, 45), HALF)
    values = [each.value for each in found if isinstance(each, Limits)]
    assert values == pytest.approx([0.4 / 0.45, 0.45 / 0.55, 0.8, 0.7, 0.45])
    assert found.precision == pytest.approx((0.8, *clopper_pearson(40, 50), 50))
    assert isinstance(found.people_rate, Limits)
    (own, own_high), (other, other_high) = clopper_pearson(40, 50), clopper_pearson(5, 50)
    assert found.people_rate.low == pytest.approx(0.45 - sqrt((0.8 - own) ** 2 + (0.1 - other) ** 2) / 2)
    assert found.people_rate.high == pytest.approx(0.45 + sqrt((own_high - 0.8) ** 2 + (other_high - 0.1) ** 2) / 2)


def test_verdicts_stand_for_their_share_of_all_events() -> None:
    """Half of the labels are of flagged answers, though a tenth of the events is flagged."""
    found = agreement(verdicts(40, 10, 5, 45), Limits(0.1, 0.1, 0.1, 0))
    values = [each.value for each in found if isinstance(each, Limits)]
    assert values[:2] == pytest.approx([0.08 / 0.17, 0.81 / 0.83])
    assert values[4] == pytest.approx(0.17)


def test_imported_labels_have_the_numbers_of_the_labelled_answers() -> None:
    found = agreement([*verdicts(18, 2, 6, 54, chance=0.2)])
    values = [each.value for each in found if isinstance(each, Limits)]
    assert values == pytest.approx([0.75, 54 / 56, 0.9, 0.75 / 0.75 * (0.9 - 0.6) / 0.4 * 8 / 9, 0.3], abs=0.1)
    assert found.tpr == pytest.approx((0.75, *clopper_pearson(18, 24), 24))


def test_unanswered_imported_labels_widen_both_sides() -> None:
    """An unanswered flagged answer may be one more that is caught, an unanswered passed one one more that is missed."""
    unanswered = [PeopleVerdict(True, None, 0.2)] * 4 + [PeopleVerdict(False, None, 0.2)] * 6
    found = agreement([*verdicts(18, 2, 6, 54, chance=0.2), *unanswered])
    assert found.tpr == pytest.approx((0.75, clopper_pearson(18, 30)[0], clopper_pearson(22, 28)[1], 24))


def test_imported_answers_of_a_verdict_may_have_had_any_chance() -> None:
    """Where only answers that were certain to be judged are flagged, one that was not may be flagged and good, too."""
    rare = [PeopleVerdict(False, False, 0.025)] * 30
    certain, mixed = (
        agreement(verdicts(18, 2, 6, 54, chance=1.0)),
        agreement([*verdicts(18, 2, 6, 54, chance=1.0), *rare]),
    )
    assert certain.precision == pytest.approx((0.9, *clopper_pearson(18, 20), 20))
    assert isinstance(mixed.precision, Limits)
    assert mixed.precision.value == 0.9
    assert mixed.precision.low < 0.2


def test_no_bad_answer_leaves_the_catch_rate_open() -> None:
    found = agreement(verdicts(0, 7, 0, 8), Limits(0.1, 0.08, 0.12, 0))
    assert isinstance(found.tpr, Limits)
    assert found.tpr.low < 0.05
    assert found.tpr.high > 0.95
    assert found.tpr.value == pytest.approx(0.1 / 7 / (0.1 / 7 + 0.9 / 8))
    assert isinstance(found.people_rate, Limits)
    assert found.people_rate.low == 0


def test_two_people_agree_as_cohen_counts() -> None:
    """By hand: 35 of 40 pairs agree; by chance (25 * 20 + 15 * 20) / 1600 would."""
    found = kappa(verdicts(20, 5, 0, 15, chance=1.0))
    assert isinstance(found, Limits)
    assert found.value == pytest.approx((35 / 40 - 0.5) / 0.5)


@given(VERDICTS, st.none() | st.floats(0, 1), st.floats(0, 1))
@example(verdicts(5, 0, 0, 0), 1.0, 0.0)
@example(verdicts(0, 0, 0, 5), 0.0, 0.0)
@example([PeopleVerdict(True, None, 1.0)], 0.5, 0.1)
@example([PeopleVerdict(True, True, 1.0), PeopleVerdict(False, True, 1e-6)], 0.5, 0.5)
def test_limits_hold_their_value(answers: Sequence[PeopleVerdict], flagged: float | None, spread: float) -> None:
    """Any answers have numbers in order and within bounds, or reasons why there is none."""
    own = None if flagged is None else Limits(flagged, flagged * (1 - spread), min(1.0, flagged + spread), 0)
    found = agreement(answers, own)
    for name, each in [*found._asdict().items(), ("kappa", kappa([own for own in answers if own.bad is not None]))]:
        if isinstance(each, str):
            assert each
            continue
        assert (-1 if name == "kappa" else 0) <= each.low <= each.value + 1e-9, name
        assert each.value - 1e-9 <= each.high <= 1, name


# Simulated windows.


@pytest.mark.slow
def test_intervals_hold_the_truth_in_simulated_windows() -> None:
    """Two kinds of windows, of which the benchmark has 100: stopped early with unanswered ones, and pooled days."""
    names = ("stopped at half, a tenth unanswered", "two days, stopped, unanswered")
    chosen = [kind for kind in kinds() if kind.name in names and kind.labels == 30 and kind.bad == 0.05]
    assert len(chosen) == 2
    for kind in chosen:
        (outcome,) = measure(kind, 40, 1)
        for name, own in outcome.numbers.items():
            assert own.missing == 0, name
            assert own.coverage >= PROMISED - 0.05, (kind, name)
            assert own.empty < 15, (kind, name)


# Plans.


@pytest.mark.slow
def test_as_many_labels_as_planned_reach_the_width() -> None:
    """With the assumed shares of bad answers, simulated windows have intervals of the planned width.

    A fifth of the events is flagged, and half of these are bad; a tenth of the others is.
    """
    bad, flagged = 0.2 * 0.5 + 0.8 * 0.1, 0.2
    kind = LabelledKind(bad, 0.2 * 0.5 / bad, 1 - flagged * 0.5 / (1 - bad), 0, events=20_000)
    answers = JudgedAnswers(np.full(400, 0.025), np.full(1_600, 0.025))
    width = 0.15
    count = labels_needed(width, Limits(flagged, flagged - 0.035, flagged + 0.035, 0), answers)
    assert count is not None
    (outcome,) = measure(LabelledKind(**{**vars(kind), "labels": count}), 15, 2)
    assert outcome.numbers["people_rate"].mean_width == pytest.approx(width, rel=0.1)


def test_a_plan_takes_no_more_labels_than_it_needs() -> None:
    answers = JudgedAnswers(np.full(40, 1.0), np.full(900, 0.1))
    flagged = Limits(0.1, 0.09, 0.11, 0)
    widths = [0.5, 0.3, 0.2, 0.1, 0.08]
    needed = [labels_needed(width, flagged, answers) for width in widths]
    assert needed == sorted(number for number in needed if number is not None)
    assert labels_needed(0.02, flagged, answers) is None
    assert halves(940, 40, 900) == (40, 900)
