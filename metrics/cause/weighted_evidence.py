"""The evidence that values carry an excess of bad events, among events that weigh less the more causes they have.

The weights are the additive ones of CN2-SD (Lavrac, Kavsek, Flach and Todorovski 2004): an event that carries k causes
weighs 1/(1 + k). The evidence is the likelihood ratio of CN2 (Clark and Niblett 1989) on the weighted numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.cause.cause import Cause
from ragweir.metrics.cause.servings import Ints, Servings

SIGNIFICANT = 1.3527
"""Logarithm of the likelihood ratio that chance exceeds upwards in 5 % of cases: half of 1.645 squared."""


class WeightedEvidence:
    """The evidence of some findings, of which one after the other is taken.

    Args:
        rows: the events.
        findings: the findings.
    """

    def __init__(self, rows: Servings, findings: Sequence[Cause]) -> None:
        own = [rows.events_of(each.values[0]) for each in findings]
        own = [each[rows.present[each]] for each in own]
        self._places = np.concatenate(own) if own else np.zeros(0, np.int32)
        self._starts = np.cumsum([0, *(len(each) for each in own)])[:-1]
        self._bad = rows.bad[self._places]
        self._expected = np.array([max(0.0, 1 - each.excess_bad / max(1, each.bad)) for each in findings])
        """Part of each finding's bad events that is expected without an excess."""
        self._expected *= np.array([each.bad / max(1, each.servings) for each in findings])
        self._left = np.ones(len(findings), bool)
        self._present, self._all_bad = rows.present, rows.present & rows.bad
        self._carried = np.zeros(len(rows.bad), np.int64)

    def next(self) -> tuple[int, float] | None:
        """Take the finding with the most evidence; return its place and the evidence, None if none is left."""
        if not self._left.any():
            return None
        whole = 1.0 / (1 + self._carried)
        # The bad events are those that causes carry, so that their share falls with the weights everywhere.
        share = whole[self._all_bad].sum() / whole[self._present].sum() / self._all_bad.sum() * self._present.sum()
        weight = whole[self._places]
        size = np.add.reduceat(weight, self._starts)
        bad = np.add.reduceat(weight * self._bad, self._starts)
        found = np.where(self._left, _log_ratio(size, bad, size * self._expected * share), -1.0)
        place = int(np.argmax(found))
        self._left[place] = False
        return place, float(found[place])

    def cover(self, places: Ints) -> None:
        """Lower the weight of events, since a cause carries them."""
        self._carried[places] += 1


def _log_ratio(
    size: NDArray[np.float64], bad: NDArray[np.float64], expected: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the logarithms of the likelihood ratios of more bad events than expected; 0 where there are fewer."""
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(bad > 0, bad * np.log(bad / expected), 0.0)
        below = np.where(size > bad, (size - bad) * np.log((size - bad) / (size - expected)), 0.0)
    return np.asarray(np.where(bad > expected, above + below, 0.0))
