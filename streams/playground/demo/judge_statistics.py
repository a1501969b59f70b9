"""What the demo's judge was asked about: why, what became of each event, what it cost, and what it says of all events.

The judge is simulated, and whatever shows its scores says so.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from typing_extensions import override

from ragweir.metrics.aggregation.aggregator import Aggregator, WindowEntry
from ragweir.metrics.catalogue import Catalogue
from ragweir.schemas.evaluation import Evaluation, Status
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.window import EstimateResult
from ragweir.streams.evaluate.routing import FLOOR

FAITHFULNESS = "judge_faithfulness"
"""The judged metric that the demo shows."""
OUTCOMES: tuple[Status, ...] = ("judged", "deferred", "failed")
"""What can become of an event while the demo runs."""
LATEST = 3
"""How many events are remembered as the last of which something became."""
_WORDS: Mapping[Status, str] = {"selected": "asked", "deferred": "later"}
"""How the table says it; the others say it themselves."""


@dataclass(slots=True)
class SelectedEvent:
    """One event that was selected."""

    reasons: tuple[str, ...]
    """The rules that escalated it; the floor where none did."""
    status: Status
    judged: Evaluation | None = None
    """What came of it; none as long as it waits."""

    @property
    def faithfulness(self) -> float | None:
        """What the simulated judge gave, if anything."""
        return self.judged.scores.get(FAITHFULNESS) if self.judged else None

    @override
    def __str__(self) -> str:
        """As the table has it: the score, or what became of it, and the reasons.

        >>> print(SelectedEvent(("risk", "hallucination"), "deferred"))
        later risk, hallucination
        """
        score = self.faithfulness
        became = _WORDS.get(self.status, self.status) if score is None else format(score, ".2f")
        return f"{became} {', '.join(self.reasons)}"


@dataclass(frozen=True, slots=True)
class Estimated:
    """One judged metric of all events, estimated from those that were judged."""

    judged: int
    plain: float
    """Mean of those judged."""
    result: EstimateResult


@dataclass(slots=True)
class JudgeStatistics:
    """Grows with each result.

    Args:
        catalogue: the metrics that are switched on.
    """

    catalogue: Catalogue
    events: dict[str, SelectedEvent] = field(default_factory=dict)
    """By event id."""
    latest: deque[str] = field(default_factory=lambda: deque(maxlen=LATEST))
    """The ids of those of which something became last."""
    why_later: str = ""
    """Why events wait."""
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    _counted: list[WindowEntry[None]] = field(default_factory=list)
    _totals: Aggregator = field(init=False)

    def __post_init__(self) -> None:
        self._totals = Aggregator(self.catalogue)

    def scored(self, evaluation: Evaluation) -> None:
        """Take in what was decided about an event."""
        self._ask(evaluation)
        # Its scores have no part in what is estimated.
        self._counted.append(self._totals.entry(evaluation.model_copy(update={"scores": {}, "categories": {}}), None))

    def deferred(self, request: JudgeRequest) -> None:
        """Take in that an event has to wait for the budget."""
        if asked := self._ask(request.evaluation):
            asked.status = "deferred"
            self.latest.append(request.evaluation.event_id)
            self.why_later = request.why

    def judged(self, evaluation: Evaluation) -> None:
        """Take in what the judge found, or that it found nothing."""
        self._counted.append(self._totals.entry(evaluation, None))
        if asked := self._ask(evaluation):
            asked.status = _status(evaluation)
            asked.judged = evaluation
            self.latest.append(evaluation.event_id)
        if evaluation.judge:
            self.cost_usd += evaluation.judge.cost_usd
            self.input_tokens += evaluation.judge.input_tokens
            self.output_tokens += evaluation.judge.output_tokens

    def _ask(self, evaluation: Evaluation) -> SelectedEvent | None:
        """The event on the docket, if it was selected."""
        suites = [suite for suite in evaluation.decision.suites if suite.status != "not_selected"]
        if not suites:
            return None
        reasons = dict.fromkeys(rule for suite in suites for rule in suite.because if rule != FLOOR)
        return self.events.setdefault(
            evaluation.event_id, SelectedEvent(tuple(reasons) or (FLOOR,), _status(evaluation))
        )

    @property
    def statuses(self) -> Counter[Status]:
        """How many events have which status now."""
        return Counter(asked.status for asked in self.events.values())

    @override
    def __str__(self) -> str:
        """How many events were selected, and what has become of them.

        >>> from ragweir.metrics.catalogue import everything
        >>> print(JudgeStatistics(Catalogue(everything())))
        0 selected, 0 judged, 0 deferred, 0 failed
        """
        counts = self.statuses
        return ", ".join([f"{len(self.events)} selected", *(f"{counts[each]} {each}" for each in OUTCOMES)])

    def by_reason(self) -> Iterator[tuple[str, Counter[Status]]]:
        """Per reason, the most frequent first, how many of its events have which status now."""
        found: dict[str, Counter[Status]] = {}
        for asked in self.events.values():
            for reason in asked.reasons:
                found.setdefault(reason, Counter())[asked.status] += 1
        yield from sorted(found.items(), key=lambda item: -item[1].total())

    def estimate(self, metric: str = FAITHFULNESS) -> Estimated | None:
        """What windows would say of this metric, were all events in one; None if it was never judged."""
        contents = self._totals.aggregate(self._counted).get(None)
        summary = contents.metrics.get(metric) if contents else None
        if contents is None or summary is None or summary.mean is None:
            return None
        return Estimated(summary.count, summary.mean, contents.results()[metric])


def _status(evaluation: Evaluation) -> Status:
    """Of an event that was selected: judged only if it was by all suites."""
    statuses = {suite.status for suite in evaluation.decision.suites} - {"not_selected"}
    return "judged" if statuses == {"judged"} else min(statuses - {"judged"})
