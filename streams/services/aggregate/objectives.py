"""Outcomes of events for service level objectives (SLOs).

An SLO on a judged metric knows only some events. Its outcomes have weights, the inverses of the probabilities with
which events are selected for the judge, so that the share of bad events among all can be estimated; see
`ragweir.streams.analysis.slo.certainty`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.streams.services.shared.dimensions import Labelled, label
from ragweir.streams.settings import Slo

SloOutcome = Literal["good", "bad", "missing", "unselected"]
"""`missing`: the event was selected for the judge, and its judgement failed, expired or lacks the metric. `unselected`:
the event could have been selected. Events for SLOs on metrics that every event has are good or bad."""

_MAX_WEIGHT = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Objective:
    """An SLO with what its metric needs.

    >>> slo = Slo(name="faithful", metric="judge_faithfulness", at_least=0.5, objective=0.95)
    >>> objective = Objective(slo, free=False, suite="rubric")
    >>> objective.outcome(None, [("rubric", "not_selected", 0.02)], judged=False)
    ('unselected', 50.0)
    >>> objective.outcome(0.9, [("rubric", "judged", 0.02)], judged=True)
    ('good', 50.0)
    >>> objective.outcome(None, [("rubric", "expired", 1.0)], judged=True)
    ('missing', 1.0)
    >>> objective.outcome(None, [("rubric", "judged", 1.0)], judged=True)
    ('missing', 1.0)
    >>> objective.outcome(None, [("rubric", "judged", 1.0)], judged=True, undefined=["judge_faithfulness"]) is None
    True
    """

    slo: Slo
    free: bool
    """True if evaluations of stage `judged` repeat the metric."""
    suite: str | None
    """Suite of a judged metric."""

    @classmethod
    def of(cls, slo: Slo, aggregator: Aggregator) -> Objective:
        """Return the objective of an SLO."""
        free = not aggregator.counted([slo.metric], judged=True)
        return cls(slo, free, aggregator.suites.get(slo.metric))

    def covers(self, event: Labelled) -> bool:
        """Return whether an event has the dimensions of the SLO."""
        return all(label(name, event) == own for name, own in self.slo.dimensions.items())

    def outcome(
        self,
        value: float | None,
        decisions: Iterable[tuple[str, str, float]],
        *,
        judged: bool,
        undefined: Collection[str] = (),
    ) -> tuple[SloOutcome, float] | None:
        """Return the outcome of an evaluation and its weight; None if it does not count.

        Args:
            value: the metric.
            decisions: suite, status and probability of each decision on judging.
            judged: true for an evaluation of stage `judged`.
            undefined: the judged metrics that are not defined for the event, which does not count for their SLOs.
        """
        if self.suite is not None:
            for suite, status, probability in decisions:
                if suite == self.suite:
                    known = value is not None or self.slo.metric not in undefined
                    return self._selected(value, status, probability, judged=judged) if known else None
        if value is None or (judged and self.free):
            return None
        return ("good" if self.slo.is_good(value) else "bad"), 1.0

    def _selected(
        self, value: float | None, status: str, probability: float, *, judged: bool
    ) -> tuple[SloOutcome, float] | None:
        outcome: SloOutcome | None = None
        if status == "judged" and value is not None:
            outcome = "good" if self.slo.is_good(value) else "bad"
        elif status in ("judged", "failed", "expired"):
            outcome = "missing"
        elif status == "not_selected" and not judged:  # The judged evaluation of another suite repeats it.
            outcome = "unselected"
        return (outcome, min(1 / probability, _MAX_WEIGHT)) if outcome and probability else None
