"""Certainty of a burn that is known from a sample, against exact binomial probabilities."""

from math import comb, exp, log

import numpy as np
import pytest

from ragweir.streams.analysis.slo.certainty import (
    BAD,
    CERTAIN,
    EXCLUDED,
    GOOD,
    MISSING,
    OUTCOMES,
    UNSELECTED,
    Floats,
    certain,
    evidence,
    excluded,
)

THRESHOLD = 0.3


def window(*events: tuple[int, int, float]) -> tuple[Floats, Floats]:
    """The sums of weights and of their squares of a number of events of an outcome and a weight."""
    weights, squares = np.zeros((2, len(OUTCOMES), 1))
    for outcome, number, weight in events:
        weights[outcome] += number * weight
        squares[outcome] += number * weight**2
    return weights, squares


def found(*events: tuple[int, int, float], adverse: bool = False) -> float:
    return float(evidence(*window(*events), THRESHOLD, adverse=adverse)[0])


def chance(bad: int, events: int, *, most: bool) -> float:
    """The probability of at most, or at least, so many bad events of a share at the threshold."""
    numbers = range(bad + 1) if most else range(bad, events + 1)
    return sum(comb(events, each) * THRESHOLD**each * (1 - THRESHOLD) ** (events - each) for each in numbers)


@pytest.mark.parametrize("weight", [1.0, 0.25, 50.0])
@pytest.mark.parametrize(("bad", "good"), [(12, 17), (40, 60), (90, 10), (200, 199)])
def test_a_share_above_the_threshold_has_at_most_the_chance_that_the_evidence_says(
    bad: int, good: int, weight: float
) -> None:
    """With one good event more. The bound of n events is at most n + 1 times as large as the chance."""
    exact = chance(bad, bad + good + 1, most=False)
    said = exp(-found((BAD, bad, weight), (GOOD, good, weight)))
    assert exact <= said <= (bad + good + 2) * exact


@pytest.mark.parametrize("weight", [1.0, 0.25, 50.0])
@pytest.mark.parametrize(("bad", "good"), [(2, 17), (10, 90), (1, 60), (80, 320)])
def test_a_share_below_the_threshold_has_at_most_the_chance_that_the_evidence_says(
    bad: int, good: int, weight: float
) -> None:
    """With one bad event more."""
    exact = chance(bad + 1, bad + good + 1, most=True)
    said = exp(found((BAD, bad, weight), (GOOD, good, weight), adverse=True))
    assert exact <= said <= (bad + good + 2) * exact


def test_events_without_a_judgement_are_taken_for_the_side_that_is_assumed() -> None:
    others = ((BAD, 40, 1.0), (GOOD, 50, 1.0))
    for adverse, side in ((False, GOOD), (True, BAD)):
        assert found(*others, (MISSING, 10, 1.0), adverse=adverse) == found(*others, (side, 10, 1.0), adverse=adverse)


def test_an_event_that_was_not_selected_adds_nothing_but_the_weight_of_one() -> None:
    """Its own weight is 0, and others have the usual weight."""
    others = ((BAD, 40, 1.0), (GOOD, 50, 1.0))
    assert found(*others, (UNSELECTED, 9, 1.0)) == found(*others)


def test_unequal_weights_count_as_the_fewer_events_that_vary_as_much() -> None:
    """At the threshold an event is bad with its probability, so the weights of bad ones count less than those of good
    ones: 300 of 1,000 bad events would have 70 % of the variance."""
    weights, squares = window((BAD, 100, 4.0), (GOOD, 500, 1.0))
    more = squares.sum() / weights.sum()
    total, share = 900 + more, 400 / (900 + more)
    events = total / (0.7 * 4.0 + 0.3 * (500 + more**2) / (500 + more))
    expected = events * (share * log(share / 0.3) + (1 - share) * log((1 - share) / 0.7))
    assert evidence(weights, squares, THRESHOLD, adverse=False)[0] == pytest.approx(expected)


def test_a_burn_is_certain_from_the_limit_on() -> None:
    """By chance once in 100,000 windows, if the share is at the threshold."""
    known = [found((BAD, bad, 1.0), (GOOD, 100 - bad, 1.0)) for bad in range(1, 100)]
    first = next(bad for bad, each in enumerate(known, 1) if each > CERTAIN)
    assert (first, CERTAIN) == (54, 11.51)
    for bad, is_certain in ((first, True), (first - 1, False), (1, False)):
        assert certain(*window((BAD, bad, 1.0), (GOOD, 100 - bad, 1.0)), THRESHOLD).tolist() == [is_certain]
    assert certain(*window(), THRESHOLD).tolist() == [False]


def test_a_burn_is_excluded_from_the_limit_on() -> None:
    """Also without any event."""
    known = [found((BAD, bad, 1.0), (GOOD, 100 - bad, 1.0), adverse=True) for bad in range(100)]
    last = max(bad for bad, each in enumerate(known) if each < -EXCLUDED)
    assert (last, EXCLUDED) == (17, 3.69)
    for bad, is_excluded in ((last, True), (last + 1, False), (60, False)):
        assert excluded(*window((BAD, bad, 1.0), (GOOD, 100 - bad, 1.0)), THRESHOLD).tolist() == [is_excluded]
    assert excluded(*window(), THRESHOLD).tolist() == [True]
    assert excluded(*window((GOOD, 1, 1.0)), THRESHOLD).tolist() == [False]
