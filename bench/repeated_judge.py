"""A simulated judge that judges the same answers again and again: made with numpy alone.

Each answer has a verdict that the judge usually gives, and a chance with which it gives the other one, which differs
from answer to answer. On some days the judge is more lenient than on others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_EVENNESS = 3.0
"""Evenness of the answers' noise: the sum of the parameters of its beta distribution."""


@dataclass(frozen=True)
class RepeatedKind:
    """One kind of judges."""

    noise: float
    """Mean chance that a verdict is not the usual one of its answer."""
    day_deviation: float = 0.0
    """Standard deviation of the judge's leniency from day to day, in logits."""
    answers: int = 100
    usual: float = 0.9
    """Share of the answers on which its usual verdict is the people's."""


class RepeatedJudge:
    """One judge and its answers.

    Args:
        kind: the kind of judges.
        chance: draws the answers.
    """

    def __init__(self, kind: RepeatedKind, chance: np.random.Generator) -> None:
        self._kind, self._chance = kind, chance
        errs = chance.beta(kind.noise * _EVENNESS, (1 - kind.noise) * _EVENNESS, kind.answers)
        self._usual = chance.random(kind.answers) < kind.usual
        self._errs = np.clip(errs, 1e-6, 1 - 1e-6)

    @property
    def rate(self) -> float:
        """The share of verdicts that are the people's, on a day like most."""
        return float(self._chances(0.0).mean())

    def _chances(self, leniency: float) -> Floats:
        own = np.where(self._usual, 1 - self._errs, self._errs)
        found: Floats = 1 / (1 + np.exp(-(np.log(own / (1 - own)) + leniency)))
        return found

    def day(self, runs: int) -> Ints:
        """Return how many verdicts of a day are the people's, by answer."""
        leniency = self._chance.normal(0.0, self._kind.day_deviation) if self._kind.day_deviation else 0.0
        return self._chance.binomial(runs, self._chances(leniency))

    def worse(self, drop: float, *, sudden: bool) -> None:
        """Change the judge so that its rate falls by `drop`.

        Args:
            drop: difference of the rates.
            sudden: true to turn the usual verdict on some answers; false to add noise to all.
        """
        target = self.rate - drop
        if sudden:
            for place in self._chance.permutation(np.flatnonzero(self._usual)):
                if self.rate <= target:
                    return
                self._usual[place] = False
        else:
            low, high = -12.0, 0.0
            for _ in range(50):
                middle = (low + high) / 2
                low, high = (low, middle) if float(self._chances(middle).mean()) > target else (middle, high)
            own = self._chances(low)
            self._errs = np.where(self._usual, 1 - own, own)
