"""Outcomes of many events for an SLO at once, by the rule of `Objective`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweir.schemas.evaluation import STATUSES
from ragweir.streams.analysis.slo.minutes import MILLION
from ragweir.streams.services.aggregate.objectives import Objective

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class RowOutcomes(NamedTuple):
    """The outcomes of some events."""

    good: Flags
    bad: Flags
    weights: Floats
    """The number of events that each good or bad one stands for, in whole millionths as rehearsals sum them."""


class SloSums(NamedTuple):
    """The sums of an SLO over some events, as `ragweir slo rehearse --json` prints them."""

    events: int
    """Good and bad events; of a judged metric the judged ones."""
    bad: int
    share: float | None
    """Share of bad events; of a judged metric the estimate for all events. None without events."""

    def exceeds(self, objective: float) -> bool:
        """Return whether more events are bad than an objective allows."""
        return self.share is not None and self.share > 1 - objective


def row_outcomes(objective: Objective, values: Floats, statuses: Floats, probabilities: Floats) -> RowOutcomes:
    """Return the outcomes of events that have the dimensions of an SLO.

    An event has the same outcome whether it is given as judged or as scored: the judged evaluation, which repeats the
    scores, takes the place of the scored one.

    Args:
        objective: the SLO.
        values: the metric of each event; NaN for none.
        statuses: the state of the decision by the objective's suite, as its place in `STATUSES`; NaN for no decision.
        probabilities: the probability of this decision.
    """
    known = ~np.isnan(values)
    if objective.suite is None:
        weights = np.where(known, _weight(objective, np.nan, np.nan), 0.0)
    else:
        weights = np.zeros(len(values))
        weights[known] = _weights(objective, statuses[known], probabilities[known])
    slo = objective.slo
    at_least, at_most = slo.at_least, slo.at_most
    is_good = values >= at_least if at_least is not None else values <= (at_most or 0.0)
    counts = weights > 0
    return RowOutcomes(counts & is_good, counts & ~is_good, weights)


def _weights(objective: Objective, statuses: Floats, probabilities: Floats) -> Floats:
    """Return the weights of events with a value, found once for each pair of a state and a probability."""
    chances, places = np.unique(probabilities, return_inverse=True)
    codes = np.where(np.isnan(statuses), len(STATUSES), statuses).astype(np.int64) * len(chances) + places
    pairs, of_event = np.unique(codes, return_inverse=True)
    found = np.zeros(len(pairs))
    for place, (status, chance) in enumerate(divmod(pair, len(chances)) for pair in pairs.tolist()):
        found[place] = _weight(objective, np.nan if status == len(STATUSES) else status, float(chances[chance]))
    return np.asarray(found[of_event])


def _weight(objective: Objective, status: float, probability: float) -> float:
    """Return the weight of an event with a value, in whole millionths; 0 if it does not count."""
    decisions = [] if np.isnan(status) else [(objective.suite or "", STATUSES[int(status)], probability)]
    found = objective.outcome(0.0, decisions, judged=not objective.free)
    return float(round(found[1] * MILLION)) if found and found[0] in ("good", "bad") else 0.0


def sums(outcomes: RowOutcomes) -> SloSums:
    """Return the sums over all events."""
    good, bad = (float(outcomes.weights[flags].sum()) for flags in (outcomes.good, outcomes.bad))
    number = int(outcomes.bad.sum())
    events = number + int(outcomes.good.sum())
    return SloSums(events, number, bad / (good + bad) if events else None)
