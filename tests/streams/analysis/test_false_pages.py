"""False pages of SLOs on judged metrics: burns just below the threshold, looked at every minute for simulated years."""

import numpy as np
import pytest

from ragweir.streams.analysis.slo.burns import FAST
from ragweir.streams.analysis.slo.certainty import BAD, GOOD, MISSING, OUTCOMES, UNSELECTED
from ragweir.streams.analysis.slo.minutes import MILLION, Floats
from ragweir.streams.analysis.slo.periods import ActivePeriod

YEAR_M = 365 * 24 * 60
THRESHOLD = FAST.threshold(0.95)


def history(share: float, rate: float, floor: float, minutes: int, seed: int) -> ActivePeriod:
    """Minutes of events of which a share is bad: a tenth is selected always, the others by the floor, some fail."""
    chance = np.random.default_rng(seed)
    sums, squares = (np.zeros((len(OUTCOMES), minutes)) for _ in range(2))
    found = np.zeros((2, minutes), dtype=np.int64)
    risky = 0.1
    for part, probability, bad in (
        (risky, 1.0, min(1.0, 2 * share)),
        (1 - risky, floor, (share - risky * min(1.0, 2 * share)) / (1 - risky)),
    ):
        for outcome, own in ((BAD, bad), (GOOD, 1 - bad)):
            events = chance.poisson(rate * part * own, minutes)
            selected = chance.binomial(events, probability)
            failed = chance.binomial(selected, 0.02)
            for place, number in ((outcome, selected - failed), (MISSING, failed), (UNSELECTED, events - selected)):
                sums[place] += number / probability
                squares[place] += number / probability**2
            found[outcome] += selected - failed
    events, bad_events = (np.concatenate(([0], np.cumsum(each))) for each in (found.sum(axis=0), found[BAD]))
    return ActivePeriod(0, events, bad_events, (_totals(sums), _totals(squares)))


def _totals(sums: Floats) -> Floats:
    return np.concatenate((np.zeros((len(sums), 1)), np.cumsum(np.rint(sums * MILLION), axis=1)), axis=1)


def pages(period: ActivePeriod) -> int:
    """The number of times that the page begins to fire."""
    firing = period.firing(FAST, THRESHOLD)
    return int(np.sum(firing[1:] & ~firing[:-1]) + firing[0])


@pytest.mark.heavy
@pytest.mark.parametrize("rate", [5, 60])
@pytest.mark.parametrize("floor", [0.03, 0.2])
def test_a_burn_just_below_the_threshold_pages_at_most_once_a_year(rate: float, floor: float) -> None:
    """Of a year of 99 % of the threshold, with 5 and 60 events a minute."""
    assert pages(history(0.99 * THRESHOLD, rate, floor, YEAR_M, seed=1)) <= 1


@pytest.mark.long
@pytest.mark.parametrize("rate", [1, 5, 20, 60, 600])
@pytest.mark.parametrize("floor", [0.01, 0.03, 0.2])
@pytest.mark.parametrize("near", [0.9, 0.99, 1.0])
def test_years_of_such_burns_page_at_most_once_each(rate: float, floor: float, near: float) -> None:
    found = [pages(history(near * THRESHOLD, rate, floor, YEAR_M, seed)) for seed in range(5)]
    assert sum(found) <= len(found)


def test_a_real_burn_pages_within_the_hour() -> None:
    """The test above would see pages."""
    period = history(2 * THRESHOLD, 60, 0.03, 120, seed=1)
    assert int(np.argmax(period.firing(FAST, THRESHOLD))) in range(1, 60)


def test_the_share_alone_would_page_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without certainty, as an estimate is above the threshold by chance."""
    monkeypatch.setattr("ragweir.streams.analysis.slo.periods.CERTAIN", 0.0)
    assert pages(history(0.99 * THRESHOLD, 60, 0.03, 60 * 24 * 7, seed=1)) > 1
